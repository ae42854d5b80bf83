//! Why a bounded-mode model cannot be served.

use std::path::PathBuf;

use triton_backend::Code;

/// A failed load or instance creation. The model's name is put in front where it is reported.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// `bounded_manifest` leaves the version directory: name a file inside it.
    #[error(
        "the 'bounded_manifest' parameter must be a file inside the model version directory, got '{0}'"
    )]
    ManifestPath(String),
    /// The manifest is missing or breaks a rule: export the program again.
    #[error("bounded manifest: {0}")]
    Manifest(tlaloc_artifact::Error),
    /// Requests run one by one: leave `max_batch_size` out.
    #[error("max_batch_size is {0}, but bounded mode does not batch; set it to 0 or leave it out")]
    MaxBatchSize(i64),
    /// The program has outputs that the backend does not serve: export it with one.
    #[error("bounded program '{program}' has {found}; the backend serves exactly one f32 output")]
    Outputs {
        /// Name of the program.
        program: String,
        /// Its outputs.
        found: String,
    },
    /// Tensors of the configuration are not the program's: write it anew with `config-gen`.
    #[error("config.pbtxt declares {found}, but the bounded program has {expected}")]
    Config {
        /// What the configuration has.
        found: String,
        /// What it should have.
        expected: String,
    },
    /// A body is missing or not the program of its entry: export the program again.
    #[error(transparent)]
    Body(tlaloc_artifact::Error),
    /// No setting names a plugin.
    #[error("tlaloc backend: {0}")]
    NoPlugin(#[from] crate::device::NoPlugin),
    /// The plugin or its client does not come up.
    #[error("tlaloc backend: {0}")]
    Device(tlaloc_pjrt::Error),
    /// A body does not compile: export it again, for this plugin.
    #[error("{}: {source}", body.display())]
    Compile {
        /// The body.
        body: PathBuf,
        /// What the plugin said.
        source: tlaloc_pjrt::Error,
    },
    /// The plugin made something else of a body than it says.
    #[error("{}: compiled to {found} outputs, but bounded entry {entry} has 1", body.display())]
    Compiled {
        /// The body.
        body: PathBuf,
        /// Its entry.
        entry: String,
        /// Outputs of the executable.
        found: usize,
    },
    /// The instance is on a GPU that the model was not loaded for.
    #[error(transparent)]
    NoDevice(#[from] crate::device::NoDevice),
}

impl Error {
    /// Triton's code for it (PJRT use §1, bounded mode §3).
    pub fn code(&self) -> Code {
        match self {
            Error::Manifest(error) | Error::Body(error) if error.is_not_found() => Code::NotFound,
            Error::NoPlugin(_) | Error::Device(_) => Code::Unavailable,
            Error::Compiled { .. } => Code::Internal,
            _ => Code::InvalidArgument,
        }
    }
}
