//! Text of a request: prompt to tokens, and tokens to text while they come.

mod byte_level;
mod decoder;
mod merges;
mod stops;
mod stream;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tokenizers::Tokenizer as Library;

use decoder::Decoder;
pub use stops::StopStrings;
pub use stream::{Piece, Stream};

/// What is wrong with a checkpoint's tokenizer, or with what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum TextError {
    /// There is no such file, or it cannot be read.
    #[error("cannot read the tokenizer {path}: {source}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The file is not a `tokenizer.json`.
    #[error("{path} is no tokenizer of Hugging Face's tokenizers library: {reason}")]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What the library says.
        reason: String,
    },
    /// Its text cannot be told before the last token is known.
    #[error(
        "{path} decodes with {decoder}, whose text cannot be streamed; use the model with \
         input_ids and output_ids, without a tokenizer"
    )]
    NoStream {
        /// The file.
        path: PathBuf,
        /// The decoder that is in the way.
        decoder: String,
    },
    /// More text than the model's context can hold. Turning it into tokens would take seconds.
    #[error(
        "the text has {bytes} bytes; a context of {max_context} tokens holds {limit} at most; \
         shorten it"
    )]
    TooLong {
        /// Of the text.
        bytes: usize,
        /// Of the model, in tokens.
        max_context: usize,
        /// [`Tokenizer::most_bytes`] of the context.
        limit: usize,
    },
    /// A text that the tokenizer gives up on.
    #[error("the text cannot be turned into tokens: {reason}")]
    Encode {
        /// What the library says.
        reason: String,
    },
    /// A token that the decoder gives up on.
    #[error("token {token} cannot be turned into text: {reason}")]
    Decode {
        /// The token.
        token: i32,
        /// What the library says.
        reason: String,
    },
}

/// The tokenizer of a checkpoint.
#[derive(Debug)]
pub struct Tokenizer {
    library: Library,
    decoder: Decoder,
    vocab_size: usize,
    /// Bytes of the longest token's name, which are at least those of its text.
    longest: usize,
}

impl Tokenizer {
    /// The name that checkpoints give the file.
    pub const FILE: &str = "tokenizer.json";

    /// Reads `tokenizer.json` of a folder.
    pub fn load(folder: &Path) -> Result<Tokenizer, TextError> {
        let path = folder.join(Tokenizer::FILE);
        match fs::read(&path) {
            Ok(bytes) => Tokenizer::parse(&bytes, &path),
            Err(source) => Err(TextError::Unreadable { path, source }),
        }
    }

    /// From the file's content; `path` is what errors call it.
    pub fn parse(bytes: &[u8], path: &Path) -> Result<Tokenizer, TextError> {
        let invalid = |reason: String| TextError::Invalid { path: path.into(), reason };
        // The library panics on what is no JSON.
        let json: serde_json::Value =
            serde_json::from_slice(bytes).map_err(|error| invalid(error.to_string()))?;
        merges::check(&json["model"]).map_err(invalid)?;
        let mut library: Library =
            serde_json::from_value(json).map_err(|error| invalid(error.to_string()))?;
        // Some checkpoints were saved with them; a prompt is taken as it is.
        library.with_truncation(None).map_err(|error| invalid(error.to_string()))?;
        library.with_padding(None);
        let decoder = Decoder::of(library.get_decoder())
            .map_err(|decoder| TextError::NoStream { path: path.into(), decoder })?;
        let vocabulary = library.get_vocab(true);
        let largest = vocabulary.values().copied().max().unwrap_or_default();
        if i32::try_from(largest).is_err() {
            return Err(invalid(format!("it has the token id {largest}, above {}", i32::MAX)));
        }
        let vocab_size = if vocabulary.is_empty() { 0 } else { largest as usize + 1 };
        let longest = vocabulary.keys().map(String::len).max().unwrap_or_default();
        Ok(Tokenizer { library, decoder, vocab_size, longest })
    }

    /// One more than the largest token id.
    pub fn vocab_size(&self) -> usize {
        self.vocab_size
    }

    /// How many bytes a text may have that becomes so many tokens. Normalisation that makes a text
    /// shorter is allowed for, up to a quarter of it.
    pub fn most_bytes(&self, tokens: usize) -> usize {
        tokens.saturating_mul(self.longest).saturating_mul(4)
    }

    /// [`Tokenizer::encode`] for a model whose context has room for `max_context` tokens: refuses
    /// without looking what is too long in any case. What it lets through may still be too long.
    pub fn encode_prompt(
        &self,
        text: &str,
        add_special_tokens: bool,
        max_context: usize,
    ) -> Result<Vec<i32>, TextError> {
        let (bytes, limit) = (text.len(), self.most_bytes(max_context));
        if bytes > limit {
            return Err(TextError::TooLong { bytes, max_context, limit });
        }
        self.encode(text, add_special_tokens)
    }

    /// How many tokens it has without those that were added to it, whose ids come first.
    pub fn learned_vocab_size(&self) -> usize {
        self.library.get_vocab_size(false)
    }

    /// The tokens of a text. Special tokens that the text spells out become those tokens;
    /// `add_special_tokens` says whether those come with it that the model expects around a text
    /// (a rendered chat template has them already).
    pub fn encode(&self, text: &str, add_special_tokens: bool) -> Result<Vec<i32>, TextError> {
        let encoding = self
            .library
            .encode_fast(text, add_special_tokens)
            .map_err(|error| TextError::Encode { reason: error.to_string() })?;
        Ok(encoding.get_ids().iter().map(|&id| id as i32).collect())
    }

    /// The token sequences of a text that a reply may not hold, as vLLM takes them: at the start of
    /// a text, and after a space where that makes the first token another one and no more of them.
    /// Spaces before it do not count, unless there is nothing else.
    pub fn encode_bad_word(&self, word: &str) -> Result<Vec<Vec<i32>>, TextError> {
        let word = match word.trim_start_matches(' ') {
            "" => word,
            word => word,
        };
        let first = self.encode(word, false)?;
        let spaced = self.encode(&format!(" {word}"), false)?;
        let differs = spaced.first() != first.first() && spaced.len() == first.len();
        let spaced = differs.then_some(spaced);
        Ok([first].into_iter().chain(spaced).filter(|ids| !ids.is_empty()).collect())
    }

    /// The text of tokens. Ids that the tokenizer does not know have none.
    pub fn decode(&self, tokens: &[i32], skip_special_tokens: bool) -> Result<String, TextError> {
        let mut state = self.decoder.start();
        let mut text = String::new();
        for &token in tokens {
            self.decode_next(&mut state, token, skip_special_tokens, &mut text)?;
        }
        state.finish(&mut text).map_err(|reason| unfinished(tokens.last(), reason))?;
        Ok(text)
    }

    /// Adds the text that is certain after one more token.
    fn decode_next(
        &self,
        state: &mut decoder::State,
        token: i32,
        skip_special_tokens: bool,
        text: &mut String,
    ) -> Result<(), TextError> {
        let id = u32::try_from(token).ok();
        let Some(name) = id.and_then(|id| self.library.id_to_token(id)) else { return Ok(()) };
        if skip_special_tokens && self.library.get_added_vocabulary().is_special_token(&name) {
            return Ok(());
        }
        state.push(name, text).map_err(|reason| TextError::Decode { token, reason })
    }
}

fn unfinished(last: Option<&i32>, reason: String) -> TextError {
    TextError::Decode { token: last.copied().unwrap_or_default(), reason }
}
