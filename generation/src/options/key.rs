//! One key of a request.

use std::fmt;

use super::draft::Draft;
use super::model::ModelFacts;
use super::value::Source;
use crate::template::Messages;

/// Element type of a tensor, as a model's configuration names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataType {
    /// `TYPE_BOOL`.
    Bool,
    /// `TYPE_INT32`.
    Int32,
    /// `TYPE_INT64`.
    Int64,
    /// `TYPE_UINT32`.
    Uint32,
    /// `TYPE_UINT64`.
    Uint64,
    /// `TYPE_FP16`.
    Fp16,
    /// `TYPE_FP32`.
    Fp32,
    /// `TYPE_STRING`, which requests call BYTES.
    String,
}

impl DataType {
    /// The name in a `config.pbtxt`.
    pub fn config_name(self) -> &'static str {
        match self {
            DataType::Bool => "TYPE_BOOL",
            DataType::Int32 => "TYPE_INT32",
            DataType::Int64 => "TYPE_INT64",
            DataType::Uint32 => "TYPE_UINT32",
            DataType::Uint64 => "TYPE_UINT64",
            DataType::Fp16 => "TYPE_FP16",
            DataType::Fp32 => "TYPE_FP32",
            DataType::String => "TYPE_STRING",
        }
    }

    /// The name in a request.
    pub fn wire_name(self) -> &'static str {
        match self {
            DataType::String => "BYTES",
            other => other.config_name().trim_start_matches("TYPE_"),
        }
    }
}

/// A tensor as a model's configuration declares it, without a batch dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorSpec {
    /// Its name.
    pub name: &'static str,
    /// Type of its elements.
    pub data_type: DataType,
    /// Its dims; -1 takes any size.
    pub dims: &'static [i64],
}

/// Where a key may stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// As an input tensor alone.
    Tensor,
    /// As an input tensor or a request parameter.
    Request,
    /// Also in the JSON of `sampling_parameters`.
    Sampling,
}

impl Place {
    /// Whether a key of this kind may stand at `source`.
    pub fn allows(self, source: Source) -> bool {
        match source {
            Source::Tensor => true,
            Source::Parameter => self != Place::Tensor,
            Source::SamplingParameters => self == Place::Sampling,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Place::Tensor => "input",
            Place::Request => "input, parameter",
            Place::Sampling => "input, parameter, sampling_parameters",
        })
    }
}

/// One key that a request may have.
#[derive(Debug)]
pub struct Key {
    /// The name.
    pub name: &'static str,
    /// Other names of it, all of one meaning.
    pub aliases: &'static [&'static str],
    /// Where it may stand.
    pub place: Place,
    /// What its value may be, and where that goes.
    pub(super) kind: Kind,
    /// The value when absent, as JSON; empty for none.
    pub default: &'static str,
    /// What it does, for the docs.
    pub meaning: &'static str,
}

/// What a value may be, with the setter that takes it.
#[derive(Debug)]
pub(super) enum Kind {
    /// `true` or `false`.
    Flag(fn(&mut Draft, bool)),
    /// A whole number.
    Integer { data_type: DataType, least: i128, most: Most, set: fn(&mut Draft, i128) },
    /// A number.
    Number { range: Span, set: fn(&mut Draft, f32) },
    /// One string.
    Text(fn(&mut Draft, String)),
    /// Strings; empty ones stand for none.
    Strings(fn(&mut Draft, Vec<String>)),
    /// Token ids.
    Tokens(fn(&mut Draft, Vec<i32>)),
    /// A JSON object from token ids to biases.
    Bias(fn(&mut Draft, Vec<(i32, f32)>)),
    /// A number of alternatives, or a flag.
    LogProbabilities(fn(&mut Draft, LogProbabilities)),
    /// A JSON array of messages.
    Messages(fn(&mut Draft, Messages)),
    /// A JSON object of other keys.
    SamplingParameters,
    /// Accepted with the one value that changes nothing, if there is one.
    Only { data_type: DataType, dims: &'static [i64], neutral: Neutral, reason: &'static str },
}

/// The largest whole number of a range.
#[derive(Clone, Copy, Debug)]
pub(super) enum Most {
    /// This one.
    Fixed(i128),
    /// The model's largest token id.
    TokenId,
    /// The model's longest context.
    Context,
}

impl Most {
    pub(super) fn of(self, model: &ModelFacts) -> i128 {
        match self {
            Most::Fixed(most) => most,
            Most::TokenId => model.vocab_size as i128 - 1,
            Most::Context => model.max_context as i128,
        }
    }
}

/// A range of numbers. All are finite.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) least: f32,
    /// Whether `least` itself is outside.
    pub(super) above: bool,
    /// Infinite where only finiteness bounds it.
    pub(super) most: f32,
}

impl Span {
    /// From `least` to `most`.
    pub(super) const fn closed(least: f32, most: f32) -> Span {
        Span { least, above: false, most }
    }

    /// Above `least`, up to `most`.
    pub(super) const fn above(least: f32, most: f32) -> Span {
        Span { least, above: true, most }
    }

    pub(super) fn holds(self, value: f32) -> bool {
        let least = if self.above { value > self.least } else { value >= self.least };
        value.is_finite() && least && value <= self.most
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.above, self.most.is_finite()) {
            (false, true) => write!(f, "a number from {} to {}", self.least, self.most),
            (false, false) => write!(f, "a finite number of at least {}", self.least),
            (true, true) => write!(f, "a number above {}, at most {}", self.least, self.most),
            (true, false) => write!(f, "a finite number above {}", self.least),
        }
    }
}

/// The one value of a key that changes nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Neutral {
    /// There is none.
    None,
    /// This flag.
    Flag(bool),
    /// This number, whole or not.
    Number(f64),
}

/// What `logprobs` asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum LogProbabilities {
    /// Whether that of the chosen token is wanted, as OpenAI's chat API has it.
    Wanted(bool),
    /// That of the chosen token and of this many most probable ones.
    Top(usize),
}

/// Most alternatives of a log-probability.
pub(super) const MAX_LOGPROBS: i128 = 20;
/// Most strings of a list.
pub(super) const MAX_STRINGS: usize = 64;
/// Most bytes of a string in a list.
pub(super) const MAX_STRING_BYTES: usize = 1024;
/// Largest bias of a token, both ways.
pub(super) const MAX_BIAS: f32 = 100.0;

impl Key {
    /// The name and the other ones.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        [self.name].into_iter().chain(self.aliases.iter().copied())
    }

    /// Whether any value but a neutral one is refused.
    pub fn is_refused(&self) -> bool {
        matches!(self.kind, Kind::Only { .. })
    }

    /// Its tensors, one for each name.
    pub fn tensors(&self) -> impl Iterator<Item = TensorSpec> {
        let (data_type, dims) = self.kind.tensor();
        self.names().map(move |name| TensorSpec { name, data_type, dims })
    }

    /// The range of its values in words, with the limits of `model`, or in general.
    pub fn range(&self, model: Option<&ModelFacts>) -> String {
        self.kind.range(model)
    }
}

impl Kind {
    fn tensor(&self) -> (DataType, &'static [i64]) {
        match self {
            Kind::Flag(_) => (DataType::Bool, &[1]),
            Kind::Integer { data_type, .. } => (*data_type, &[1]),
            Kind::LogProbabilities(_) => (DataType::Int32, &[1]),
            Kind::Number { .. } => (DataType::Fp32, &[1]),
            Kind::Text(_) | Kind::Bias(_) | Kind::Messages(_) | Kind::SamplingParameters => {
                (DataType::String, &[1])
            }
            Kind::Strings(_) => (DataType::String, &[-1]),
            Kind::Tokens(_) => (DataType::Int32, &[-1]),
            Kind::Only { data_type, dims, .. } => (*data_type, dims),
        }
    }

    pub(super) fn range(&self, model: Option<&ModelFacts>) -> String {
        let most = |most: Most| match (most, model) {
            (Most::Fixed(most), _) => most.to_string(),
            (most, Some(model)) => most.of(model).to_string(),
            (Most::TokenId, None) => "the largest token id".to_owned(),
            (Most::Context, None) => "the model's longest context".to_owned(),
        };
        match self {
            Kind::Flag(_) => "true or false".to_owned(),
            Kind::Integer { least, most: limit, .. } => {
                format!("a whole number from {least} to {}", most(*limit))
            }
            Kind::Number { range, .. } => range.to_string(),
            Kind::Text(_) => "one string".to_owned(),
            Kind::Strings(_) => {
                format!("up to {MAX_STRINGS} strings of up to {MAX_STRING_BYTES} bytes each")
            }
            Kind::Tokens(_) => format!("token ids from 0 to {}", most(Most::TokenId)),
            Kind::Bias(_) => format!(
                "a JSON object from token ids (0 to {}) to numbers from -{MAX_BIAS} to {MAX_BIAS}",
                most(Most::TokenId)
            ),
            Kind::LogProbabilities(_) => {
                format!("a whole number from 0 to {MAX_LOGPROBS}, true or false")
            }
            Kind::Messages(_) => {
                "a JSON array of objects with a role and a content, at least one".to_owned()
            }
            Kind::SamplingParameters => "a JSON object".to_owned(),
            Kind::Only { neutral, .. } => match neutral {
                Neutral::None => "absent".to_owned(),
                Neutral::Flag(flag) => flag.to_string(),
                Neutral::Number(number) => number.to_string(),
            },
        }
    }
}
