//! What can go wrong, in words that name the plugin, file or function.

use std::fmt;
use std::path::PathBuf;

use tlaloc_pjrt_sys as sys;

use crate::runtime::RuntimeError;
use crate::shape::{ElementType, Shape};

/// Why a call of this crate failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The dynamic linker refused the file: it is missing, not a shared library, built for another
    /// machine or in want of another library. Check the path the plugin was configured with.
    #[error("cannot load the PJRT plugin {path}: {reason}", path = path.display())]
    Load {
        /// The configured path.
        path: PathBuf,
        /// The dynamic linker's words.
        reason: String,
    },
    /// The file is a shared library, but not a PJRT plugin. Point the configuration at a plugin.
    #[error("{path} is not a PJRT plugin: {reason}", path = path.display())]
    NotAPlugin {
        /// The configured path.
        path: PathBuf,
        /// What is missing.
        reason: String,
    },
    /// The plugin speaks another major version of the C API, or one too old to be used. Install a
    /// plugin of the named version.
    #[error(
        "the PJRT plugin {path} has C API {found} and this build needs {needed}; use a plugin of \
         that version", path = path.display()
    )]
    Version {
        /// The configured path.
        path: PathBuf,
        /// The plugin's version.
        found: String,
        /// What this build needs.
        needed: String,
    },
    /// The plugin has no such function, because it is older than the function or does not support it
    /// on its platform. Use a newer plugin, or do without.
    #[error("the PJRT plugin does not offer {function}")]
    Missing {
        /// The C API's name of the function.
        function: &'static str,
    },
    /// A function of the plugin returned an error; the message says more.
    #[error("{function} failed: {failure}")]
    Call {
        /// The C API's name of the function.
        function: &'static str,
        /// The plugin's code and message.
        failure: Failure,
    },
    /// A launched execution ended in an error. Its outputs are lost, and buffers donated to it may be
    /// ([`crate::Buffer::is_deleted`] tells).
    #[error("execution failed: {0}")]
    Execution(Failure),
    /// There is no such device, or the plugin quietly chose another. Check the instance group.
    #[error("the PJRT plugin {path} gives no {device}: {reason}", path = path.display())]
    Device {
        /// The configured path.
        path: PathBuf,
        /// `GPU <n>` or `device <n>`.
        device: String,
        /// What was found.
        reason: String,
    },
    /// Dimensions that no array can have: negative, or of more bytes than can be addressed.
    #[error("an array of {element_type} cannot have the dimensions {dims:?}")]
    Shape {
        /// The array's element type.
        element_type: ElementType,
        /// The dimensions asked for.
        dims: Vec<i64>,
    },
    /// Host memory and an array differ in size. Pass exactly the array's bytes.
    #[error("{found} bytes of host memory for an array of {needed} bytes ({shape})")]
    Size {
        /// The array.
        shape: Shape,
        /// The array's bytes.
        needed: usize,
        /// The bytes passed.
        found: usize,
    },
    /// A weight file does not hold exactly one array of the expected shape: it was cut short, or
    /// belongs to another artifact. Install it anew.
    #[error(
        "{path} has {found} bytes; an array of {needed} bytes ({shape}) is expected",
        path = path.display()
    )]
    FileSize {
        /// The file.
        path: PathBuf,
        /// The expected array.
        shape: Shape,
        /// The array's bytes.
        needed: usize,
        /// The file's bytes.
        found: usize,
    },
    /// An executable returns an element type that this crate does not know. Export the program with
    /// another output type.
    #[error("output {output} has PJRT element type {code}, which is not supported")]
    ElementType {
        /// Index of the output.
        output: usize,
        /// The C API's number of the type.
        code: u32,
    },
    /// An argument belongs to another client than the executable. Upload it through the client that
    /// compiled the executable.
    #[error("argument {index} belongs to another PJRT client than the executable")]
    ForeignArgument {
        /// Index of the argument.
        index: usize,
    },
    /// A weight file cannot be opened or mapped.
    #[error("cannot map {path}: {source}", path = path.display())]
    Map {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The client's plugin cannot see host memory in place. Upload the inputs instead.
    #[error("the PJRT platform '{platform}' cannot read host memory in place")]
    NoStaging {
        /// The client's platform name.
        platform: String,
    },
    /// Memory on a device cannot be reached: this build does not know the platform's runtime, or it is
    /// not installed. Use host memory.
    #[error("memory of others on the PJRT platform '{platform}' cannot be reached")]
    NoRuntime {
        /// The client's platform name.
        platform: String,
    },
    /// The platform's runtime failed: there is not enough memory, or the device is in trouble.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// Two places between which bytes are to be copied differ in size.
    #[error("{found} bytes for a place of {needed}")]
    Lengths {
        /// The size of what is on the device.
        needed: usize,
        /// The size of the other.
        found: usize,
    },
    /// The host has not so much memory. Serve the model on a larger machine, or export it smaller.
    #[error("there is no host memory for {byte_size} bytes")]
    HostMemory {
        /// The bytes asked for.
        byte_size: usize,
    },
    /// Staged memory is still read by an execution. Await it before the next write.
    #[error("staged inputs cannot be written while an execution reads them")]
    StagingInUse,
}

impl Error {
    /// The plugin's code, where the plugin reported the error.
    pub fn code(&self) -> Option<Code> {
        match self {
            Error::Call { failure, .. } | Error::Execution(failure) => Some(failure.code),
            _ => None,
        }
    }
}

/// An error as a plugin reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The kind of failure.
    pub code: Code,
    /// The plugin's words.
    pub message: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $raw:ident,)*) => {
        /// The C API's error codes (`PJRT_Error_Code`, the same as absl's status codes).
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Code {
            $($(#[$doc])* $name,)*
        }

        impl Code {
            pub(crate) fn from_raw(raw: sys::PJRT_Error_Code) -> Self {
                match raw {
                    $(sys::$raw => Code::$name,)*
                    _ => Code::Unknown,
                }
            }
        }
    };
}

codes! {
    /// The operation was cancelled.
    Cancelled = PJRT_Error_Code_CANCELLED,
    /// No code fits, or the plugin gave none.
    Unknown = PJRT_Error_Code_UNKNOWN,
    /// The caller passed something wrong.
    InvalidArgument = PJRT_Error_Code_INVALID_ARGUMENT,
    /// Time ran out.
    DeadlineExceeded = PJRT_Error_Code_DEADLINE_EXCEEDED,
    /// Something asked for does not exist.
    NotFound = PJRT_Error_Code_NOT_FOUND,
    /// Something to be made exists.
    AlreadyExists = PJRT_Error_Code_ALREADY_EXISTS,
    /// The caller may not do this.
    PermissionDenied = PJRT_Error_Code_PERMISSION_DENIED,
    /// Memory, most often, has run out.
    ResourceExhausted = PJRT_Error_Code_RESOURCE_EXHAUSTED,
    /// The state does not allow the operation.
    FailedPrecondition = PJRT_Error_Code_FAILED_PRECONDITION,
    /// The operation was aborted.
    Aborted = PJRT_Error_Code_ABORTED,
    /// Past the valid range.
    OutOfRange = PJRT_Error_Code_OUT_OF_RANGE,
    /// The platform does not do this.
    Unimplemented = PJRT_Error_Code_UNIMPLEMENTED,
    /// The plugin broke.
    Internal = PJRT_Error_Code_INTERNAL,
    /// The service is not there now.
    Unavailable = PJRT_Error_Code_UNAVAILABLE,
    /// Data was lost.
    DataLoss = PJRT_Error_Code_DATA_LOSS,
    /// The caller is not known.
    Unauthenticated = PJRT_Error_Code_UNAUTHENTICATED,
}
