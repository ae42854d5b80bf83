//! `libtriton_tlaloc.so`: the Triton backend that serves Tlaloc artifacts.
//!
//! `settings` and `config` read what a model and the server are configured with, `device` finds the
//! PJRT client, `gpu` brings Triton's GPU memory to it, `dtype` names element types, `manifest` says
//! where one may be, `compile` and `weights` come by programs and weights, `metrics` shows what
//! happens. `language` runs language models, which `sequence_mode` serves token by token and
//! `generation_mode` from a prompt to its text; `bounded_mode` serves programs with axes of bounded
//! size, `tensor_mode` every other function.

mod bounded_mode;
mod compile;
mod config;
mod device;
mod dtype;
mod failpoint;
mod generation_mode;
mod gpu;
mod language;
mod manifest;
pub mod metrics;
mod sequence_mode;
pub mod settings;
mod tensor_mode;
mod weights;

use std::fmt::Display;
use std::sync::Arc;

use serde_json::Value;
use tracing::{info, warn};
use triton_backend::{
    Backend, BackendContext, Code, Error, InstanceContext, InstanceKind, MemoryUsage, ModelContext,
    Requests,
};

use bounded_mode::{BoundedInstance, BoundedModel};
use generation_mode::{GenerationInstance, GenerationModel};
use sequence_mode::{SequenceInstance, SequenceModel};
use settings::{CommonSettings, Mode, ServerSettings};
use tensor_mode::{TensorInstance, TensorModel};

// The symbols that a server would bring.
#[cfg(test)]
use triton_mock_host as _;

/// The backend, once per process.
pub struct Tlaloc {
    settings: ServerSettings,
}

/// A loaded model.
pub enum Model {
    /// A program with axes of bounded size.
    Bounded(Arc<BoundedModel>),
    /// A language model that generates.
    Generation(Arc<GenerationModel>),
    /// A language model that clients drive.
    Sequence(Arc<SequenceModel>),
    /// One function.
    Tensor(Arc<TensorModel>),
}

/// An instance of a model.
pub enum ModelInstance {
    /// Of a program with axes of bounded size.
    Bounded(BoundedInstance),
    /// Of a language model that generates.
    Generation(GenerationInstance),
    /// Of a language model that clients drive.
    Sequence(SequenceInstance),
    /// Of one function.
    Tensor(TensorInstance),
}

impl Backend for Tlaloc {
    type Model = Model;
    type Instance = ModelInstance;

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

    fn complete_config(&self, context: &ModelContext) -> Option<Value> {
        match Mode::of(context.config()) {
            Ok(Mode::Tensor) => TensorModel::complete(context, &self.settings),
            // Manifests leave the tensors to the configuration; errors are the load's to tell.
            Ok(Mode::Sequence | Mode::Generate | Mode::Bounded(_)) | Err(_) => None,
        }
    }

    fn load(&self, context: &ModelContext) -> Result<Model, Error> {
        let refused = |error: settings::Error| named(context.name(), Code::InvalidArgument, &error);
        let common = CommonSettings::read(context.config()).map_err(refused)?;
        match Mode::of(context.config()).map_err(refused)? {
            Mode::Bounded(manifest) => {
                BoundedModel::load(context, &self.settings, &common, &manifest)
                    .map(|model| Model::Bounded(Arc::new(model)))
                    .map_err(|error| named(context.name(), error.code(), &error))
            }
            Mode::Generate => GenerationModel::load(context, &self.settings)
                .map(|model| Model::Generation(Arc::new(model)))
                .map_err(|error| named(context.name(), error.code(), &error)),
            Mode::Sequence => SequenceModel::load(context, &self.settings)
                .map(|model| Model::Sequence(Arc::new(model)))
                .map_err(|error| named(context.name(), error.code(), &error)),
            Mode::Tensor => TensorModel::load(context, &self.settings, common)
                .map(|model| Model::Tensor(Arc::new(model)))
                .map_err(|error| named(context.name(), error.code(), &error)),
        }
    }

    fn memory_usage(model: &Model) -> Vec<MemoryUsage> {
        match model {
            Model::Bounded(_) => Vec::new(),
            Model::Generation(model) => model.memory_usage(),
            Model::Sequence(model) => model.memory_usage(),
            Model::Tensor(model) => model.memory_usage(),
        }
    }

    fn create_instance(
        model: &Arc<Model>,
        context: &InstanceContext,
    ) -> Result<ModelInstance, Error> {
        match &**model {
            Model::Bounded(model) => BoundedInstance::create(model, context)
                .map(ModelInstance::Bounded)
                .map_err(|error| named(&model.name, error.code(), &error)),
            Model::Generation(model) => GenerationInstance::create(model, context)
                .map(ModelInstance::Generation)
                .map_err(|error| named(&model.name, error.code(), &error)),
            Model::Sequence(model) => SequenceInstance::create(model, context)
                .map(ModelInstance::Sequence)
                .map_err(|error| named(&model.name, error.code(), &error)),
            Model::Tensor(model) => TensorInstance::create(model, context)
                .map(ModelInstance::Tensor)
                .map_err(|error| named(&model.name, error.code(), &error)),
        }
    }

    fn execute(instance: &ModelInstance, requests: Requests<'_>) {
        match instance {
            ModelInstance::Bounded(instance) => instance.execute(requests),
            ModelInstance::Generation(instance) => instance.execute(requests),
            ModelInstance::Sequence(instance) => instance.execute(requests),
            ModelInstance::Tensor(instance) => instance.execute(requests),
        }
    }

    fn ready(instance: &ModelInstance) -> Result<(), Error> {
        match instance {
            // They have no thread of their own.
            ModelInstance::Bounded(_) | ModelInstance::Tensor(_) => Ok(()),
            ModelInstance::Generation(instance) => instance.ready(),
            ModelInstance::Sequence(instance) => instance.ready(),
        }
    }
}

fn named(model: &str, code: Code, error: &dyn Display) -> Error {
    Error::new(code, format!("model '{model}': {error}"))
}

triton_backend::export_backend!(Tlaloc);
