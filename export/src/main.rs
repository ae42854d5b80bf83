//! `tlaloc-export`: checkpoint in, serving artifact out.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{ArgAction, Args, Parser, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use tlaloc_artifact::Artifact;
use tlaloc_artifact::manifest::MANIFEST_FILE;
use tlaloc_export::inspect::Summary;
use tlaloc_export::plan::{KvDType, PlanOptions};
use tlaloc_export::quantise::WeightQuant;
use tlaloc_export::slots::{WeightDType, WeightLayout};
use tlaloc_export::{Error, ExportOptions, Progress, examples, export};

/// Writes serving artifacts from Hugging Face checkpoints
#[derive(Parser)]
#[command(version, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    export: Option<ExportArgs>,
}

#[derive(Subcommand)]
enum Command {
    /// Print what an artifact serves and the memory it takes
    Inspect {
        /// Artifact folder
        artifact: PathBuf,
    },
    /// Write a model repository of small examples of every mode
    Examples {
        /// Model repository to write; one that holds nothing but examples is replaced
        #[arg(long, value_name = "REPOSITORY")]
        out: PathBuf,
    },
}

#[derive(Args)]
struct ExportArgs {
    /// Checkpoint folder: config.json and .safetensors files
    checkpoint: PathBuf,

    /// Artifact folder to write; an artifact that is there already is replaced
    #[arg(long, value_name = "ARTIFACT")]
    out: PathBuf,

    /// Model name in the manifest [default: repository id in the Hugging Face cache, else folder name]
    #[arg(long)]
    name: Option<String>,

    /// Contexts of the entries, in tokens [default: 128,512,2048 as far as the model reaches]
    #[arg(long, value_delimiter = ',', value_name = "TOKENS")]
    contexts: Vec<usize>,

    /// Batch sizes of decode entries
    #[arg(long, value_delimiter = ',', value_name = "ROWS", default_value = "1")]
    batches: Vec<usize>,

    /// Batch sizes of prefill entries [default: those of decode]
    #[arg(long, value_delimiter = ',', value_name = "ROWS")]
    prefill_batches: Option<Vec<usize>>,

    /// Most tokens of a row in one prefill call; each smaller size besides gives the buckets another
    /// entry, for shorter prompts [default: the entry's whole context]
    #[arg(long, value_delimiter = ',', value_name = "TOKENS")]
    prefill_chunk: Vec<usize>,

    /// Adds entries that verify this many drafts of a row in one call, for speculation in generation
    /// mode [default: none]
    #[arg(long, value_name = "DRAFTS")]
    verify_chunk: Option<usize>,

    /// Tokens of a KV page
    #[arg(long, value_name = "TOKENS", default_value_t = PlanOptions::DEFAULT_BLOCK_SIZE)]
    block_size: usize,

    /// Pages of a KV pool, page 0 (never used) included [default: room for the largest batch at the
    /// largest context]
    #[arg(long, value_name = "PAGES")]
    num_blocks: Option<usize>,

    /// Whether layers with a sliding window keep only a ring of pages a sequence, with room for one
    /// window and one call of --prefill-chunk tokens, instead of its whole history
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set)]
    windowed_kv: bool,
    /// Element type of the KV pools
    #[arg(long, value_enum, default_value_t)]
    kv_dtype: KvDType,

    /// State slots of models with linear attention: a sequence takes one, and with --draft-tokens two
    /// more than those
    #[arg(long, value_name = "SLOTS", default_value_t = PlanOptions::DEFAULT_STATE_SLOTS)]
    state_slots: usize,

    /// Tokens that the checkpoint's draft head (Qwen 3.5's MTP) proposes in each step, which the next
    /// step verifies: greedy decoding of several tokens a step [default: 0, the head is left out]
    #[arg(long, value_name = "TOKENS", default_value_t = 0, hide_default_value = true)]
    draft_tokens: usize,

    /// Element type of embedding, projections and head
    #[arg(long, value_enum, default_value_t)]
    weight_dtype: WeightDType,

    /// Quantise the layers' projections, with a scale for each output channel; embedding, norms and
    /// head keep their type [default: not quantised]
    #[arg(long, value_enum, value_name = "FORMAT")]
    weight_quant: Option<WeightQuant>,

    /// Order of a projection's dimensions in its file
    #[arg(long, value_enum, default_value_t)]
    weight_layout: WeightLayout,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match (cli.command, cli.export) {
        (Some(Command::Inspect { artifact }), _) => print_summary(&artifact),
        (Some(Command::Examples { out }), _) => examples::write(&out),
        (None, Some(args)) => run_export(args),
        (None, None) => Ok(()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tlaloc-export: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run_export(args: ExportArgs) -> Result<(), Error> {
    let options = ExportOptions {
        name: args.name,
        plan: PlanOptions {
            contexts: args.contexts,
            batches: args.batches,
            prefill_batches: args.prefill_batches,
            prefill_chunks: args.prefill_chunk,
            verify_chunk: args.verify_chunk,
            block_size: args.block_size,
            num_blocks: args.num_blocks,
            windowed_kv: args.windowed_kv,
            kv_dtype: args.kv_dtype,
            state_slots: args.state_slots,
            draft_tokens: args.draft_tokens,
        },
        weight_dtype: args.weight_dtype,
        weight_layout: args.weight_layout,
        weight_quant: args.weight_quant,
    };
    let mut bar = Bar(ProgressBar::hidden());
    export(&args.checkpoint, &args.out, &options, &mut bar)?;
    bar.0.finish_and_clear();
    print_summary(&args.out)
}

fn print_summary(artifact: &Path) -> Result<(), Error> {
    print!("{}", Summary(&Artifact::open(&artifact.join(MANIFEST_FILE))?));
    Ok(())
}

/// A progress bar on standard error, which shows nothing when that is not a terminal.
struct Bar(ProgressBar);

impl Progress for Bar {
    fn start(&mut self, total: u64) {
        let layout = "{bar:30} {bytes}/{total_bytes} {bytes_per_sec}, {eta} left: {msg}";
        self.0 = ProgressBar::new(total);
        if let Ok(style) = ProgressStyle::with_template(layout) {
            self.0.set_style(style);
        }
    }

    fn weight(&mut self, slot: &str) {
        self.0.set_message(slot.to_owned());
    }

    fn advance(&mut self, bytes: u64) {
        self.0.inc(bytes);
    }
}
