//! The PJRT client that serves a model.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tlaloc_pjrt::{Client, ClientOptions, Plugin, release_free_memory};
use triton_backend::{InstanceKind, Memory, MemoryUsage};

use crate::compile::Compiler;
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

/// The instance is on a GPU that the model was not loaded for.
#[derive(Debug, thiserror::Error)]
#[error(
    "the instance is on GPU {ordinal}, but config.pbtxt names no such GPU and the model is loaded \
     for {loaded:?}; list it in the 'gpus' of an instance_group"
)]
pub struct NoDevice {
    /// The instance's GPU.
    ordinal: i32,
    /// The ordinals that the configuration names.
    loaded: Vec<i32>,
}

/// Bytes that are held on a client's device, as Triton is told of them.
pub fn memory_usage(client: &Client, byte_size: usize) -> MemoryUsage {
    match client.reaches_device_memory() {
        true => MemoryUsage { memory: Memory::Gpu, device: client.ordinal().into(), byte_size },
        false => MemoryUsage { memory: Memory::Cpu, device: 0, byte_size },
    }
}

/// What a model has on each of its devices, by ordinal. What loading and dropping it leaves to the
/// allocator is given back to the system.
pub struct PerDevice<T> {
    devices: BTreeMap<i32, T>,
    /// Of the load: it shows how the programs were come by.
    _compiler: Option<Compiler>,
}

impl<T> PerDevice<T> {
    /// Loads it to the devices of these ordinals.
    pub fn load<E>(
        ordinals: &[i32],
        compiler: Compiler,
        mut load: impl FnMut(i32, &Compiler) -> Result<T, E>,
    ) -> Result<Self, E> {
        let devices = Self::each(ordinals, |ordinal| load(ordinal, &compiler))?;
        Ok(PerDevice { devices, _compiler: Some(compiler) })
    }

    fn each<E>(
        ordinals: &[i32],
        mut load: impl FnMut(i32) -> Result<T, E>,
    ) -> Result<BTreeMap<i32, T>, E> {
        let loaded = ordinals.iter().map(|ordinal| Ok((*ordinal, load(*ordinal)?)));
        let loaded = loaded.collect();
        release_free_memory();
        loaded
    }

    /// What is there for each device.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.devices.values()
    }

    /// What is there for the device of an instance. Instances that are not on a GPU share the first.
    pub fn of_instance(&self, kind: InstanceKind, ordinal: i32) -> Result<&T, NoDevice> {
        let found = match kind {
            InstanceKind::Gpu => self.devices.get(&ordinal),
            _ => self.devices.values().next(),
        };
        found.ok_or_else(|| NoDevice { ordinal, loaded: self.devices.keys().copied().collect() })
    }
}

impl<T> Drop for PerDevice<T> {
    fn drop(&mut self) {
        self.devices.clear();
        release_free_memory();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_gets_the_device_that_it_is_on() {
        let devices = PerDevice::each(&[1, 3], |ordinal| Ok::<_, NoPlugin>(10 * ordinal)).unwrap();
        let devices = PerDevice { devices, _compiler: None };
        let of = |kind, ordinal| devices.of_instance(kind, ordinal);
        assert_eq!(of(InstanceKind::Gpu, 3).unwrap(), &30);
        assert_eq!(of(InstanceKind::Cpu, 0).unwrap(), &10);
        assert_eq!(of(InstanceKind::Model, 0).unwrap(), &10);
        let error = of(InstanceKind::Gpu, 0).unwrap_err().to_string();
        assert!(error.contains("the instance is on GPU 0") && error.contains("[1, 3]"), "{error}");
    }
}
