//! For every key: values inside its range, at its border, outside it, and of another type. They come
//! from the table, so that a key that is added to it is tested.

use serde_json::{Value as Json, json};

use super::key::{
    DataType, Key, Kind, MAX_BIAS, MAX_LOGPROBS, MAX_STRING_BYTES, MAX_STRINGS, Neutral, Place,
    Span,
};
use super::model::ModelFacts;
use super::table::TABLE;
use super::value::Source;

/// How a case's value stands to its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// Inside the range.
    Valid,
    /// The last one inside.
    Border,
    /// Outside the range.
    OutOfRange,
    /// Of another type.
    WrongType,
}

impl Class {
    /// The name in lists of cases.
    pub fn name(self) -> &'static str {
        match self {
            Class::Valid => "valid",
            Class::Border => "border",
            Class::OutOfRange => "out_of_range",
            Class::WrongType => "wrong_type",
        }
    }
}

/// A value as a client sends it.
#[derive(Clone, Debug, PartialEq)]
pub struct Sent {
    /// Where it stands: a tensor or a request parameter.
    pub source: Source,
    /// Under which name.
    pub name: &'static str,
    /// Its type; a parameter has the nearest of its own kinds.
    pub data_type: DataType,
    /// Its shape without a batch dimension; a parameter has one element.
    pub shape: Vec<usize>,
    /// Its elements. Numbers that JSON cannot hold are the strings NaN, Infinity and -Infinity.
    pub elements: Vec<Json>,
}

/// One case: a whole request, with what it is about first.
#[derive(Clone, Debug)]
pub struct Case {
    /// The key in the table.
    pub key: &'static str,
    /// How the value stands to it.
    pub class: Class,
    /// What is sent.
    pub sent: Vec<Sent>,
    /// Whether it is taken. A refusal names the key as it was sent.
    pub accepted: bool,
}

/// The cases of every key for a model with a tokenizer and a chat template that does not choose
/// greedily by itself. Each is one request, with token 1 as its prompt unless it is about the prompt;
/// those that are taken generate one token unless they are about the number of tokens.
pub fn cases(model: &ModelFacts) -> Vec<Case> {
    let mut cases = Vec::new();
    for key in TABLE {
        let values = values(key, model);
        for value in &values {
            cases.push(value.case(key, key.name, Source::Tensor));
        }
        // Other names and places: one value that is taken, and one that is not.
        let first =
            |class| values.iter().find(|value| value.class == class && value.fits_parameter());
        let (valid, outside) = (first(Class::Valid), first(Class::OutOfRange));
        for alias in key.aliases {
            cases.extend(
                [valid, outside].into_iter().flatten().map(|v| v.case(key, alias, Source::Tensor)),
            );
        }
        if key.place != Place::Tensor {
            let wrong = Values::wrong_parameter(key);
            // No tensor of this type can be below its range.
            let negative = Values::new(Class::OutOfRange, DataType::Int64, vec![json!(-1)]);
            let unsigned =
                matches!(key.kind, Kind::Integer { data_type: DataType::Uint64, least: 0, .. });
            let below = unsigned.then_some(&negative);
            let values = [valid, outside, below, Some(&wrong)].into_iter().flatten();
            cases.extend(values.map(|value| value.case(key, key.name, Source::Parameter)));
        }
    }
    cases
}

/// The [`cases`] as JSON, one a line, for clients of a server.
pub fn cases_json(model: &ModelFacts) -> String {
    let lines = cases(model).into_iter().map(|case| {
        let sent = case.sent.iter().map(|sent| {
            json!({
                "source": if sent.source == Source::Tensor { "tensor" } else { "parameter" },
                "name": sent.name,
                "type": sent.data_type.wire_name(),
                "shape": sent.shape,
                "elements": sent.elements,
            })
        });
        json!({
            "key": case.key,
            "class": case.class.name(),
            "accepted": case.accepted,
            "sent": sent.collect::<Vec<_>>(),
        })
        .to_string()
    });
    format!("[\n{}\n]\n", lines.collect::<Vec<_>>().join(",\n"))
}

/// A value of a key, before it is known where it is sent.
struct Values {
    class: Class,
    data_type: DataType,
    shape: Vec<usize>,
    elements: Vec<Json>,
    accepted: bool,
}

impl Values {
    fn new(class: Class, data_type: DataType, elements: Vec<Json>) -> Values {
        let accepted = matches!(class, Class::Valid | Class::Border);
        Values { class, data_type, shape: vec![elements.len()], elements, accepted }
    }

    /// A parameter of a kind that the key does not take.
    fn wrong_parameter(key: &Key) -> Values {
        match &key.kind {
            Kind::Flag(_) => Values::new(Class::WrongType, DataType::Int64, vec![json!(1)]),
            Kind::Text(_) | Kind::Strings(_) | Kind::Bias(_) | Kind::Messages(_) => {
                Values::new(Class::WrongType, DataType::Bool, vec![json!(true)])
            }
            Kind::SamplingParameters => {
                Values::new(Class::WrongType, DataType::Int64, vec![json!(1)])
            }
            _ => Values::new(Class::WrongType, DataType::String, vec![json!("x")]),
        }
    }

    /// Parameters have one element, and whole numbers of at most 63 bits.
    fn fits_parameter(&self) -> bool {
        let wide = |json: &Json| json.is_u64() && !json.is_i64();
        self.elements.len() == 1 && self.shape.len() == 1 && !self.elements.iter().any(wide)
    }

    fn case(&self, key: &'static Key, name: &'static str, source: Source) -> Case {
        let Values { class, data_type, .. } = *self;
        let value = Sent {
            source,
            name,
            data_type,
            shape: self.shape.clone(),
            elements: self.elements.clone(),
        };
        let mut sent = vec![value];
        sent.extend(companions(key, &self.elements));
        Case { key: key.name, class, sent, accepted: self.accepted }
    }
}

/// What else the request needs.
fn companions(key: &Key, elements: &[Json]) -> Vec<Sent> {
    let sent = |source, name, data_type, element: Json| Sent {
        source,
        name,
        data_type,
        shape: vec![1],
        elements: vec![element],
    };
    let tensor = |name, data_type, element| sent(Source::Tensor, name, data_type, element);
    let mut companions = Vec::new();
    if !matches!(key.name, "text_input" | "input_ids" | "messages") {
        companions.push(tensor("input_ids", DataType::Int32, json!(1)));
    }
    match key.name {
        "max_tokens" => {}
        // At least as many, if there can be.
        "min_tokens" => {
            let least = elements.first().and_then(Json::as_u64).unwrap_or(1).max(1);
            companions.push(tensor("max_tokens", DataType::Int32, json!(least)));
        }
        _ => companions.push(tensor("max_tokens", DataType::Int32, json!(1))),
    }
    if key.name == "top_logprobs" {
        companions.push(sent(Source::Parameter, "logprobs", DataType::Bool, json!(true)));
    }
    companions
}

/// The values of a key as a tensor.
fn values(key: &Key, model: &ModelFacts) -> Vec<Values> {
    use Class::{Border, OutOfRange, Valid, WrongType};
    let strings = |class, texts: &[&str]| {
        Values::new(class, DataType::String, texts.iter().map(|text| json!(text)).collect())
    };
    let not_text = || Values::new(WrongType, DataType::Int32, vec![json!(1)]);
    let not_number = || strings(WrongType, &["x"]);
    match &key.kind {
        Kind::Flag(_) => {
            let flags = |class, flags: &[bool]| {
                Values::new(class, DataType::Bool, flags.iter().map(|f| json!(f)).collect())
            };
            vec![
                flags(Valid, &[true]),
                flags(Border, &[false]),
                flags(OutOfRange, &[true, false]),
                Values::new(WrongType, DataType::Int32, vec![json!(1)]),
            ]
        }
        // It counts the prompt's one token.
        Kind::Integer { .. } if key.name == "input_lengths" => {
            let number = |class, n: usize| Values::new(class, DataType::Int32, vec![json!(n)]);
            vec![
                number(Valid, 1),
                number(Border, 1),
                number(OutOfRange, 0),
                number(OutOfRange, 2),
                number(OutOfRange, model.max_context + 1),
                not_number(),
            ]
        }
        Kind::Integer { data_type, least, most, .. } => {
            integers(*data_type, *least, most.of(model))
        }
        Kind::LogProbabilities(_) => integers(DataType::Int32, 0, MAX_LOGPROBS),
        Kind::Number { range, .. } => numbers(*range),
        Kind::Text(_) => vec![
            strings(Valid, &["hi"]),
            strings(Border, &["é"]),
            strings(OutOfRange, &["a", "b"]),
            not_text(),
        ],
        Kind::Strings(_) => vec![
            strings(Valid, &["zq"]),
            strings(Valid, &["zq", "qz"]),
            strings(Border, &[""]),
            strings(Border, &["zq"; MAX_STRINGS]),
            strings(Border, &["z".repeat(MAX_STRING_BYTES).as_str()]),
            strings(OutOfRange, &["z".repeat(MAX_STRING_BYTES + 1).as_str()]),
            strings(OutOfRange, &["zq"; MAX_STRINGS + 1]),
            not_text(),
        ],
        Kind::Tokens(_) => {
            let ids = |class, ids: &[i128]| {
                Values::new(class, DataType::Int32, ids.iter().map(|id| json!(id)).collect())
            };
            let vocab = model.vocab_size as i128;
            vec![
                ids(Valid, &[1]),
                ids(Border, &[0, vocab - 1]),
                ids(OutOfRange, &[-1]),
                ids(OutOfRange, &[0, vocab]),
                not_number(),
            ]
        }
        Kind::Bias(_) => {
            let bias = |class, json: Json| strings(class, &[json.to_string().as_str()]);
            let (last, vocab) = (model.vocab_size - 1, model.vocab_size);
            vec![
                bias(Valid, json!({"1": 1.5})),
                bias(Border, json!({"0": -MAX_BIAS, last.to_string(): MAX_BIAS})),
                bias(OutOfRange, json!({"1": MAX_BIAS + 0.5})),
                bias(OutOfRange, json!({vocab.to_string(): 1})),
                bias(WrongType, json!([1])),
                strings(WrongType, &["x"]),
            ]
        }
        Kind::Messages(_) => {
            let messages = |class, json: Json| strings(class, &[json.to_string().as_str()]);
            let hi = json!({"role": "user", "content": "hi"});
            vec![
                messages(Valid, json!([hi])),
                messages(Border, json!([hi, {"role": "assistant", "content": "hi"}, hi])),
                messages(OutOfRange, json!([])),
                messages(OutOfRange, json!([{"role": "user"}])),
                messages(WrongType, json!({})),
                strings(WrongType, &["x"]),
            ]
        }
        Kind::SamplingParameters => {
            let json = |class, json: Json| strings(class, &[json.to_string().as_str()]);
            vec![
                json(Valid, json!({"top_k": 1, "stop": ["zq"], "seed": null})),
                json(Border, json!({})),
                json(OutOfRange, json!([1])),
                strings(WrongType, &["x"]),
            ]
        }
        Kind::Only { data_type, dims, neutral, .. } => only(*data_type, dims, *neutral),
    }
}

/// Whole numbers from `least` to `most`, as far as `data_type` holds them.
fn integers(data_type: DataType, least: i128, most: i128) -> Vec<Values> {
    let holds = match data_type {
        DataType::Uint64 => 0..=u64::MAX as i128,
        _ => i32::MIN as i128..=i32::MAX as i128,
    };
    let number = |class, number: i128| {
        let wide = u64::try_from(number).map_or_else(|_| json!(number as i64), |n| json!(n));
        holds.contains(&number).then(|| Values::new(class, data_type, vec![wide]))
    };
    [
        // Few tokens, and much time.
        number(Class::Valid, (least + (most - least) / 16).max(*holds.start())),
        number(Class::Border, least),
        number(Class::Border, most),
        number(Class::OutOfRange, least - 1),
        number(Class::OutOfRange, most + 1),
        Some(Values::new(Class::OutOfRange, data_type, vec![json!(1), json!(1)])),
        Some(Values::new(Class::WrongType, DataType::String, vec![json!("x")])),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn numbers(range: Span) -> Vec<Values> {
    let number = |class, number: f32| {
        let json = match number {
            n if n.is_nan() => json!("NaN"),
            f32::INFINITY => json!("Infinity"),
            f32::NEG_INFINITY => json!("-Infinity"),
            n => json!(n),
        };
        Values::new(class, DataType::Fp32, vec![json])
    };
    let bounded = range.most.is_finite();
    let most = if bounded { range.most } else { f32::MAX };
    let inside = if bounded { (range.least + range.most) / 2.0 } else { range.least + 0.5 };
    let least = if range.above { range.least.next_up() } else { range.least };
    let below = if range.above { range.least } else { range.least - 0.5 };
    let mut values = vec![
        number(Class::Valid, inside),
        number(Class::Border, least),
        number(Class::Border, most),
        number(Class::OutOfRange, below),
    ];
    if bounded {
        values.push(number(Class::OutOfRange, range.most.next_up()));
    }
    let never = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
    values.extend(never.map(|value| number(Class::OutOfRange, value)));
    values.push(Values::new(Class::WrongType, DataType::String, vec![json!("x")]));
    values
}

/// The neutral value, if there is one, and another one.
fn only(data_type: DataType, dims: &[i64], neutral: Neutral) -> Vec<Values> {
    let element = match data_type {
        DataType::Bool => json!(neutral != Neutral::Flag(true)),
        DataType::String => json!("x"),
        _ => json!(2),
    };
    let shape: Vec<_> = dims.iter().map(|dim| usize::try_from(*dim).unwrap_or(1)).collect();
    let elements = vec![element; shape.iter().product()];
    let mut values = vec![Values { shape, ..Values::new(Class::OutOfRange, data_type, elements) }];
    let neutral = match neutral {
        Neutral::None => None,
        Neutral::Flag(flag) => Some(json!(flag)),
        Neutral::Number(number) if data_type == DataType::Fp32 => Some(json!(number)),
        Neutral::Number(number) => Some(json!(number as i64)),
    };
    if let Some(neutral) = neutral {
        values.insert(0, Values::new(Class::Valid, data_type, vec![neutral.clone()]));
        values.insert(1, Values::new(Class::Border, data_type, vec![neutral]));
    }
    // Wrong by its type, where a type is right at all.
    let other = if data_type == DataType::String { DataType::Int32 } else { DataType::String };
    let element = if other == DataType::String { json!("x") } else { json!(1) };
    values.push(Values::new(Class::WrongType, other, vec![element]));
    values
}
