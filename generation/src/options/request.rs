//! A checked request.

use std::time::Duration;

use super::error::Error;
use super::model::ModelFacts;
use super::parse;
use super::reply::Wants;
use super::value::Given;
use crate::sampler::Sampling;
use crate::template::Messages;

/// Tokens generated when `max_tokens` is absent, if the context has room for them.
pub const DEFAULT_MAX_TOKENS: usize = 16;

/// The temperature of the most probable token.
pub(super) const GREEDY: f32 = 0.0;

/// One request: everything in it is inside its range, and no combination of it is unsupported.
#[derive(Clone, Debug, PartialEq)]
pub struct GenerationRequest {
    /// What to continue.
    pub prompt: Prompt,
    /// How.
    pub options: GenerationOptions,
    /// What to send back.
    pub wants: Wants,
}

/// What to continue. It may still have no token, or too many: see [`GenerationOptions::max_tokens_after`].
#[derive(Clone, Debug, PartialEq)]
pub enum Prompt {
    /// Text, to be tokenised.
    Text(String),
    /// Token ids below the model's vocabulary size.
    Ids(Vec<i32>),
    /// A conversation, for the chat template.
    Messages(Messages),
}

/// Which token ends generation besides stop tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EndId {
    /// The model's end tokens.
    #[default]
    Model,
    /// This one alone.
    Only(i32),
    /// None.
    None,
}

/// How tokens are chosen and when they end. The defaults are those of [`TABLE`](super::TABLE).
#[derive(Clone, Debug, PartialEq)]
pub struct GenerationOptions {
    /// Tokens to generate, at least 1; none: [`DEFAULT_MAX_TOKENS`], or fewer if the context ends.
    pub max_tokens: Option<usize>,
    /// Tokens before which neither the end token nor a stop token is chosen.
    pub min_tokens: usize,
    /// Divides the logits; 0 chooses the largest one.
    pub temperature: f32,
    /// How many of the most probable tokens are kept; none: all. May exceed the vocabulary.
    pub top_k: Option<usize>,
    /// Share of the probability that is kept, above 0; 1: all.
    pub top_p: f32,
    /// Tokens less probable than this share of the most probable one are dropped; 0: none.
    pub min_p: f32,
    /// Divides or multiplies the logits of tokens of the prompt and the output; 1: unchanged.
    pub repetition_penalty: f32,
    /// Subtracted from the logits of tokens of the output.
    pub presence_penalty: f32,
    /// Subtracted from the logits of tokens of the output, once for each time.
    pub frequency_penalty: f32,
    /// Seed of the random stream; none: the server draws one.
    pub seed: Option<u64>,
    /// Strings that end the output; none is empty.
    pub stop: Vec<String>,
    /// Whether the stop string that ended the output stands in it.
    pub include_stop_str_in_output: bool,
    /// Tokens that end the output.
    pub stop_token_ids: Vec<i32>,
    /// Which token ends the output besides these.
    pub end_id: EndId,
    /// Strings whose tokens are never chosen in a row; none is empty.
    pub bad_words: Vec<String>,
    /// Tokens that may be chosen; none: all.
    pub allowed_token_ids: Option<Vec<i32>>,
    /// What is added to the logits of tokens: each token once, in ascending order.
    pub logit_bias: Vec<(i32, f32)>,
    /// Log-probabilities: none, or of the chosen token and of this many most probable ones.
    pub logprobs: Option<usize>,
    /// Whether special tokens are left out of the text.
    pub skip_special_tokens: bool,
    /// Whether a text prompt is given the special tokens that the tokenizer adds.
    pub add_special_tokens: bool,
    /// Whether the output begins after the prompt.
    pub exclude_input_in_output: bool,
    /// Whether each piece of the output is sent as soon as it is there; else one response has all.
    pub stream: bool,
    /// 1 is served first, larger ones later, 0 after all of these.
    pub priority: u64,
    /// How long the request may take from its arrival to its end.
    pub timeout: Option<Duration>,
}

impl Default for GenerationOptions {
    fn default() -> Self {
        GenerationOptions {
            max_tokens: None,
            min_tokens: 0,
            temperature: 1.0,
            top_k: None,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            seed: None,
            stop: Vec::new(),
            include_stop_str_in_output: false,
            stop_token_ids: Vec::new(),
            end_id: EndId::Model,
            bad_words: Vec::new(),
            allowed_token_ids: None,
            logit_bias: Vec::new(),
            logprobs: None,
            skip_special_tokens: true,
            add_special_tokens: true,
            exclude_input_in_output: true,
            stream: false,
            priority: 0,
            timeout: None,
        }
    }
}

impl GenerationOptions {
    /// Tokens to generate after a prompt of `tokens` tokens. The last one needs no place in the
    /// context, as nothing follows it.
    ///
    /// # Errors
    /// [`Error::EmptyPrompt`], [`Error::PromptTooLong`], [`Error::NoRoom`] and
    /// [`Error::NoRoomForLeast`].
    pub fn max_tokens_after(&self, tokens: usize, model: &ModelFacts) -> Result<usize, Error> {
        let max_context = model.max_context;
        if tokens == 0 {
            return Err(Error::EmptyPrompt { max_context });
        }
        let Some(free) = max_context.checked_sub(tokens) else {
            return Err(Error::PromptTooLong { tokens, max_context });
        };
        let room = free + 1;
        let most = match self.max_tokens {
            Some(max_tokens) if max_tokens > room => {
                return Err(Error::NoRoom { max_tokens, tokens, max_context, most: room });
            }
            Some(max_tokens) => max_tokens,
            None => DEFAULT_MAX_TOKENS.min(room),
        };
        if self.min_tokens > most {
            return Err(Error::NoRoomForLeast { min_tokens: self.min_tokens, tokens, most });
        }
        Ok(most)
    }

    /// The end tokens, if those of the model are `model`. Stop tokens are not among them.
    pub fn end_ids(&self, model: &[i32]) -> Vec<i32> {
        match self.end_id {
            EndId::Model => model.to_vec(),
            EndId::Only(id) => vec![id],
            EndId::None => Vec::new(),
        }
    }

    /// What the sampler needs: `seed` is the request's or the one that the server drew, `bad_words`
    /// are the tokens of each, and `end_ids` those of [`end_ids`](Self::end_ids).
    pub fn sampling(&self, seed: u64, bad_words: Vec<Vec<i32>>, end_ids: &[i32]) -> Sampling {
        Sampling {
            temperature: self.temperature.into(),
            top_k: self.top_k.unwrap_or(0),
            top_p: self.top_p.into(),
            min_p: self.min_p.into(),
            repetition_penalty: self.repetition_penalty.into(),
            presence_penalty: self.presence_penalty.into(),
            frequency_penalty: self.frequency_penalty.into(),
            seed,
            bad_words,
            allowed: self.allowed_token_ids.clone(),
            logit_bias: self.logit_bias.clone(),
            min_tokens: self.min_tokens,
            stop_ids: [end_ids, &self.stop_token_ids].concat(),
            logprobs: self.logprobs,
        }
    }
}

impl GenerationRequest {
    /// Reads what was `given`, in any order. Values without elements count as absent.
    ///
    /// # Errors
    /// The first thing that is wrong: keys one by one, then their combinations.
    pub fn read(given: &[Given], model: &ModelFacts) -> Result<GenerationRequest, Error> {
        parse::read(given, model)?.finish(model)
    }

    /// Whether a tensor of `shape` is one row.
    ///
    /// # Errors
    /// [`Error::Rows`] when it has several.
    pub fn check_one_row(key: &str, shape: &[i64]) -> Result<(), Error> {
        match shape.split_last() {
            Some((_, rows)) if rows.iter().any(|&dim| dim > 1) => {
                Err(Error::Rows { key: key.to_owned(), shape: shape.to_vec() })
            }
            _ => Ok(()),
        }
    }
}
