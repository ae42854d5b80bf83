//! Sequence mode: a language-model artifact behind Triton's sequence batcher.
//!
//! `intake` reads a request on Triton's thread; `instance` owns the thread that drives the engine;
//! `executor` runs its calls, with what `inputs` writes; `answer` writes the outputs. `programs` is
//! what a load brings to a device, `memory` what that needs there.

mod answer;
mod error;
mod executor;
mod inputs;
mod instance;
mod intake;
mod memory;
mod programs;
mod timing;

use std::path::Path;
use std::sync::Arc;

use tlaloc_artifact::{Artifact, SchemaVersion};
use tracing::info;
use triton_backend::ModelContext;

pub use error::Error;
pub use instance::SequenceInstance;
use programs::DeviceModel;

use crate::config::SequenceConfig;
use crate::device::{self, PerDevice};
use crate::manifest;
use crate::settings::{ModelSettings, ServerSettings};

/// A loaded model.
pub struct SequenceModel {
    /// Its name in the repository.
    pub name: String,
    /// The checked part of its configuration.
    pub config: SequenceConfig,
    /// Its parameters.
    pub settings: ModelSettings,
    /// Programs and weights, by device ordinal.
    devices: PerDevice<Arc<DeviceModel>>,
}

impl SequenceModel {
    /// Loads a model: configuration and manifest are checked before the plugin is touched (sequence
    /// mode §4).
    pub fn load(context: &ModelContext, server: &ServerSettings) -> Result<Self, Error> {
        let settings = ModelSettings::read(context.config())?;
        let manifest = &settings.serving_manifest;
        let manifest = manifest::path(&context.version_directory(), manifest)
            .ok_or_else(|| Error::ManifestPath(manifest.clone()))?;
        let config = SequenceConfig::read(context.config())?;
        let artifact = Arc::new(Artifact::open(&manifest)?);
        check_served(&manifest, &artifact, &config)?;

        let plugin = device::plugin_path(settings.plugin_path.as_deref(), server)?;
        let cache = device::compile_cache(server);
        let devices = PerDevice::load(&config.ordinals, |ordinal| {
            let client = device::client(&plugin, ordinal, server).map_err(Error::Device)?;
            let model = DeviceModel::load(artifact.clone(), client, cache.as_ref())?;
            info!(
                "{}, sequence idle timeout {} us{}{}",
                model.summary(),
                config.max_sequence_idle.as_micros(),
                refused_tokens(&artifact),
                windowed_pool(&artifact)
            );
            info!("{}", memory::largest(&model.programs));
            Ok::<_, Error>(Arc::new(model))
        })?;
        Ok(SequenceModel { name: context.name().to_owned(), config, settings, devices })
    }
}

/// Refuses what the artifact and the configuration disagree on, and what this version does not
/// serve.
fn check_served(
    manifest: &Path,
    artifact: &Artifact,
    config: &SequenceConfig,
) -> Result<(), Error> {
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
    match artifact.version() {
        SchemaVersion::V5 => Err(Error::Unserved {
            manifest: manifest.to_owned(),
            feature: "a draft head (tlaloc-serving-v5)",
        }),
        _ => Ok(()),
    }
}

fn refused_tokens(artifact: &Artifact) -> String {
    let tokens = artifact.refused_tokens();
    if tokens.is_empty() {
        return String::new();
    }
    let list = tokens.iter().map(|token| format!(" {} ({})", token.id, token.config_key));
    format!("; refuses token ids{}", list.collect::<String>())
}

fn windowed_pool(artifact: &Artifact) -> String {
    artifact.windowed().map_or(String::new(), |windowed| {
        format!(
            "; windowed KV pool for {} sliding layers (window {}): {} pages, a ring of at most {} \
             pages per sequence",
            windowed.layers.len(),
            windowed.window,
            windowed.num_blocks,
            windowed.ring_pages
        )
    })
}
