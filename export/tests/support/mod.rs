//! Runs emitted programs on the PJRT plugin that `TLALOC_PJRT_PLUGIN_PATH` names.

#![allow(dead_code, reason = "each test uses its own part")]
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

use std::path::Path;
use std::sync::Arc;

use tlaloc_pjrt::{Argument, Buffer, Client, ClientOptions, ElementType, Executable, Plugin};

/// An array on the host, row-major.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    pub element_type: ElementType,
    pub dims: Vec<usize>,
    pub bytes: Vec<u8>,
}

impl Array {
    pub fn f32(dims: &[usize], values: &[f32]) -> Array {
        Array::new(ElementType::F32, dims, values.iter().flat_map(|x| x.to_ne_bytes()).collect())
    }

    pub fn i32(dims: &[usize], values: &[i32]) -> Array {
        Array::new(ElementType::I32, dims, values.iter().flat_map(|x| x.to_ne_bytes()).collect())
    }

    /// All-zero bytes.
    pub fn zeros(element_type: ElementType, dims: &[usize], element_size: usize) -> Array {
        let bytes = vec![0; dims.iter().product::<usize>() * element_size];
        Array::new(element_type, dims, bytes)
    }

    pub fn new(element_type: ElementType, dims: &[usize], bytes: Vec<u8>) -> Array {
        Array { element_type, dims: dims.to_vec(), bytes }
    }

    pub fn f32s(&self) -> Vec<f32> {
        assert_eq!(self.element_type, ElementType::F32);
        self.bytes.as_chunks().0.iter().map(|&x| f32::from_ne_bytes(x)).collect()
    }
}

/// The plugin's device 0. `None`, with a line that says so, where no plugin is named.
pub fn client() -> Option<Arc<Client>> {
    let Some(path) = std::env::var_os("TLALOC_PJRT_PLUGIN_PATH") else {
        eprintln!("SKIPPED: TLALOC_PJRT_PLUGIN_PATH names no PJRT plugin (scripts/setup.sh --env)");
        return None;
    };
    let plugin = Plugin::load(Path::new(&path)).unwrap();
    Some(Client::shared(&plugin, 0, &ClientOptions::default()).unwrap())
}

/// Runs a compiled program on copies of `arguments`: its results.
pub fn run(executable: &Executable, arguments: &[Array]) -> Vec<Array> {
    let client = executable.client();
    let signed = |dims: &[usize]| dims.iter().map(|&dim| dim as i64).collect::<Vec<_>>();
    let buffers: Vec<Buffer> = arguments
        .iter()
        .map(|a| client.upload(a.element_type, &signed(&a.dims), &a.bytes).unwrap())
        .collect();
    let mut pending = executable.execute(buffers.iter().map(Argument::Keep)).unwrap();
    pending.wait().unwrap();
    (0..executable.num_outputs())
        .map(|index| {
            let output = pending.take(index).unwrap();
            let mut bytes = vec![0; output.bytes()];
            output.copy_to_host(&mut bytes).unwrap();
            let dims: Vec<_> = output.dims().iter().map(|&dim| dim as usize).collect();
            Array::new(output.element_type(), &dims, bytes)
        })
        .collect()
}
