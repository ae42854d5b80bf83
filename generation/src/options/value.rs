//! Values as clients send them, whatever brought them.

use std::fmt;

/// Where a value stood in the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// An input tensor of this name.
    Tensor,
    /// A parameter of the request.
    Parameter,
    /// A member of the JSON in `sampling_parameters`.
    SamplingParameters,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Source::Tensor => "input",
            Source::Parameter => "request parameter",
            Source::SamplingParameters => "sampling_parameters key",
        })
    }
}

/// One value of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Given {
    /// Where it stood.
    pub source: Source,
    /// Under which name.
    pub key: String,
    /// What was sent.
    pub value: Value,
}

impl Given {
    /// A value that stood at `source` under the name `key`.
    pub fn new(source: Source, key: impl Into<String>, value: Value) -> Given {
        Given { source, key: key.into(), value }
    }
}

/// What was sent: the elements in order, whatever the shape. A request parameter has one element.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Elements of a BOOL tensor, or a flag.
    Flags(Vec<bool>),
    /// Elements of a tensor of signed or unsigned integers of up to 64 bits.
    Integers(Vec<i128>),
    /// Elements of a tensor of FP32 or FP64.
    Numbers(Vec<f64>),
    /// Elements of a BYTES tensor, which need not be UTF-8.
    Strings(Vec<Vec<u8>>),
    /// JSON that none of these can hold.
    Json(serde_json::Value),
    /// Elements of another type.
    Other {
        /// The type, for messages.
        data_type: String,
        /// How many there are.
        count: usize,
    },
}

impl Value {
    /// One string.
    pub fn text(text: impl Into<String>) -> Value {
        Value::Strings(vec![text.into().into_bytes()])
    }

    /// The value of a member of a JSON object; none for null, which is how clients leave a key out.
    pub fn from_json(json: &serde_json::Value) -> Option<Value> {
        use serde_json::Value as Json;
        let number = |n: &serde_json::Number| n.as_i128().or(n.as_u64().map(i128::from));
        Some(match json {
            Json::Null => return None,
            Json::Bool(flag) => Value::Flags(vec![*flag]),
            Json::Number(n) => match number(n) {
                Some(integer) => Value::Integers(vec![integer]),
                None => Value::Numbers(vec![n.as_f64().unwrap_or(f64::NAN)]),
            },
            Json::String(text) => Value::text(text),
            Json::Array(items) => {
                let integers = items.iter().map(|i| i.as_number().and_then(number)).collect();
                let text = |item: &Json| Some(item.as_str()?.as_bytes().to_vec());
                match (integers, items.iter().map(text).collect()) {
                    (Some(integers), _) => Value::Integers(integers),
                    (_, Some(strings)) => Value::Strings(strings),
                    _ => Value::Json(json.clone()),
                }
            }
            Json::Object(_) => Value::Json(json.clone()),
        })
    }

    /// How many elements there are; a value with none counts as not sent.
    pub fn count(&self) -> usize {
        match self {
            Value::Flags(values) => values.len(),
            Value::Integers(values) => values.len(),
            Value::Numbers(values) => values.len(),
            Value::Strings(values) => values.len(),
            Value::Json(_) => 1,
            Value::Other { count, .. } => *count,
        }
    }
}

/// Characters of a value that a message holds.
const SHOWN: usize = 80;

/// A text for a message, cut where it is long: a server may not carry more.
pub(super) fn short(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(SHOWN) {
        text.truncate(end);
        text.push('…');
    }
    text
}

/// As JSON would have it, cut short where it is long.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Value::Flags(values) => list(values.iter().map(bool::to_string)),
            Value::Integers(values) => list(values.iter().map(i128::to_string)),
            Value::Numbers(values) => list(values.iter().map(f64::to_string)),
            Value::Strings(values) => {
                list(values.iter().map(|bytes| format!("{:?}", String::from_utf8_lossy(bytes))))
            }
            Value::Json(json) => json.to_string(),
            Value::Other { data_type, count } => format!("{count} elements of {data_type}"),
        };
        f.write_str(&short(text))
    }
}

/// One element stands alone, others in brackets. Elements beyond what a message shows are not
/// rendered.
fn list(elements: impl ExactSizeIterator<Item = String>) -> String {
    let one = elements.len() == 1;
    let text = elements.take(SHOWN).collect::<Vec<_>>().join(", ");
    if one { text } else { format!("[{text}]") }
}
