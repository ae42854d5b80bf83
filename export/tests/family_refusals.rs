//! What each family's exporter must refuse when it does not know it, by name.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a failure here is a failed test")]

mod common;

use common::{Checkpoint, refusal, tiny_names};
use safetensors::Dtype;
use serde_json::{Value, json};

/// How the configs of a family are spelled.
struct Spelling {
    /// What stands before the keys of the text decoder.
    text: &'static str,
    /// What stands before the names of its tensors.
    tensors: &'static str,
    activation: &'static str,
    /// The rope dictionaries.
    ropes: &'static [&'static str],
}

fn spelling(name: &str) -> Spelling {
    let plain = Spelling {
        text: "",
        tensors: "model",
        activation: "hidden_act",
        ropes: &["rope_parameters"],
    };
    let nested = Spelling { text: "text_config.", tensors: "model.language_model", ..plain };
    match name {
        "gemma2" => Spelling { activation: "hidden_activation", ..plain },
        "gemma3" | "gemma3_linear" => Spelling {
            activation: "hidden_activation",
            ropes: &["rope_parameters.full_attention", "rope_parameters.sliding_attention"],
            ..plain
        },
        "muse_glimmer" => Spelling { activation: "hidden_activation", ..nested },
        "qwen3_5_vl" | "qwen3_5_moe_vl" => nested,
        _ => plain,
    }
}

/// `(key, value, what the message says of the key)`, for one family each.
fn own(name: &str) -> Vec<(&'static str, Value, &'static str)> {
    let layer_types =
        |kind: &str| json!(["full_attention", "full_attention", "full_attention", kind]);
    let linear = vec![
        ("layer_types", layer_types("sliding_attention"), "has 'sliding_attention'; linear_"),
        ("layer_types", json!(["full_attention"]), "has 1 entries for 4 layers"),
        ("layer_types", json!(["linear_attention"].repeat(4)), "gives no layer of full_attention"),
        ("linear_num_value_heads", json!(3), "is 3, which linear_num_key_heads 2 does not divide"),
        ("attn_output_gate", json!(false), "is false; only true is supported"),
        ("use_sliding_window", json!(true), "is true; only false is supported"),
        ("rope_parameters.partial_rotary_factor", json!(0.2), "is 0.2, which is 3 of a head's 16"),
        ("rope_parameters.partial_rotary_factor", json!(1.5), "is 1.5, which is 24 of a head's"),
    ];
    match name {
        "llama" | "llama3" | "llama_bf16" => {
            vec![("mlp_bias", json!(true), "is true; only false is supported")]
        }
        "mistral" => vec![
            ("layer_types", json!(["full_attention"].repeat(3)), "is not a known key"),
            ("sliding_window", json!(0), "is 0, expected a positive integer"),
        ],
        "qwen2" | "qwen3" => vec![
            (
                "layer_types",
                json!(["sliding_attention"].repeat(3)),
                "has sliding_attention, but use_",
            ),
            (
                "layer_types",
                json!(["chunked_attention"].repeat(3)),
                "has 'chunked_attention'; sliding_",
            ),
            ("max_window_layers", json!(-1), "is -1, expected a whole number"),
        ],
        "gemma2" => vec![
            ("use_bidirectional_attention", json!(true), "is true; only false is supported"),
            ("layer_types", layer_types("linear_attention"), "has 'linear_attention'; sliding_"),
            ("hidden_act", json!("silu"), "is \"silu\"; only \"gelu_pytorch_tanh\""),
            ("query_pre_attn_scalar", json!(null), "is missing"),
            ("sliding_window", json!(null), "is missing"),
        ],
        "gemma3" | "gemma3_linear" => vec![
            ("attn_logit_softcapping", json!(50.0), "is 50.0; only null is supported"),
            ("use_bidirectional_attention", json!(true), "is true; only false is supported"),
            ("layer_types", layer_types("chunked_attention"), "has 'chunked_attention'; sliding_"),
            ("query_pre_attn_scalar", json!(null), "is missing"),
            ("sliding_window", json!(null), "is missing"),
            ("rope_parameters.sliding_attention", json!(null), "is missing"),
            ("rope_parameters.full_attention.rope_theta", json!(null), "is missing"),
            ("rope_parameters.rope_type", json!("default"), "is not a known key"),
        ],
        "muse_glimmer" => vec![
            ("layer_rope_theta", json!([20000.0, 20000.0, 20000.0]), "has 3 entries for 4 layers"),
            ("layer_rope_theta", json!([20000.0, 20000.0, 10000.0, 0]), "has 10000, which is neit"),
            ("layer_rope_theta", json!(null), "is missing"),
            ("layer_types", layer_types("linear_attention"), "has 'linear_attention'; sliding_"),
            ("tie_word_embeddings", json!(null), "is missing"),
            ("model_type", json!("llama"), "is \"llama\"; only \"muse_glimmer_text\" is"),
        ],
        "qwen3_moe" | "qwen3_moe_dense" => vec![
            ("num_experts", json!(4), "is 8, but num_experts is 4"),
            ("num_local_experts", json!(null), "is missing"),
            ("num_experts_per_tok", json!(9), "is 9, of 8 experts"),
            ("mlp_only_layers", json!([3]), "names layer 3, of 3"),
            ("decoder_sparse_step", json!(0), "is 0, expected a positive integer"),
            ("use_sliding_window", json!(true), "is missing"),
        ],
        "qwen3_next" => {
            let routed = ("num_experts_per_tok", json!(9), "is 9, of 8 experts");
            [linear, vec![routed, ("mlp_only_layers", json!([4]), "names layer 4, of 4")]].concat()
        }
        "qwen3_5" | "qwen3_5_vl" => linear,
        "qwen3_5_moe" | "qwen3_5_moe_vl" => {
            let ignored = ("norm_topk_prob", json!(false), "is false; only true is supported");
            [linear, vec![ignored]].concat()
        }
        other => panic!("the family '{other}' has no refusals"),
    }
}

/// The key that the message about `key` names, where that is another.
fn named(key: &str, says: &str) -> &'static str {
    match (key, says) {
        ("num_experts", "is 8, but num_experts is 4") => "num_local_experts",
        ("num_local_experts", _) => "num_experts",
        ("use_sliding_window", "is missing") => "sliding_window",
        _ => "",
    }
}

fn assert_refused(checkpoint: &Checkpoint, change: &str, expected: &str) {
    let message = refusal(checkpoint).unwrap_or_else(|| panic!("{change} is accepted"));
    assert!(message.contains(expected), "{change}: not '{expected}' but {message}");
}

/// Keys whose absence the reference takes for a value that a random checkpoint need not have.
#[test]
fn a_window_or_a_cap_is_stated_or_null() {
    for (name, key) in [
        ("mistral", "sliding_window"),
        ("gemma2", "attn_logit_softcapping"),
        ("gemma2", "final_logit_softcapping"),
    ] {
        let said = format!("{key}: is missing; null stands for none");
        assert_refused(
            &Checkpoint::tiny(name).remove(key),
            &format!("{name} without {key}"),
            &said,
        );
        assert_eq!(refusal(&Checkpoint::tiny(name).set(key, json!(null))), None, "{name}: {key}");
    }
}

#[test]
fn every_family_refuses_what_it_does_not_compute() {
    for name in tiny_names() {
        let Spelling { text, activation, ropes, .. } = spelling(&name);
        assert_eq!(refusal(&Checkpoint::tiny(&name)), None, "{name} as it is");
        let mut changes = vec![
            ("model_type".to_owned(), json!("unheard_of"), "is 'unheard_of'; known are".to_owned()),
            ("architectures".to_owned(), json!(["Other"]), "is [\"Other\"]; only [".to_owned()),
            ("quantization_config".to_owned(), json!({"bits": 4}), "is {\"bits\":4}".to_owned()),
        ];
        let mut text_change = |key: &str, value, says: &str| {
            changes.push((format!("{text}{key}"), value, says.to_owned()));
        };
        text_change("quantization_config", json!({"bits": 4}), "is {\"bits\":4}; only null");
        text_change("attention_bias", json!(true), "is true; only false is supported");
        text_change(activation, json!("relu2"), "is \"relu2\"; only \"");
        text_change("new_key", json!(1), "is not a known key, and may change what");
        text_change("num_key_value_heads", json!(5), "is 5, which does not divide");
        for rope in ropes {
            let key = |key| format!("{rope}.{key}");
            for kind in ["yarn", "dynamic", "longrope", "proportional"] {
                text_change(
                    &key("rope_type"),
                    json!(kind),
                    &format!("is '{kind}'; default, linear"),
                );
            }
            text_change(&key("attention_factor"), json!(1.0), "is not a known key");
            if !name.contains("qwen3_5") && name != "qwen3_next" {
                text_change(&key("partial_rotary_factor"), json!(0.5), "is 0.5; only 1 is");
            }
        }
        for (key, value, says) in changes {
            let changed = Checkpoint::tiny(&name).set(&key, value.clone());
            assert_refused(
                &changed,
                &format!("{name}: {key} = {value}"),
                &format!("{key}: {says}"),
            );
        }
        for (key, value, says) in own(&name) {
            let changed = Checkpoint::tiny(&name).set(&format!("{text}{key}"), value.clone());
            let key = if named(key, says).is_empty() { key } else { named(key, says) };
            let expected = format!("{text}{key}: {says}");
            assert_refused(&changed, &format!("{name}: {key} = {value}"), &expected);
        }
    }
}

#[test]
fn old_rope_layouts_are_refused_by_their_keys() {
    for name in ["llama", "mistral", "qwen2", "qwen3", "qwen3_moe", "gemma2", "qwen3_next"] {
        let old = |rope: Value| {
            let checkpoint = Checkpoint::tiny(name).remove("rope_parameters");
            checkpoint.set("rope_theta", json!(10000.0)).set("rope_scaling", rope)
        };
        assert_eq!(refusal(&old(json!({"type": "linear", "factor": 2.0}))), None, "{name}");
        let expected = "rope_scaling.rope_type: is 'yarn'; default, linear";
        for key in ["type", "rope_type"] {
            assert_refused(&old(json!({key: "yarn", "factor": 2.0})), name, expected);
        }
        let unknown = old(json!({"type": "linear", "factor": 2.0, "mscale": 1.0}));
        assert_refused(&unknown, name, "rope_scaling.mscale: is not a known key");
    }
    let gemma3 = Checkpoint::tiny("gemma3").remove("rope_parameters").set("rope_theta", json!(1e6));
    assert_refused(&gemma3, "one base", "rope_local_base_freq: is missing");
    let gemma3 = gemma3.set("rope_local_base_freq", json!(1e4));
    assert_eq!(refusal(&gemma3), None);
    let yarn = gemma3.set("rope_scaling", json!({"rope_type": "yarn"}));
    assert_refused(&yarn, "yarn", "rope_scaling.rope_type: is 'yarn'");
}

/// Whether a tensor belongs to the part of a multimodal model that is left out.
fn is_vision(tensor: &str) -> bool {
    tensor.contains("vis")
}

#[test]
fn every_tensor_of_the_text_decoder_is_needed() {
    for name in tiny_names() {
        let whole = Checkpoint::tiny(&name);
        let (vision, text): (Vec<_>, Vec<_>) =
            whole.tensors.keys().partition(|tensor| is_vision(tensor));
        // One of each kind is enough: a layer's or an expert's are those of all.
        let kind = |tensor: &str| -> String {
            tensor.split('.').filter(|part| part.parse::<usize>().is_err()).collect()
        };
        let mut seen = std::collections::BTreeSet::new();
        for tensor in text {
            if !seen.insert(kind(tensor)) {
                continue;
            }
            let mut less = whole.clone();
            less.tensors.remove(tensor);
            // Without the stacked experts, single ones are looked for.
            let missing = match tensor.split_once(".experts.gate_up_proj") {
                Some((mlp, "")) => format!("{mlp}.experts.0.gate_proj.weight"),
                _ => tensor.clone(),
            };
            assert_refused(&less, tensor, &format!("tensor '{missing}': is in none of"));
        }
        let mut less = whole.clone();
        less.tensors.retain(|tensor, _| !vision.contains(&tensor));
        assert_eq!(refusal(&less), None, "{name} without its vision part");
    }
}

#[test]
fn tensors_without_a_role_are_refused() {
    for name in tiny_names() {
        let prefix = spelling(&name).tensors;
        let mut unknown =
            vec![format!("{prefix}.layers.0.mlp.up_proj.bias"), "vocab.scale".to_owned()];
        if name != "qwen2" {
            unknown.push(format!("{prefix}.layers.0.self_attn.q_proj.bias"));
        }
        for tensor in unknown {
            let mut more = Checkpoint::tiny(&name);
            more.tensors.insert(tensor.clone(), (Dtype::F32, vec![1], vec![0; 4]));
            let expected = format!("tensor '{tensor}': is not part of the model");
            assert_refused(&more, &format!("{name} with {tensor}"), &expected);
        }
    }
}

#[test]
fn a_tied_head_that_differs_is_refused() {
    for name in tiny_names() {
        let Spelling { text, tensors, .. } = spelling(&name);
        let tied = Checkpoint::tiny(&name).set(&format!("{text}tie_word_embeddings"), json!(true));
        // The outer config of a multimodal model has the key, too.
        let mut tied = match tied.config.get("tie_word_embeddings") {
            Some(_) => tied.set("tie_word_embeddings", json!(true)),
            None => tied,
        };
        let table = tied.tensors[&format!("{tensors}.embed_tokens.weight")].clone();
        tied.tensors.insert("lm_head.weight".to_owned(), table);
        assert_eq!(refusal(&tied), None, "{name} with its embedding stored twice");
        *tied.tensors.get_mut("lm_head.weight").unwrap().2.last_mut().unwrap() ^= 1;
        assert_refused(&tied, &name, "tensor 'lm_head.weight': differs from");
    }
    let disagreeing = Checkpoint::tiny("qwen3_5_vl").set("tie_word_embeddings", json!(true));
    let expected = "text_config.tie_word_embeddings: is false, but true at the top level";
    assert_refused(&disagreeing, "a disagreement", expected);
}

#[test]
fn placeholders_are_ids_of_the_vocabulary() {
    for name in ["muse_glimmer", "qwen3_5_vl", "qwen3_5_moe_vl"] {
        let beyond = Checkpoint::tiny(name).set("video_token_id", json!(96));
        assert_refused(&beyond, name, "video_token_id: is 96, beyond the vocabulary of 96");
    }
}
