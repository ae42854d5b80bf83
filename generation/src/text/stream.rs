//! The text of one reply while its tokens come.

use std::sync::Arc;

use super::decoder::State;
use super::stops::StopStrings;
use super::{TextError, Tokenizer, unfinished};

/// Turns the tokens of one reply into text.
///
/// Every piece is complete UTF-8. Together the pieces are what [`Tokenizer::decode`] makes of all
/// tokens, up to the stop string that ends the reply. What a later token may still change is held
/// back: the bytes of a character that is not complete, and the beginning of a stop string. With a
/// byte-fallback vocabulary (Llama 2, Gemma) that is a whole run of byte tokens, since the library
/// replaces all of its characters if one byte is wrong.
#[derive(Debug)]
pub struct Stream {
    tokenizer: Arc<Tokenizer>,
    state: State,
    skip_special_tokens: bool,
    stops: StopStrings,
    last: Option<i32>,
    decoded: String,
    text: String,
}

/// What a token adds to the text of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece<'s> {
    /// May be empty.
    pub text: &'s str,
    /// The place, in the request's list, of the stop string that ends the reply here.
    pub stop: Option<usize>,
}

impl Stream {
    /// For a reply that has no token yet.
    pub fn new(tokenizer: Arc<Tokenizer>, skip_special_tokens: bool, stops: StopStrings) -> Stream {
        let state = tokenizer.decoder.start();
        Stream {
            tokenizer,
            state,
            skip_special_tokens,
            stops,
            last: None,
            decoded: String::new(),
            text: String::new(),
        }
    }

    /// Takes in the next token. With `may_end` false (before `min_tokens`) a stop string that it
    /// completes does not count. After a stop string there is no more text.
    pub fn push(&mut self, token: i32, may_end: bool) -> Result<Piece<'_>, TextError> {
        self.last = Some(token);
        self.decoded.clear();
        let Stream { tokenizer, state, decoded, .. } = self;
        tokenizer.decode_next(state, token, self.skip_special_tokens, decoded)?;
        self.text.clear();
        let stop = self.stops.push(&self.decoded, may_end, &mut self.text);
        Ok(Piece { text: &self.text, stop })
    }

    /// What was held back: no more tokens come. A stop string may be complete only now, by a
    /// character that waited for others.
    pub fn finish(&mut self, may_end: bool) -> Result<Piece<'_>, TextError> {
        self.decoded.clear();
        let last = self.last.take();
        let finished = self.state.finish(&mut self.decoded);
        finished.map_err(|reason| unfinished(last.as_ref(), reason))?;
        self.text.clear();
        let stop = self.stops.push(&self.decoded, may_end, &mut self.text);
        self.stops.finish(&mut self.text);
        Ok(Piece { text: &self.text, stop })
    }
}
