//! What serves a language model on a device, whoever chooses its calls: programs, weights, pools, step
//! inputs and logits. Sequence mode and generation mode sit on top.
//!
//! `programs` is what a load brings to a device, `memory` what that needs there; `executor` runs
//! calls, with what `inputs` writes, and `timing` tells how long they took. `rows` copies and zeroes
//! rows of the pools outside of calls, `thread` is how an instance's thread ends.

mod drafted;
mod error;
mod executor;
mod inputs;
mod memory;
mod programs;
mod rows;
mod thread;
mod timing;

use std::path::PathBuf;
use std::sync::Arc;

use tlaloc_artifact::Artifact;
use tracing::info;
use triton_backend::ModelContext;

pub use drafted::Drafted;
pub use error::Error;
pub use executor::{Executor, Logits};
pub use programs::DeviceModel;
pub use rows::{RowUse, Rows};
pub use thread::{run_until_panic, withdraw};

use crate::compile::Compiler;
use crate::device::{self, PerDevice};
use crate::manifest;
use crate::metrics::Owner;
use crate::settings::ServerSettings;

/// The artifact of a `serving_manifest` parameter, checked, and where its manifest is; with its verify
/// entries, if drafts are to be verified.
///
/// # Errors
/// [`Error::ManifestPath`], [`Error::Artifact`].
pub fn open(
    context: &ModelContext,
    manifest: &str,
    verifies: bool,
) -> Result<(Arc<Artifact>, PathBuf), Error> {
    let path = manifest::path(&context.version_directory(), manifest)
        .ok_or_else(|| Error::ManifestPath(manifest.to_owned()))?;
    let artifact = Artifact::open(&path)?;
    let artifact = if verifies { artifact } else { artifact.without_verify_entries() };
    Ok((Arc::new(artifact), path))
}

/// Brings the artifact to every device of these ordinals. `rows` is what is done to rows of the
/// pools outside of calls, `owner` whose metrics they are, `mode` what a load line says of the mode.
///
/// # Errors
/// Where the plugin, a client, a weight or a program does not come up.
pub fn load(
    artifact: &Arc<Artifact>,
    ordinals: &[i32],
    plugin: Option<&str>,
    server: &ServerSettings,
    rows: RowUse,
    owner: &Owner,
    mode: &str,
) -> Result<PerDevice<Arc<DeviceModel>>, Error> {
    let plugin = device::plugin_path(plugin, server)?;
    let compiler = Compiler::new(server, owner);
    PerDevice::load(ordinals, compiler, |ordinal, compiler| {
        let client = device::client(&plugin, ordinal, server).map_err(Error::Device)?;
        let model = DeviceModel::load(artifact.clone(), client, compiler, rows)?;
        info!("{}{mode}{}{}", model.summary(), refused_tokens(artifact), windowed_pool(artifact));
        info!("{}", memory::largest(&model.programs));
        Ok(Arc::new(model))
    })
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
