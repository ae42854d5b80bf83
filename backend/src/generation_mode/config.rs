//! What generation mode needs of a model's configuration.

use serde_json::Value;
use thiserror::Error;
use tlaloc_generation::options::{self, REPLIES, Reply, TensorSpec};

use crate::config::{data_type, dims, integer, list, name, ordinals_of};

/// The checked part of a generation-mode model's configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GenerationConfig {
    /// Whether a request may have several responses.
    pub decoupled: bool,
    /// Whether text and messages are among the inputs.
    pub takes_text: bool,
    /// The declared outputs.
    pub outputs: Vec<Output>,
    /// Device ordinals of the instances; `[0]` where the configuration names none.
    pub ordinals: Vec<i32>,
}

/// A declared output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// Which one.
    pub reply: Reply,
    /// Its dims with the batch dimension; -1 takes any size.
    pub dims: Vec<i64>,
}

/// A configuration that generation mode cannot serve. Every remedy is to correct `config.pbtxt`, or
/// to write it anew with `config-gen`.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum Error {
    /// A sequence batcher would send the tokens of a sequence, not prompts.
    #[error("generation mode has no sequence_batching; leave it out of config.pbtxt")]
    SequenceBatching,
    /// A tensor is none of generation mode's.
    #[error("config.pbtxt declares the {what} '{name}', which generation mode does not have")]
    Unknown {
        /// Input or output.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// A tensor is of another type.
    #[error("{what} '{name}' has data_type {found}; it is {expected}")]
    DataType {
        /// Input or output.
        what: &'static str,
        /// Its name.
        name: String,
        /// Its type.
        found: String,
        /// What it must be.
        expected: &'static str,
    },
    /// An output has other dims.
    #[error("output '{name}' has dims {found:?}; it is {expected:?}")]
    Dims {
        /// The output.
        name: String,
        /// Its dims.
        found: Vec<i64>,
        /// What they must be.
        expected: Vec<i64>,
    },
    /// No input holds a prompt.
    #[error(
        "config.pbtxt declares no prompt: one of the inputs 'text_input', 'input_ids' and 'messages'"
    )]
    NoPrompt,
    /// No output holds what was generated.
    #[error("config.pbtxt declares neither the output 'text_output' nor 'output_ids'")]
    NoText,
}

impl GenerationConfig {
    /// Checks the configuration.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn read(config: &Value) -> Result<Self, Error> {
        if config.get("sequence_batching").is_some_and(|value| !value.is_null()) {
            return Err(Error::SequenceBatching);
        }
        let known: Vec<TensorSpec> = options::tensors().collect();
        let mut prompts = [false; 3];
        for input in list(config.get("input")) {
            let name = name(input);
            let spec = known.iter().find(|spec| spec.name == name);
            let spec = spec.ok_or_else(|| Error::Unknown { what: "input", name: name.clone() })?;
            check_type("input", input, spec)?;
            for (prompt, key) in prompts.iter_mut().zip(["text_input", "messages", "input_ids"]) {
                *prompt |= name == key;
            }
        }
        if prompts == [false; 3] {
            return Err(Error::NoPrompt);
        }
        let batched = integer(config.get("max_batch_size")).unwrap_or(0) > 0;
        let outputs = list(config.get("output")).iter().map(|output| {
            let name = name(output);
            let spec = REPLIES.iter().find(|spec| spec.tensor.name == name);
            let spec = spec.ok_or_else(|| Error::Unknown { what: "output", name: name.clone() })?;
            check_type("output", output, &spec.tensor)?;
            let (found, expected) = (dims(output), spec.tensor.dims);
            let fits = |(found, expected): (&i64, &i64)| *found == -1 || found == expected;
            if found.len() != expected.len() || !found.iter().zip(expected).all(fits) {
                return Err(Error::Dims { name, found, expected: expected.to_vec() });
            }
            let batch: &[i64] = if batched { &[1] } else { &[] };
            Ok(Output { reply: spec.reply, dims: [batch, expected].concat() })
        });
        let outputs = outputs.collect::<Result<Vec<_>, Error>>()?;
        let text = [Reply::TextOutput, Reply::OutputIds];
        if !outputs.iter().any(|output| text.contains(&output.reply)) {
            return Err(Error::NoText);
        }
        let decoupled = config.get("model_transaction_policy").and_then(|p| p.get("decoupled"));
        Ok(GenerationConfig {
            decoupled: decoupled.and_then(Value::as_bool).unwrap_or(false),
            takes_text: prompts[0] || prompts[1],
            outputs,
            ordinals: ordinals_of(config),
        })
    }
}

fn check_type(what: &'static str, tensor: &Value, spec: &TensorSpec) -> Result<(), Error> {
    let (found, expected) = (data_type(tensor), spec.data_type.config_name());
    if found == expected {
        return Ok(());
    }
    Err(Error::DataType { what, name: name(tensor), found, expected })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn good() -> Value {
        json!({
            "max_batch_size": 4,
            "model_transaction_policy": {"decoupled": true},
            "input": [
                {"name": "text_input", "data_type": "TYPE_STRING", "dims": ["1"]},
                {"name": "max_tokens", "data_type": "TYPE_INT32", "dims": ["1"]}
            ],
            "output": [
                {"name": "text_output", "data_type": "TYPE_STRING", "dims": ["1"]},
                {"name": "output_ids", "data_type": "TYPE_INT32", "dims": ["-1"]}
            ]
        })
    }

    #[test]
    fn reads_a_generated_configuration() {
        let read = GenerationConfig::read(&good()).unwrap();
        assert!(read.decoupled && read.takes_text);
        let outputs: Vec<_> = read.outputs.iter().map(|o| (o.reply, &o.dims[..])).collect();
        let expected: [(_, &[i64]); 2] =
            [(Reply::TextOutput, &[1, 1]), (Reply::OutputIds, &[1, -1])];
        assert_eq!(outputs, expected);
        let mut without_batch = good();
        without_batch["max_batch_size"] = json!(0);
        let read = GenerationConfig::read(&without_batch).unwrap();
        assert_eq!(read.outputs[1].dims, [-1]);
    }

    #[test]
    fn every_flaw_is_refused_by_name() {
        type Flaw = fn(&mut Value);
        let flaws: [(Flaw, &str); 8] = [
            (|c| c["sequence_batching"] = json!({}), "has no sequence_batching"),
            (|c| c["input"][1]["name"] = json!("max_token"), "declares the input 'max_token'"),
            (|c| c["input"][1]["data_type"] = json!("TYPE_INT64"), "'max_tokens' has data_type"),
            (|c| c["input"] = json!([]), "declares no prompt"),
            (|c| c["output"][0]["name"] = json!("text"), "declares the output 'text'"),
            (|c| c["output"][1]["data_type"] = json!("TYPE_FP32"), "it is TYPE_INT32"),
            (|c| c["output"][1]["dims"] = json!([-1, -1]), "'output_ids' has dims [-1, -1]"),
            (|c| c["output"] = json!([]), "neither the output 'text_output' nor 'output_ids'"),
        ];
        for (flaw, needle) in flaws {
            let mut config = good();
            flaw(&mut config);
            let error = GenerationConfig::read(&config).unwrap_err().to_string();
            assert!(error.contains(needle), "expected {needle:?} in {error:?}");
        }
    }
}
