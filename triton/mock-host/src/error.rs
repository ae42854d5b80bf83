use std::ffi::CString;
use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use triton_backend_sys as sys;

static LIVE: AtomicUsize = AtomicUsize::new(0);

/// How many errors exist that nobody deleted, in the whole process.
pub fn live_errors() -> usize {
    LIVE.load(Ordering::SeqCst)
}

/// Code and message of an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// A `TRITONSERVER_ERROR_*`.
    pub code: u32,
    /// The message.
    pub message: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "code {}: {}", self.code, self.message)
    }
}

/// What a `TRITONSERVER_Error` points to.
pub(crate) struct ErrorObject {
    pub(crate) code: u32,
    pub(crate) message: CString,
}

impl ErrorObject {
    /// A new error, owned by whom it is given to.
    pub(crate) fn raw(code: u32, message: CString) -> *mut sys::TRITONSERVER_Error {
        LIVE.fetch_add(1, Ordering::SeqCst);
        Box::into_raw(Box::new(ErrorObject { code, message })).cast()
    }

    /// # Safety
    /// `raw` must be an error of this host.
    pub(crate) unsafe fn failure(raw: NonNull<sys::TRITONSERVER_Error>) -> Failure {
        // SAFETY: the caller's promise.
        let error = unsafe { raw.cast::<ErrorObject>().as_ref() };
        Failure { code: error.code, message: error.message.to_string_lossy().into_owned() }
    }

    /// # Safety
    /// `raw` must be null or an error of this host, which the caller gives up.
    pub(crate) unsafe fn delete(raw: *mut sys::TRITONSERVER_Error) {
        if !raw.is_null() {
            LIVE.fetch_sub(1, Ordering::SeqCst);
            // SAFETY: the caller's promise.
            drop(unsafe { Box::from_raw(raw.cast::<ErrorObject>()) });
        }
    }

    /// What an entry point returned.
    ///
    /// # Safety
    /// `raw` must be null or an error of this host, which the caller gives up.
    pub(crate) unsafe fn take(raw: *mut sys::TRITONSERVER_Error) -> Result<(), Failure> {
        let Some(error) = NonNull::new(raw) else { return Ok(()) };
        // SAFETY: the caller's promise.
        unsafe {
            let failure = ErrorObject::failure(error);
            ErrorObject::delete(raw);
            Err(failure)
        }
    }
}

/// The error of an injected fault.
pub(crate) fn injected(what: &str) -> *mut sys::TRITONSERVER_Error {
    let message = CString::new(format!("injected failure of {what}")).unwrap_or_default();
    ErrorObject::raw(sys::TRITONSERVER_ERROR_UNAVAILABLE, message)
}

/// An INVALID_ARG error.
pub(crate) fn invalid(message: &str) -> *mut sys::TRITONSERVER_Error {
    let message = CString::new(message).unwrap_or_default();
    ErrorObject::raw(sys::TRITONSERVER_ERROR_INVALID_ARG, message)
}
