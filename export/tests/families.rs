//! What configs and tensors of each family are exported as, where logits do not tell.

#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

mod common;

use std::path::Path;

use common::{Checkpoint, export_to, tiny, tree};
use safetensors::Dtype;
use serde_json::{Value, json};
use tlaloc_artifact::Artifact;
use tlaloc_export::ExportOptions;
use tlaloc_export::checkpoint::Config;
use tlaloc_export::family;
use tlaloc_export::spec::{AttentionSpec, LayerSpec, ModelSpec};

fn artifact(checkpoint: &Checkpoint, dir: &Path) -> Artifact {
    checkpoint.write(&dir.join("checkpoint"));
    export_to(&dir.join("checkpoint"), &dir.join("out"), ExportOptions::default()).unwrap();
    Artifact::open(&dir.join("out/tlaloc-serving.json")).unwrap()
}

fn spec(checkpoint: &Checkpoint) -> ModelSpec {
    let dir = tempfile::tempdir().unwrap();
    checkpoint.write_config(dir.path());
    family::read(Config::open(dir.path()).unwrap()).unwrap().1
}

fn windows(checkpoint: &Checkpoint) -> Vec<Option<usize>> {
    let window = |attention: &AttentionSpec| attention.window;
    spec(checkpoint).layers.iter().map(|l| l.attention().and_then(window)).collect()
}

#[test]
fn placeholder_tokens_are_refused_by_the_server() {
    for name in ["muse_glimmer", "qwen3_5_vl", "qwen3_5_moe_vl"] {
        let dir = tempfile::tempdir().unwrap();
        let checkpoint = Checkpoint::tiny(name);
        let tokens = |artifact: Artifact| -> Vec<(i64, String)> {
            let tokens = &artifact.manifest().model.refused_tokens;
            tokens.iter().map(|t| (t.id, t.config_key.clone())).collect()
        };
        let both = [(3, "image_token_id".to_owned()), (4, "video_token_id".to_owned())];
        assert_eq!(tokens(artifact(&checkpoint, dir.path())), both, "{name}");
        // One token for both is refused once.
        let one = checkpoint.set("video_token_id", json!(3));
        assert_eq!(tokens(artifact(&one, dir.path())), both[..1], "{name}");
    }
}

/// Keys of published configs that the tiny ones lack.
#[test]
fn keys_without_effect_change_nothing() {
    let linear = [
        ("attn_output_gate", json!(true)),
        ("mamba_ssm_dtype", json!("float32")),
        ("mtp_use_dedicated_embeddings", json!(false)),
        ("mlp_only_layers", json!([])),
        ("rope_parameters.mrope_section", json!([11, 11, 10])),
        ("rope_parameters.mrope_interleaved", json!(true)),
    ];
    let published: [(&str, &[(&str, Value)]); 7] = [
        ("qwen2", &[("use_mrope", json!(false)), ("sliding_window", json!(32768))]),
        ("qwen3_moe", &[("max_window_layers", json!(48)), ("num_experts", json!(8))]),
        ("qwen3_next", &[("use_sliding_window", json!(false)), ("rope_scaling", json!(null))]),
        ("qwen3_5", &linear),
        ("qwen3_5_moe", &linear),
        (
            "gemma2",
            &[
                ("hidden_act", json!("gelu_pytorch_tanh")),
                ("cache_implementation", json!("hybrid")),
            ],
        ),
        ("gemma3", &[("sliding_window_pattern", json!(6))]),
    ];
    for (name, keys) in published {
        let plain = Checkpoint::tiny(name);
        let more = keys.iter().fold(plain.clone(), |c, (key, value)| c.set(key, value.clone()));
        assert_eq!(spec(&more), spec(&plain), "{name}");
    }
}

/// Gemma 3's text decoder inside a multimodal checkpoint, its tensors under `prefix`.
fn wrapped(checkpoint: &Checkpoint, prefix: &str) -> Checkpoint {
    let mut text = checkpoint.config.clone();
    text.as_object_mut().unwrap().remove("architectures");
    let tensors = checkpoint
        .tensors
        .iter()
        .map(|(name, tensor)| (name.replacen("model.", &format!("{prefix}."), 1), tensor.clone()));
    let vision = ["vision_tower.vision_model.head.weight", "multi_modal_projector.norm.weight"];
    let vision = vision.map(|name| {
        let prefix = prefix.strip_suffix(".language_model");
        let name = prefix.map_or(name.to_owned(), |prefix| format!("{prefix}.{name}"));
        (name, (Dtype::F32, vec![1], vec![0; 4]))
    });
    Checkpoint {
        config: json!({
            "architectures": ["Gemma3ForConditionalGeneration"],
            "model_type": "gemma3",
            "boi_token_index": 5,
            "eoi_token_index": 6,
            "image_token_index": 7,
            "mm_tokens_per_image": 4,
            "text_config": text,
            "vision_config": {"hidden_size": 1},
        }),
        tensors: tensors.chain(vision).collect(),
    }
}

#[test]
fn gemma3_is_read_out_of_a_multimodal_checkpoint() {
    let plain = Checkpoint::tiny("gemma3");
    let dir = tempfile::tempdir().unwrap();
    artifact(&plain, dir.path());
    let expected = tree(&dir.path().join("out"));
    for prefix in ["language_model.model", "model.language_model"] {
        let dir = tempfile::tempdir().unwrap();
        let artifact = artifact(&wrapped(&plain, prefix), dir.path());
        let refused = &artifact.manifest().model.refused_tokens;
        assert_eq!((refused[0].id, refused[0].config_key.as_str()), (7, "image_token_index"));
        let mut found = tree(&dir.path().join("out"));
        let manifest = Path::new("tlaloc-serving.json");
        found.insert(manifest.to_owned(), expected[manifest].clone());
        assert!(found == expected, "{prefix}: programs and weights are those of the text model");
    }
}

#[test]
fn windows_follow_the_config() {
    let set = |checkpoint: Checkpoint, changes: &[(&str, Value)]| {
        changes.iter().fold(checkpoint, |c, (key, value)| c.set(key, value.clone()))
    };
    let mistral = Checkpoint::tiny("mistral");
    assert_eq!(windows(&mistral), [Some(8); 3]);
    assert_eq!(windows(&set(mistral, &[("sliding_window", json!(null))])), [None; 3]);

    for name in ["qwen2", "qwen3"] {
        // A window alone means nothing.
        let qwen = set(Checkpoint::tiny(name), &[("sliding_window", json!(8))]);
        assert_eq!(windows(&qwen), [None; 3]);
        let used = [("use_sliding_window", json!(true)), ("max_window_layers", json!(1))];
        let qwen = set(qwen, &used);
        assert_eq!(windows(&qwen), [None; 3], "layer_types say so");
        let qwen = qwen.remove("layer_types");
        assert_eq!(windows(&qwen), [None, Some(8), Some(8)]);
        let deep = qwen.clone().remove("max_window_layers").set("num_hidden_layers", json!(30));
        assert_eq!(windows(&deep), [vec![None; 28], vec![Some(8); 2]].concat());
        let types = json!(["sliding_attention", "full_attention", "sliding_attention"]);
        let qwen = set(qwen, &[("layer_types", types)]);
        assert_eq!(windows(&qwen), [Some(8), None, Some(8)]);
    }
    let used = [("use_sliding_window", json!(true)), ("sliding_window", json!(8))];
    assert_eq!(windows(&set(Checkpoint::tiny("qwen3_moe"), &used)), [Some(8); 3]);

    let gemma2 = Checkpoint::tiny("gemma2").remove("layer_types");
    assert_eq!(windows(&gemma2), [Some(8), None, Some(8), None]);
    let gemma3 =
        set(Checkpoint::tiny("gemma3").remove("layer_types"), &[("num_hidden_layers", json!(7))]);
    let five_of_six = [Some(8), Some(8), Some(8), Some(8), Some(8), None, Some(8)];
    assert_eq!(windows(&gemma3), five_of_six);
    let gemma3 = set(gemma3, &[("_sliding_window_pattern", json!(2))]);
    assert_eq!(windows(&gemma3), [Some(8), None, Some(8), None, Some(8), None, Some(8)]);
    // Counted back from the last layer.
    let muse = Checkpoint::tiny("muse_glimmer").remove("text_config.layer_types");
    let muse = set(
        muse,
        &[
            ("text_config.num_hidden_layers", json!(6)),
            ("text_config.layer_rope_theta", json!([20000.0, 0, 20000.0, 20000.0, 20000.0, 0])),
        ],
    );
    assert_eq!(windows(&muse), [Some(8), None, Some(8), Some(8), Some(8), None]);
    let rotated = |layer: &LayerSpec| layer.attention().unwrap().rope_frequencies.len();
    let rotated: Vec<_> = spec(&muse).layers.iter().map(rotated).collect();
    assert_eq!(rotated, [8, 0, 8, 8, 8, 0]);
}

#[test]
fn linear_layers_follow_the_config() {
    let linear = |checkpoint: &Checkpoint| -> Vec<bool> {
        spec(checkpoint).layers.iter().map(|layer| layer.gated_delta().is_some()).collect()
    };
    for name in ["qwen3_5", "qwen3_next", "qwen3_5_moe"] {
        let untyped = Checkpoint::tiny(name).remove("layer_types");
        assert_eq!(linear(&untyped), [true, true, true, false], "{name}");
        let every_second = untyped.set("full_attention_interval", json!(2));
        assert_eq!(linear(&every_second), [true, false, true, false], "{name}");
        // The rotated part of a head, when nothing says it: a quarter.
        let untold = Checkpoint::tiny(name).remove("rope_parameters.partial_rotary_factor");
        let frequencies = spec(&untold).attention().unwrap().rope_frequencies.clone();
        assert_eq!(frequencies, [1.0, 1e-3], "{name}: 1000000^(-2i/4)");
    }
}

#[test]
fn stacked_experts_and_single_ones_export_to_the_same() {
    let stacked = Checkpoint::tiny("qwen3_5_moe_vl");
    let mut single = stacked.clone();
    let mut split = 0;
    for (name, (dtype, dims, bytes)) in &stacked.tensors {
        let Some((experts, kind)) = name.rsplit_once(".experts.") else { continue };
        single.tensors.remove(name);
        let (rows, columns) = (dims[1], dims[2]);
        for (e, expert) in bytes.chunks_exact(bytes.len() / dims[0]).enumerate() {
            let mut add = |kind: &str, bytes: &[u8], rows: usize| {
                let name = format!("{experts}.experts.{e}.{kind}.weight");
                single.tensors.insert(name, (*dtype, vec![rows, columns], bytes.to_vec()));
                split += 1;
            };
            match kind {
                "down_proj" => add(kind, expert, rows),
                _ => {
                    let (gate, up) = expert.split_at(expert.len() / 2);
                    add("gate_proj", gate, rows / 2);
                    add("up_proj", up, rows / 2);
                }
            }
        }
    }
    assert_eq!(split, 4 * 8 * 3);
    let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    artifact(&stacked, a.path());
    artifact(&single, b.path());
    assert!(tree(&a.path().join("out")) == tree(&b.path().join("out")));
}

#[test]
fn gains_stored_less_one_are_completed_exactly() {
    let dir = tempfile::tempdir().unwrap();
    let gain = |name: &str, tensor: &str, slot: &str| -> (Vec<f32>, Vec<f32>) {
        let out = dir.path().join(name);
        if !out.exists() {
            export_to(&tiny(name), &out, ExportOptions::default()).unwrap();
        }
        let artifact = Artifact::open(&out.join("tlaloc-serving.json")).unwrap();
        let slot = artifact.weights().iter().find(|weight| weight.name == slot).unwrap();
        let bytes = std::fs::read(&slot.file).unwrap();
        let staged = bytes.as_chunks().0.iter().map(|x| f32::from_le_bytes(*x)).collect();
        (Checkpoint::tiny(name).f32s(tensor), staged)
    };
    let one_more = |(stored, staged): (Vec<f32>, Vec<f32>)| {
        stored.iter().map(|x| 1.0 + x).collect::<Vec<_>>() == staged
    };
    let equal = |(stored, staged): (Vec<f32>, Vec<f32>)| stored == staged;
    assert!(one_more(gain("gemma3", "model.layers.1.self_attn.q_norm.weight", "queryNorm1")));
    assert!(one_more(gain("gemma3", "model.norm.weight", "finalNorm")));
    let muse = "model.language_model";
    let layer = format!("{muse}.layers.0.post_attention_layernorm.weight");
    assert!(one_more(gain("muse_glimmer", &layer, "mixerOutputNorm0")));
    assert!(equal(gain("muse_glimmer", &format!("{muse}.norm.weight"), "finalNorm")));
    assert!(equal(gain("qwen3", "model.layers.1.self_attn.q_norm.weight", "queryNorm1")));
}
