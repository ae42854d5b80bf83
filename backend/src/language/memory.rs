//! What the programs of a model need of a device's memory, and whether they copy pools.

use tlaloc_artifact::{Artifact, DType, Entry, PoolRole, Tensor};
use tlaloc_pjrt::Executable;
use tracing::warn;

use super::programs::Program;

const MIB: usize = 1 << 20;

/// The part of a compile line that says what an execution needs; empty where the plugin does not
/// tell.
pub fn needed(executable: &Executable) -> String {
    executable.memory_stats().map_or(String::new(), |stats| {
        format!(
            ", writes {} MiB of outputs over arguments, takes {} MiB of arguments, needs {} MiB of \
             temporary memory",
            stats.alias / MIB,
            stats.argument / MIB,
            stats.temp / MIB
        )
    })
}

/// The line on the largest entry, whose temporary memory is what serving takes beside weights and
/// pools.
pub fn largest(programs: &[Program]) -> String {
    let known = programs.iter().map(|program| {
        program.executable.memory_stats().map(|stats| (stats.temp, program.id.as_str()))
    });
    match known.collect::<Option<Vec<_>>>().and_then(|known| known.into_iter().max()) {
        Some((bytes, entry)) => format!(
            "temporary memory of an execution: at most {bytes} bytes ({} MiB), of {entry}",
            bytes / MIB
        ),
        None => "temporary memory of an execution: unknown, the plugin does not tell".to_owned(),
    }
}

/// Copies of less are not told of: they cost little, and much else needs as much.
const LEAST_POOL: usize = MIB;

/// Warns of a program that seems to copy pools although it writes them in place: the same device
/// address proves nothing, temporary memory does. It holds a whole pool then, and is more than what
/// a call may need, which is estimated from above. Weights that are stored the other way round than
/// they are multiplied look the same.
pub fn warn_of_copies(artifact: &Artifact, entry: &Entry, executable: &Executable) {
    let Some(stats) = executable.memory_stats() else { return };
    let Some(pool) = artifact.pools().iter().map(|pool| pool.tensor.bytes()).max() else { return };
    let needed = working_memory(artifact, entry);
    if pool >= LEAST_POOL && stats.temp >= pool && stats.temp > needed {
        warn!(
            "{} needs {} bytes of temporary memory, {} more than its rows take: it copies KV pools \
             (the largest has {pool} bytes) or weights on every run",
            entry.id,
            stats.temp,
            stats.temp - needed
        );
    }
}

/// Bytes that a call may need beside its arguments and results, from above: keys and values (or
/// states) of one layer gathered for every row, scores of all heads twice, activations of the widest
/// projection, and a weight in the format in which it is multiplied.
fn working_memory(artifact: &Artifact, entry: &Entry) -> usize {
    let ring = artifact.windowed().map_or(0, |windowed| windowed.ring_pages);
    let gathered = artifact.pools().iter().map(|pool| {
        let each = widened(&pool.tensor) / pool.tensor.dims().first().copied().unwrap_or(1).max(1);
        match pool.role {
            PoolRole::Kv => 2 * each * entry.columns,
            PoolRole::WindowKv => 2 * each * entry.columns.min(ring),
            // As it was, decayed, its change and as it is.
            PoolRole::State => 4 * each,
        }
    });
    let weights = || artifact.weights().iter().map(|weight| &weight.tensor);
    let narrow = weights().filter(|tensor| tensor.dtype() != DType::F32);
    // Every projection has one of its two features last. What is as long as the vocabulary serves
    // one token of a row.
    let layers = weights().filter(|tensor| !tensor.dims().contains(&artifact.vocab_size()));
    let widest =
        layers.map(|tensor| tensor.elements() / tensor.dims().last().copied().unwrap_or(1).max(1));
    let heads = usize::try_from(artifact.manifest().model.num_heads).unwrap_or(0);
    let scores = 2 * heads * entry.tokens * entry.context;
    let activations = 4 * entry.tokens * widest.max().unwrap_or(0);
    entry.batch * (gathered.max().unwrap_or(0) + size_of::<f32>() * (scores + activations))
        + narrow.map(widened).max().unwrap_or(0)
}

/// Bytes of a tensor, with those of its f32 form where it is not f32.
fn widened(tensor: &Tensor) -> usize {
    let f32s = if tensor.dtype() == DType::F32 { 0 } else { size_of::<f32>() };
    tensor.bytes() + f32s * tensor.elements()
}
