//! How the thread of an instance ends.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tracing::{error, warn};
use triton_backend::Instance;

/// Calls `step` until it says that there is no more; true if it panicked instead, which is told.
/// The caller then refuses what it has and what comes, and calls [`withdraw`].
pub fn run_until_panic(mut step: impl FnMut() -> bool) -> bool {
    let panicked = catch_unwind(AssertUnwindSafe(|| while step() {})).is_err();
    if panicked {
        error!(
            "the instance thread panicked: every request is refused until the model is loaded again"
        );
    }
    panicked
}

/// Has the model of an instance without a thread unloaded: servers that do not ask whether the
/// instance is ready know by this.
pub fn withdraw(instance: &Instance) {
    if let Err(error) = instance.unload_model() {
        warn!("the model stays ready for those who ask the server: {error}");
    }
}
