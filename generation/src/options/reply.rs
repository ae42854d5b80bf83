//! The outputs of a response.

use super::key::{DataType, TensorSpec};

/// An output of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "REPLIES says what each is")]
pub enum Reply {
    TextOutput,
    OutputIds,
    FinishReason,
    StopReason,
    NumInputTokens,
    NumOutputTokens,
    Logprobs,
    CumulativeLogprob,
    CumLogProbs,
    OutputLogProbs,
    ArrivalTimeNs,
    FirstScheduledTimeNs,
    FirstTokenTimeNs,
    LastTokenTimeNs,
    TotalDraftTokens,
    TotalAcceptedDraftTokens,
    AcceptanceRate,
}

/// What there is to know of an output.
#[derive(Debug)]
pub struct ReplySpec {
    /// Which one.
    pub reply: Reply,
    /// How a model's configuration declares it.
    pub tensor: TensorSpec,
    /// Which responses carry it, for the docs.
    pub when: &'static str,
    /// What it holds, for the docs.
    pub meaning: &'static str,
}

const fn spec(
    reply: Reply,
    name: &'static str,
    data_type: DataType,
    dims: &'static [i64],
    when: &'static str,
    meaning: &'static str,
) -> ReplySpec {
    ReplySpec { reply, tensor: TensorSpec { name, data_type, dims }, when, meaning }
}

const EACH: &str = "each";
const TIMINGS: &str = "the last, with `return_perf_metrics`";

/// Every output, in the order of the docs and of [`Reply`].
pub const REPLIES: &[ReplySpec] = &[
    spec(
        Reply::TextOutput,
        "text_output",
        DataType::String,
        &[1],
        "each, if the model has a tokenizer",
        "the text since the previous response; whole UTF-8 characters",
    ),
    spec(
        Reply::OutputIds,
        "output_ids",
        DataType::Int32,
        &[-1],
        EACH,
        "the tokens generated since the previous response; with `exclude_input_in_output` false the \
         first response begins with those of the prompt (`text_output` with its text, if text or \
         messages were sent)",
    ),
    spec(
        Reply::FinishReason,
        "finish_reason",
        DataType::String,
        &[1],
        "the last, unless `return_finish_reason` is false",
        "`stop` (a stop string, a stop token, the end token), `length`, `cancelled` or `error`",
    ),
    spec(
        Reply::StopReason,
        "stop_reason",
        DataType::String,
        &[1],
        "the last, unless `return_stop_reason` is false",
        "the stop string, or the id of the stop token in decimal; empty where the end token, the \
         length or something else ended it",
    ),
    spec(
        Reply::NumInputTokens,
        "num_input_tokens",
        DataType::Uint32,
        &[1],
        "each, unless `return_num_input_tokens` is false",
        "tokens of the prompt, the same number in each response",
    ),
    spec(
        Reply::NumOutputTokens,
        "num_output_tokens",
        DataType::Uint32,
        &[1],
        "each, unless `return_num_output_tokens` is false",
        "tokens generated since the previous response; clients add them up",
    ),
    spec(
        Reply::Logprobs,
        "logprobs",
        DataType::String,
        &[1],
        "each, with `logprobs` or `return_logprobs`",
        "JSON: for each of the response's tokens an object from token ids to `logprob`, `rank` and \
         `decoded_token`, of the chosen token and of the most probable ones",
    ),
    spec(
        Reply::CumulativeLogprob,
        "cumulative_logprob",
        DataType::Fp32,
        &[1],
        "each, with `return_cumulative_logprob`",
        "sum of the log-probabilities of all tokens chosen so far",
    ),
    spec(
        Reply::CumLogProbs,
        "cum_log_probs",
        DataType::Fp32,
        &[1],
        "each, with `return_log_probs`",
        "`cumulative_logprob` under the name of TensorRT-LLM",
    ),
    spec(
        Reply::OutputLogProbs,
        "output_log_probs",
        DataType::Fp32,
        &[1, -1],
        "each, with `return_log_probs`",
        "log-probabilities of the response's tokens, as TensorRT-LLM shapes them: one beam",
    ),
    spec(
        Reply::ArrivalTimeNs,
        "arrival_time_ns",
        DataType::Int64,
        &[1],
        TIMINGS,
        "when the request reached the backend; all times are of one monotonic clock",
    ),
    spec(
        Reply::FirstScheduledTimeNs,
        "first_scheduled_time_ns",
        DataType::Int64,
        &[1],
        TIMINGS,
        "when its first prefill call began",
    ),
    spec(
        Reply::FirstTokenTimeNs,
        "first_token_time_ns",
        DataType::Int64,
        &[1],
        TIMINGS,
        "when its first token was chosen",
    ),
    spec(
        Reply::LastTokenTimeNs,
        "last_token_time_ns",
        DataType::Int64,
        &[1],
        TIMINGS,
        "when its last token was chosen",
    ),
    spec(
        Reply::TotalDraftTokens,
        "total_draft_tokens",
        DataType::Int32,
        &[1],
        TIMINGS,
        "draft tokens that were verified for it",
    ),
    spec(
        Reply::TotalAcceptedDraftTokens,
        "total_accepted_draft_tokens",
        DataType::Int32,
        &[1],
        TIMINGS,
        "those of them that were right",
    ),
    spec(
        Reply::AcceptanceRate,
        "acceptance_rate",
        DataType::Fp32,
        &[1],
        TIMINGS,
        "their ratio; 0 without drafts",
    ),
];

impl Reply {
    /// What there is to know of it.
    pub fn spec(self) -> &'static ReplySpec {
        &REPLIES[self as usize]
    }

    /// Name of its tensor.
    pub fn name(self) -> &'static str {
        self.spec().tensor.name
    }
}

/// Which outputs a request asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wants(u32);

impl Wants {
    /// Whether `reply` is wanted.
    pub fn has(self, reply: Reply) -> bool {
        self.0 & Wants::bit(reply) != 0
    }

    /// The wanted ones, in the order of [`REPLIES`].
    pub fn iter(self) -> impl Iterator<Item = Reply> {
        REPLIES.iter().map(|spec| spec.reply).filter(move |reply| self.has(*reply))
    }

    /// Adds `replies` if `wanted`.
    pub(super) fn add(&mut self, wanted: bool, replies: &[Reply]) {
        if wanted {
            self.0 |= replies.iter().fold(0, |bits, reply| bits | Wants::bit(*reply));
        }
    }

    fn bit(reply: Reply) -> u32 {
        1 << reply as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_in_the_order_of_their_enum() {
        for (index, spec) in REPLIES.iter().enumerate() {
            assert_eq!(spec.reply as usize, index, "{}", spec.tensor.name);
            assert_eq!(spec.reply.name(), spec.tensor.name);
        }
    }
}
