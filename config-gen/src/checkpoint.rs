//! The checkpoint that generation mode has tokenizer, chat template and end tokens from.

use std::path::{Path, PathBuf};

use tlaloc_artifact::Artifact;
use tlaloc_generation::checkpoint::{FILES, end_ids};
use tlaloc_generation::text::Tokenizer;

use crate::Error;

/// What generation mode needs of a checkpoint's directory.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    folder: PathBuf,
    files: Vec<PathBuf>,
    tokens: usize,
    end_ids: Vec<i32>,
}

impl Checkpoint {
    /// Reads what it needs; weights need not be there.
    ///
    /// # Errors
    /// [`Error::NoTokenizer`]; [`Error::Tokenizer`] and [`Error::Checkpoint`] when a file is damaged.
    pub fn open(folder: &Path) -> Result<Checkpoint, Error> {
        if !folder.join(Tokenizer::FILE).is_file() {
            return Err(Error::NoTokenizer(folder.to_owned()));
        }
        Ok(Checkpoint {
            folder: folder.to_owned(),
            files: FILES
                .iter()
                .map(|file| folder.join(file))
                .filter(|file| file.is_file())
                .collect(),
            tokens: Tokenizer::load(folder)?.learned_vocab_size(),
            end_ids: end_ids(folder)?,
        })
    }

    /// Its directory.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The files that a model has in its version directory.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// The tokens that end an output.
    pub fn end_ids(&self) -> &[i32] {
        &self.end_ids
    }

    /// Whether the model knows its tokens. Tokens that were added to a tokenizer may lie beyond (some
    /// text models keep those for images); prompts with these are refused one by one.
    pub(crate) fn check(&self, artifact: &Artifact) -> Result<(), Error> {
        let (folder, vocab) = (self.folder.clone(), artifact.vocab_size());
        let model = artifact.model_name().to_owned();
        if self.tokens > vocab {
            return Err(Error::Vocabulary { folder, tokens: self.tokens, model, vocab });
        }
        match self.end_ids.iter().find(|id| usize::try_from(**id).is_ok_and(|id| id >= vocab)) {
            Some(&id) => Err(Error::EndId { folder, id, model, vocab }),
            None => Ok(()),
        }
    }
}
