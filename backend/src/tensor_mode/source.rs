//! The files of a model, as the compiler and the checks want them (tensor mode §6).

use std::path::Path;

use tlaloc_artifact::Tensor;
use tlaloc_artifact::stablehlo::{Function, Module, calls_kernels, is_bytecode, prepare};
use tlaloc_pjrt::{Executable, Shape};

use super::binding::{Plan, check_path};
use super::error::Error;
use super::signature::Signature;
use crate::dtype::dtype;
use crate::settings::TensorSettings;

/// The name of the function that a compiled module is entered by.
const MAIN: &str = "main";

/// An output of fewer bytes is copied to its client faster than a parameter more is passed around.
const PLACED_FROM: usize = 256 << 10;

/// One artifact.
#[derive(Debug)]
pub struct Source {
    /// Its file, as configured.
    pub file: String,
    /// The module to compile: text or bytecode.
    pub module: Vec<u8>,
    /// The same for a device that writes large outputs where it is told to.
    pub placing: Option<Placing>,
    /// Its signature; none of bytecode, which only the compiled program tells.
    pub signature: Option<Signature>,
}

/// A module with one more argument for each large output, which is aliased to it.
#[derive(Debug)]
pub struct Placing {
    /// Its text.
    pub module: Vec<u8>,
    /// The results, in the order of their arguments.
    pub results: Vec<usize>,
}

/// Reads every artifact of a model.
///
/// # Errors
/// Files that are missing or outside of the version directory, and those that do not have the entry
/// function.
pub fn read(
    directory: &Path,
    settings: &TensorSettings,
    plan: &Plan,
) -> Result<Vec<Source>, Error> {
    for file in &settings.artifacts {
        check_path("artifact", file)?;
    }
    let read = |file: &String| {
        let path = directory.join(file);
        let bytes = std::fs::read(&path).map_err(|source| Error::Unreadable { path, source })?;
        Source::new(file, bytes, settings.entry.as_deref(), plan)
    };
    settings.artifacts.iter().map(read).collect()
}

impl Source {
    fn new(file: &str, bytes: Vec<u8>, entry: Option<&str>, plan: &Plan) -> Result<Self, Error> {
        if is_bytecode(&bytes) {
            return match entry {
                // XLA enters a module by this name; functions of bytecode cannot be renamed.
                Some(entry) if entry != MAIN => Err(Error::NotStableHlo {
                    file: file.to_owned(),
                    reason: format!(
                        "is MLIR bytecode, which is served by its function @main, but the 'entry' \
                         parameter names @{entry}"
                    ),
                }),
                _ => Ok(Source {
                    file: file.to_owned(),
                    module: bytes,
                    placing: None,
                    signature: None,
                }),
            };
        }
        let wrong = |reason: String| Error::NotStableHlo { file: file.to_owned(), reason };
        let text = String::from_utf8(bytes).map_err(|error| {
            wrong(format!("is neither MLIR bytecode nor UTF-8 text: {}", error.utf8_error()))
        })?;
        let module = Module::parse(&text).map_err(|error| wrong(error.to_string()))?;
        let function = match entry {
            Some(entry) => module.function(entry).ok_or_else(|| Error::NoEntry {
                file: file.to_owned(),
                entry: entry.to_owned(),
                defined: match module.names() {
                    names if names.is_empty() => "no function".to_owned(),
                    names => names,
                },
            })?,
            None => module
                .function(MAIN)
                .or(module.functions.first())
                .ok_or_else(|| wrong("defines no function (func.func)".to_owned()))?,
        };
        if calls_kernels(&text) {
            return Err(wrong(
                "calls CUDA kernels (stablehlo.custom_call @tlaloc_…), but none are registered \
                 with the plugin; export without them"
                    .to_owned(),
            ));
        }
        let signature = Signature::of(file, function)?;
        let pairs: Vec<_> =
            plan.states.iter().map(|state| (state.argument, state.result)).collect();
        let aliased = function.with_aliases(&text, &pairs).map_err(|(argument, found)| {
            let state = plan.states.iter().find(|state| state.argument == argument);
            Error::Aliasing {
                file: file.to_owned(),
                argument,
                function: function.name.clone(),
                found,
                state: state.map(|state| state.name.clone()).unwrap_or_default(),
                result: state.map(|state| state.result).unwrap_or_default(),
            }
        })?;
        let placing = match &aliased {
            // The result of a state is in the state's memory.
            Some(_) => None,
            None => Placing::new(&text, function, &signature),
        };
        let module = prepare(aliased.as_ref().unwrap_or(&text), &function.name).into_bytes();
        Ok(Source { file: file.to_owned(), module, placing, signature: Some(signature) })
    }

    /// The name of the function that is served.
    pub fn function(&self) -> &str {
        self.signature.as_ref().map_or(MAIN, |signature| &signature.function)
    }

    /// The signature, read from the compiled program where the file does not tell it.
    ///
    /// # Errors
    /// [`Error::Untold`]: the plugin does not tell the program's parameters.
    pub fn compiled_signature(&self, program: &Executable) -> Result<Signature, Error> {
        if let Some(signature) = &self.signature {
            return Ok(signature.clone());
        }
        let untold = |source| Error::Untold { file: self.file.clone(), source };
        let parameters = program.parameters().map_err(untold)?;
        Ok(Signature {
            file: self.file.clone(),
            function: MAIN.to_owned(),
            arguments: parameters.iter().filter_map(tensor).collect(),
            results: program.outputs().filter_map(tensor).collect(),
        })
    }
}

/// The tensor of a shape, which the plugin found room for.
fn tensor(shape: &Shape) -> Option<Tensor> {
    let dims = shape.dims().iter().map(|dim| usize::try_from(*dim).ok());
    Tensor::new(dtype(shape.element_type()), dims.collect::<Option<Vec<_>>>()?)
}

impl Placing {
    fn new(text: &str, function: &Function, signature: &Signature) -> Option<Self> {
        let results: Vec<usize> = signature
            .results
            .iter()
            .enumerate()
            .filter(|(_, tensor)| tensor.bytes() >= PLACED_FROM)
            .map(|(result, _)| result)
            .collect();
        if results.is_empty() {
            return None;
        }
        let placed = function.with_places(text, &results)?;
        Some(Placing { module: prepare(&placed, &function.name).into_bytes(), results })
    }
}
