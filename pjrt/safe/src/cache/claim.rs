//! Who compiles a program.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use parking_lot::{Condvar, Mutex};

/// Files of programs that are being compiled in this process.
static CLAIMED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
static GIVEN_BACK: Condvar = Condvar::new();

/// The right to compile a program, until it is dropped. A thread may have one of them at a time.
#[derive(Debug)]
#[must_use = "a claim lasts until it is dropped"]
pub struct Claim {
    path: PathBuf,
}

impl Claim {
    /// Waits for another thread that has the claim to this file.
    pub(super) fn to(path: &Path) -> Self {
        let mut claimed = CLAIMED.lock();
        while claimed.contains(path) {
            GIVEN_BACK.wait(&mut claimed);
        }
        claimed.insert(path.to_owned());
        Claim { path: path.to_owned() }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        CLAIMED.lock().remove(&self.path);
        GIVEN_BACK.notify_all();
    }
}
