use std::ffi::CString;
use std::ptr::NonNull;

use thiserror::Error as ThisError;
use triton_backend_sys as sys;

use crate::memory::{GpuMemory, Memory};

/// Triton's error codes. The server makes them HTTP and gRPC status codes (in that order below).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Code {
    /// 400, UNKNOWN.
    Unknown = sys::TRITONSERVER_ERROR_UNKNOWN,
    /// 500, INTERNAL.
    Internal = sys::TRITONSERVER_ERROR_INTERNAL,
    /// 404, NOT_FOUND.
    NotFound = sys::TRITONSERVER_ERROR_NOT_FOUND,
    /// 400, INVALID_ARGUMENT.
    InvalidArgument = sys::TRITONSERVER_ERROR_INVALID_ARG,
    /// 503, UNAVAILABLE.
    Unavailable = sys::TRITONSERVER_ERROR_UNAVAILABLE,
    /// 501, UNIMPLEMENTED.
    Unsupported = sys::TRITONSERVER_ERROR_UNSUPPORTED,
    /// 400, ALREADY_EXISTS.
    AlreadyExists = sys::TRITONSERVER_ERROR_ALREADY_EXISTS,
    /// 400, CANCELLED.
    Cancelled = sys::TRITONSERVER_ERROR_CANCELLED,
}

impl Code {
    fn from_raw(raw: sys::TRITONSERVER_Error_Code) -> Self {
        match raw {
            sys::TRITONSERVER_ERROR_INTERNAL => Code::Internal,
            sys::TRITONSERVER_ERROR_NOT_FOUND => Code::NotFound,
            sys::TRITONSERVER_ERROR_INVALID_ARG => Code::InvalidArgument,
            sys::TRITONSERVER_ERROR_UNAVAILABLE => Code::Unavailable,
            sys::TRITONSERVER_ERROR_UNSUPPORTED => Code::Unsupported,
            sys::TRITONSERVER_ERROR_ALREADY_EXISTS => Code::AlreadyExists,
            sys::TRITONSERVER_ERROR_CANCELLED => Code::Cancelled,
            _ => Code::Unknown,
        }
    }
}

/// What goes wrong between a backend and Triton; also how a backend says what went wrong in it.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// What the backend says; cause and remedy are in its message.
    #[error("{message}")]
    Backend {
        /// The status that a client sees.
        code: Code,
        /// What it reads.
        message: String,
    },
    /// A function of Triton's failed; its message says why.
    #[error("{call} failed: {message}")]
    Call {
        /// The function.
        call: &'static str,
        /// Its code.
        code: Code,
        /// Its message.
        message: String,
    },
    /// The server speaks another TRITONBACKEND API. Run a server of a release that is at least as
    /// new as the headers, or build the backend with that server's headers.
    #[error(
        "the server's TRITONBACKEND API is {}.{}, the backend needs {}.{} or a later {}.x: run a \
         server of that release or later",
        server.0, server.1, built.0, built.1, built.0
    )]
    ApiVersion {
        /// Major and minor of the server.
        server: (u32, u32),
        /// Major and minor of the headers that the backend was built with.
        built: (u32, u32),
    },
    /// Triton handed over a configuration that is not JSON: a defect of the server.
    #[error("{what} is not JSON: {source}")]
    Json {
        /// Which configuration.
        what: &'static str,
        /// Where it breaks.
        source: serde_json::Error,
    },
    /// Triton handed over a null pointer or text that is not UTF-8. Names with other bytes in a
    /// configuration cause the latter: rename.
    #[error("{what} is not UTF-8 text")]
    Text {
        /// What was to be read.
        what: &'static str,
    },
    /// A name or a message that is to go to Triton has a zero byte in it.
    #[error("{what} '{}' has a zero byte in it", text.escape_debug())]
    ZeroByte {
        /// What it is.
        what: &'static str,
        /// The text.
        text: String,
    },
    /// A function of Triton's succeeded without giving what it gives: a defect of the server.
    #[error("{call} gave nothing")]
    NoObject {
        /// The function.
        call: &'static str,
    },
    /// The request has no such input. The client has to send it.
    #[error("the request has no input '{name}'")]
    NoInput {
        /// The input.
        name: String,
    },
    /// The bytes of a BYTES tensor are not the elements that its shape tells of. The client has to
    /// send each element behind its length.
    #[error("the bytes of input '{name}' are no BYTES tensor: {reason}")]
    Strings {
        /// The input.
        name: String,
        /// Where it breaks.
        reason: String,
    },
    /// The input's bytes are not in host memory. The client has to send them in the request or in
    /// system shared memory.
    #[error("input '{name}' is in {memory} memory of device {device}; send it from host memory")]
    InputMemory {
        /// The input.
        name: String,
        /// Where it is.
        memory: Memory,
        /// On which device.
        device: i64,
    },
    /// The output is wanted in memory other than the host's. The client has to take it from the
    /// response or from system shared memory.
    #[error(
        "output '{name}' is wanted in {memory} memory of device {device}; take it in host memory"
    )]
    OutputMemory {
        /// The output.
        name: String,
        /// Where it is wanted.
        memory: Memory,
        /// On which device.
        device: i64,
    },
    /// The backend panicked: a defect in it, its message says where.
    #[error("the backend panicked in {call}: {message}")]
    Panicked {
        /// The entry point.
        call: &'static str,
        /// The panic's message.
        message: String,
    },
    /// The backend let go of a request without an answer: a defect in it, told of in the log where
    /// it was a panic.
    #[error("the backend dropped the request without an answer")]
    Unanswered,
    /// Triton used an object that it had not initialized, or finalized: a defect of the server.
    #[error("{call} on an object that is not initialized")]
    NoState {
        /// The entry point.
        call: &'static str,
    },
}

impl Error {
    /// An error of the backend's own.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Error::Backend { code, message: message.into() }
    }

    /// The request or the configuration is wrong.
    pub fn invalid_argument(message: impl Into<String>) -> Self {
        Error::new(Code::InvalidArgument, message)
    }

    /// Something named does not exist.
    pub fn not_found(message: impl Into<String>) -> Self {
        Error::new(Code::NotFound, message)
    }

    /// Not now; the same may work later.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Error::new(Code::Unavailable, message)
    }

    /// The backend's own failure.
    pub fn internal(message: impl Into<String>) -> Self {
        Error::new(Code::Internal, message)
    }

    /// Well formed, but not served.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Error::new(Code::Unsupported, message)
    }

    /// The input is on a GPU, from where nobody can copy it.
    pub fn gpu_input(name: &str, memory: &GpuMemory<'_>) -> Self {
        let (name, device) = (name.to_owned(), memory.device());
        Error::InputMemory { name, memory: Memory::Gpu, device }
    }

    /// The output is wanted on a GPU, where nobody can copy it to.
    pub fn gpu_output(name: &str, memory: &GpuMemory<'_>) -> Self {
        let (name, device) = (name.to_owned(), memory.device());
        Error::OutputMemory { name, memory: Memory::Gpu, device }
    }

    /// Triton's code for this error.
    pub fn code(&self) -> Code {
        match self {
            Error::Backend { code, .. } | Error::Call { code, .. } => *code,
            Error::ApiVersion { .. } | Error::InputMemory { .. } | Error::OutputMemory { .. } => {
                Code::Unsupported
            }
            Error::NoInput { .. } | Error::Strings { .. } | Error::Text { .. } => {
                Code::InvalidArgument
            }
            Error::Json { .. }
            | Error::NoObject { .. }
            | Error::ZeroByte { .. }
            | Error::Panicked { .. }
            | Error::Unanswered
            | Error::NoState { .. } => Code::Internal,
        }
    }

    /// A Triton error with this one's code and message.
    pub(crate) fn to_raw(&self) -> RawError {
        let message = c_string(&self.to_string());
        // SAFETY: `message` is a C string, which Triton copies.
        RawError(unsafe { sys::TRITONSERVER_ErrorNew(self.code() as u32, message.as_ptr()) })
    }
}

/// An owned Triton error.
pub(crate) struct RawError(*mut sys::TRITONSERVER_Error);

impl RawError {
    /// The error, for a call that leaves it ours.
    pub(crate) fn as_ptr(&self) -> *mut sys::TRITONSERVER_Error {
        self.0
    }

    /// The error, for a caller that takes it over.
    pub(crate) fn into_raw(self) -> *mut sys::TRITONSERVER_Error {
        let raw = self.0;
        std::mem::forget(self);
        raw
    }
}

impl Drop for RawError {
    fn drop(&mut self) {
        // SAFETY: it came from TRITONSERVER_ErrorNew and was not given away.
        unsafe { sys::TRITONSERVER_ErrorDelete(self.0) };
    }
}

/// Takes over what the Triton function `call` returned.
///
/// # Safety
/// `raw` must be null or an error that the caller owns.
pub(crate) unsafe fn check(
    call: &'static str,
    raw: *mut sys::TRITONSERVER_Error,
) -> Result<(), Error> {
    let Some(error) = NonNull::new(raw) else { return Ok(()) };
    let error = RawError(error.as_ptr());
    // SAFETY: the error lives until `error` is dropped; its message is a C string that it owns.
    let (code, message) = unsafe {
        let message = sys::TRITONSERVER_ErrorMessage(error.as_ptr());
        (sys::TRITONSERVER_ErrorCode(error.as_ptr()), crate::call::lossy(message))
    };
    Err(Error::Call { call, code: Code::from_raw(code), message: message.into_owned() })
}

/// A C string of a text to be read by people; zero bytes become spaces.
pub(crate) fn c_string(text: &str) -> CString {
    let bytes = text.bytes().map(|byte| if byte == 0 { b' ' } else { byte }).collect::<Vec<_>>();
    CString::new(bytes).unwrap_or_default()
}
