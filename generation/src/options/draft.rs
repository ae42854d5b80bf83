//! A request that is being read, and the checks of its keys together.

use super::error::Error;
use super::key::LogProbabilities;
use super::model::ModelFacts;
use super::reply::{Reply, Wants};
use super::request::{
    DEFAULT_MAX_TOKENS, EndId, GREEDY, GenerationOptions, GenerationRequest, Prompt,
};
use super::value::{Value, short};
use crate::template::Messages;

/// What the keys said so far.
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

impl Draft {
    /// The request, if its keys go together.
    pub(super) fn finish(mut self, model: &ModelFacts) -> Result<GenerationRequest, Error> {
        let prompt = self.prompt(model)?;
        self.check_text(model)?;
        self.check_end()?;
        let reported = self.log_probabilities()?;
        // A model that only chooses greedily does so by default.
        let default = if model.greedy_only { GREEDY } else { self.options.temperature };
        self.options.temperature = self.temperature.unwrap_or(default);
        if model.greedy_only {
            self.check_greedy()?;
        }
        // They are searched for every token.
        sort_once(&mut self.options.stop_token_ids);
        self.options.allowed_token_ids.as_mut().map(sort_once);
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
            let ids = match &prompt {
                Prompt::Ids(ids) => Some(ids.len()),
                _ => None,
            };
            if ids.map(|ids| ids as i128) != Some(length) {
                return Err(Error::Combination {
                    first: "input_lengths",
                    first_value: length.to_string(),
                    second: "input_ids",
                    second_value: ids.map_or("absent".to_owned(), |ids| format!("{ids} ids")),
                    reason: "one counts the other; leave 'input_lengths' out",
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
                let found = short(format!("{strings:?}"));
                return Err(Error::Model { key, found, reason });
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

    /// Nothing that needs logits on the host, or changes them.
    fn check_greedy(&self) -> Result<(), Error> {
        let plain = GenerationOptions { temperature: 0.0, ..GenerationOptions::default() };
        let options = &self.options;
        let return_logprobs = self.return_logprobs == Some(true);
        let changed: [(&'static str, bool, String); 12] = [
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
            ("return_logprobs", return_logprobs, return_logprobs.to_string()),
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
                found: short(found),
                reason: "its programs choose the tokens themselves, always the most probable one; \
                         leave it out",
            }),
        }
    }
}

/// Sorts ids, and leaves each there once.
fn sort_once(ids: &mut Vec<i32>) {
    ids.sort_unstable();
    ids.dedup();
}

/// A prompt for a message.
fn shown(prompt: &Prompt) -> String {
    match prompt {
        Prompt::Text(text) => Value::text(text.as_str()).to_string(),
        Prompt::Ids(ids) => format!("{} ids", ids.len()),
        Prompt::Messages(messages) => Value::text(messages.to_json()).to_string(),
    }
}
