//! What tests of the whole backend on the mock host share.

use serde_json::{Value, json};

/// The configuration of a sequence-mode model that takes tokens, for so many sequences.
pub fn sequence_config(max_candidate_sequences: usize, output: &Value) -> Value {
    let control = |name: &str, control| json!({"name": name, "control": [control]});
    let flag = |kind: &str| json!({"kind": kind, "int32_false_true": [0, 1]});
    let id = json!({"kind": "CONTROL_SEQUENCE_CORRID", "data_type": "TYPE_UINT64"});
    json!({
        "max_batch_size": 4,
        "input": [{"name": "TOKENS", "data_type": "TYPE_INT32", "dims": [-1]}],
        "output": output,
        "sequence_batching": {
            "max_sequence_idle_microseconds": "60000000",
            "control_input": [
                control("START", flag("CONTROL_SEQUENCE_START")),
                control("END", flag("CONTROL_SEQUENCE_END")),
                control("CORRID", id)
            ],
            "oldest": {"max_candidate_sequences": max_candidate_sequences}
        },
        "parameters": {"serving_manifest": {"string_value": "tlaloc-serving.json"}}
    })
}
