//! Tensor mode: inputs and outputs of `config.pbtxt` are arguments and results of one StableHLO
//! function, compiled once for each shape and device.
//!
//! A load goes `config` (what is declared) → `binding` (which argument and result is what) →
//! `source` (the files) → `signature` (do they fit) → `device` (programs and weights). A call goes
//! `intake` (is the request good) → `buckets` (which program takes it) → `grouping` (who shares an
//! execution) → `executor` → `answer`. `paths` tells once which way a tensor goes.

mod answer;
mod binding;
mod block;
mod buckets;
mod complete;
mod config;
mod device;
mod error;
mod executor;
mod grouping;
mod instance;
mod intake;
mod paths;
mod placement;
mod signature;
mod source;

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use tlaloc_pjrt::Client;
use tracing::info;
use triton_backend::{MemoryUsage, ModelContext};

pub use error::Error;
pub use instance::TensorInstance;

use self::binding::Plan;
use self::buckets::Buckets;
use self::config::TensorConfig;
use self::device::{Compiled, DeviceModel};
use self::paths::Paths;
use self::signature::Signature;
use self::source::Source;
use crate::compile::{Compiler, Progress, in_parallel};
use crate::device::{self as clients, PerDevice};
use crate::metrics::Owner;
use crate::settings::{CommonSettings, ServerSettings, TensorSettings};

/// A loaded model.
pub struct TensorModel {
    /// Its name in the repository.
    pub name: String,
    config: TensorConfig,
    common: CommonSettings,
    plan: Arc<Plan>,
    buckets: Buckets,
    paths: Arc<Paths>,
    /// Whose metrics they are.
    owner: Owner,
    /// Programs and weights, by device ordinal.
    devices: PerDevice<Arc<DeviceModel>>,
}

impl TensorModel {
    /// The configuration with inputs and outputs as the artifacts have them, where it leaves some
    /// out. None where nothing is left out, or the artifacts do not tell, which their load does.
    pub fn complete(context: &ModelContext, server: &ServerSettings) -> Option<Value> {
        let config = context.config();
        if !complete::is_incomplete(config) {
            return None;
        }
        let common = CommonSettings::read(config).ok()?;
        let settings = TensorSettings::read(config).ok()?;
        let directory = context.version_directory();
        let sources = source::read(&directory, &settings, &Plan::default()).ok()?;
        let compiler = Compiler::new(server, &Owner::model(context));
        let told = |source: &Source| match &source.signature {
            Some(signature) => Some(signature.clone()),
            None => {
                let plugin = clients::plugin_path(common.plugin_path.as_deref(), server).ok()?;
                let ordinals = TensorConfig::ordinals(config);
                let client = clients::client(&plugin, *ordinals.first()?, server).ok()?;
                let (compiled, line) = Compiled::new(&client, source, false, &compiler).ok()?;
                info!("{line}");
                source.compiled_signature(compiled.executable()).ok()
            }
        };
        let signatures: Vec<Signature> = sources.iter().map(told).collect::<Option<_>>()?;
        let completed = complete::completed(config, &settings, &signatures).ok()?;
        info!("inputs and outputs that config.pbtxt leaves out are those of the artifact");
        Some(completed)
    }

    /// Loads a model. Whatever can be checked without a plugin is checked before it is touched.
    pub fn load(
        context: &ModelContext,
        server: &ServerSettings,
        common: CommonSettings,
    ) -> Result<Self, Error> {
        let settings = TensorSettings::read(context.config())?;
        let config = TensorConfig::read(context.config())?;
        let plan = Plan::read(&settings, &config)?;
        let directory = context.version_directory();
        let sources = source::read(&directory, &settings, &plan)?;
        let model = Loading {
            config: &config,
            plan: &plan,
            directory: &directory,
            zero_copy: common.zero_copy,
        };
        let mut signatures: Option<Vec<Signature>> =
            sources.iter().map(|source| source.signature.clone()).collect();
        if let Some(signatures) = &signatures {
            model.check(signatures)?;
        }

        let plugin = clients::plugin_path(common.plugin_path.as_deref(), server)?;
        let owner = Owner::model(context);
        let compiler = Compiler::new(server, &owner);
        let devices = PerDevice::load(&config.ordinals, compiler, |ordinal, compiler| {
            let client = clients::client(&plugin, ordinal, server).map_err(Error::Device)?;
            let device = model.load(client, &sources, &mut signatures, compiler)?;
            info!("{}", ready(&device, &config, &common));
            Ok::<_, Error>(Arc::new(device))
        })?;
        let buckets = Buckets::new(&signatures.unwrap_or_default(), &plan, &config);
        let paths = Arc::new(Paths::new(&config));
        let (name, plan) = (context.name().to_owned(), Arc::new(plan));
        Ok(TensorModel { name, config, common, plan, buckets, paths, owner, devices })
    }
}

impl TensorModel {
    /// What it holds beside its instances.
    pub fn memory_usage(&self) -> Vec<MemoryUsage> {
        self.devices.iter().map(|device| device.memory_usage()).collect()
    }
}

/// What a load knows before it has a device.
struct Loading<'a> {
    config: &'a TensorConfig,
    plan: &'a Plan,
    directory: &'a Path,
    zero_copy: bool,
}

impl Loading<'_> {
    fn check(&self, signatures: &[Signature]) -> Result<(), Error> {
        signature::check(signatures, self.plan, self.config)?;
        device::check_weights(signatures, self.plan, self.directory)
    }

    /// Compiles on one device. Signatures that are not known before are then.
    fn load(
        &self,
        client: Arc<Client>,
        sources: &[Source],
        signatures: &mut Option<Vec<Signature>>,
        compiler: &Compiler,
    ) -> Result<DeviceModel, Error> {
        let placing = self.zero_copy && client.shares_host_memory();
        let progress = Progress::new(sources.len(), "artifacts");
        let compiled = in_parallel(sources.len(), |index| {
            let source = &sources[index];
            let (compiled, line) = Compiled::new(&client, source, placing, compiler)?;
            info!("{line}; {}", progress.add(1));
            Ok::<_, Error>(compiled)
        })?;
        let signatures = match signatures {
            Some(signatures) => signatures,
            unknown => {
                let of = |(source, compiled): (&Source, &Compiled)| {
                    source.compiled_signature(compiled.executable())
                };
                let read: Vec<_> =
                    sources.iter().zip(&compiled).map(of).collect::<Result<_, _>>()?;
                self.check(&read)?;
                unknown.insert(read)
            }
        };
        DeviceModel::new(client, compiled, signatures, self.plan, self.directory)
    }
}

/// The line that ends a load (tensor mode §8).
fn ready(device: &DeviceModel, config: &TensorConfig, common: &CommonSettings) -> String {
    let client = &device.client;
    let tensors = if client.reaches_device_memory() {
        match (common.zero_copy, client.supports_views()) {
            (false, _) => "GPU-memory tensors go through the host (zero_copy is false)",
            (true, true) => "GPU-memory tensors are read in place and written device to device",
            (true, false) => {
                "GPU-memory tensors go through the host (the plugin has no device views)"
            }
        }
    } else {
        match (common.zero_copy, client.shares_host_memory()) {
            (true, true) => "tensors in host memory are read in place and written once",
            (false, true) => "tensors in host memory are copied (zero_copy is false)",
            (_, false) => "tensors in host memory are copied to the device and back",
        }
    };
    let mut line = format!("{} ready; {tensors}", client.device_name());
    if config.max_batch_size > 0 {
        line +=
            &format!("; requests are batched along dim 0 up to batch {}, ", config.max_batch_size);
        line += if common.group_by_shape {
            "grouped by the shape of their rows"
        } else {
            "only consecutive requests of one shape together (group_by_shape is false)"
        };
    }
    line
}
