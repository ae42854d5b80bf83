//! Generation mode: a prompt comes in, text or tokens stream out, many requests share the machine.
//!
//! `intake` reads and checks a request on Triton's thread, for `instance`; through `inbox` it gets to
//! `worker`, the instance thread, which drives the scheduler; `choice` is what the rows of a call are
//! given, `job` a request in flight, which chooses its tokens and holds what its client has not seen;
//! `reply` writes outputs. `words` is tokenizer and chat template, `config` what the model's
//! configuration declares. Programs, pools and calls are `language`'s.

mod choice;
mod config;
mod error;
mod inbox;
mod instance;
mod intake;
mod job;
mod reply;
mod words;
mod worker;

use std::sync::Arc;

use tlaloc_engine::{EntryShape, Geometry};
use tlaloc_generation::checkpoint;
use tlaloc_generation::options::ModelFacts;
use triton_backend::{MemoryUsage, ModelContext};

pub use error::Error;
pub use instance::GenerationInstance;

use crate::device::PerDevice;
use crate::language::{self, DeviceModel, RowUse};
use crate::metrics::Owner;
use crate::settings::{GenerationSettings, ServerSettings, Speculation};
use config::GenerationConfig;
use words::Words;

/// A loaded model.
pub struct GenerationModel {
    /// Its name in the repository.
    pub name: String,
    /// The checked part of its configuration.
    config: GenerationConfig,
    /// Its parameters.
    settings: GenerationSettings,
    /// What requests are checked against.
    facts: ModelFacts,
    /// Tokens that end the output.
    end_ids: Vec<i32>,
    /// Tokenizer and chat template, if it has any.
    words: Option<Words>,
    /// Whose metrics they are.
    owner: Owner,
    /// Programs and weights, by device ordinal.
    devices: PerDevice<Arc<DeviceModel>>,
}

impl GenerationModel {
    /// Loads a model: everything is checked before the plugin is touched.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn load(context: &ModelContext, server: &ServerSettings) -> Result<Self, Error> {
        let settings = GenerationSettings::read(context.config())?;
        let config = GenerationConfig::read(context.config())?;
        let drafts = settings.speculation != Speculation::None;
        let (artifact, _) = language::open(context, &settings.serving_manifest, drafts)?;
        let geometry = Geometry::of(&artifact);
        check_served(&geometry, &settings)?;
        let directory = context.version_directory();
        let words = if config.takes_text { Some(Words::load(&directory)?) } else { None };
        let end_ids = checkpoint::end_ids(&directory)?;
        if let Some(&id) = end_ids.iter().find(|id| **id as usize >= artifact.vocab_size()) {
            return Err(Error::EndId { id, vocab_size: artifact.vocab_size() });
        }
        let facts = ModelFacts {
            vocab_size: artifact.vocab_size(),
            max_context: geometry.max_length(),
            has_tokenizer: words.is_some(),
            has_chat_template: words.as_ref().is_some_and(Words::has_template),
            greedy_only: geometry.drafts().is_some(),
        };
        let swaps = settings.max_utilization && settings.swap_space_mib > 0;
        let rows = if swaps { RowUse::Swap } else { RowUse::Scrub };
        let mode = format!("; generates, end token(s) {end_ids:?}");
        let plugin = settings.plugin_path.as_deref();
        let owner = Owner::model(context);
        let devices =
            language::load(&artifact, &config.ordinals, plugin, server, rows, &owner, &mode)?;
        let name = context.name().to_owned();
        Ok(GenerationModel { name, config, settings, facts, end_ids, words, owner, devices })
    }

    /// What it holds beside its instances.
    pub fn memory_usage(&self) -> Vec<MemoryUsage> {
        self.devices.iter().map(|device| device.memory_usage()).collect()
    }

    /// Host memory for the pages of preempted requests.
    fn swap_bytes(&self) -> usize {
        if self.settings.max_utilization { self.settings.swap_space_mib << 20 } else { 0 }
    }
}

/// Refuses what the artifact and the settings disagree on, and what no prompt fits into.
fn check_served(geometry: &Geometry, settings: &GenerationSettings) -> Result<(), Error> {
    if let Some(drafts) = geometry.drafts()
        && geometry.max_length() == 0
    {
        return Err(Error::NoRoomForDrafts { drafts: drafts.tokens });
    }
    if settings.speculation != Speculation::None {
        if geometry.drafts().is_some() {
            return Err(Error::OwnDrafts);
        }
        if geometry.num_state_slots().is_some() {
            return Err(Error::LinearAttention);
        }
        if !geometry.entries().iter().any(EntryShape::verifies) {
            return Err(Error::NoVerifyEntries);
        }
    }
    Ok(())
}
