//! Sequence mode: a language-model artifact behind Triton's sequence batcher.
//!
//! `intake` reads a request on Triton's thread; `instance` owns the thread that drives the engine;
//! `answer` writes the outputs. Programs, pools and calls are `language`'s.

mod answer;
mod error;
mod instance;
mod intake;

use std::path::Path;
use std::sync::Arc;

use tlaloc_artifact::Artifact;
use triton_backend::{MemoryUsage, ModelContext};

pub use error::Error;
pub use instance::SequenceInstance;

use crate::config::SequenceConfig;
use crate::device::PerDevice;
use crate::language::{self, DeviceModel, RowUse};
use crate::metrics::Owner;
use crate::settings::{ModelSettings, ServerSettings};

/// A loaded model.
pub struct SequenceModel {
    /// Its name in the repository.
    pub name: String,
    /// The checked part of its configuration.
    pub config: SequenceConfig,
    /// Its parameters.
    pub settings: ModelSettings,
    /// Whether a generation's next step may be launched before this one is read (sequence mode §17):
    /// its inputs and pools are then those that this one leaves on the device.
    pub chain: bool,
    /// Whose metrics they are.
    owner: Owner,
    /// Programs and weights, by device ordinal.
    devices: PerDevice<Arc<DeviceModel>>,
}

impl SequenceModel {
    /// Loads a model: configuration and manifest are checked before the plugin is touched (sequence
    /// mode §4).
    pub fn load(context: &ModelContext, server: &ServerSettings) -> Result<Self, Error> {
        let settings = ModelSettings::read(context.config()).map_err(language::Error::from)?;
        let config = SequenceConfig::read(context.config())?;
        let (artifact, manifest) = language::open(context, &settings.serving_manifest, false)?;
        check_served(&manifest, &artifact, &config)?;
        let owner = Owner::model(context);
        let idle = config.max_sequence_idle.as_micros();
        let devices = language::load(
            &artifact,
            &config.ordinals,
            settings.plugin_path.as_deref(),
            server,
            RowUse::None,
            &owner,
            &format!(", sequence idle timeout {idle} us"),
        )?;
        let donated = settings.execution.donate_kv_pools;
        let chain = server.chain_steps && donated && settings.backend_batching;
        let name = context.name().to_owned();
        Ok(SequenceModel { name, config, settings, chain, owner, devices })
    }
}

impl SequenceModel {
    /// What it holds beside its instances.
    pub fn memory_usage(&self) -> Vec<MemoryUsage> {
        self.devices.iter().map(|device| device.memory_usage()).collect()
    }
}

/// Refuses what the artifact and the configuration disagree on, and what this version does not
/// serve.
fn check_served(
    manifest: &Path,
    artifact: &Artifact,
    config: &SequenceConfig,
) -> Result<(), language::Error> {
    use language::Error;
    let speculative = artifact.draft_tokens() > 0;
    if speculative != config.outputs.emitted.is_some() {
        let reason = if speculative {
            "the artifact is speculative, but config.pbtxt declares no TYPE_INT32 [ -1 ] tokens output"
        } else {
            "config.pbtxt declares a TYPE_INT32 [ -1 ] tokens output, but the artifact is not \
             speculative"
        };
        return Err(Error::Mismatch { manifest: manifest.to_owned(), reason: reason.to_owned() });
    }
    let vocab = i64::try_from(artifact.vocab_size()).unwrap_or(i64::MAX);
    if let Some(name) = &config.outputs.logits
        && ![vec![vocab], vec![-1]].contains(&config.outputs.logits_dims)
    {
        let found = &config.outputs.logits_dims;
        let reason = format!(
            "the vocabulary has {vocab} tokens, but config.pbtxt declares output '{name}' with dims \
             {found:?}"
        );
        return Err(Error::Mismatch { manifest: manifest.to_owned(), reason });
    }
    Ok(())
}
