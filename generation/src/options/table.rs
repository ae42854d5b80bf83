//! The one table of request keys.

use std::time::Duration;

use super::key::{DataType, Key, Kind, Most, Neutral, Place, Span, TensorSpec};

use Place::{Request, Sampling, Tensor};

const NO_ADAPTERS: &str =
    "adapters are not applied; merge the adapter into the checkpoint before the export";
const NO_GUIDES: &str = "output is not constrained to a grammar or schema";
const ONE_SEQUENCE: &str = "a request generates one sequence; send several requests";
const NO_LOGITS: &str = "logits are not sent; 'logprobs' gives log-probabilities";

const fn only(
    name: &'static str,
    aliases: &'static [&'static str],
    place: Place,
    data_type: DataType,
    neutral: Neutral,
    reason: &'static str,
) -> Key {
    let kind = Kind::Only { data_type, dims: &[1], neutral, reason };
    Key { name, aliases, place, kind, default: "", meaning: reason }
}

/// Every key, in the order of the docs.
pub const TABLE: &[Key] = &[
    Key {
        name: "text_input",
        aliases: &[],
        place: Tensor,
        kind: Kind::Text(|d, text| d.text = Some(text)),
        default: "",
        meaning: "the prompt as text",
    },
    Key {
        name: "input_ids",
        aliases: &[],
        place: Tensor,
        kind: Kind::Tokens(|d, ids| d.ids = Some(ids)),
        default: "",
        meaning: "the prompt as token ids, taken as they are",
    },
    Key {
        name: "messages",
        aliases: &[],
        place: Request,
        kind: Kind::Messages(|d, messages| d.messages = Some(messages)),
        default: "",
        meaning: "the prompt as a conversation, which the model's chat template renders",
    },
    Key {
        name: "input_lengths",
        aliases: &[],
        place: Tensor,
        kind: Kind::Integer {
            data_type: DataType::Int32,
            least: 1,
            most: Most::Context,
            set: |d, length| d.input_length = Some(length),
        },
        default: "",
        meaning: "how many `input_ids` there are, which must be so",
    },
    Key {
        name: "add_special_tokens",
        aliases: &[],
        place: Sampling,
        kind: Kind::Flag(|d, flag| d.options.add_special_tokens = flag),
        default: "true",
        meaning: "whether `text_input` is given the special tokens that the tokenizer adds",
    },
    Key {
        name: "max_tokens",
        aliases: &["request_output_len", "sampling_param_max_tokens"],
        place: Sampling,
        kind: Kind::Integer {
            data_type: DataType::Int32,
            least: 1,
            most: Most::Context,
            set: |d, tokens| d.options.max_tokens = Some(tokens as usize),
        },
        default: "16",
        meaning: "tokens to generate at most; with the prompt no more than the longest context, and \
                  one, as the last token needs no room. The default is cut to what fits",
    },
    Key {
        name: "min_tokens",
        aliases: &["min_length"],
        place: Sampling,
        kind: Kind::Integer {
            data_type: DataType::Int32,
            least: 0,
            most: Most::Context,
            set: |d, tokens| d.options.min_tokens = tokens as usize,
        },
        default: "0",
        meaning: "tokens to generate before an end or stop token may be chosen; at most `max_tokens`",
    },
    Key {
        name: "stop",
        aliases: &["stop_words", "sampling_param_stop"],
        place: Sampling,
        kind: Kind::Strings(|d, strings| d.options.stop = strings),
        default: "[]",
        meaning: "strings that end the text, which is cut before them; empty ones stand for none. (To \
                  cancel a request, close its stream)",
    },
    Key {
        name: "include_stop_str_in_output",
        aliases: &[],
        place: Sampling,
        kind: Kind::Flag(|d, flag| d.options.include_stop_str_in_output = flag),
        default: "false",
        meaning: "whether the text is cut after the stop string instead",
    },
    Key {
        name: "stop_token_ids",
        aliases: &[],
        place: Sampling,
        kind: Kind::Tokens(|d, ids| d.options.stop_token_ids = ids),
        default: "[]",
        meaning: "tokens that end the output",
    },
    Key {
        name: "end_id",
        aliases: &[],
        place: Sampling,
        kind: Kind::Integer {
            data_type: DataType::Int32,
            least: -1,
            most: Most::TokenId,
            set: |d, id| d.end_id = i32::try_from(id).ok(),
        },
        default: "",
        meaning: "the end token instead of the model's; -1: none",
    },
    Key {
        name: "ignore_eos",
        aliases: &[],
        place: Sampling,
        kind: Kind::Flag(|d, flag| d.ignore_eos = flag),
        default: "false",
        meaning: "whether the output goes on after the end token",
    },
    Key {
        name: "pad_id",
        aliases: &[],
        place: Sampling,
        kind: Kind::Integer {
            data_type: DataType::Int32,
            least: -1,
            most: Most::TokenId,
            set: |_, _| {},
        },
        default: "",
        meaning: "the token to pad with; nothing is ever padded, so it never appears",
    },
    Key {
        name: "temperature",
        aliases: &["sampling_param_temperature"],
        place: Sampling,
        kind: Kind::Number {
            range: Span::closed(0.0, f32::INFINITY),
            set: |d, number| d.temperature = Some(number),
        },
        default: "1.0",
        meaning: "divides the logits; 0: the most probable token (the default of speculative models, \
                  which take nothing else)",
    },
    Key {
        name: "top_k",
        aliases: &["sampling_param_top_k"],
        place: Sampling,
        kind: Kind::Integer {
            data_type: DataType::Int32,
            least: -1,
            most: Most::Fixed(i32::MAX as i128),
            set: |d, count| d.options.top_k = usize::try_from(count).ok().filter(|k| *k > 0),
        },
        default: "0",
        meaning: "how many of the most probable tokens are kept; 0 and -1: all",
    },
    Key {
        name: "top_p",
        aliases: &["sampling_param_top_p"],
        place: Sampling,
        kind: Kind::Number {
            range: Span::above(0.0, 1.0),
            set: |d, number| d.options.top_p = number,
        },
        default: "1.0",
        meaning: "the most probable tokens that have this share of the probability are kept",
    },
    Key {
        name: "min_p",
        aliases: &[],
        place: Sampling,
        kind: Kind::Number {
            range: Span::closed(0.0, 1.0),
            set: |d, number| d.options.min_p = number,
        },
        default: "0.0",
        meaning: "tokens less probable than this share of the most probable one are dropped",
    },
    Key {
        name: "repetition_penalty",
        aliases: &[],
        place: Sampling,
        kind: Kind::Number {
            range: Span::above(0.0, f32::INFINITY),
            set: |d, number| d.options.repetition_penalty = number,
        },
        default: "1.0",
        meaning: "divides positive and multiplies negative logits of tokens of prompt and output",
    },
    Key {
        name: "presence_penalty",
        aliases: &["sampling_param_presence_penalty"],
        place: Sampling,
        kind: Kind::Number {
            range: Span::closed(-2.0, 2.0),
            set: |d, number| d.options.presence_penalty = number,
        },
        default: "0.0",
        meaning: "subtracted from the logits of tokens of the output",
    },
    Key {
        name: "frequency_penalty",
        aliases: &["sampling_param_frequency_penalty"],
        place: Sampling,
        kind: Kind::Number {
            range: Span::closed(-2.0, 2.0),
            set: |d, number| d.options.frequency_penalty = number,
        },
        default: "0.0",
        meaning: "subtracted from the logits of tokens of the output for each time that they stand \
                  there",
    },
    Key {
        name: "seed",
        aliases: &["sampling_param_seed"],
        place: Sampling,
        kind: Kind::Integer {
            data_type: DataType::Uint64,
            least: i64::MIN as i128,
            most: Most::Fixed(u64::MAX as i128),
            // Negative ones are as good as any, and clients of OpenAI's API may send them.
            set: |d, seed| d.options.seed = Some(seed as u64),
        },
        default: "",
        meaning: "seed of the random stream; the same seed and request give the same tokens whatever \
                  else is served. Without one the server draws one",
    },
    Key {
        name: "bad_words",
        aliases: &[],
        place: Sampling,
        kind: Kind::Strings(|d, strings| d.options.bad_words = strings),
        default: "[]",
        meaning: "strings that are not generated, each as the tokens it has; empty ones stand for none",
    },
    Key {
        name: "allowed_token_ids",
        aliases: &[],
        place: Sampling,
        kind: Kind::Tokens(|d, ids| d.options.allowed_token_ids = Some(ids)),
        default: "",
        meaning: "the only tokens that may be generated",
    },
    Key {
        name: "logit_bias",
        aliases: &[],
        place: Sampling,
        kind: Kind::Bias(|d, biases| d.options.logit_bias = biases),
        default: "{}",
        meaning: "added to the logits of tokens",
    },
    Key {
        name: "logprobs",
        aliases: &[],
        place: Sampling,
        kind: Kind::LogProbabilities(|d, wanted| d.logprobs = Some(wanted)),
        default: "",
        meaning: "asks for the log-probabilities of the chosen token and of this many most probable \
                  ones, of the distribution before temperature and penalties; true: of the chosen \
                  token and of `top_logprobs` others",
    },
    Key {
        name: "top_logprobs",
        aliases: &[],
        place: Sampling,
        kind: Kind::Integer {
            data_type: DataType::Int32,
            least: 0,
            most: Most::Fixed(super::key::MAX_LOGPROBS),
            set: |d, count| d.top_logprobs = usize::try_from(count).ok(),
        },
        default: "",
        meaning: "how many most probable tokens `logprobs` = true reports",
    },
    Key {
        name: "skip_special_tokens",
        aliases: &[],
        place: Sampling,
        kind: Kind::Flag(|d, flag| d.options.skip_special_tokens = flag),
        default: "true",
        meaning: "whether special tokens are left out of the text",
    },
    Key {
        name: "stream",
        aliases: &["streaming"],
        place: Request,
        kind: Kind::Flag(|d, flag| d.options.stream = flag),
        default: "false",
        meaning: "whether each piece of the output is sent at once; else one response has all",
    },
    Key {
        name: "exclude_input_in_output",
        aliases: &["sampling_param_exclude_input_from_output"],
        place: Request,
        kind: Kind::Flag(|d, flag| d.options.exclude_input_in_output = flag),
        default: "true",
        meaning: "whether the output begins after the prompt",
    },
    Key {
        name: "return_finish_reason",
        aliases: &[],
        place: Request,
        kind: Kind::Flag(|d, flag| d.return_finish_reason = Some(flag)),
        default: "true",
        meaning: "whether `finish_reason` is sent",
    },
    Key {
        name: "return_stop_reason",
        aliases: &[],
        place: Request,
        kind: Kind::Flag(|d, flag| d.return_stop_reason = Some(flag)),
        default: "true",
        meaning: "whether `stop_reason` is sent",
    },
    Key {
        name: "return_num_input_tokens",
        aliases: &[],
        place: Request,
        kind: Kind::Flag(|d, flag| d.return_num_input_tokens = Some(flag)),
        default: "true",
        meaning: "whether `num_input_tokens` is sent",
    },
    Key {
        name: "return_num_output_tokens",
        aliases: &[],
        place: Request,
        kind: Kind::Flag(|d, flag| d.return_num_output_tokens = Some(flag)),
        default: "true",
        meaning: "whether `num_output_tokens` is sent",
    },
    Key {
        name: "return_logprobs",
        aliases: &[],
        place: Request,
        kind: Kind::Flag(|d, flag| d.return_logprobs = Some(flag)),
        default: "",
        meaning: "whether `logprobs` is sent; without it, if `logprobs` asks for it",
    },
    Key {
        name: "return_cumulative_logprob",
        aliases: &[],
        place: Request,
        kind: Kind::Flag(|d, flag| d.return_cumulative_logprob = flag),
        default: "false",
        meaning: "whether `cumulative_logprob` is sent",
    },
    Key {
        name: "return_log_probs",
        aliases: &[],
        place: Request,
        kind: Kind::Flag(|d, flag| d.return_log_probs = flag),
        default: "false",
        meaning: "whether `cum_log_probs` and `output_log_probs` are sent",
    },
    Key {
        name: "return_perf_metrics",
        aliases: &["sampling_param_return_perf_metrics"],
        place: Request,
        kind: Kind::Flag(|d, flag| d.return_perf_metrics = flag),
        default: "false",
        meaning: "whether times and counts of drafts are sent",
    },
    Key {
        name: "priority",
        aliases: &[],
        // The server keeps a parameter of this name to itself.
        place: Tensor,
        kind: Kind::Integer {
            data_type: DataType::Uint64,
            least: 0,
            most: Most::Fixed(u32::MAX as i128),
            set: |d, priority| d.options.priority = u64::try_from(priority).unwrap_or_default(),
        },
        default: "0",
        meaning: "1 is served first, larger ones later, 0 after all of these",
    },
    Key {
        name: "timeout",
        aliases: &[],
        place: Request,
        kind: Kind::Integer {
            data_type: DataType::Uint64,
            least: 0,
            most: Most::Fixed(i64::MAX as i128),
            set: |d, timeout| {
                let timeout = u64::try_from(timeout).ok().filter(|microseconds| *microseconds > 0);
                d.options.timeout = timeout.map(Duration::from_micros);
            },
        },
        default: "0",
        meaning: "microseconds that the request may take from its arrival to its end; 0: any number",
    },
    Key {
        name: "sampling_parameters",
        aliases: &[],
        place: Request,
        kind: Kind::SamplingParameters,
        default: "",
        meaning: "other keys of this table as JSON, as vLLM's backend takes them; null: left out",
    },
    only("n", &["num_return_sequences"], Sampling, DataType::Int32, ONE, ONE_SEQUENCE),
    only("best_of", &["sampling_param_best_of"], Sampling, DataType::Int32, ONE, ONE_SEQUENCE),
    only(
        "beam_width",
        &[],
        Sampling,
        DataType::Int32,
        ONE,
        "tokens are sampled one by one, without beams",
    ),
    only(
        "length_penalty",
        &[],
        Sampling,
        DataType::Fp32,
        ONE,
        "it compares beams, and there are none",
    ),
    only(
        "detokenize",
        &[],
        Sampling,
        DataType::Bool,
        Neutral::Flag(true),
        "text is always sent; a client may leave 'text_output' unread",
    ),
    only(
        "spaces_between_special_tokens",
        &[],
        Sampling,
        DataType::Bool,
        Neutral::Flag(true),
        "special tokens are written as the tokenizer writes them",
    ),
    only("return_context_logits", &[], Request, DataType::Bool, Neutral::Flag(false), NO_LOGITS),
    only("return_generation_logits", &[], Request, DataType::Bool, Neutral::Flag(false), NO_LOGITS),
    only(
        "prompt_logprobs",
        &[],
        Sampling,
        DataType::Int32,
        Neutral::None,
        "log-probabilities are given for generated tokens alone",
    ),
    only(
        "truncate_prompt_tokens",
        &[],
        Sampling,
        DataType::Int32,
        Neutral::None,
        "a prompt is taken whole; shorten it before it is sent",
    ),
    only(
        "structured_outputs",
        &["guided_decoding"],
        Sampling,
        DataType::String,
        Neutral::None,
        NO_GUIDES,
    ),
    only("guided_decoding_guide_type", &[], Sampling, DataType::String, Neutral::None, NO_GUIDES),
    only("guided_decoding_guide", &[], Sampling, DataType::String, Neutral::None, NO_GUIDES),
    only("lora_name", &[], Sampling, DataType::String, Neutral::None, NO_ADAPTERS),
    only("lora_path", &[], Sampling, DataType::String, Neutral::None, NO_ADAPTERS),
    only("lora_ckpt_source", &[], Sampling, DataType::String, Neutral::None, NO_ADAPTERS),
    only("lora_id", &[], Sampling, DataType::Uint64, Neutral::None, NO_ADAPTERS),
    only("lora_task_id", &[], Sampling, DataType::Uint64, Neutral::None, NO_ADAPTERS),
    Key {
        name: "lora_weights",
        aliases: &[],
        place: Tensor,
        kind: Kind::Only {
            data_type: DataType::Fp16,
            dims: &[-1, -1],
            neutral: Neutral::None,
            reason: NO_ADAPTERS,
        },
        default: "",
        meaning: NO_ADAPTERS,
    },
    Key {
        name: "lora_config",
        aliases: &[],
        place: Tensor,
        kind: Kind::Only {
            data_type: DataType::Int32,
            dims: &[-1, 3],
            neutral: Neutral::None,
            reason: NO_ADAPTERS,
        },
        default: "",
        meaning: NO_ADAPTERS,
    },
];

const ONE: Neutral = Neutral::Number(1.0);

/// The key of this name, which may be one of its other names.
pub fn find(name: &str) -> Option<&'static Key> {
    TABLE.iter().find(|key| key.names().any(|known| known == name))
}

/// Every input tensor that a model of generation mode has, one for each name of each key.
pub fn tensors() -> impl Iterator<Item = TensorSpec> {
    TABLE.iter().flat_map(Key::tensors)
}

/// Least likeness of a name to be taken for a known one.
const LIKE: f64 = 0.8;
/// Longest name, in bytes, that is compared: likeness costs more than the length.
const LONGEST: usize = 64;

/// The known name that `name` is most like, if it is much like it.
pub(super) fn nearest(name: &str) -> Option<&'static str> {
    if name.len() > LONGEST {
        return None;
    }
    let likeness = |known| strsim::jaro_winkler(name, known);
    let known =
        TABLE.iter().flat_map(Key::names).max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    known.filter(|known| likeness(known) >= LIKE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_name_is_of_one_key() {
        let mut seen = HashSet::new();
        for name in TABLE.iter().flat_map(Key::names) {
            assert!(seen.insert(name), "{name}");
        }
    }

    #[test]
    fn names_that_are_alike_are_found() {
        for (name, known) in [
            ("max_token", Some("max_tokens")),
            ("temprature", Some("temperature")),
            ("top-p", Some("top_p")),
            ("stop_word", Some("stop_words")),
            ("zzz", None),
            (&format!("temperature{}", " ".repeat(LONGEST)), None),
            ("", None),
        ] {
            assert_eq!(nearest(name), known, "{name}");
        }
    }
}
