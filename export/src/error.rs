//! What can go wrong in an export.

use std::io;
use std::path::PathBuf;

/// Why a checkpoint cannot be exported.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file of the checkpoint is missing or unreadable: pass the folder that holds `config.json`
    /// and the `.safetensors` files.
    #[error("{}: cannot be read: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file of the checkpoint is not in its format: fetch the checkpoint again.
    #[error("{}: {reason}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What was found and what is expected.
        reason: String,
    },
    /// The config asks for something that this exporter does not compute: the model is not supported.
    #[error("{}: {key}: {reason}", path.display())]
    Config {
        /// The config file.
        path: PathBuf,
        /// The key at fault.
        key: String,
        /// What was found and what is supported.
        reason: String,
    },
    /// The weights are not those of the model that the config describes: the checkpoint is damaged,
    /// or a variant that this exporter does not know.
    #[error("{}: tensor '{tensor}': {reason}", path.display())]
    Tensor {
        /// The file, or the folder for a tensor that is in none.
        path: PathBuf,
        /// Name of the tensor.
        tensor: String,
        /// What was found and what is expected.
        reason: String,
    },
    /// An option does not fit the model or another option: change it.
    #[error("--{option}: {reason}")]
    Option {
        /// Name of the option.
        option: &'static str,
        /// What was found and what is possible.
        reason: String,
    },
    /// The artifact could not be written or read back.
    #[error(transparent)]
    Artifact(#[from] tlaloc_artifact::Error),
    /// A weight could not be written: check space and permissions.
    #[error("weight '{slot}' cannot be written: {source}")]
    Unwritable {
        /// The slot.
        slot: String,
        /// What the system said.
        source: io::Error,
    },
    /// An example could not be made a model of.
    #[error(transparent)]
    Model(#[from] config_gen::Error),
}
