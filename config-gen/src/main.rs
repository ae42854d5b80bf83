//! `config-gen`: prints a `config.pbtxt`, or writes a model into a model repository.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use config_gen::{
    Checkpoint, Dialect, Error, GenerateOptions, InstanceGroup, Mode, ModelName, Options, Policy,
    SchedulerOptions, SequenceOptions, Speculation, repository,
};
use tlaloc_artifact::Artifact;
use tlaloc_artifact::bounded::BoundedArtifact;
use tlaloc_artifact::bounded::manifest::MANIFEST_FILE as BOUNDED_FILE;
use tlaloc_artifact::manifest::MANIFEST_FILE;

/// Makes a Triton model of a serving artifact or a bounded one.
///
/// Without --repository, prints the model's config.pbtxt. With it, writes DIR/NAME/config.pbtxt and
/// DIR/NAME/1/ (hard links to the artifact's files where possible, else copies); a model of that name
/// is replaced whole, or left as it was if anything fails.
#[derive(Parser)]
#[command(name = "config-gen", version)]
struct Arguments {
    /// The artifact's directory, or its manifest.
    artifact: PathBuf,

    /// The model repository to write the model to.
    #[arg(long, value_name = "DIR")]
    repository: Option<PathBuf>,

    /// The model's name [default: from the artifact's model name].
    #[arg(long)]
    name: Option<ModelName>,

    /// What a request is; without effect on bounded artifacts, as are the modes' own options.
    #[arg(long, visible_alias = "kv-mode", value_enum, default_value_t = ModeName::Sequence)]
    mode: ModeName,

    /// Microseconds after which Triton ends a silent sequence (sequence mode only) [default:
    /// 60000000].
    #[arg(long, value_name = "US", value_parser = clap::value_parser!(u64).range(1..))]
    max_sequence_idle: Option<u64>,

    /// Microseconds that Triton holds requests back to form a batch (sequence mode only) [default:
    /// 0, as the backend forms batches itself].
    #[arg(long, value_name = "US")]
    max_queue_delay: Option<u64>,

    /// Where instances run: `model` (fits machines with and without GPUs), `cpu`, or `gpu:` and GPU
    /// numbers, as in gpu:0,1.
    #[arg(long, value_name = "GROUP", default_value = "model")]
    instance_group: InstanceGroup,

    /// Let a request have several responses (speculative artifacts in sequence mode only).
    #[arg(long)]
    decoupled: bool,

    /// The checkpoint's directory, for tokenizer, chat template and end tokens (generation mode only)
    /// [default: none, prompts and outputs are token ids].
    #[arg(long, value_name = "DIR")]
    tokenizer: Option<PathBuf>,

    /// Shapes of the tensors (generation mode only) [default: trtllm].
    #[arg(long, value_enum)]
    dialect: Option<DialectName>,

    /// Requests that may wait; others are refused (generation mode only, as all that follow; defaults
    /// are the backend's).
    #[arg(long, value_name = "REQUESTS", value_parser = clap::value_parser!(u32).range(1..))]
    max_queue_size: Option<u32>,

    /// Requests that run at once.
    #[arg(long, value_name = "REQUESTS", value_parser = clap::value_parser!(u32).range(1..))]
    max_running: Option<u32>,

    /// Prompt tokens that are taken in between two tokens of the running streams.
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u32).range(1..))]
    max_prefill_tokens_per_step: Option<u32>,

    /// What a request reserves.
    #[arg(long, value_enum)]
    batch_scheduler_policy: Option<PolicyName>,

    /// MiB of host memory for the KV pages of preempted requests; 0: they are computed again.
    #[arg(long, value_name = "MIB")]
    swap_space_mib: Option<u32>,

    /// Whether tokens are drafted and verified several at once; needs an artifact with verify entries.
    #[arg(long, value_enum)]
    speculation: Option<SpeculationName>,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum ModeName {
    /// One step of a sequence, whose KV pages the backend keeps.
    Sequence,
    /// One execution: the client keeps the KV pages and fills block tables itself.
    Client,
    /// A prompt, which the backend continues.
    Generate,
}

#[derive(Clone, Copy, ValueEnum)]
enum DialectName {
    /// As TensorRT-LLM has them: a batch dimension of 1 in front.
    Trtllm,
    /// As vLLM has them: without one.
    Vllm,
}

#[derive(Clone, Copy, ValueEnum)]
#[value(rename_all = "snake_case")]
enum PolicyName {
    /// All KV pages that it may come to need.
    GuaranteedNoEvict,
    /// A page more than its prompt has; it grows, and may be preempted.
    MaxUtilization,
}

#[derive(Clone, Copy, ValueEnum)]
#[value(rename_all = "snake_case")]
enum SpeculationName {
    /// They are not.
    None,
    /// From a request's own history.
    PromptLookup,
}

/// Why the options cannot be used.
enum Refusal {
    /// Some cannot be combined.
    Usage(clap::Error),
    /// The checkpoint cannot be served from.
    Other(Error),
}

impl Arguments {
    fn options(&self) -> Result<Options, Refusal> {
        let of_one_mode = [
            (ModeName::Sequence, "--max-sequence-idle", self.max_sequence_idle.is_some()),
            (ModeName::Sequence, "--max-queue-delay", self.max_queue_delay.is_some()),
            (ModeName::Sequence, "--decoupled", self.decoupled),
            (ModeName::Generate, "--tokenizer", self.tokenizer.is_some()),
            (ModeName::Generate, "--dialect", self.dialect.is_some()),
            (ModeName::Generate, "--max-queue-size", self.max_queue_size.is_some()),
            (ModeName::Generate, "--max-running", self.max_running.is_some()),
            (
                ModeName::Generate,
                "--max-prefill-tokens-per-step",
                self.max_prefill_tokens_per_step.is_some(),
            ),
            (ModeName::Generate, "--batch-scheduler-policy", self.batch_scheduler_policy.is_some()),
            (ModeName::Generate, "--swap-space-mib", self.swap_space_mib.is_some()),
            (ModeName::Generate, "--speculation", self.speculation.is_some()),
        ];
        let foreign = |(mode, _, given): &&(ModeName, &str, bool)| *given && *mode != self.mode;
        if let Some((mode, option, _)) = of_one_mode.iter().find(foreign) {
            let mode = if *mode == ModeName::Sequence { "sequence" } else { "generate" };
            return Err(Refusal::Usage(clap::Error::raw(
                clap::error::ErrorKind::ArgumentConflict,
                format!("{option} belongs to --mode {mode}; leave it out\n"),
            )));
        }
        let mode = match self.mode {
            ModeName::Sequence => Mode::Sequence(SequenceOptions {
                max_sequence_idle: self
                    .max_sequence_idle
                    .unwrap_or(SequenceOptions::MAX_SEQUENCE_IDLE),
                max_queue_delay: self.max_queue_delay.unwrap_or(SequenceOptions::MAX_QUEUE_DELAY),
                decoupled: self.decoupled,
            }),
            ModeName::Client => Mode::Client,
            ModeName::Generate => Mode::Generate(GenerateOptions {
                checkpoint: self.tokenizer.as_deref().map(Checkpoint::open).transpose()?,
                dialect: match self.dialect {
                    None | Some(DialectName::Trtllm) => Dialect::TrtLlm,
                    Some(DialectName::Vllm) => Dialect::Vllm,
                },
                scheduler: self.scheduler(),
            }),
        };
        Ok(Options { mode, instance_group: self.instance_group.clone() })
    }

    fn scheduler(&self) -> SchedulerOptions {
        SchedulerOptions {
            max_queue_size: self.max_queue_size,
            max_running: self.max_running,
            max_prefill_tokens_per_step: self.max_prefill_tokens_per_step,
            policy: self.batch_scheduler_policy.map(|policy| match policy {
                PolicyName::GuaranteedNoEvict => Policy::GuaranteedNoEvict,
                PolicyName::MaxUtilization => Policy::MaxUtilization,
            }),
            swap_space_mib: self.swap_space_mib,
            speculation: self.speculation.map(|speculation| match speculation {
                SpeculationName::None => Speculation::None,
                SpeculationName::PromptLookup => Speculation::PromptLookup,
            }),
        }
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Refusal::Other(error)
    }
}

/// What is served.
enum Source {
    Serving(Box<Artifact>),
    Bounded(BoundedArtifact),
}

impl Source {
    /// Opens an artifact by its directory or its manifest, which tell of which kind it is.
    fn open(path: &Path) -> Result<Self, Error> {
        let holds = |file: &str| path.join(file).exists();
        let bounded = match path.is_dir() {
            true if !holds(MANIFEST_FILE) && !holds(BOUNDED_FILE) => {
                return Err(Error::NoArtifact(path.to_owned()));
            }
            true => !holds(MANIFEST_FILE),
            false => path.file_name().is_some_and(|name| name == BOUNDED_FILE),
        };
        let manifest = |file: &str| if path.is_dir() { path.join(file) } else { path.to_owned() };
        Ok(match bounded {
            true => Source::Bounded(BoundedArtifact::open(&manifest(BOUNDED_FILE))?),
            false => Source::Serving(Box::new(Artifact::open(&manifest(MANIFEST_FILE))?)),
        })
    }
}

fn run(arguments: &Arguments, options: &Options) -> Result<String, Error> {
    let source = Source::open(&arguments.artifact)?;
    let name = match (&arguments.name, &source) {
        (Some(name), _) => name.clone(),
        (None, Source::Serving(artifact)) => ModelName::derived(artifact.model_name())?,
        (None, Source::Bounded(artifact)) => ModelName::derived(&artifact.name)?,
    };
    let config = match &source {
        Source::Serving(artifact) => config_gen::config(artifact, &name, options)?,
        Source::Bounded(artifact) => {
            config_gen::bounded_config(artifact, &name, &options.instance_group)?
        }
    };
    let Some(directory) = &arguments.repository else { return Ok(config) };
    let model = match &source {
        Source::Serving(artifact) => {
            let checkpoint = match &options.mode {
                Mode::Generate(generate) => generate.checkpoint.as_ref(),
                _ => None,
            };
            repository::write(artifact, checkpoint, &name, &config, directory)?
        }
        Source::Bounded(artifact) => {
            repository::write_bounded(artifact, &name, &config, directory)?
        }
    };
    Ok(format!("{}\n", model.display()))
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let written = match arguments.options() {
        Ok(options) => run(&arguments, &options),
        Err(Refusal::Usage(error)) => error.exit(),
        Err(Refusal::Other(error)) => Err(error),
    };
    match written {
        // A reader that went away is no reason to panic, as `print!` would.
        Ok(output) => match std::io::stdout().write_all(output.as_bytes()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        },
        Err(error) => {
            eprintln!("config-gen: {error}");
            ExitCode::FAILURE
        }
    }
}
