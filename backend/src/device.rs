//! The PJRT client that serves a model.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tlaloc_pjrt::{Client, ClientOptions, Plugin};

use crate::settings::{PJRT_PLUGIN, Scope, ServerSettings};

/// No setting names a plugin.
#[derive(Debug, thiserror::Error)]
#[error(
    "no PJRT plugin configured; name one with --backend-config=tlaloc,pjrt-plugin-path=<path>, the \
     environment variable TLALOC_PJRT_PLUGIN_PATH, or the model parameter 'pjrt_plugin_path'"
)]
pub struct NoPlugin;

/// The plugin of a model: its own parameter, else the command line, else the environment.
pub fn plugin_path(model: Option<&str>, server: &ServerSettings) -> Result<PathBuf, NoPlugin> {
    let environment = || match PJRT_PLUGIN.scope {
        Scope::Server(Some(variable)) => std::env::var(variable).ok(),
        _ => None,
    };
    model
        .map(str::to_owned)
        .or_else(|| server.plugin_path.clone())
        .or_else(environment)
        .map(|path| path.trim().to_owned())
        .filter(|path| !path.is_empty())
        .map(PathBuf::from)
        .ok_or(NoPlugin)
}

/// The client for one device, shared with every other model on it.
pub fn client(
    plugin: &Path,
    ordinal: i32,
    server: &ServerSettings,
) -> Result<Arc<Client>, tlaloc_pjrt::Error> {
    let plugin = Plugin::load(plugin)?;
    let options =
        ClientOptions { memory_fraction: server.memory_fraction, preallocate: server.preallocate };
    Client::shared(&plugin, ordinal, &options)
}
