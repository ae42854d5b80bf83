//! Bounded mode: one program, compiled for several sizes of each bounded axis. A request is padded to
//! the smallest that holds it, and the result is cut back.
//!
//! A load goes `config` (does the configuration fit the manifest) → `programs`. A request goes
//! `intake` (is it good, which sizes has it) → `instance`, which pads, runs and cuts with what
//! `blocks` knows of blocks in larger arrays.

mod blocks;
mod config;
mod error;
mod instance;
mod intake;
mod programs;

use std::sync::Arc;

use tlaloc_artifact::bounded::{BoundedArtifact, BoundedTensor};
use tracing::info;
use triton_backend::ModelContext;

pub use error::Error;
pub use instance::BoundedInstance;

use self::programs::{Bodies, DeviceModel};
use crate::compile::Compiler;
use crate::config::ordinals_of;
use crate::device::{self, PerDevice};
use crate::manifest;
use crate::metrics::Owner;
use crate::settings::{CommonSettings, ServerSettings};

/// A loaded model.
pub struct BoundedModel {
    /// Its name in the repository.
    pub name: String,
    artifact: Arc<BoundedArtifact>,
    /// The only output, f32.
    output: BoundedTensor,
    /// Whose metrics they are.
    owner: Owner,
    /// Programs, by device ordinal.
    devices: PerDevice<Arc<DeviceModel>>,
}

impl BoundedModel {
    /// Loads the model of the manifest that is named relative to the version directory. Whatever can
    /// be checked without a plugin is checked before it is touched.
    pub fn load(
        context: &ModelContext,
        server: &ServerSettings,
        common: &CommonSettings,
        manifest: &str,
    ) -> Result<Self, Error> {
        let path = manifest::path(&context.version_directory(), manifest)
            .ok_or_else(|| Error::ManifestPath(manifest.to_owned()))?;
        let artifact = BoundedArtifact::open(&path).map_err(Error::Manifest)?;
        let output = config::check(context.config(), &artifact)?.clone();
        let bodies = Bodies::read(&artifact)?;

        let plugin = device::plugin_path(common.plugin_path.as_deref(), server)?;
        let owner = Owner::model(context);
        let compiler = Compiler::new(server, &owner);
        let ordinals = ordinals_of(context.config());
        let devices = PerDevice::load(&ordinals, compiler, |ordinal, compiler| {
            let client = device::client(&plugin, ordinal, server).map_err(Error::Device)?;
            let programs = bodies.compile(&client, compiler)?;
            info!("{}", ready(&artifact, &bodies));
            Ok::<_, Error>(Arc::new(DeviceModel { client, programs }))
        })?;
        Ok(BoundedModel {
            name: context.name().to_owned(),
            artifact: Arc::new(artifact),
            output,
            owner,
            devices,
        })
    }
}

/// The line that ends a load (bounded mode §3).
fn ready(artifact: &BoundedArtifact, bodies: &Bodies) -> String {
    let bounds: String = artifact.bounds.iter().map(|bound| format!(" {bound}")).collect();
    format!(
        "bounded program '{}': {} bodies for {} bucket combinations of{bounds}",
        artifact.name,
        bodies.len(),
        artifact.entries.len()
    )
}
