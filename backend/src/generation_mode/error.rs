//! Why a generation-mode model cannot be served.

use std::path::PathBuf;

use tlaloc_generation::checkpoint;
use tlaloc_generation::template::TemplateError;
use tlaloc_generation::text::TextError;
use triton_backend::Code;

use super::config;
use crate::language;

/// A failed load or instance creation. The model's name is put in front where it is reported.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A parameter of `config.pbtxt` is wrong: correct it.
    #[error(transparent)]
    Settings(#[from] crate::settings::Error),
    /// `config.pbtxt` is not one of generation mode: correct it, or write it with `config-gen`.
    #[error(transparent)]
    Config(#[from] config::Error),
    /// The language model behind it cannot be loaded.
    #[error(transparent)]
    Model(#[from] language::Error),
    /// The tokenizer in the version directory cannot be used: write the model anew with `config-gen`.
    #[error(transparent)]
    Tokenizer(#[from] TextError),
    /// The chat template there cannot be used: write the model anew with `config-gen`.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// The end tokens there cannot be read: write the model anew with `config-gen`.
    #[error(transparent)]
    Checkpoint(#[from] checkpoint::Error),
    /// Text cannot become tokens: write the model anew with `config-gen --tokenizer`, or declare none.
    #[error(
        "config.pbtxt declares 'text_input', but {directory} has no tokenizer.json; put it there, or \
         leave out what takes and gives text",
        directory = directory.display()
    )]
    NoTokenizer {
        /// The version directory.
        directory: PathBuf,
    },
    /// The model never gives an end token: correct `generation_config.json` or `config.json`.
    #[error(
        "eos_token_id {id} in the version directory is beyond the model's vocabulary of {vocab_size}; \
         these files are another model's"
    )]
    EndId {
        /// The end token.
        id: i32,
        /// Tokens of the model.
        vocab_size: usize,
    },
    /// `speculation` needs entries that verify drafts: export the artifact with `--verify-chunk`.
    #[error(
        "the 'speculation' parameter is prompt_lookup, but the artifact has no verify entries; \
         export it with --verify-chunk, or set none"
    )]
    NoVerifyEntries,
    /// A model with a draft head proposes by itself: set `speculation` to `none`.
    #[error(
        "the 'speculation' parameter is prompt_lookup, but the artifact has a draft head, whose own \
         drafts are verified in every step; set none"
    )]
    OwnDrafts,
    /// Prompts of a model with a draft head need prefill entries, and their drafts positions: export
    /// the artifact with them.
    #[error(
        "the artifact has a draft head of {drafts} draft(s), but no prefill and decode entries that \
         a prompt and its drafts fit into; export it with prefill entries and longer contexts"
    )]
    NoRoomForDrafts {
        /// Drafts of a step.
        drafts: usize,
    },
    /// A recurrent state cannot be rolled back: set `speculation` to `none`.
    #[error(
        "the 'speculation' parameter is prompt_lookup, but the artifact has linear attention, whose \
         state cannot be rolled back; set none"
    )]
    LinearAttention,
}

impl Error {
    /// Triton's code for it.
    pub fn code(&self) -> Code {
        match self {
            Error::Model(error) => error.code(),
            _ => Code::InvalidArgument,
        }
    }
}
