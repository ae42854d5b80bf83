//! Why a sequence-mode model cannot be served.

use triton_backend::Code;

use crate::language;

/// A failed load or instance creation. The model's name is put in front where it is reported.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// `config.pbtxt` is not one of sequence mode: correct it, or write it with `config-gen`.
    #[error(transparent)]
    Config(#[from] crate::config::Error),
    /// The language model behind it cannot be loaded.
    #[error(transparent)]
    Model(#[from] language::Error),
}

impl Error {
    /// Triton's code for it.
    pub fn code(&self) -> Code {
        match self {
            Error::Config(_) => Code::InvalidArgument,
            Error::Model(error) => error.code(),
        }
    }
}
