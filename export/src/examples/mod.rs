//! A model repository of small models of every mode: what a client sends them and sees is known
//! without running them, by closed forms or a few lines of numpy.
//!
//! [`functions`] are served in tensor mode, [`bounded`] in bounded mode; [`reference`] is a language
//! model that its bodies hold, [`window`] one whose checkpoint goes the way of every other.

mod bounded;
mod functions;
mod random;
mod reference;
mod window;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use config_gen::{Mode, ModelName, Options, repository};
use tlaloc_artifact::Artifact;
use tlaloc_artifact::manifest::MANIFEST_FILE;
use tlaloc_artifact::staging::StagedDir;

use crate::Error;

const README: &str = "README.md";

/// What a client sends an example and what it sees, in the words of the repository's README.
struct Line {
    name: &'static str,
    sends: &'static str,
    sees: &'static str,
}

/// Every example, in the order of the README.
const EXAMPLES: &[Line] = &[
    Line {
        name: "matmul_sumsq",
        sends: "`A` FP32 [2,2], as `[[1,2],[3,4]]`",
        sees: "`VALUE` FP32 [1], the sum of all elements of `A A`: 54; `GRAD` FP32 [2,2], its gradient: \
               `[[7,11],[9,13]]`",
    },
    Line {
        name: "dtypes",
        sends: "`X_F64` FP64, `X_BF16` BF16, `X_I32` INT32, [4] each",
        sees: "`Y_F64`, `Y_BF16`, `Y_I32`: `x x + x`; BF16 is rounded after each operation",
    },
    Line {
        name: "dtypes_small",
        sends: "`X_F16` FP16, `X_I8` INT8, `X_U8` UINT8, [4] each",
        sees: "`Y_F16`, `Y_I8`, `Y_U8`: `x x + x`",
    },
    Line {
        name: "integers",
        sends: "`X_I16` INT16, `X_U16` UINT16, `X_U32` UINT32, `X_U64` UINT64, [4] each",
        sees: "`Y_I16`, `Y_U16`, `Y_U32`, `Y_U64`: `x x + x`",
    },
    Line {
        name: "int64_bool",
        sends: "`X` INT64 [4], `B` BOOL [4]",
        sees: "`Y` INT64: `x x + x`; `ABOVE_AND_B` BOOL: `x x > x` and `b`; `NOT_B` BOOL",
    },
    Line {
        name: "buckets",
        sends: "`X` FP32 [4] or [8]",
        sees: "`Y`, of that length: `x x + x`; any other length is refused",
    },
    Line {
        name: "grad_batched",
        sends: "`A` FP32 [n,2,2], n up to 8",
        sees: "`GRAD` FP32 [n,2,2]: of each row the gradient of the sum of all elements of `A A`; \
               concurrent requests share executions",
    },
    Line { name: "grad_unbatched", sends: "the same", sees: "the same; every request runs alone" },
    Line {
        name: "ragged_batched",
        sends: "`X` FP32 [n,4] or [n,8], n up to 8",
        sees: "`Y`, of that shape: `x x + x`; concurrent requests of one width share executions, \
               wherever they stand in a batch",
    },
    Line {
        name: "ragged_consecutive",
        sends: "the same",
        sees: "the same; only neighbours in a batch share executions (`group_by_shape` is false)",
    },
    Line {
        name: "large_io",
        sends: "`X` FP32 [4194304] (16 MiB), in shared memory or not",
        sees: "`Y` FP32 [4194304]: `x x + x`; shared memory is read in place",
    },
    Line {
        name: "large_io_host",
        sends: "the same",
        sees: "the same; shared memory is copied (`zero_copy` is false)",
    },
    Line {
        name: "reference_decode",
        sends: "INT32 `tokenIds` [b,1], `positions` [b,1], `blockTables` [b,m], `seqLens` [b], \
                `slotMapping` [b], for b of 1, 2, 4 and m of 1, 2: the client keeps the KV pages",
        sees: "`logits` FP32 [b,1,11] of each row's token",
    },
    Line {
        name: "reference_sequence",
        sends: "`TOKENS` INT32 [1,n] below 11, with correlation id, START and END; up to 4 a sequence",
        sees: "`LOGITS` FP32 [1,11] of the last token sent, `KV_PAGES` [1,2], `NEXT_TOKEN` [1,1]: the \
               backend keeps the KV pages",
    },
    Line {
        name: "window_sequence",
        sends: "`TOKENS` INT32 [1,n] below 62, with correlation id, START and END; up to 64 a sequence",
        sees: "`LOGITS` FP32 [1,64]; `KV_PAGES` [1,2]: pages of the whole history, and of the ring of at \
               most 3 that layers with a window of 8 tokens keep; 62 and 63 are refused",
    },
    Line {
        name: "window_sequence_full",
        sends: "the same",
        sees: "the same logits; every layer keeps the whole history",
    },
    Line {
        name: "window_sequence_chunked",
        sends: "the same",
        sees: "the same logits; prompts go through in calls of at most 6 tokens, rings have 4 pages",
    },
    Line {
        name: "bounded_mean",
        sends: "`x0` FP32 [n,4], n up to 16",
        sees: "`y0` FP32 [4]: the mean over the n rows",
    },
    Line {
        name: "bounded_softmax",
        sends: "`x0` FP32 [n], n up to 16",
        sees: "`y0` FP32 [n]: its softmax",
    },
];

/// Writes the model repository `out`. Equal versions of this exporter write the same bytes.
///
/// # Errors
/// When something stands at `out` that is no repository of examples, or it cannot be written. `out`
/// is then as it was.
pub fn write(out: &Path) -> Result<(), Error> {
    let staged = StagedDir::create(out, holds_only_examples)?;
    let repository = staged.path();
    functions::write(repository)?;
    reference::write(repository)?;
    window::write(repository)?;
    bounded::write(repository)?;
    write_file(&repository.join(README), readme().as_bytes())?;
    Ok(staged.commit()?)
}

fn holds_only_examples(directory: &Path) -> bool {
    let known = |name: &str| name == README || EXAMPLES.iter().any(|line| line.name == name);
    fs::read_dir(directory).is_ok_and(|mut files| {
        files.all(|file| file.is_ok_and(|file| file.file_name().to_str().is_some_and(known)))
    })
}

fn readme() -> String {
    let mut text = String::from(
        "# Example models\n\n\
         Written by `tlaloc-export examples --out model-repository`. Serve them with \
         `scripts/serve.sh --repository model-repository`.\n\n\
         | model | a client sends | and sees |\n|---|---|---|\n",
    );
    for Line { name, sends, sees } in EXAMPLES {
        let _ = writeln!(text, "| `{name}` | {sends} | {sees} |");
    }
    text
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let unwritable = |source| tlaloc_artifact::Error::Unwritable { path: path.to_owned(), source };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(unwritable)?;
    }
    Ok(fs::write(path, bytes).map_err(unwritable)?)
}

/// A temporary folder beside the repository, so that files can be linked from one to the other.
fn scratch(repository: &Path) -> Result<tempfile::TempDir, Error> {
    let parent = repository.parent().unwrap_or(repository);
    Ok(tempfile::tempdir_in(parent)
        .map_err(|source| tlaloc_artifact::Error::Unwritable { path: parent.to_owned(), source })?)
}

/// Makes the model `name` of a serving artifact.
fn add_model(repository: &Path, artifact: &Path, name: &str, mode: Mode) -> Result<(), Error> {
    let artifact = Artifact::open(&artifact.join(MANIFEST_FILE))?;
    let name: ModelName = name.parse()?;
    let options = Options { mode, ..Options::default() };
    let config = config_gen::config(&artifact, &name, &options)?;
    repository::write(&artifact, None, &name, &config, repository)?;
    Ok(())
}
