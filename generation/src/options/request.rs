//! A checked request.

use std::time::Duration;

use super::error::Error;
use super::key::LogProbabilities;
use super::model::ModelFacts;
use super::parse;
use super::reply::{Reply, Wants};
use super::value::Given;
use crate::sampler::Sampling;
use crate::template::Messages;

/// Tokens generated when `max_tokens` is absent, if the context has room for them.
pub const DEFAULT_MAX_TOKENS: usize = 16;

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

/// A request that is being read: what its keys said so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Draft {
    pub(super) options: GenerationOptions,
    pub(super) text: Option<String>,
    pub(super) ids: Option<Vec<i32>>,
    pub(super) messages: Option<Messages>,
    pub(super) input_length: Option<i128>,
    pub(super) temperature: Option<f32>,
    pub(super) end_id: Option<i32>,
    pub(super) ignore_eos: bool,
    pub(super) logprobs: Option<LogProbabilities>,
    pub(super) top_logprobs: Option<usize>,
    pub(super) return_num_input_tokens: Option<bool>,
    pub(super) return_num_output_tokens: Option<bool>,
    pub(super) return_finish_reason: Option<bool>,
    pub(super) return_stop_reason: Option<bool>,
    pub(super) return_logprobs: Option<bool>,
    pub(super) return_cumulative_logprob: bool,
    pub(super) return_log_probs: bool,
    pub(super) return_perf_metrics: bool,
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

impl Draft {
    fn finish(mut self, model: &ModelFacts) -> Result<GenerationRequest, Error> {
        let prompt = self.prompt(model)?;
        self.check_text(model)?;
        self.check_end()?;
        let reported = self.log_probabilities()?;
        self.check_temperature(model)?;
        if model.greedy_only {
            self.check_greedy()?;
        }
        let mut wants = Wants::default();
        wants.add(model.has_tokenizer, &[Reply::TextOutput]);
        wants.add(true, &[Reply::OutputIds]);
        let unless = |flag: Option<bool>| flag.unwrap_or(true);
        wants.add(unless(self.return_finish_reason), &[Reply::FinishReason]);
        wants.add(unless(self.return_stop_reason), &[Reply::StopReason]);
        wants.add(unless(self.return_num_input_tokens), &[Reply::NumInputTokens]);
        wants.add(unless(self.return_num_output_tokens), &[Reply::NumOutputTokens]);
        wants.add(reported, &[Reply::Logprobs]);
        wants.add(self.return_cumulative_logprob, &[Reply::CumulativeLogprob]);
        wants.add(self.return_log_probs, &[Reply::CumLogProbs, Reply::OutputLogProbs]);
        wants.add(
            self.return_perf_metrics,
            &[
                Reply::ArrivalTimeNs,
                Reply::FirstScheduledTimeNs,
                Reply::FirstTokenTimeNs,
                Reply::LastTokenTimeNs,
                Reply::TotalDraftTokens,
                Reply::TotalAcceptedDraftTokens,
                Reply::AcceptanceRate,
            ],
        );
        Ok(GenerationRequest { prompt, options: self.options, wants })
    }

    /// The one prompt.
    fn prompt(&mut self, model: &ModelFacts) -> Result<Prompt, Error> {
        let expected = match (model.has_tokenizer, model.has_chat_template) {
            (true, true) => "'text_input', 'input_ids' and 'messages'",
            (true, false) => "'text_input' and 'input_ids'",
            (false, _) => "'input_ids'",
        };
        let prompts = [
            ("text_input", self.text.take().map(Prompt::Text)),
            ("input_ids", self.ids.take().map(Prompt::Ids)),
            ("messages", self.messages.take().map(Prompt::Messages)),
        ];
        let mut found: Option<(&'static str, Prompt)> = None;
        for (key, prompt) in prompts {
            let Some(prompt) = prompt else { continue };
            if let Some((first, _)) = found {
                return Err(Error::SeveralPrompts { first, second: key });
            }
            found = Some((key, prompt));
        }
        let (key, prompt) = found.ok_or(Error::NoPrompt { expected })?;
        let unserved = |reason| Error::Model { key, found: shown(&prompt), reason };
        match &prompt {
            Prompt::Text(_) | Prompt::Messages(_) if !model.has_tokenizer => {
                return Err(unserved("it has no tokenizer; send 'input_ids'"));
            }
            Prompt::Messages(_) if !model.has_chat_template => {
                return Err(unserved("it has no chat template; send 'text_input'"));
            }
            _ => {}
        }
        if let Some(length) = self.input_length {
            let tokens = match &prompt {
                Prompt::Ids(ids) => ids.len().to_string(),
                _ => "absent".to_owned(),
            };
            if length.to_string() != tokens {
                return Err(Error::Combination {
                    first: "input_lengths",
                    first_value: length.to_string(),
                    second: "elements of 'input_ids",
                    second_value: tokens,
                    reason: "they must be equal; leave 'input_lengths' out",
                });
            }
        }
        Ok(prompt)
    }

    /// Text needs a tokenizer.
    fn check_text(&self, model: &ModelFacts) -> Result<(), Error> {
        if model.has_tokenizer {
            return Ok(());
        }
        for (key, strings, reason) in [
            ("stop", &self.options.stop, "it has no tokenizer; send 'stop_token_ids'"),
            ("bad_words", &self.options.bad_words, "it has no tokenizer; send 'logit_bias'"),
        ] {
            if !strings.is_empty() {
                return Err(Error::Model { key, found: format!("{strings:?}"), reason });
            }
        }
        Ok(())
    }

    /// What ends the output.
    fn check_end(&mut self) -> Result<(), Error> {
        let options = &mut self.options;
        options.end_id = match (self.ignore_eos, self.end_id) {
            (true, Some(id)) if id >= 0 => {
                return Err(Error::Combination {
                    first: "ignore_eos",
                    first_value: "true".to_owned(),
                    second: "end_id",
                    second_value: id.to_string(),
                    reason: "one ignores the end token that the other one names; send one of them",
                });
            }
            (true, _) => EndId::None,
            (false, None) => EndId::Model,
            (false, Some(id)) if id < 0 => EndId::None,
            (false, Some(id)) => EndId::Only(id),
        };
        let most = options.max_tokens.unwrap_or(DEFAULT_MAX_TOKENS);
        if options.min_tokens > most {
            return Err(Error::Combination {
                first: "min_tokens",
                first_value: options.min_tokens.to_string(),
                second: "max_tokens",
                second_value: most.to_string(),
                reason: "the least must not exceed the most; lower 'min_tokens' or raise \
                         'max_tokens'",
            });
        }
        Ok(())
    }

    /// Fills `options.logprobs`, and says whether they are reported.
    fn log_probabilities(&mut self) -> Result<bool, Error> {
        let top = self.top_logprobs;
        let asked = match self.logprobs {
            Some(LogProbabilities::Top(count)) => {
                if let Some(top) = top.filter(|top| *top != count) {
                    return Err(Error::Combination {
                        first: "logprobs",
                        first_value: count.to_string(),
                        second: "top_logprobs",
                        second_value: top.to_string(),
                        reason: "they count the same; send one of them, or 'logprobs' = true with \
                                 'top_logprobs'",
                    });
                }
                Some(count)
            }
            Some(LogProbabilities::Wanted(true)) => Some(top.unwrap_or(0)),
            wanted => {
                if let Some(top) = top {
                    return Err(Error::Combination {
                        first: "top_logprobs",
                        first_value: top.to_string(),
                        second: "logprobs",
                        second_value: wanted.map_or("absent", |_| "false").to_owned(),
                        reason: "alternatives are part of the log-probabilities; send 'logprobs' = \
                                 true too",
                    });
                }
                None
            }
        };
        if let (Some(count), Some(false)) = (asked, self.return_logprobs) {
            return Err(Error::Combination {
                first: "logprobs",
                first_value: count.to_string(),
                second: "return_logprobs",
                second_value: "false".to_owned(),
                reason: "one asks for what the other one leaves out; send one of them",
            });
        }
        let reported = asked.is_some() || self.return_logprobs == Some(true);
        let summed = self.return_cumulative_logprob || self.return_log_probs;
        self.options.logprobs = asked.or((reported || summed).then_some(0));
        Ok(reported)
    }

    /// Fills `options.temperature`: a model that only chooses greedily does so by default.
    fn check_temperature(&mut self, model: &ModelFacts) -> Result<(), Error> {
        let default = if model.greedy_only { 0.0 } else { self.options.temperature };
        self.options.temperature = self.temperature.unwrap_or(default);
        Ok(())
    }

    /// Nothing that needs logits on the host, or changes them.
    fn check_greedy(&self) -> Result<(), Error> {
        let plain = GenerationOptions { temperature: 0.0, ..GenerationOptions::default() };
        let options = &self.options;
        let changed: [(&'static str, bool, String); 11] = [
            ("temperature", options.temperature != 0.0, options.temperature.to_string()),
            (
                "repetition_penalty",
                options.repetition_penalty != plain.repetition_penalty,
                options.repetition_penalty.to_string(),
            ),
            (
                "presence_penalty",
                options.presence_penalty != plain.presence_penalty,
                options.presence_penalty.to_string(),
            ),
            (
                "frequency_penalty",
                options.frequency_penalty != plain.frequency_penalty,
                options.frequency_penalty.to_string(),
            ),
            ("min_tokens", options.min_tokens > 0, options.min_tokens.to_string()),
            ("bad_words", !options.bad_words.is_empty(), format!("{:?}", options.bad_words)),
            (
                "allowed_token_ids",
                options.allowed_token_ids.is_some(),
                format!("{:?}", options.allowed_token_ids.as_deref().unwrap_or_default()),
            ),
            ("logit_bias", !options.logit_bias.is_empty(), format!("{:?}", options.logit_bias)),
            (
                "return_cumulative_logprob",
                self.return_cumulative_logprob,
                self.return_cumulative_logprob.to_string(),
            ),
            ("return_log_probs", self.return_log_probs, self.return_log_probs.to_string()),
            (
                "logprobs",
                options.logprobs.is_some(),
                options.logprobs.unwrap_or_default().to_string(),
            ),
        ];
        match changed.into_iter().find(|(_, changed, _)| *changed) {
            None => Ok(()),
            Some((key, _, found)) => Err(Error::Model {
                key,
                found,
                reason: "its programs choose the tokens themselves, always the most probable one; \
                         leave it out",
            }),
        }
    }
}

/// A prompt for a message.
fn shown(prompt: &Prompt) -> String {
    match prompt {
        Prompt::Text(text) => super::value::Value::text(text.as_str()).to_string(),
        Prompt::Ids(ids) => format!("{} ids", ids.len()),
        Prompt::Messages(messages) => super::value::Value::text(messages.to_json()).to_string(),
    }
}
