//! From an artifact to a Triton model: the text of its `config.pbtxt`, and its directory in a model
//! repository.
//!
//! * [`config`]: the text for a serving artifact, in sequence mode (the backend keeps the sequences'
//!   KV pages) or client mode (the client does).
//! * [`bounded_config`]: the text for a bounded artifact.
//! * [`pbtxt`]: what both are written with.
//! * [`repository`]: the model directory, written whole or not at all.

mod bounded;
mod client;
mod error;
mod name;
mod options;
pub mod pbtxt;
pub mod repository;
mod sequence;

use tlaloc_artifact::Artifact;
use tlaloc_artifact::bounded::BoundedArtifact;

pub use error::Error;
pub use name::ModelName;
pub use options::{InstanceGroup, KvMode, Options, SequenceOptions};

/// The text of `config.pbtxt` for `artifact` served as `name`.
///
/// # Errors
/// [`Error::Decoupled`] and [`Error::Client`] when the artifact cannot be served that way.
pub fn config(artifact: &Artifact, name: &ModelName, options: &Options) -> Result<String, Error> {
    match &options.kv_mode {
        KvMode::Sequence(sequence) => {
            sequence::config(artifact, name, sequence, &options.instance_group)
        }
        KvMode::Client => client::config(artifact, name, &options.instance_group),
    }
}

/// The text of `config.pbtxt` for the bounded `artifact` served as `name`.
///
/// # Errors
/// [`Error::Bounded`] when the backend cannot serve it.
pub fn bounded_config(
    artifact: &BoundedArtifact,
    name: &ModelName,
    instance_group: &InstanceGroup,
) -> Result<String, Error> {
    bounded::config(artifact, name, instance_group)
}
