//! Configs that ask for something else than what is computed are refused by the key's name.

mod common;

use common::{Checkpoint, refusal};
use serde_json::{Value, json};

/// Changes of a config that are refused, and what the message must hold.
fn refused() -> Vec<(&'static str, Value, &'static str)> {
    vec![
        ("model_type", json!("falcon"), "model_type: is 'falcon'; known are llama"),
        ("architectures", json!(["LlamaForSequenceClassification"]), "architectures: is"),
        ("attention_bias", json!(true), "attention_bias: is true; only false is supported"),
        ("mlp_bias", json!(true), "mlp_bias: is true; only false is supported"),
        ("hidden_act", json!("gelu"), "hidden_act: is \"gelu\"; only \"silu\" is supported"),
        ("partial_rotary_factor", json!(0.5), "partial_rotary_factor: is 0.5; only 1 is supported"),
        ("rope_interleaved", json!(true), "rope_interleaved: is true; only false is supported"),
        (
            "quantization_config",
            json!({"bits": 4}),
            "quantization_config: is {\"bits\":4}; only null",
        ),
        ("sliding_window", json!(4096), "sliding_window: is not a known key"),
        ("query_pre_attn_scalar", json!(256), "query_pre_attn_scalar: is not a known key"),
        ("attn_logit_softcapping", json!(null), "attn_logit_softcapping: is not a known key"),
        ("auto_map", json!({"AutoModel": "custom.Model"}), "auto_map: is not a known key"),
        ("hidden_size", json!("48"), "hidden_size: is \"48\", expected a positive integer"),
        ("num_hidden_layers", json!(0), "num_hidden_layers: is 0, expected a positive integer"),
        ("num_hidden_layers", json!(-3), "num_hidden_layers: is -3, expected a positive integer"),
        (
            "num_hidden_layers",
            json!(4_294_967_295_u32),
            "num_hidden_layers: is 4294967295, expected at most 4096",
        ),
        ("vocab_size", json!(96.5), "vocab_size: is 96.5, expected a positive integer"),
        ("num_key_value_heads", json!(4), "num_key_value_heads: is 4, which does not divide"),
        ("head_dim", json!(7), "head_dim: is 7, which is odd"),
        ("head_dim", json!(2_147_483_648_u32), "head_dim: is 2147483648, expected at most 16384"),
        ("rms_norm_eps", json!(0), "rms_norm_eps: is 0, expected a number above 0"),
        ("tie_word_embeddings", json!("no"), "tie_word_embeddings: is \"no\", expected true"),
        ("rope_parameters", json!(3), "rope_parameters: is 3, expected an object"),
        ("rope_parameters.rope_type", json!("dynamic"), "rope_parameters.rope_type: is 'dynamic'"),
        ("rope_parameters.rope_type", json!("yarn"), "rope_parameters.rope_type: is 'yarn'"),
        (
            "rope_parameters.rope_type",
            json!("longrope"),
            "rope_parameters.rope_type: is 'longrope'",
        ),
        ("rope_parameters.rope_type", json!("linear"), "rope_parameters.factor: is missing"),
        (
            "rope_parameters.type",
            json!("linear"),
            "rope_parameters.type: is 'linear', but rope_type",
        ),
        ("rope_parameters.mscale", json!(1), "rope_parameters.mscale: is not a known key"),
        ("rope_parameters.factor", json!(2), "rope_parameters.factor: is not a known key"),
        ("rope_parameters.partial_rotary_factor", json!(0.5), "rope_parameters.partial_rotary"),
        ("rope_parameters.rope_theta", json!(-1), "rope_parameters.rope_theta: is -1, expected"),
        ("rope_theta", json!(500.0), "rope_parameters.rope_theta: is 10000, but 500 at the top"),
        ("rope_scaling", json!({"type": "linear", "factor": 2}), "rope_scaling: is there beside"),
    ]
}

#[test]
fn changes_of_the_computation_are_refused_by_name() {
    for (key, value, expected) in refused() {
        let checkpoint = Checkpoint::tiny("llama").set(key, value.clone());
        let message = refusal(&checkpoint).unwrap_or_else(|| panic!("{key} = {value} accepted"));
        assert!(message.contains(expected), "{key} = {value}: {message}");
        assert!(message.contains("config.json: "), "names the file: {message}");
    }
}

#[test]
fn keys_that_must_be_there_are_named() {
    for key in [
        "model_type",
        "vocab_size",
        "hidden_size",
        "intermediate_size",
        "num_hidden_layers",
        "num_attention_heads",
        "max_position_embeddings",
    ] {
        let message = refusal(&Checkpoint::tiny("llama").remove(key)).unwrap();
        assert!(message.contains(&format!("{key}: is missing")), "{message}");
    }
    for key in ["factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"]
    {
        let key = format!("rope_parameters.{key}");
        let message = refusal(&Checkpoint::tiny("llama3").remove(&key)).unwrap();
        assert!(message.contains(&format!("{key}: is missing")), "{message}");
    }
}

#[test]
fn what_changes_nothing_is_accepted() {
    assert_eq!(refusal(&Checkpoint::tiny("llama")), None, "as it is");
    for (key, value) in [
        ("torch_dtype", json!("float16")),
        ("pretraining_tp", json!(2)),
        ("use_cache", json!(false)),
        ("_name_or_path", json!("somewhere/else")),
        ("quantization_config", json!(null)),
        ("rope_scaling", json!(null)),
        ("rope_theta", json!(10000)),
        ("rope_interleaved", json!(false)),
        ("partial_rotary_factor", json!(1.0)),
        ("rope_parameters.type", json!("default")),
    ] {
        let checkpoint = Checkpoint::tiny("llama").set(key, value.clone());
        assert_eq!(refusal(&checkpoint), None, "{key} = {value}");
    }
    for key in ["head_dim", "hidden_act", "attention_bias", "architectures", "rms_norm_eps"] {
        assert_eq!(refusal(&Checkpoint::tiny("llama").remove(key)), None, "without {key}");
    }
}

#[test]
fn a_config_that_is_no_object_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let message = common::refusal_of_folder(dir.path()).unwrap();
    assert!(message.contains("config.json: cannot be read"), "{message}");
    for (text, expected) in [("[]", "is not a JSON object"), ("{\"a\": ", "is not valid JSON")] {
        std::fs::write(dir.path().join("config.json"), text).unwrap();
        let message = common::refusal_of_folder(dir.path()).unwrap();
        assert!(message.contains(expected), "{message}");
    }
}
