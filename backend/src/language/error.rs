//! Why a language model cannot be loaded.

use std::path::PathBuf;

use triton_backend::Code;

/// A failed load or instance creation, whatever the mode.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A parameter of `config.pbtxt` is wrong: correct it.
    #[error(transparent)]
    Settings(#[from] crate::settings::Error),
    /// `serving_manifest` leaves the version directory: name a file inside it.
    #[error(
        "the 'serving_manifest' parameter must be a file inside the model version directory, got '{0}'"
    )]
    ManifestPath(String),
    /// The artifact is broken or not complete: export it again.
    #[error(transparent)]
    Artifact(#[from] tlaloc_artifact::Error),
    /// The artifact and `config.pbtxt` disagree: write it anew with `config-gen`.
    #[error("{manifest}: {reason}", manifest = manifest.display())]
    Mismatch {
        /// The manifest.
        manifest: PathBuf,
        /// What disagrees.
        reason: String,
    },
    /// No setting names a plugin.
    #[error("tlaloc backend: {0}")]
    NoPlugin(#[from] crate::device::NoPlugin),
    /// The plugin or its client does not come up.
    #[error("tlaloc backend: {0}")]
    Device(tlaloc_pjrt::Error),
    /// A body does not compile: export it again, for this plugin.
    #[error("{body}: {source}", body = body.display())]
    Compile {
        /// The body file.
        body: PathBuf,
        /// What the plugin said.
        source: tlaloc_pjrt::Error,
    },
    /// A body compiles but its program fails when it runs: export it for this plugin.
    #[error("{body}: the program of {entry} compiles, but its trial run failed: {reason}", body = body.display())]
    Trial {
        /// The body file.
        body: PathBuf,
        /// The entry.
        entry: String,
        /// What the plugin said.
        reason: String,
    },
    /// A body compiles to another number of results than its entry has.
    #[error("{body}: compiled to {found} results, entry {entry} has {expected}", body = body.display())]
    Outputs {
        /// The body file.
        body: PathBuf,
        /// The entry.
        entry: String,
        /// Results of the executable.
        found: usize,
        /// Results of the entry.
        expected: usize,
    },
    /// A weight or a pool finds no room on the device: serve a smaller artifact.
    #[error("{what}: {source}")]
    Upload {
        /// The weight or the pools.
        what: String,
        /// What the plugin said.
        source: tlaloc_pjrt::Error,
    },
    /// The programs that copy and zero rows of a pool do not compile: use another plugin, or a mode
    /// that does not need them.
    #[error("the programs that move rows of pool {pool}: {source}")]
    Rows {
        /// The first pool of this type, and its type.
        pool: String,
        /// What the plugin said.
        source: tlaloc_pjrt::Error,
    },
    /// The host has no memory for swapped pages: lower `swap_space_mib`.
    #[error(
        "the host has no {bytes} bytes for the pages of preempted requests; lower swap_space_mib"
    )]
    Swap {
        /// Of one pool.
        bytes: usize,
    },
    /// The instance is on a GPU that the model was not loaded for.
    #[error(transparent)]
    NoDevice(#[from] crate::device::NoDevice),
    /// The operating system has no thread left.
    #[error("the instance thread cannot be started: {0}")]
    Thread(std::io::Error),
}

impl Error {
    /// Triton's code for it (PJRT use §1, artifact format §17).
    pub fn code(&self) -> Code {
        match self {
            Error::Artifact(error) if error.is_not_found() => Code::NotFound,
            Error::Settings(_)
            | Error::ManifestPath(_)
            | Error::Artifact(_)
            | Error::Mismatch { .. }
            | Error::Compile { .. }
            | Error::Trial { .. }
            | Error::Rows { .. }
            | Error::NoDevice(_) => Code::InvalidArgument,
            Error::NoPlugin(_) | Error::Device(_) | Error::Thread(_) | Error::Swap { .. } => {
                Code::Unavailable
            }
            Error::Outputs { .. } | Error::Upload { .. } => Code::Internal,
        }
    }
}
