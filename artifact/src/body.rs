//! A body and the entry that it is the program of.

use std::path::Path;

use crate::bounded::{BoundedArtifact, BoundedEntry};
use crate::stablehlo::{Function, Module, calls_kernels, is_bytecode};
use crate::{Artifact, Entry, Error, Tensor};

impl Artifact {
    /// Reads the StableHLO text of an entry and checks that its entry function is the one that the
    /// manifest describes. In the text returned every donated argument carries
    /// `{tf.aliasing_output = N : i32}`, which is what makes the plugin update pools in place; older
    /// artifacts lack it (artifact format §11), and it is added for them.
    ///
    /// # Errors
    /// [`Error::is_not_found`] when the file cannot be read; [`Error::Body`] when it is not text,
    /// its entry function differs from the entry's slots, or it calls CUDA kernels (§13), which this
    /// project does not register.
    pub fn read_body(&self, entry: &Entry) -> Result<String, Error> {
        let program = Described {
            entry: &entry.id,
            function: &entry.entry_point,
            arguments: entry.inputs.iter().map(|slot| (&*slot.name, &slot.tensor)).collect(),
            results: entry.outputs.iter().map(|slot| (&*slot.name, &slot.tensor)).collect(),
            donations: &entry.donations,
        };
        program.read(&entry.body)
    }
}

impl BoundedArtifact {
    /// Reads the StableHLO text of an entry and checks that its entry function is the one that the
    /// manifest describes.
    ///
    /// # Errors
    /// As [`Artifact::read_body`].
    pub fn read_body(&self, entry: &BoundedEntry) -> Result<String, Error> {
        let arguments = self.inputs.iter().map(|input| &*input.tensor.name);
        let results = self.outputs.iter().map(|output| &*output.name);
        let program = Described {
            entry: &entry.id,
            function: &entry.entry_point,
            arguments: arguments.zip(&entry.inputs).collect(),
            results: results.zip(&entry.outputs).collect(),
            donations: &[],
        };
        program.read(&entry.body)
    }
}

/// A program as the manifest describes it.
struct Described<'a> {
    entry: &'a str,
    function: &'a str,
    /// Name and type of each argument.
    arguments: Vec<(&'a str, &'a Tensor)>,
    /// Name and type of each result.
    results: Vec<(&'a str, &'a Tensor)>,
    /// Argument and result that share memory.
    donations: &'a [(usize, usize)],
}

impl Described<'_> {
    fn read(&self, body: &Path) -> Result<String, Error> {
        let bytes = std::fs::read(body)
            .map_err(|source| Error::Unreadable { path: body.to_owned(), source })?;
        self.checked_text(bytes).map_err(|reason| Error::Body { body: body.to_owned(), reason })
    }

    fn checked_text(&self, bytes: Vec<u8>) -> Result<String, String> {
        if is_bytecode(&bytes) {
            return Err("is MLIR bytecode; write the body as text".to_owned());
        }
        let text = String::from_utf8(bytes)
            .map_err(|error| format!("is not UTF-8 text: {}", error.utf8_error()))?;
        let module = Module::parse(&text).map_err(|error| error.to_string())?;
        let function = module.function(self.function).ok_or_else(|| {
            format!(
                "entry function @{} is not in the body; it defines {}",
                self.function,
                if module.functions.is_empty() { "none".to_owned() } else { module.names() }
            )
        })?;
        self.check_types(function)?;
        if calls_kernels(&text) {
            return Err(
                "calls CUDA kernels (stablehlo.custom_call @tlaloc_…), but none are registered \
                    with the plugin; export without them"
                    .to_owned(),
            );
        }
        let aliased = function.with_aliases(&text, self.donations).map_err(|(argument, value)| {
        let pair = self.donations.iter().find(|(input, _)| *input == argument);
        format!(
            "argument {argument} of @{} has tf.aliasing_output = {value}, but the manifest's entry \
             {} pairs it with output {}",
            function.name,
            self.entry,
            pair.map_or(0, |(_, output)| *output)
        )
    })?;
        Ok(aliased.unwrap_or(text))
    }

    /// Counts, element types and dims of arguments and results.
    fn check_types(&self, function: &Function) -> Result<(), String> {
        let name = &function.name;
        let sides = [
            ("argument", &self.arguments, &function.arguments),
            ("result", &self.results, &function.results),
        ];
        for (side, expected, found) in sides {
            if expected.len() != found.len() {
                return Err(format!(
                    "@{name} has {} {side}s, but the manifest's entry {} has {}",
                    found.len(),
                    self.entry,
                    expected.len()
                ));
            }
        }
        for (side, expected, found) in sides {
            for (index, ((slot, expected), value)) in expected.iter().zip(found).enumerate() {
                if value.ty.tensor().as_ref() != Some(*expected) {
                    return Err(format!(
                        "{side} {index} ('{slot}') of @{name} is {}, but the manifest's entry {} says {expected}",
                        value.ty.text, self.entry
                    ));
                }
            }
        }
        Ok(())
    }
}
