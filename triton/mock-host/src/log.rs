use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

static LINES: Mutex<Vec<LogLine>> = Mutex::new(Vec::new());
static VERBOSE: AtomicBool = AtomicBool::new(false);

/// One line of the server's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// A `TRITONSERVER_LOG_*`.
    pub level: u32,
    /// The source file it names.
    pub file: String,
    /// The line in that file.
    pub line: i32,
    /// What it says.
    pub message: String,
}

/// The log of the whole process, oldest first.
pub fn log_lines() -> Vec<LogLine> {
    LINES.lock().clone()
}

/// Whether verbose messages are wanted; at first they are not.
pub fn set_verbose(verbose: bool) {
    VERBOSE.store(verbose, Ordering::SeqCst);
}

pub(crate) fn verbose() -> bool {
    VERBOSE.load(Ordering::SeqCst)
}

pub(crate) fn push(line: LogLine) {
    LINES.lock().push(line);
}
