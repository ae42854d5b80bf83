//! The plugin under test and the programs that the tests run on it.
#![allow(clippy::unwrap_used)] // helpers of tests
#![allow(dead_code)] // each test file uses its part

use std::path::PathBuf;
use std::sync::Arc;

use tlaloc_pjrt::{Client, ClientOptions, Executable, Plugin};

/// The plugin that tests run on; skips by name where there is none.
pub fn plugin_path() -> Option<PathBuf> {
    let path = std::env::var_os("TLALOC_PJRT_PLUGIN_PATH");
    if path.is_none() {
        eprintln!("SKIPPED: TLALOC_PJRT_PLUGIN_PATH names no PJRT plugin (scripts/setup.sh --env)");
    }
    path.map(PathBuf::from)
}

/// The shared client for device 0.
pub fn client() -> Option<Arc<Client>> {
    let plugin = Plugin::load(plugin_path()?).unwrap();
    Some(Client::shared(&plugin, 0, &ClientOptions::default()).unwrap())
}

/// x * x + x over `n` f32.
pub fn square_plus(client: &Arc<Client>, n: usize) -> Executable {
    client.compile(&square_plus_text(n)).unwrap()
}

pub fn square_plus_text(n: usize) -> String {
    format!(
        "module {{ func.func public @main(%x: tensor<{n}xf32>) -> tensor<{n}xf32> {{
           %y = stablehlo.multiply %x, %x : tensor<{n}xf32>
           %z = stablehlo.add %y, %x : tensor<{n}xf32>
           return %z : tensor<{n}xf32> }} }}"
    )
}

/// Writes value (one f32) at index (one i32) of a state of `n` f32, over the state where `aliased`.
pub fn state_step(client: &Arc<Client>, n: usize, aliased: bool) -> Executable {
    let alias = if aliased { "{tf.aliasing_output = 0 : i32}" } else { "" };
    client
        .compile(&format!(
            "module {{ func.func public @main(%state: tensor<{n}xf32> {alias}, %index: tensor<i32>,
                 %value: tensor<1xf32>) -> tensor<{n}xf32> {{
               %next = stablehlo.dynamic_update_slice %state, %value, %index
                 : (tensor<{n}xf32>, tensor<1xf32>, tensor<i32>) -> tensor<{n}xf32>
               return %next : tensor<{n}xf32> }} }}"
        ))
        .unwrap()
}

pub fn f32_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_ne_bytes()).collect()
}

pub fn f32_values(bytes: &[u8]) -> Vec<f32> {
    let (chunks, rest) = bytes.as_chunks();
    assert!(rest.is_empty());
    chunks.iter().map(|&chunk| f32::from_ne_bytes(chunk)).collect()
}

/// Threads and resident bytes of this process.
pub fn process_size() -> (usize, usize) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let field = |name: &str| -> usize {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    (field("Threads:"), field("VmRSS:") * 1024)
}
