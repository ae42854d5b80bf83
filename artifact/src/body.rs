//! A body and the entry that it is the program of.

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
        let bytes = std::fs::read(&entry.body)
            .map_err(|source| Error::Unreadable { path: entry.body.clone(), source })?;
        checked_text(entry, bytes)
            .map_err(|reason| Error::Body { body: entry.body.clone(), reason })
    }
}

fn checked_text(entry: &Entry, bytes: Vec<u8>) -> Result<String, String> {
    if is_bytecode(&bytes) {
        return Err("is MLIR bytecode; write the body as text".to_owned());
    }
    let text = String::from_utf8(bytes)
        .map_err(|error| format!("is not UTF-8 text: {}", error.utf8_error()))?;
    let module = Module::parse(&text).map_err(|error| error.to_string())?;
    let function = module.function(&entry.entry_point).ok_or_else(|| {
        format!(
            "entry function @{} is not in the body; it defines {}",
            entry.entry_point,
            if module.functions.is_empty() { "none".to_owned() } else { module.names() }
        )
    })?;
    check_types(entry, function)?;
    if calls_kernels(&text) {
        return Err(
            "calls CUDA kernels (stablehlo.custom_call @tlaloc_…), but none are registered \
                    with the plugin; export without them"
                .to_owned(),
        );
    }
    let aliased = function.with_aliases(&text, &entry.donations).map_err(|(argument, value)| {
        let pair = entry.donations.iter().find(|(input, _)| *input == argument);
        format!(
            "argument {argument} of @{} has tf.aliasing_output = {value}, but the manifest's entry \
             {} pairs it with output {}",
            function.name,
            entry.id,
            pair.map_or(0, |(_, output)| *output)
        )
    })?;
    Ok(aliased.unwrap_or(text))
}

/// Counts, element types and dims of arguments and results.
fn check_types(entry: &Entry, function: &Function) -> Result<(), String> {
    let slots = |side, expected: usize, found: usize| {
        (expected == found).then_some(()).ok_or_else(|| {
            format!(
                "@{} has {found} {side}s, but the manifest's entry {} has {expected}",
                function.name, entry.id
            )
        })
    };
    slots("argument", entry.inputs.len(), function.arguments.len())?;
    slots("result", entry.outputs.len(), function.results.len())?;
    let inputs = entry.inputs.iter().map(|slot| (&slot.name, &slot.tensor));
    let outputs = entry.outputs.iter().map(|slot| (&slot.name, &slot.tensor));
    let arguments = inputs.zip(&function.arguments).enumerate().map(|pair| ("argument", pair));
    let results = outputs.zip(&function.results).enumerate().map(|pair| ("result", pair));
    for (side, (index, ((name, expected), value))) in arguments.chain(results) {
        if value.ty.tensor().as_ref() != Some::<&Tensor>(expected) {
            return Err(format!(
                "{side} {index} ('{name}') of @{} is {}, but the manifest's entry {} says {expected}",
                function.name, value.ty.text, entry.id
            ));
        }
    }
    Ok(())
}
