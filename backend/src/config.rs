//! What sequence mode needs of a model's configuration (sequence mode §4).

use std::time::Duration;

use serde_json::Value;
use thiserror::Error;

/// The checked part of a sequence-mode model's configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SequenceConfig {
    /// Largest batch that Triton hands over at once.
    pub max_batch_size: u32,
    /// Name of the token input, INT32 `[-1]`.
    pub tokens: String,
    /// Whether a request may have any number of responses.
    pub decoupled: bool,
    /// Names of the outputs.
    pub outputs: Outputs,
    /// Whether the controls are declared: Triton then writes every correlation id to a tensor of 8
    /// bytes, whatever its length.
    pub controls: bool,
    /// How long Triton keeps an idle sequence.
    pub max_sequence_idle: Duration,
    /// How long Triton's own batcher delays a request.
    pub max_queue_delay: Duration,
    /// Device ordinals of the instances; `[0]` where the configuration names none.
    pub ordinals: Vec<i32>,
}

/// Configured output names; the names themselves are free.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outputs {
    /// FP32 `[vocab]`: logits of the last token sent.
    pub logits: Option<String>,
    /// The dims declared for the logits.
    pub logits_dims: Vec<i64>,
    /// INT32 `[-1]`: emitted tokens of a speculative model.
    pub emitted: Option<String>,
    /// INT32 `[2]`: KV pages and ring pages held.
    pub pages: Option<String>,
    /// INT32 `[1]`: greedy next token.
    pub next_token: Option<String>,
}

/// A configuration that sequence mode cannot serve. Every remedy is to correct `config.pbtxt`, or
/// to write it anew with `config-gen`.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum Error {
    /// `max_batch_size` is 0 or absent.
    #[error("sequence mode needs max_batch_size >= 1, config.pbtxt has {0}")]
    MaxBatchSize(i64),
    /// There are several inputs, or none.
    #[error("sequence mode declares exactly one input, config.pbtxt declares {0}")]
    InputCount(usize),
    /// The input's type is not TYPE_INT32.
    #[error("input '{name}' has data_type {found}; token ids are TYPE_INT32")]
    InputType {
        /// The input.
        name: String,
        /// Its type.
        found: String,
    },
    /// The input's dims are not `[ -1 ]`.
    #[error("input '{name}' has dims {found:?}; a request's tokens are [ -1 ]")]
    InputDims {
        /// The input.
        name: String,
        /// Its dims.
        found: Vec<i64>,
    },
    /// There are no outputs, or more than three.
    #[error("sequence mode declares 1 to 3 outputs, config.pbtxt declares {0}")]
    OutputCount(usize),
    /// An output is none of the known ones.
    #[error(
        "output '{name}' is {data_type} {dims:?}; sequence mode has TYPE_FP32 [ vocab ] logits, \
         TYPE_INT32 [ -1 ] tokens, TYPE_INT32 [ 1 ] next token, and the pages output is [ 2 ]"
    )]
    Output {
        /// The output.
        name: String,
        /// Its type.
        data_type: String,
        /// Its dims.
        dims: Vec<i64>,
    },
    /// Two outputs are of one kind.
    #[error("outputs '{first}' and '{second}' are both the {kind} output; keep one")]
    OutputTwice {
        /// The kind.
        kind: &'static str,
        /// The first.
        first: String,
        /// The second.
        second: String,
    },
    /// Neither logits nor tokens, or both.
    #[error(
        "exactly one of a TYPE_FP32 logits output and a TYPE_INT32 [ -1 ] tokens output is needed"
    )]
    Answer,
    /// `sequence_batching` is absent.
    #[error("sequence mode needs sequence_batching with the oldest strategy")]
    NoSequenceBatching,
    /// `sequence_batching` has the direct strategy.
    #[error("sequence_batching uses the direct strategy; use oldest")]
    Direct,
    /// A control is not declared as the backend needs it.
    #[error("control '{name}' must be declared with {needed}")]
    Control {
        /// The control input.
        name: String,
        /// What is needed.
        needed: &'static str,
    },
    /// Controls are missing.
    #[error(
        "sequence_batching must declare the START, END and CORRID controls, or none of them; missing:{0}"
    )]
    MissingControls(String),
}

impl SequenceConfig {
    /// Checks the configuration in the order of sequence mode §4.
    pub fn read(config: &Value) -> Result<Self, Error> {
        let max_batch_size = integer(config.get("max_batch_size")).unwrap_or(0);
        let max_batch_size = u32::try_from(max_batch_size)
            .ok()
            .filter(|size| *size >= 1)
            .ok_or(Error::MaxBatchSize(max_batch_size))?;
        let [input] = list(config.get("input")) else {
            return Err(Error::InputCount(list(config.get("input")).len()));
        };
        let tokens = name(input);
        if data_type(input) != "TYPE_INT32" {
            return Err(Error::InputType { name: tokens, found: data_type(input) });
        }
        let outputs = Outputs::read(list(config.get("output")))?;
        if dims(input) != [-1] {
            return Err(Error::InputDims { name: tokens, found: dims(input) });
        }
        let batching = config
            .get("sequence_batching")
            .filter(|value| !value.is_null())
            .ok_or(Error::NoSequenceBatching)?;
        if batching.get("direct").is_some_and(|value| !value.is_null()) {
            return Err(Error::Direct);
        }
        let controls = list(batching.get("control_input"));
        check_controls(controls)?;
        let microseconds = |value| {
            integer(value).and_then(|value| u64::try_from(value).ok()).map(Duration::from_micros)
        };
        let decoupled = config
            .get("model_transaction_policy")
            .and_then(|policy| policy.get("decoupled"))
            .and_then(Value::as_bool);
        Ok(SequenceConfig {
            max_batch_size,
            tokens,
            decoupled: decoupled.unwrap_or(false),
            outputs,
            controls: !controls.is_empty(),
            max_sequence_idle: microseconds(batching.get("max_sequence_idle_microseconds"))
                .filter(|idle| !idle.is_zero())
                .unwrap_or(Duration::from_secs(1)),
            max_queue_delay: microseconds(
                batching
                    .get("oldest")
                    .and_then(|oldest| oldest.get("max_queue_delay_microseconds")),
            )
            .unwrap_or_default(),
            ordinals: ordinals(list(config.get("instance_group"))),
        })
    }
}

impl Outputs {
    fn read(outputs: &[Value]) -> Result<Self, Error> {
        if !(1..=3).contains(&outputs.len()) {
            return Err(Error::OutputCount(outputs.len()));
        }
        let mut read = Outputs::default();
        for output in outputs {
            let (name, data_type, dims) = (name(output), data_type(output), dims(output));
            let (kind, slot) = match (data_type.as_str(), dims.as_slice()) {
                ("TYPE_FP32", _) => {
                    read.logits_dims = dims;
                    ("logits", &mut read.logits)
                }
                ("TYPE_INT32", [-1]) => ("tokens", &mut read.emitted),
                ("TYPE_INT32", [1]) => ("next token", &mut read.next_token),
                ("TYPE_INT32", [2]) => ("pages", &mut read.pages),
                _ => return Err(Error::Output { name, data_type, dims }),
            };
            if let Some(first) = slot.take() {
                return Err(Error::OutputTwice { kind, first, second: name });
            }
            *slot = Some(name);
        }
        if read.logits.is_some() == read.emitted.is_some() {
            return Err(Error::Answer);
        }
        Ok(read)
    }
}

/// All three controls, or none: the backend reads ids and flags from the request itself.
fn check_controls(inputs: &[Value]) -> Result<(), Error> {
    if inputs.is_empty() {
        return Ok(());
    }
    let (mut start, mut end, mut correlation) = (false, false, false);
    for input in inputs {
        for control in list(input.get("control")) {
            let kind = control.get("kind").and_then(Value::as_str).unwrap_or_default();
            match kind {
                "CONTROL_SEQUENCE_START" | "CONTROL_SEQUENCE_END" => {
                    if list(control.get("int32_false_true")).len() != 2 {
                        return Err(Error::Control {
                            name: name(input),
                            needed: "int32_false_true: [ 0, 1 ]",
                        });
                    }
                    if kind == "CONTROL_SEQUENCE_START" { start = true } else { end = true }
                }
                "CONTROL_SEQUENCE_CORRID" => {
                    if !["TYPE_UINT64", "TYPE_INT64"].contains(&data_type(control).as_str()) {
                        return Err(Error::Control {
                            name: name(input),
                            needed: "data_type: TYPE_UINT64",
                        });
                    }
                    correlation = true;
                }
                _ => {}
            }
        }
    }
    let missing: String = [(start, " START"), (end, " END"), (correlation, " CORRID")]
        .iter()
        .filter(|(declared, _)| !declared)
        .map(|(_, name)| *name)
        .collect();
    if missing.is_empty() { Ok(()) } else { Err(Error::MissingControls(missing)) }
}

/// The device ordinals of a configuration.
pub(crate) fn ordinals_of(config: &Value) -> Vec<i32> {
    ordinals(list(config.get("instance_group")))
}

/// The devices of instance groups, each once, in order (tensor mode §8): the GPUs that they name,
/// and 0 for groups elsewhere.
pub(crate) fn ordinals(groups: &[Value]) -> Vec<i32> {
    let of_group = |group: &Value| -> Vec<i32> {
        let elsewhere =
            matches!(group.get("kind").and_then(Value::as_str), Some("KIND_CPU" | "KIND_MODEL"));
        let gpus = list(group.get("gpus")).iter();
        let gpus = gpus.filter_map(|gpu| i32::try_from(integer(Some(gpu))?).ok());
        if elsewhere { vec![0] } else { gpus.collect() }
    };
    let mut named: Vec<i32> = groups.iter().flat_map(of_group).collect();
    named.sort_unstable();
    named.dedup();
    if named.is_empty() { vec![0] } else { named }
}

/// Triton writes 64-bit integers as numbers or as strings.
pub(crate) fn integer(value: Option<&Value>) -> Option<i64> {
    match value? {
        Value::String(text) => text.parse().ok(),
        other => other.as_i64(),
    }
}

pub(crate) fn list(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

pub(crate) fn dims(tensor: &Value) -> Vec<i64> {
    list(tensor.get("dims")).iter().filter_map(|dim| integer(Some(dim))).collect()
}

/// The dims that the backend sees: those of `reshape` where there is one.
pub(crate) fn shape(tensor: &Value) -> Vec<i64> {
    match tensor.get("reshape").filter(|reshape| !reshape.is_null()) {
        Some(reshape) => {
            let sizes = list(reshape.get("shape")).iter();
            sizes.filter_map(|size| integer(Some(size))).collect()
        }
        None => dims(tensor),
    }
}

pub(crate) fn name(tensor: &Value) -> String {
    tensor.get("name").and_then(Value::as_str).unwrap_or_default().to_owned()
}

pub(crate) fn data_type(tensor: &Value) -> String {
    tensor.get("data_type").and_then(Value::as_str).unwrap_or("TYPE_INVALID").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn good() -> Value {
        json!({
            "max_batch_size": 4,
            "input": [{"name": "TOKENS", "data_type": "TYPE_INT32", "dims": ["-1"]}],
            "output": [
                {"name": "LOGITS", "data_type": "TYPE_FP32", "dims": ["11"]},
                {"name": "KV_PAGES", "data_type": "TYPE_INT32", "dims": [2]},
                {"name": "NEXT_TOKEN", "data_type": "TYPE_INT32", "dims": ["1"]}
            ],
            "sequence_batching": {
                "max_sequence_idle_microseconds": "60000000",
                "control_input": [
                    {"name": "START", "control": [
                        {"kind": "CONTROL_SEQUENCE_START", "int32_false_true": [0, 1]}]},
                    {"name": "END", "control": [
                        {"kind": "CONTROL_SEQUENCE_END", "int32_false_true": [0, 1]}]},
                    {"name": "CORRID", "control": [
                        {"kind": "CONTROL_SEQUENCE_CORRID", "data_type": "TYPE_UINT64"}]}
                ],
                "oldest": {"max_candidate_sequences": 5, "max_queue_delay_microseconds": 1000}
            },
            "instance_group": [{"kind": "KIND_MODEL", "count": 1, "gpus": []}]
        })
    }

    #[test]
    fn reads_a_generated_configuration() {
        let read = SequenceConfig::read(&good()).unwrap();
        assert_eq!(read.max_batch_size, 4);
        assert_eq!(read.tokens, "TOKENS");
        assert_eq!(read.outputs.logits.as_deref(), Some("LOGITS"));
        assert_eq!(read.outputs.pages.as_deref(), Some("KV_PAGES"));
        assert_eq!(read.outputs.next_token.as_deref(), Some("NEXT_TOKEN"));
        assert_eq!(read.max_sequence_idle, Duration::from_secs(60));
        assert_eq!(read.max_queue_delay, Duration::from_millis(1));
        assert_eq!(read.ordinals, [0]);
    }

    #[test]
    fn an_absent_idle_time_is_tritons_default() {
        let mut config = good();
        config["sequence_batching"]["max_sequence_idle_microseconds"].take();
        let read = SequenceConfig::read(&config).unwrap();
        assert_eq!(read.max_sequence_idle, Duration::from_secs(1));
    }

    #[test]
    fn controls_may_be_left_out_altogether() {
        assert!(SequenceConfig::read(&good()).unwrap().controls);
        let mut config = good();
        config["sequence_batching"]["control_input"] = json!([]);
        assert!(!SequenceConfig::read(&config).unwrap().controls);
    }

    #[test]
    fn names_of_outputs_are_free_and_two_may_be_absent() {
        let mut config = good();
        config["output"] = json!([{"name": "SCORES", "data_type": "TYPE_FP32", "dims": [11]}]);
        let read = SequenceConfig::read(&config).unwrap();
        assert_eq!(
            read.outputs,
            Outputs { logits: Some("SCORES".into()), logits_dims: vec![11], ..Outputs::default() }
        );
    }

    #[test]
    fn every_flaw_is_refused_by_name() {
        type Flaw = fn(&mut Value);
        let flaws: [(Flaw, &str); 16] = [
            (|c| c["max_batch_size"] = json!(0), "needs max_batch_size >= 1"),
            (|c| c["max_batch_size"] = Value::Null, "needs max_batch_size >= 1"),
            (|c| c["input"] = json!([]), "declares exactly one input"),
            (
                |c| {
                    let second = c["input"][0].clone();
                    c["input"].as_array_mut().unwrap().push(second);
                },
                "declares exactly one input",
            ),
            (
                |c| c["input"][0]["data_type"] = json!("TYPE_INT64"),
                "'TOKENS' has data_type TYPE_INT64",
            ),
            (|c| c["input"][0]["dims"] = json!([8]), "'TOKENS' has dims [8]"),
            (|c| c["output"] = json!([]), "1 to 3 outputs"),
            (|c| c["output"][1]["dims"] = json!([3]), "the pages output is [ 2 ]"),
            (|c| c["output"][0]["data_type"] = json!("TYPE_FP16"), "'LOGITS' is TYPE_FP16"),
            (|c| c["output"][1]["dims"] = json!([1]), "both the next token output"),
            (|c| c["output"][1]["dims"] = json!([-1]), "exactly one of"),
            (|c| c["sequence_batching"] = Value::Null, "needs sequence_batching"),
            (
                |c| c["sequence_batching"]["direct"] = json!({}),
                "uses the direct strategy; use oldest",
            ),
            (
                |c| {
                    c["sequence_batching"]["control_input"].as_array_mut().unwrap().pop();
                },
                "missing: CORRID",
            ),
            (
                |c| {
                    c["sequence_batching"]["control_input"].as_array_mut().unwrap().drain(..2);
                },
                "missing: START END",
            ),
            (
                |c| {
                    c["sequence_batching"]["control_input"][0]["control"][0] =
                        json!({"kind": "CONTROL_SEQUENCE_START", "fp32_false_true": [0.0, 1.0]})
                },
                "control 'START' must be declared with int32_false_true",
            ),
        ];
        for (flaw, needle) in flaws {
            let mut config = good();
            flaw(&mut config);
            let error = SequenceConfig::read(&config).unwrap_err().to_string();
            assert!(error.contains(needle), "expected {needle:?} in {error:?}");
        }
    }
}
