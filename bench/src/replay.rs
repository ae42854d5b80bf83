//! One program in a bare loop: weights mapped, pools donated, step inputs staged, every call awaited
//! and its logits read in place, as in the backend's executor, without a server around it.

use std::fmt;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use serde::Serialize;
use tlaloc_artifact::manifest::MANIFEST_FILE;
use tlaloc_artifact::{Artifact, DType, Entry, EntryKind, InputRole, OutputRole, Tensor};
use tlaloc_pjrt::{
    Argument, Buffer, Client, ClientOptions, CompileCache, ElementType, Executable, MappedFile,
    Plugin, Shape, Staging,
};

use crate::entry;
use crate::error::Error;
use crate::inputs::{ROLES, Rows};
use crate::summary::Summary;

/// Calls before the first that counts: they map the weights' pages and wake the threads.
const WARM_UP: usize = 3;
/// Where decode steps begin, counted back from the end of the context.
const BEFORE_THE_END: usize = 20;

/// What to run.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// The artifact's directory, or its manifest.
    artifact: PathBuf,

    /// The PJRT plugin.
    #[arg(long, value_name = "FILE", env = "TLALOC_PJRT_PLUGIN_PATH")]
    plugin: PathBuf,

    /// Which kind of program.
    #[arg(long, value_enum, default_value_t = Kind::Decode)]
    kind: Kind,

    /// Sequences in each call.
    #[arg(long, value_name = "N", default_value = "1")]
    batch: NonZeroUsize,

    /// Positions that a sequence may attend over.
    #[arg(long, value_name = "C", default_value = "512")]
    context: NonZeroUsize,

    /// Position of a call's first token. Decode steps go on from there to the end of the context,
    /// and over again [default: 20 before the end; for prefill, where its tokens end with the
    /// context].
    #[arg(long)]
    position: Option<usize>,

    /// Calls that count [default: 64, for prefill 5].
    #[arg(long, value_name = "N")]
    steps: Option<NonZeroUsize>,

    /// Keep the compiled program in this folder, or take it from there.
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,

    /// Print one line of JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Kind {
    /// One token of each sequence.
    Decode,
    /// A prompt, or a chunk of one.
    Prefill,
}

/// What a loop saw.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Id of the entry that ran.
    entry: String,
    /// Platform and C API version of the plugin.
    platform: String,
    /// Sequences in a call.
    rows: usize,
    /// Tokens of a sequence in a call.
    tokens: usize,
    /// Position of the first token of the first call.
    position: usize,
    /// Calls that counted.
    steps: usize,
    /// Time of a call, from writing its inputs to having its pools back.
    milliseconds: Summary,
    /// Tokens of all sequences per second, by the median.
    tokens_per_s: f64,
    /// Bytes of all weights, which a decode step reads once. (An embedding table that is not also
    /// the head is counted, although only some of its rows are read.)
    weight_bytes: usize,
    /// `weight_bytes` by the median, in GB/s (10^9 bytes); none of a prefill, which computes more
    /// than it reads.
    gigabytes_per_s: Option<f64>,
    /// Bytes of temporary memory; none where the plugin does not tell.
    temp_bytes: Option<usize>,
}

/// Runs the loop.
pub fn run(options: &Options) -> Result<Report, Error> {
    let artifact = Artifact::open(&manifest(&options.artifact))?;
    let kind = match options.kind {
        Kind::Decode => EntryKind::Decode,
        Kind::Prefill => EntryKind::Prefill,
    };
    let (rows, context) = (options.batch.get(), options.context.get());
    let entry = entry::choose(&artifact, kind, rows, context)?;
    let position = first_position(options, entry)?;
    let steps = options.steps.map_or(if kind == EntryKind::Decode { 64 } else { 5 }, usize::from);

    let plugin = Plugin::load(&options.plugin)?;
    let client = Client::shared(&plugin, 0, &ClientOptions::default())?;
    let mut program = Program::load(&artifact, entry, rows, &client, options.cache.as_deref())?;

    let mut ids: Vec<i32> = (0..).map(|token| token % 97).take(rows * entry.tokens).collect();
    // Every call of a prefill is the same; decode steps go on.
    let positions = position..=context - entry.tokens;
    let mut times = Vec::with_capacity(steps);
    for (step, position) in positions.cycle().take(WARM_UP + steps).enumerate() {
        let (time, next) = program.step(position, &ids)?;
        if kind == EntryKind::Decode {
            ids = next;
        }
        if step >= WARM_UP {
            times.push(time.as_secs_f64() * 1e3);
        }
    }

    let milliseconds = Summary::of(times);
    let seconds = milliseconds.median / 1e3;
    let weight_bytes = artifact.weights().iter().map(|weight| weight.tensor.bytes()).sum();
    let (major, minor) = plugin.api_version();
    Ok(Report {
        entry: entry.id.clone(),
        platform: format!("{}, PJRT C API {major}.{minor}", client.platform_name()),
        rows,
        tokens: entry.tokens,
        position,
        steps,
        milliseconds,
        tokens_per_s: (rows * entry.tokens) as f64 / seconds,
        weight_bytes,
        gigabytes_per_s: (kind == EntryKind::Decode).then(|| weight_bytes as f64 / seconds / 1e9),
        temp_bytes: program.executable.memory_stats().map(|stats| stats.temp),
    })
}

fn manifest(artifact: &Path) -> PathBuf {
    if artifact.is_dir() { artifact.join(MANIFEST_FILE) } else { artifact.to_owned() }
}

fn first_position(options: &Options, entry: &Entry) -> Result<usize, Error> {
    let (context, tokens) = (options.context.get(), entry.tokens);
    // A prefill entry may be made for more tokens than the context asked for has.
    let last = context.saturating_sub(tokens);
    let back = if options.kind == Kind::Decode { BEFORE_THE_END.saturating_sub(1) } else { 0 };
    let position = options.position.unwrap_or(last.saturating_sub(back));
    if position + tokens > context {
        return Err(Error::Position { position, tokens, context, last });
    }
    Ok(position)
}

/// Where an argument comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// An index of [`ROLES`].
    Step(usize),
    /// The next pool.
    Pool,
    /// The next weight.
    Weight,
}

/// A compiled entry with all that its calls need.
struct Program {
    executable: Executable,
    sources: Vec<Source>,
    rows: Rows,
    inputs: Staging,
    weights: Vec<Buffer>,
    pools: Vec<Buffer>,
    /// Output index of each pool.
    pool_outputs: Vec<usize>,
    /// Output index of the logits.
    logits: usize,
    /// Sequences in a call.
    batch: usize,
    vocab_size: usize,
}

impl Program {
    fn load(
        artifact: &Artifact,
        entry: &Entry,
        batch: usize,
        client: &Arc<Client>,
        cache: Option<&Path>,
    ) -> Result<Program, Error> {
        let sources = sources(artifact, entry)?;
        let (pages, page, windowed) =
            (artifact.num_blocks(), artifact.block_size(), artifact.windowed());
        let rows = Rows::new(entry, batch, pages, page, windowed).ok_or_else(|| Error::Pages {
            artifact: artifact.manifest_path().to_owned(),
            rows: batch,
            columns: entry.columns,
            found: artifact.num_blocks().saturating_sub(1),
        })?;
        if let Some(state) = artifact.linear_state()
            && state.num_slots < batch
        {
            return Err(Error::StateSlots {
                artifact: artifact.manifest_path().to_owned(),
                rows: batch,
                found: state.num_slots,
            });
        }
        let executable = compile(artifact, entry, client, cache)?;
        let dims = |role| entry.inputs.iter().find(|input| input.role == role);
        let shapes = ROLES.map(|role| {
            let dims = dims(role).map(|input| signed(&input.tensor)).unwrap_or_default();
            Shape::new(ElementType::I32, &dims)
        });
        let shapes = shapes.into_iter().collect::<Result<Vec<_>, _>>()?;
        let weights = artifact
            .weights()
            .iter()
            .map(|weight| {
                weight.open()?;
                let file = Arc::new(MappedFile::open(&weight.file)?);
                let element_type = element_type(weight.tensor.dtype());
                Ok(client.upload_mapped(&file, element_type, &signed(&weight.tensor))?)
            })
            .collect::<Result<_, Error>>()?;
        let pools = artifact
            .pools()
            .iter()
            .map(|pool| client.zeros(element_type(pool.tensor.dtype()), &signed(&pool.tensor)))
            .collect::<Result<_, _>>()?;
        let logits = entry.outputs.iter().position(|output| output.role == OutputRole::Logits);
        Ok(Program {
            executable,
            sources,
            rows,
            inputs: Staging::new(client, shapes)?,
            weights,
            pools,
            pool_outputs: entry.donations.iter().map(|(_, output)| *output).collect(),
            logits: logits.unwrap_or_default(),
            batch,
            vocab_size: artifact.vocab_size(),
        })
    }

    /// One call; how long it took and the most likely next token of each row, whose search is not
    /// part of the time.
    fn step(&mut self, position: usize, ids: &[i32]) -> Result<(Duration, Vec<i32>), Error> {
        let started = Instant::now();
        fill(&mut self.inputs, &self.rows, position, ids)?;

        let (mut pools, mut weights) = (self.pools.iter_mut(), self.weights.iter());
        let arguments = self.sources.iter().filter_map(|source| match source {
            Source::Step(step) => Some(Argument::Staged(self.inputs.input(*step))),
            Source::Pool => pools.next().map(Argument::Donate),
            Source::Weight => weights.next().map(Argument::Keep),
        });
        let mut pending = self.executable.execute(arguments)?;
        pending.wait()?;
        let logits = pending.take(self.logits);
        for (pool, output) in self.pools.iter_mut().zip(&self.pool_outputs) {
            if let Some(output) = pending.take(*output) {
                *pool = output;
            }
        }
        let time = started.elapsed();

        let bytes = logits.as_ref().map(Buffer::host_bytes).transpose()?.flatten();
        let logits: &[f32] = bytes
            .as_deref()
            .and_then(|bytes| bytemuck::try_cast_slice(bytes).ok())
            .unwrap_or_default();
        Ok((time, logits.chunks(self.vocab_size).take(self.batch).map(largest).collect()))
    }
}

fn sources(artifact: &Artifact, entry: &Entry) -> Result<Vec<Source>, Error> {
    let source = |input: &tlaloc_artifact::Input| match input.role {
        InputRole::Pool(_) => Ok(Source::Pool),
        InputRole::Weight => Ok(Source::Weight),
        role => match ROLES.iter().position(|known| *known == role) {
            Some(step) => Ok(Source::Step(step)),
            None => Err(Error::Input {
                artifact: artifact.manifest_path().to_owned(),
                entry: entry.id.clone(),
                input: input.name.clone(),
                role: role.manifest_name(),
            }),
        },
    };
    entry.inputs.iter().map(source).collect()
}

fn compile(
    artifact: &Artifact,
    entry: &Entry,
    client: &Arc<Client>,
    cache: Option<&Path>,
) -> Result<Executable, Error> {
    let body = artifact.read_body(entry)?;
    let cache = cache
        .map(|folder| {
            CompileCache::open(folder)
                .map_err(|source| Error::Cache { folder: folder.to_owned(), source })
        })
        .transpose()?;
    let kept = cache.as_ref().and_then(|cache| cache.load(client, &body));
    let executable = match kept {
        Some(executable) => executable,
        None => {
            let executable = client.compile(&body)?;
            if let Some(cache) = &cache {
                cache.store(&executable, &body);
            }
            executable
        }
    };
    let (found, expected) = (executable.num_outputs(), entry.outputs.len());
    if found != expected {
        return Err(Error::Outputs { entry: entry.id.clone(), found, expected });
    }
    Ok(executable)
}

/// Index of the first largest logit.
fn largest(logits: &[f32]) -> i32 {
    let mut best = (0, f32::NEG_INFINITY);
    for (index, logit) in (0..).zip(logits) {
        if *logit > best.1 {
            best = (index, *logit);
        }
    }
    best.0
}

fn fill(inputs: &mut Staging, rows: &Rows, position: usize, ids: &[i32]) -> Result<(), Error> {
    let mut inputs = inputs.inputs_mut()?.map(integers);
    rows.write(position, ids, ROLES.map(|_| inputs.next().unwrap_or_default()));
    Ok(())
}

/// Staged memory is aligned for any element.
fn integers(bytes: &mut [u8]) -> &mut [i32] {
    bytemuck::try_cast_slice_mut(bytes).unwrap_or_default()
}

/// Dims as the plugin takes them.
pub fn signed(tensor: &Tensor) -> Vec<i64> {
    tensor.dims().iter().map(|dim| i64::try_from(*dim).unwrap_or(i64::MAX)).collect()
}

/// Both crates know the same types by the names that StableHLO gives them.
pub fn element_type(dtype: DType) -> ElementType {
    let known = ElementType::ALL.iter().find(|known| known.to_string() == dtype.mlir_name());
    known.copied().unwrap_or(ElementType::U8)
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { entry, platform, rows, tokens, position, steps, .. } = self;
        let Summary { min, median, p90, .. } = self.milliseconds;
        writeln!(f, "{entry} on {platform}")?;
        writeln!(f, "{steps} calls of {rows} x {tokens} token(s) from position {position} on")?;
        writeln!(
            f,
            "{median:.2} ms median, {min:.2} min, {p90:.2} p90; {:.1} tokens/s",
            self.tokens_per_s
        )?;
        let megabytes = |bytes: usize| bytes as f64 / 1e6;
        write!(f, "{:.1} MB of weights", megabytes(self.weight_bytes))?;
        if let Some(rate) = self.gigabytes_per_s {
            write!(f, ", {rate:.1} GB/s")?;
        }
        write!(f, "; temporary memory: ")?;
        match self.temp_bytes {
            Some(bytes) => writeln!(f, "{:.1} MB", megabytes(bytes)),
            None => writeln!(f, "not told by the plugin"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_the_largest_logits_is_taken() {
        assert_eq!(largest(&[0.5, 2.0, -1.0, 2.0]), 1);
        assert_eq!(largest(&[-3.0]), 0);
        assert_eq!(largest(&[f32::NAN, 1.0]), 1);
    }

    #[test]
    fn every_element_type_of_an_artifact_is_found() {
        assert_eq!(element_type(DType::Bf16), ElementType::Bf16);
        assert_eq!(element_type(DType::F8E4M3Fn), ElementType::F8E4M3Fn);
        assert_eq!(element_type(DType::Bool), ElementType::Bool);
        assert_eq!(element_type(DType::U64), ElementType::U64);
    }
}
