//! `config-gen`: prints a `config.pbtxt`, or writes a model into a model repository.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use config_gen::{Error, InstanceGroup, KvMode, ModelName, Options, SequenceOptions, repository};
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

    /// Who keeps the sequences' KV pages; without effect on bounded artifacts, as are the waits.
    #[arg(long, value_enum, default_value_t = Mode::Sequence)]
    kv_mode: Mode,

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
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Mode {
    /// The backend keeps them; a request is one step of a sequence.
    Sequence,
    /// The client keeps them; a request fills block tables itself.
    Client,
}

impl Arguments {
    fn options(&self) -> Result<Options, clap::Error> {
        let kv_mode = match self.kv_mode {
            Mode::Sequence => KvMode::Sequence(SequenceOptions {
                max_sequence_idle: self
                    .max_sequence_idle
                    .unwrap_or(SequenceOptions::MAX_SEQUENCE_IDLE),
                max_queue_delay: self.max_queue_delay.unwrap_or(SequenceOptions::MAX_QUEUE_DELAY),
                decoupled: self.decoupled,
            }),
            Mode::Client => {
                let sequence_only = [
                    ("--max-sequence-idle", self.max_sequence_idle.is_some()),
                    ("--max-queue-delay", self.max_queue_delay.is_some()),
                    ("--decoupled", self.decoupled),
                ];
                if let Some((option, _)) = sequence_only.iter().find(|(_, given)| *given) {
                    return Err(clap::Error::raw(
                        clap::error::ErrorKind::ArgumentConflict,
                        format!("{option} belongs to --kv-mode sequence; leave it out\n"),
                    ));
                }
                KvMode::Client
            }
        };
        Ok(Options { kv_mode, instance_group: self.instance_group.clone() })
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
        Source::Serving(artifact) => repository::write(artifact, &name, &config, directory)?,
        Source::Bounded(artifact) => {
            repository::write_bounded(artifact, &name, &config, directory)?
        }
    };
    Ok(format!("{}\n", model.display()))
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let options = arguments.options().unwrap_or_else(|error| error.exit());
    match run(&arguments, &options) {
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
