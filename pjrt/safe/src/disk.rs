//! Files that several processes write and read at once.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;
use std::time::SystemTime;

use crate::plugin::Digest;

/// Extension of a file that is not whole yet, or whose writer ended midway.
pub(crate) const PARTIAL: &str = "partial";

/// A digest as the name of a file.
pub(crate) fn name_of(digest: &Digest) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Writes `parts` to `path`, under a name of its own until it is whole, so that nobody reads half a
/// file. Threads of this process may write the same file at once, and so may a process of the same
/// number in another container.
///
/// # Errors
/// The system's; nothing is left behind then.
pub(crate) fn write_whole(path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let (process, thread) = (std::process::id(), std::thread::current().id());
    let partial = path.with_extension(format!("{process}-{thread:?}-{}.{PARTIAL}", now.as_nanos()));
    let written = File::create_new(&partial)
        .and_then(|mut file| parts.iter().try_for_each(|part| file.write_all(part)));
    written.and_then(|()| fs::rename(&partial, path)).inspect_err(|_| {
        let _ = fs::remove_file(&partial);
    })
}
