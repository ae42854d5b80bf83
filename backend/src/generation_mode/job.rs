//! One request in flight: what it has generated, and what of it its client has not seen yet.

use std::fmt::Write as _;
use std::sync::Arc;

use tlaloc_engine::Nanos;
use tlaloc_generation::options::{GenerationOptions, Reply};
use tlaloc_generation::sampler::{Logprob, SampleError, Sampler, Sampling, Scratch};
use tlaloc_generation::text::{Stream, TextError};
use tlaloc_pjrt::Client;
use triton_backend::{Answered, Error, Instance, ResponseStream, Times, now_ns};

use super::GenerationModel;
use super::reply;

/// A checked request.
pub struct Plan {
    /// The tokens to go on from.
    pub prompt: Vec<i32>,
    /// The prompt as text, if the output begins with it.
    pub prompt_text: Option<String>,
    /// The prompt as tokens, if the output begins with it.
    pub prompt_ids: Option<Vec<i32>>,
    /// Most tokens to generate.
    pub max_tokens: usize,
    /// The tokens that end the output silently.
    pub end_ids: Vec<i32>,
    /// How tokens are chosen.
    pub sampling: Sampling,
    /// Indices of the declared outputs that are sent.
    pub outputs: Vec<usize>,
    /// How long it may take.
    pub timeout: Option<Nanos>,
    /// When it arrived.
    pub at: Nanos,
    /// What else it said.
    pub options: GenerationOptions,
}

/// A request in flight. Dropped, it is answered with an error.
pub struct Job {
    stream: ResponseStream,
    model: Arc<GenerationModel>,
    sampler: Sampler,
    text: Option<Stream>,
    end_ids: Vec<i32>,
    options: GenerationOptions,
    outputs: Vec<usize>,
    timeout: Option<Nanos>,
    delta: Delta,
    finish: Option<Finish>,
    /// It is being ended for its client, or for this error.
    pub cancelled: bool,
    broken: Option<Error>,
    progress: Progress,
}

/// What was generated since the last response.
#[derive(Default)]
pub struct Delta {
    /// Text, as far as it is certain.
    pub text: String,
    /// Tokens that begin the first response, and those generated.
    pub ids: Vec<i32>,
    /// How many of them were generated.
    pub generated: usize,
    /// Log-probabilities of the generated ones, where they are asked for.
    pub logprobs: Vec<f32>,
    /// JSON objects about them, separated by commas.
    pub logprobs_json: String,
}

/// Why a request has no next token, and ends.
#[derive(Debug, thiserror::Error)]
pub enum NoToken {
    /// None can be chosen.
    #[error(transparent)]
    Sample(#[from] SampleError),
    /// The model's programs chose none, as there is no largest logit.
    #[error("the model's logits are not finite: its programs chose no token")]
    NotFinite,
    /// It has no text.
    #[error(transparent)]
    Text(#[from] TextError),
}

/// Why a request is done.
pub struct Finish {
    /// `finish_reason`.
    pub reason: &'static str,
    /// `stop_reason`.
    pub stop_reason: String,
}

/// What a response says of the whole request.
#[derive(Clone, Copy, Default)]
pub struct Progress {
    /// Tokens of the prompt.
    pub prompt: usize,
    /// Tokens generated.
    pub generated: usize,
    /// Sum of the log-probabilities of the chosen tokens.
    pub cumulative_logprob: f64,
    /// Drafts verified.
    pub drafts: usize,
    /// Drafts that were right.
    pub accepted: usize,
    /// Arrival.
    pub arrival: Nanos,
    /// Begin of its first call; 0: none yet.
    pub first_scheduled: Nanos,
    /// When its first token was chosen; 0: none yet.
    pub first_token: Nanos,
    /// When its last token was chosen.
    pub last_token: Nanos,
    /// End of its last call.
    pub computed: Nanos,
}

impl Job {
    /// A job for a checked request.
    pub fn new(
        model: &Arc<GenerationModel>,
        plan: Plan,
        stream: ResponseStream,
    ) -> (Job, Vec<i32>) {
        let Plan { prompt, prompt_text, prompt_ids, end_ids, sampling, outputs, .. } = plan;
        let Plan { timeout, at, options, .. } = plan;
        let wants_text = outputs.iter().any(|index| {
            let output = model.config.outputs.get(*index);
            output.is_some_and(|output| output.reply == Reply::TextOutput)
        });
        // Stop strings end the tokens, too.
        let words = model.words.as_ref().filter(|_| wants_text || !options.stop.is_empty());
        let text = words.map(|words| words.stream(&options));
        let job = Job {
            stream,
            model: model.clone(),
            sampler: Sampler::new(sampling, &prompt, plan.max_tokens),
            text,
            end_ids,
            outputs,
            timeout,
            delta: Delta {
                text: prompt_text.unwrap_or_default(),
                ids: prompt_ids.unwrap_or_default(),
                ..Delta::default()
            },
            finish: None,
            cancelled: false,
            broken: None,
            progress: Progress { prompt: prompt.len(), arrival: at, ..Progress::default() },
            options,
        };
        (job, prompt)
    }

    /// 1 is served first, larger ones later, 0 last.
    pub fn priority(&self) -> u64 {
        self.options.priority
    }

    /// When it ends wherever it is.
    pub fn deadline(&self) -> Option<Nanos> {
        self.timeout.map(|timeout| self.progress.arrival.saturating_add(timeout))
    }

    /// When it arrived.
    pub fn arrival(&self) -> Nanos {
        self.progress.arrival
    }

    /// Whether its client has gone.
    pub fn is_abandoned(&self) -> bool {
        self.stream.is_cancelled()
    }

    /// Notes a call that it took part in.
    pub fn ran(&mut self, start: Nanos, end: Nanos) {
        if self.progress.first_scheduled == 0 {
            self.progress.first_scheduled = start;
        }
        self.progress.computed = end;
    }

    /// Notes drafts of a verify call, and how many of them were right.
    pub fn drafted(&mut self, drafts: usize, accepted: usize) {
        self.progress.drafts += drafts;
        self.progress.accepted += accepted;
    }

    /// Chooses the next token from a row of logits; with `last` it is the last one. Afterwards
    /// [`Job::is_finished`] tells whether there are more.
    ///
    /// # Errors
    /// Why none can be chosen.
    pub fn choose(
        &mut self,
        row: &[u8],
        last: bool,
        now: Nanos,
        scratch: &mut Scratch,
    ) -> Result<i32, NoToken> {
        let choice = self.sampler.sample_bytes(row, scratch)?;
        let token = choice.token;
        if let Some(chosen) = choice.logprob {
            self.delta.logprobs.push(chosen.logprob as f32);
            self.progress.cumulative_logprob += chosen.logprob;
            if self.sends(Reply::Logprobs) {
                let words = self.model.words.as_ref();
                let decode = |token| words.map_or(String::new(), |words| words.decode_one(token));
                write_logprobs(&mut self.delta.logprobs_json, chosen, choice.top, decode);
            }
        }
        self.take(token, last, now)?;
        Ok(token)
    }

    /// Takes the next token, as [`Job::choose`] does with the one that it chose.
    ///
    /// # Errors
    /// Why it has no text.
    pub fn take(&mut self, token: i32, last: bool, now: Nanos) -> Result<(), NoToken> {
        self.delta.ids.push(token);
        self.delta.generated += 1;
        self.progress.generated += 1;
        if self.progress.first_token == 0 {
            self.progress.first_token = now;
        }
        self.progress.last_token = now;
        self.finish = self.end_of(token, last)?;
        Ok(())
    }

    /// Takes the token's text in, and says whether the output ends with it.
    fn end_of(&mut self, token: i32, last: bool) -> Result<Option<Finish>, TextError> {
        let may_end = self.progress.generated >= self.options.min_tokens;
        let ends = self.end_ids.contains(&token);
        let stops = ends || self.options.stop_token_ids.contains(&token);
        let text = &mut self.delta.text;
        let mut found = None;
        if let Some(stream) = &mut self.text {
            // The token that ends an output is not part of its text.
            if !stops || self.options.include_stop_str_in_output {
                let piece = stream.push(token, may_end)?;
                text.push_str(piece.text);
                found = piece.stop;
            }
            if found.is_none() && (stops || last) {
                let piece = stream.finish(may_end)?;
                text.push_str(piece.text);
                found = piece.stop;
            }
        }
        let finish = |reason, stop_reason| Some(Finish { reason, stop_reason });
        Ok(if stops {
            finish("stop", if ends { String::new() } else { token.to_string() })
        } else if let Some(found) = found {
            finish("stop", self.options.stop.get(found).cloned().unwrap_or_default())
        } else if last {
            finish("length", String::new())
        } else {
            None
        })
    }

    /// Whether the output has ended.
    pub fn is_finished(&self) -> bool {
        self.finish.is_some()
    }

    /// Why it has ended.
    pub fn finish_reason(&self) -> Option<&'static str> {
        self.finish.as_ref().map(|finish| finish.reason)
    }

    /// When its last token was chosen; 0: none yet.
    pub fn last_token(&self) -> Nanos {
        self.progress.last_token
    }

    /// Tokens generated so far.
    pub fn generated(&self) -> usize {
        self.progress.generated
    }

    fn sends(&self, reply: Reply) -> bool {
        let outputs = &self.model.config.outputs;
        self.outputs.iter().any(|index| outputs.get(*index).is_some_and(|o| o.reply == reply))
    }

    /// Sends what there is, if the client wants pieces. Text that is not certain yet waits, and the
    /// tokens with it. False where Triton does not take it: the request is to be cancelled.
    pub fn send(&mut self, client: &Client) -> bool {
        if !self.options.stream || (self.delta.text.is_empty() && self.sends(Reply::TextOutput)) {
            return true;
        }
        let outputs = self.outputs.iter().filter_map(|index| self.model.config.outputs.get(*index));
        let (delta, progress) = (&self.delta, &self.progress);
        let sent = self
            .stream
            .respond(|response| reply::fill(response, outputs, delta, progress, None, client));
        self.delta.clear();
        self.broken = sent.err();
        self.broken.is_none()
    }

    /// Sends the last response.
    pub fn finish(self, reports: &Instance, client: &Client) {
        let Job { stream, model, outputs, delta, finish, progress, .. } = self;
        let outputs = outputs.iter().filter_map(|index| model.config.outputs.get(*index));
        let answered = stream.finish(|response| {
            reply::fill(response, outputs, &delta, &progress, finish.as_ref(), client)
        });
        report(answered, &progress, reports);
    }

    /// Ends it with an error.
    pub fn fail(self, error: Error, reports: &Instance) {
        let error = self.broken.unwrap_or(error);
        report(self.stream.fail(error), &self.progress, reports);
    }
}

impl Delta {
    fn clear(&mut self) {
        self.text.clear();
        self.ids.clear();
        self.generated = 0;
        self.logprobs.clear();
        self.logprobs_json.clear();
    }
}

/// Counts the request in the instance's statistics and releases it.
fn report(answered: Answered, progress: &Progress, reports: &Instance) {
    let start = progress.arrival;
    let compute_start = progress.first_scheduled.max(start);
    let compute_end = progress.computed.max(compute_start);
    answered.report(reports, Times { start, compute_start, compute_end, end: now_ns() });
}

/// Appends the object of one token, as vLLM has it: by token id, the chosen token first.
fn write_logprobs(
    json: &mut String,
    chosen: Logprob,
    top: &[Logprob],
    decode: impl Fn(i32) -> String,
) {
    json.push_str(if json.is_empty() { "{" } else { ", {" });
    let others = top.iter().filter(|other| other.token != chosen.token);
    for (index, Logprob { token, logprob, rank }) in [&chosen].into_iter().chain(others).enumerate()
    {
        let comma = if index > 0 { ", " } else { "" };
        let text = serde_json::Value::from(decode(*token));
        // Writing to a string does not fail.
        let _ = write!(
            json,
            "{comma}\"{token}\": {{\"logprob\": {logprob:?}, \"rank\": {rank}, \
             \"decoded_token\": {text}}}"
        );
    }
    json.push('}');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_probabilities_are_json_of_each_token_once() {
        let logprob = |token, logprob, rank| Logprob { token, logprob, rank };
        let mut json = String::new();
        let decode = |token: i32| format!("<{token}\"");
        let top = [logprob(7, -0.25, 1), logprob(3, -2.0, 2)];
        write_logprobs(&mut json, logprob(3, -2.0, 2), &top, decode);
        write_logprobs(&mut json, logprob(7, -0.5, 1), &[], decode);
        let read: serde_json::Value = serde_json::from_str(&format!("[{json}]")).unwrap();
        let expected = serde_json::json!([
            {
                "3": {"logprob": -2.0, "rank": 2, "decoded_token": "<3\""},
                "7": {"logprob": -0.25, "rank": 1, "decoded_token": "<7\""}
            },
            {"7": {"logprob": -0.5, "rank": 1, "decoded_token": "<7\""}}
        ]);
        assert_eq!(read, expected);
    }
}
