//! `libtriton_tlaloc.so`: the Triton backend that serves Tlaloc artifacts.
//!
//! `settings` and `config` read what a model and the server are configured with, `device` finds the
//! PJRT client, `sequence_mode` serves language models.

mod config;
mod device;
mod sequence_mode;
pub mod settings;

use std::sync::Arc;

use tracing::{info, warn};
use triton_backend::{
    Backend, BackendContext, Error, InstanceContext, InstanceKind, ModelContext, Requests,
};

use sequence_mode::{SequenceInstance, SequenceModel};
use settings::ServerSettings;

// The symbols that a server would bring.
#[cfg(test)]
use triton_mock_host as _;

/// The backend, once per process.
pub struct Tlaloc {
    settings: ServerSettings,
}

impl Backend for Tlaloc {
    type Model = SequenceModel;
    type Instance = SequenceInstance;

    /// Works on machines with and without GPUs.
    const PREFERRED_KINDS: &'static [InstanceKind] = &[InstanceKind::Model, InstanceKind::Cpu];

    fn initialize(context: &BackendContext) -> Result<Self, Error> {
        let environment = |name: &str| std::env::var(name).ok();
        let settings = ServerSettings::read(context.config(), environment)
            .map_err(|error| Error::invalid_argument(format!("tlaloc backend: {error}")))?;
        info!(
            "initialized; memory_fraction={}, preallocate={}",
            settings.memory_fraction, settings.preallocate
        );
        if settings.preallocate {
            warn!("preallocate is true: every GPU client takes its share of the memory at once");
        }
        Ok(Tlaloc { settings })
    }

    fn load(&self, context: &ModelContext) -> Result<SequenceModel, Error> {
        SequenceModel::load(context, &self.settings).map_err(|error| named(context.name(), &error))
    }

    fn create_instance(
        model: &Arc<SequenceModel>,
        context: &InstanceContext,
    ) -> Result<SequenceInstance, Error> {
        SequenceInstance::create(model, context).map_err(|error| named(&model.name, &error))
    }

    fn execute(instance: &SequenceInstance, requests: Requests<'_>) {
        instance.execute(requests);
    }
}

fn named(model: &str, error: &sequence_mode::Error) -> Error {
    Error::new(error.code(), format!("model '{model}': {error}"))
}

triton_backend::export_backend!(Tlaloc);
