//! Why no model can be made of an artifact.

use std::io;
use std::path::PathBuf;

use tlaloc_artifact::bounded::manifest::MANIFEST_FILE as BOUNDED_FILE;
use tlaloc_artifact::manifest::MANIFEST_FILE;
use tlaloc_generation::text::TextError;

/// A refusal or failure of the generator.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The artifact cannot be read, or the model directory cannot be written: see the message's
    /// path.
    #[error(transparent)]
    Artifact(#[from] tlaloc_artifact::Error),
    /// The folder holds no manifest: give that of an artifact.
    #[error(
        "{}: holds neither {MANIFEST_FILE} nor {BOUNDED_FILE}, so it is no artifact; tlaloc-export \
         makes one of a checkpoint",
        .0.display()
    )]
    NoArtifact(PathBuf),
    /// The name cannot name a Triton model: give another one with `--name`.
    #[error(
        "model name '{0}' must be letters, digits, '_', '-' and '.', and must not begin with '-' or \
         '.'; choose another one with --name"
    )]
    Name(String),
    /// The instance group is none of those known: give one of them.
    #[error(
        "instance group '{0}' must be 'model', 'cpu' or 'gpu:' with different GPU numbers, as in \
         gpu:0,1"
    )]
    InstanceGroup(String),
    /// Only speculative models stream several responses to a request: leave `--decoupled` out.
    #[error(
        "--decoupled serves only speculative artifacts (tlaloc-serving-v5), but '{model}' is \
         {version}; leave it out"
    )]
    Decoupled {
        /// Model name of the artifact.
        model: String,
        /// Its manifest version.
        version: &'static str,
    },
    /// The artifact's entries do not share one binding of arguments: serve it in sequence mode.
    #[error("'{model}' cannot be served in client mode: {reason}; use --mode sequence")]
    Client {
        /// Model name of the artifact.
        model: String,
        /// What stands in the way.
        reason: String,
    },
    /// The folder has no tokenizer: give a checkpoint's, or leave it out to serve token ids alone.
    #[error(
        "{}: has no tokenizer.json; give the checkpoint's directory, or leave --tokenizer out to serve \
         token ids alone", .0.display()
    )]
    NoTokenizer(PathBuf),
    /// The tokenizer cannot be read: take it from the checkpoint again.
    #[error(transparent)]
    Tokenizer(#[from] TextError),
    /// Another file of the checkpoint cannot be read: take it from the checkpoint again.
    #[error(transparent)]
    Checkpoint(#[from] tlaloc_generation::checkpoint::Error),
    /// The tokenizer makes tokens that the model does not have: give that of the model's own
    /// checkpoint.
    #[error(
        "{}: the tokenizer has {tokens} tokens, but '{model}' knows {vocab}; give the directory of \
         the checkpoint that the artifact was made of", folder.display()
    )]
    Vocabulary {
        /// The checkpoint.
        folder: PathBuf,
        /// Tokens of its tokenizer, without added ones.
        tokens: usize,
        /// Model name of the artifact.
        model: String,
        /// Its vocabulary size.
        vocab: usize,
    },
    /// An end token is none of the model: give the directory of the model's own checkpoint.
    #[error(
        "{}: the end token {id} is not below the {vocab} tokens that '{model}' knows; give the \
         directory of the checkpoint that the artifact was made of", folder.display()
    )]
    EndId {
        /// The checkpoint.
        folder: PathBuf,
        /// The token.
        id: i32,
        /// Model name of the artifact.
        model: String,
        /// Its vocabulary size.
        vocab: usize,
    },
    /// The artifact cannot verify drafts: export it with `--verify-chunk`, or leave the option out.
    #[error("--speculation prompt_lookup cannot be served with '{model}': {reason}")]
    Speculation {
        /// Model name of the artifact.
        model: String,
        /// What stands in the way.
        reason: &'static str,
    },
    /// The configuration of a Triton model cannot express the program, or the backend cannot serve it:
    /// export it with other outputs or inputs.
    #[error("the bounded program '{program}' cannot be served: {reason}")]
    Bounded {
        /// Name of the program.
        program: String,
        /// What stands in the way.
        reason: String,
    },
    /// A file of the artifact could not be linked or copied: check that it is a readable file, space
    /// and permissions.
    #[error("{}: cannot be placed at {}: {source}", from.display(), to.display())]
    Place {
        /// The artifact's file.
        from: PathBuf,
        /// Its place in the model directory being built.
        to: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}
