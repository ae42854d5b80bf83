//! From an artifact to a Triton model: the text of its `config.pbtxt`, and its directory in a model
//! repository.
//!
//! * [`config`]: the text for a serving artifact, in sequence mode (the backend keeps the sequences'
//!   KV pages), client mode (the client does) or generation mode (the backend continues prompts).
//! * [`Checkpoint`]: where generation mode has tokenizer, chat template and end tokens from.
//! * [`bounded_config`]: the text for a bounded artifact.
//! * [`pbtxt`]: what both are written with.
//! * [`repository`]: the model directory, written whole or not at all.

mod bounded;
mod checkpoint;
mod client;
mod error;
mod generate;
mod name;
mod options;
pub mod pbtxt;
pub mod repository;
mod sequence;

use tlaloc_artifact::Artifact;
use tlaloc_artifact::bounded::BoundedArtifact;

pub use checkpoint::Checkpoint;
pub use error::Error;
pub use name::ModelName;
pub use options::{
    Dialect, GenerateOptions, InstanceGroup, Mode, Options, Policy, SchedulerOptions,
    SequenceOptions, Speculation,
};

/// The text of `config.pbtxt` for `artifact` served as `name`.
///
/// # Errors
/// [`Error::Decoupled`], [`Error::Client`], [`Error::Vocabulary`], [`Error::EndId`] and
/// [`Error::Speculation`] when the artifact cannot be served that way.
pub fn config(artifact: &Artifact, name: &ModelName, options: &Options) -> Result<String, Error> {
    let instance_group = &options.instance_group;
    match &options.mode {
        Mode::Sequence(sequence) => sequence::config(artifact, name, sequence, instance_group),
        Mode::Client => client::config(artifact, name, instance_group),
        Mode::Generate(generate) => generate::config(artifact, name, generate, instance_group),
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
