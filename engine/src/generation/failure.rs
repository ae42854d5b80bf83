//! How requests end without a verdict.

use crate::{CallFailure, Code, Ticket};

/// A request that ended without its owner's verdict. It holds nothing any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The request.
    pub ticket: Ticket,
    /// Why.
    pub end: End,
}

/// Why a request ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// [`Scheduler::cancel`](super::Scheduler::cancel).
    Cancelled,
    /// Its deadline passed.
    TimedOut,
    /// Something failed.
    Failed(Failure),
}

/// What failed. The text has no model name in front.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// An execution failed and left the pools as they were. Remedy: send the request again.
    #[error("execution of {entry} failed: {message}")]
    Execution {
        /// The entry.
        entry: String,
        /// The plugin's message.
        message: String,
    },
    /// An execution failed after it consumed the pools. Remedy: send the request again.
    #[error(
        "execution of {entry} failed and took the KV pools of instance '{instance}' with it: \
         {message}"
    )]
    PoolsLost {
        /// The entry.
        entry: String,
        /// The instance.
        instance: String,
        /// The plugin's message.
        message: String,
    },
    /// An execution ran but its results are lost. Remedy: send the request again.
    #[error("{entry} ran, but its results could not be copied to the host: {message}")]
    Copy {
        /// The entry.
        entry: String,
        /// The plugin's message.
        message: String,
    },
    /// The pools that a failed execution took could not be replaced. Remedy: send the request
    /// again; the next one tries to replace them.
    #[error(
        "the KV pools of instance '{instance}' are gone since an execution that failed, and \
         replacing them failed: {message}"
    )]
    PoolsMissing {
        /// The instance.
        instance: String,
        /// Why.
        message: String,
    },
}

impl Failure {
    /// Its kind.
    pub fn code(&self) -> Code {
        Code::Internal
    }

    pub(super) fn of_call(failure: CallFailure, entry: &str, instance: &str) -> Failure {
        let entry = entry.to_owned();
        match failure {
            CallFailure::Execution { message, pools_lost: false } => {
                Failure::Execution { entry, message }
            }
            CallFailure::Execution { message, pools_lost: true } => {
                Failure::PoolsLost { entry, instance: instance.to_owned(), message }
            }
            CallFailure::Copy { message } => Failure::Copy { entry, message },
        }
    }
}
