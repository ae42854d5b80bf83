//! One program in a bare loop: weights mapped, pools donated, step inputs staged, every call awaited
//! and its logits read in place, as in the backend's executor, without a server around it.

use std::fmt;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde::Serialize;
use tlaloc_artifact::manifest::MANIFEST_FILE;
use tlaloc_artifact::{Artifact, Entry, EntryKind};
use tlaloc_pjrt::{Client, ClientOptions, Plugin};

use crate::entry;
use crate::error::Error;
use crate::program::{Model, Program};
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

    /// Tokens of a sequence in each call of a prefill [default: as many as the artifact's prefill
    /// calls and the context can have].
    #[arg(long, value_name = "T")]
    tokens: Option<NonZeroUsize>,

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
    let tokens = options.tokens.map(usize::from);
    let entry = entry::choose(&artifact, kind, rows, context, tokens)?;
    let position = first_position(options, entry)?;
    let steps = options.steps.map_or(if kind == EntryKind::Decode { 64 } else { 5 }, usize::from);

    let plugin = Plugin::load(&options.plugin)?;
    let client = Client::shared(&plugin, 0, &ClientOptions::default())?;
    let mut program = Program::load(&artifact, entry, rows, &client, options.cache.as_deref())?;
    let mut model = Model::load(&artifact, &client)?;

    let mut ids: Vec<i32> = (0..).map(|token| token % 97).take(rows * entry.tokens).collect();
    // Every call of a prefill is the same; decode steps go on.
    let positions = position..=context - entry.tokens;
    let mut times = Vec::with_capacity(steps);
    for (step, position) in positions.cycle().take(WARM_UP + steps).enumerate() {
        let (time, next) = program.step(&mut model, position, rows, &ids)?;
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
        temp_bytes: program.temp_bytes(),
    })
}

/// The manifest of an artifact that is named by it or by its directory.
pub fn manifest(artifact: &Path) -> PathBuf {
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
