//! What a server and a model are configured with.

use std::sync::LazyLock;

use serde_json::{Value, json};
use triton_backend::entry_points;
use triton_mock_host::{BackendSetup, Host, ModelSetup};
use triton_tlaloc::Tlaloc;
use triton_tlaloc::settings::ServerSettings;

use crate::repository;

/// Examples of each mode.
const MODELS: [&str; 4] = ["matmul_sumsq", "ragged_batched", "reference_sequence", "bounded_mean"];

/// The first byte chooses a model of the examples, the rest is its configuration, as the server gives
/// it: JSON. Its load has to end with an error, at the latest where the plugin is looked for: there is
/// none. The same JSON is read as the backend's own settings.
pub fn configuration(data: &[u8]) {
    static HOST: LazyLock<Host> = LazyLock::new(|| {
        let config = json!({"cmdline": {"pjrt-plugin-path": "/there is no plugin"}}).to_string();
        Host::start(entry_points::<Tlaloc>(), BackendSetup { config, ..Default::default() })
            .unwrap()
    });
    let Some((&model, config)) = data.split_first() else { return };
    let Ok(config) = std::str::from_utf8(config) else { return };
    let Ok(parsed) = serde_json::from_str::<Value>(config) else { return };
    let _ = ServerSettings::read(&parsed, |_| None);
    let name = MODELS[usize::from(model) % MODELS.len()];
    let setup = ModelSetup {
        name: name.to_owned(),
        repository: repository("model-repository").join(name),
        config: config.to_owned(),
        ..Default::default()
    };
    match HOST.load(setup) {
        Ok(_) => panic!("a model was loaded without a plugin"),
        Err(failure) => assert!(!failure.to_string().contains("panicked"), "{failure}"),
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let tensor = |name: &str, data_type: &str, dims: &[i64]| json!([{"name": name, "data_type": data_type, "dims": dims}]);
    let text = |value: &str| json!({"string_value": value});
    let cpu = json!([{"kind": "KIND_MODEL", "count": 1, "gpus": []}]);
    let plain = json!({
        "max_batch_size": 0, "instance_group": cpu,
        "input": tensor("A", "TYPE_FP32", &[2, 2]),
        "output": [{"name": "VALUE", "data_type": "TYPE_FP32", "dims": [1]},
                   {"name": "GRAD", "data_type": "TYPE_FP32", "dims": ["2", "2"]}],
        "parameters": {"artifact": text("model.mlir"), "entry": text("main"),
                       "arguments": text("input:A"), "results": text("output:VALUE, output:GRAD"),
                       "zero_copy": text("false")}
    });
    let files = ["1", "2", "4", "8"].map(|rows| format!("square_plus_b{rows}_n4.mlir")).join(",");
    let batched = json!({
        "max_batch_size": 8, "instance_group": cpu, "dynamic_batching": {},
        "input": [{"name": "X", "data_type": "TYPE_FP32", "dims": [-1], "reshape": {"shape": [4]}}],
        "output": tensor("Y", "TYPE_FP32", &[-1]),
        "parameters": {"artifact": text(&files), "group_by_shape": text("true")}
    });
    let sequence = sequence();
    let bounded = json!({
        "max_batch_size": 0, "instance_group": [{"kind": "KIND_GPU", "gpus": ["0", 1]}],
        "input": tensor("x0", "TYPE_FP32", &[-1, 4]),
        "output": tensor("y0", "TYPE_FP32", &[4]),
        "parameters": {"bounded_manifest": text("tlaloc-bounded.json")}
    });
    let server = json!({"cmdline": {"memory-fraction": "0.5", "preallocate": "true",
                                    "pjrt-plugin-path": "/p.so", "compile-cache-dir": ""}});
    let incomplete = json!({"parameters": {"artifact": text("model.mlir")}});
    [(0, plain), (1, batched), (2, sequence), (3, bounded), (0, server), (0, incomplete)]
        .into_iter()
        .map(|(model, config)| [&[model], config.to_string().as_bytes()].concat())
        .collect()
}

/// The configuration of `reference_sequence`, without waits for others to batch with.
pub(crate) fn sequence() -> Value {
    json!({
        "max_batch_size": 4, "instance_group": [{"kind": "KIND_MODEL", "count": 1}],
        "input": [{"name": "TOKENS", "data_type": "TYPE_INT32", "dims": ["-1"]}],
        "output": [{"name": "LOGITS", "data_type": "TYPE_FP32", "dims": ["11"]},
                   {"name": "KV_PAGES", "data_type": "TYPE_INT32", "dims": [2]},
                   {"name": "NEXT_TOKEN", "data_type": "TYPE_INT32", "dims": ["1"]}],
        "sequence_batching": {
            "max_sequence_idle_microseconds": "60000000",
            "control_input": [
                {"name": "START", "control": [
                    {"kind": "CONTROL_SEQUENCE_START", "int32_false_true": [0, 1]}]},
                {"name": "END", "control": [
                    {"kind": "CONTROL_SEQUENCE_END", "int32_false_true": [0, 1]}]},
                {"name": "CORRID", "control": [
                    {"kind": "CONTROL_SEQUENCE_CORRID", "data_type": "TYPE_UINT64"}]}],
            "oldest": {"max_candidate_sequences": 5, "max_queue_delay_microseconds": 0}
        },
        "parameters": {"serving_manifest": {"string_value": "tlaloc-serving.json"},
                       "cohort_wait_microseconds": {"string_value": "0"},
                       "prompt_wait_microseconds": {"string_value": "0"}}
    })
}
