//! `config.pbtxt` of client mode (tensor mode §12): the entries are shape buckets of one function
//! whose pools are state of the instance.

use std::collections::{HashMap, HashSet};

use tlaloc_artifact::{Artifact, DType, Entry, InputRole, OutputRole, Tensor};

use crate::pbtxt::{Pbtxt, tensor};
use crate::{Error, InstanceGroup, ModelName};

const MODE: &str = "Client mode: the client keeps the sequences. A request fills block tables and \
    slot mappings itself; the KV pools are state of the instance, zero at the start and updated by \
    every request.";

pub(crate) fn config(
    artifact: &Artifact,
    name: &ModelName,
    instance_group: &InstanceGroup,
) -> Result<String, Error> {
    let refuse = |reason: String| Error::Client { model: artifact.model_name().to_owned(), reason };
    let entries = artifact.entries();
    let Some(first) = entries.first() else { return Err(refuse("it has no entries".to_owned())) };
    let arguments = arguments(artifact, first).map_err(refuse)?;
    let results = results(first);
    check_buckets(artifact, first, &arguments, &results).map_err(refuse)?;

    let mut config = Pbtxt::new(artifact, name, MODE, 0);
    let inputs: Vec<_> = first
        .inputs
        .iter()
        .enumerate()
        .filter(|(_, input)| !matches!(input.role, InputRole::Pool(_) | InputRole::Weight))
        .map(|(i, input)| {
            let types = entries.iter().filter_map(|e| Some(&e.inputs.get(i)?.tensor));
            declared(&input.name, types)
        })
        .collect();
    config.list("input", &inputs);
    let outputs: Vec<_> = first
        .outputs
        .iter()
        .enumerate()
        .filter(|(_, output)| !matches!(output.role, OutputRole::Pool(_)))
        .map(|(i, output)| {
            let types = entries.iter().filter_map(|e| Some(&e.outputs.get(i)?.tensor));
            declared(&output.name, types)
        })
        .collect();
    config.list("output", &outputs);
    config.instance_group(instance_group);
    let mut seen = HashSet::new();
    let bodies: Vec<_> =
        entries.iter().map(|e| e.body_name.as_str()).filter(|body| seen.insert(*body)).collect();
    config.parameter("artifact", bodies.join(", "));
    config.parameter("entry", &first.entry_point);
    config.parameter("arguments", arguments.join(", "));
    config.parameter("results", results.join(", "));
    config.page_parameters(artifact);
    config.window_parameters(artifact);
    Ok(config.finish())
}

/// The binding of each argument. Weights are named by their file.
fn arguments(artifact: &Artifact, entry: &Entry) -> Result<Vec<String>, String> {
    let mut weights = artifact.weights().iter();
    let mut bound = Vec::with_capacity(entry.inputs.len());
    for input in &entry.inputs {
        let (kind, name) = match input.role {
            InputRole::Weight => {
                let file = weights.next().map(|slot| slot.file.as_path());
                let relative = file.and_then(|f| f.strip_prefix(artifact.root()).ok()?.to_str());
                let path =
                    relative.ok_or_else(|| format!("weight '{}' has no path", input.name))?;
                ("weight", path)
            }
            InputRole::Pool(_) => ("state", input.name.as_str()),
            _ => ("input", input.name.as_str()),
        };
        if name.contains(',') || name.trim() != name {
            return Err(format!(
                "the {kind} name '{name}' has a comma or outer white space, which a list of \
                 bindings cannot hold"
            ));
        }
        bound.push(format!("{kind}:{name}"));
    }
    Ok(bound)
}

/// The binding of each result. A pool's is the state that its argument reads.
fn results(entry: &Entry) -> Vec<String> {
    let bind = |(index, output): (usize, &tlaloc_artifact::Output)| {
        let pair = entry.donations.iter().find(|(_, o)| *o == index);
        match pair.and_then(|(i, _)| entry.inputs.get(*i)) {
            Some(pool) => format!("state:{}", pool.name),
            None => format!("output:{}", output.name),
        }
    };
    entry.outputs.iter().enumerate().map(bind).collect()
}

/// One binding serves all entries, and a request's shapes tell them apart.
fn check_buckets(
    artifact: &Artifact,
    first: &Entry,
    bound: &[String],
    produced: &[String],
) -> Result<(), String> {
    let mut shapes = HashMap::new();
    for entry in artifact.entries() {
        if arguments(artifact, entry)? != bound || results(entry) != produced {
            return Err(format!(
                "entries {} and {} list their arguments or results in different orders",
                first.id, entry.id
            ));
        }
        if entry.entry_point != first.entry_point {
            return Err(format!("entries {} and {} run different functions", first.id, entry.id));
        }
        let dims: Vec<_> = entry.inputs.iter().map(|input| input.tensor.dims()).collect();
        if let Some(other) = shapes.insert(dims, &entry.id) {
            return Err(format!("entries {other} and {} take the same shapes", entry.id));
        }
    }
    Ok(())
}

/// A config tensor; -1 where the entries' dims differ. All have one rank and element type.
fn declared<'a>(name: &str, mut types: impl Iterator<Item = &'a Tensor>) -> String {
    let Some(first) = types.next() else { return String::new() };
    let mut dims: Vec<i64> = first.dims().iter().map(|&d| i64::try_from(d).unwrap_or(-1)).collect();
    for other in types {
        for (dim, &size) in dims.iter_mut().zip(other.dims()) {
            if i64::try_from(size) != Ok(*dim) {
                *dim = -1;
            }
        }
    }
    let data_type = match first.dtype() {
        DType::F32 => "TYPE_FP32",
        // Logits are f32 and every other request slot is i32 (artifact format §7).
        _ => "TYPE_INT32",
    };
    tensor(name, data_type, &dims)
}
