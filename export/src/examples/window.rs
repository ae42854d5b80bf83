//! A language model with sliding layers (artifact format §18), exported with rings, without them and
//! in small chunks. Its checkpoint is nearly of a known family, with weights that look random.

use std::path::Path;

use config_gen::{Mode, SequenceOptions};
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use serde_json::json;

use super::random::Random;
use super::{add_model, scratch, write_file};
use crate::checkpoint::Config;
use crate::export::export_spec;
use crate::plan::PlanOptions;
use crate::spec::{AttentionSpec, LayerSpec, Mixer, ModelSpec};
use crate::{Error, ExportOptions, Progress, family};

const VOCABULARY: usize = 64;
const HIDDEN: usize = 32;
const INTERMEDIATE: usize = 48;
const HEADS: usize = 4;
const KV_HEADS: usize = 2;
const HEAD_DIM: usize = 8;
const WINDOW: usize = 8;
const LAYERS: [&str; 3] = ["sliding_attention", "sliding_attention", "full_attention"];
const CONTEXTS: [usize; 3] = [16, 32, 64];
/// Tokens of a call in the chunked model.
const CHUNK: usize = 6;
const THETA: f64 = 10_000.0;
/// Of the weights, which are drawn in the order of [`tensors`].
const SEED: u64 = 2;

/// Writes the models into `repository`.
pub(super) fn write(repository: &Path) -> Result<(), Error> {
    let folder = scratch(repository)?;
    let checkpoint = folder.path().join("checkpoint");
    write_checkpoint(&checkpoint)?;
    let models = [
        ("window_sequence", &CONTEXTS[..], true, vec![]),
        ("window_sequence_full", &CONTEXTS[2..], false, vec![]),
        ("window_sequence_chunked", &CONTEXTS[2..], true, vec![CHUNK]),
    ];
    for (name, contexts, windowed_kv, prefill_chunks) in models {
        let options = ExportOptions {
            name: Some("tlaloc-window-sequence".to_owned()),
            plan: PlanOptions {
                contexts: contexts.to_vec(),
                batches: vec![1, 2],
                prefill_chunks,
                block_size: 4,
                num_blocks: Some(65),
                windowed_kv,
                ..PlanOptions::default()
            },
            ..ExportOptions::default()
        };
        let artifact = folder.path().join(name);
        let (family, spec) = family::read(Config::open(&checkpoint)?)?;
        export_spec(family, with_biases(spec), &checkpoint, &artifact, &options, &mut Silent)?;
        let sequence = Mode::Sequence(SequenceOptions::default());
        add_model(repository, &artifact, name, sequence)?;
    }
    Ok(())
}

/// The model with biases, which none of the family's checkpoints has: no part of a layer that the
/// family shares with others is then left out.
fn with_biases(spec: ModelSpec) -> ModelSpec {
    let with_bias = |layer: LayerSpec| match layer.mixer {
        Mixer::Attention(attention) => LayerSpec {
            mixer: Mixer::Attention(AttentionSpec { bias: true, ..attention }),
            ..layer
        },
        Mixer::GatedDelta(_) => layer,
    };
    ModelSpec {
        family: "example",
        layers: spec.layers.into_iter().map(with_bias).collect(),
        ..spec
    }
}

struct Silent;

impl Progress for Silent {
    fn start(&mut self, _: u64) {}
    fn weight(&mut self, _: &str) {}
    fn advance(&mut self, _: u64) {}
}

fn write_checkpoint(folder: &Path) -> Result<(), Error> {
    write_file(&folder.join("config.json"), config().to_string().as_bytes())?;
    let tensors = tensors();
    let file = folder.join("model.safetensors");
    let malformed = |error: safetensors::SafeTensorError| Error::Malformed {
        path: file.clone(),
        reason: error.to_string(),
    };
    let views = tensors.iter().map(|(name, dims, bytes)| {
        Ok((name, TensorView::new(Dtype::F32, dims.clone(), bytes).map_err(malformed)?))
    });
    let views = views.collect::<Result<Vec<_>, Error>>()?;
    let bytes = safetensors::serialize(views, None).map_err(malformed)?;
    write_file(&file, &bytes)
}

fn config() -> serde_json::Value {
    let rotated = LAYERS.map(|kind| if kind == "sliding_attention" { THETA } else { 0.0 });
    json!({
        "architectures": ["MuseGlimmerForConditionalGeneration"],
        "image_token_id": VOCABULARY - 2,
        "model_type": "muse_glimmer",
        "text_config": {
            "attention_bias": false,
            "final_logit_softcapping": 30.0,
            "head_dim": HEAD_DIM,
            "hidden_activation": "silu",
            "hidden_size": HIDDEN,
            "intermediate_size": INTERMEDIATE,
            "layer_rope_theta": rotated,
            "layer_types": LAYERS,
            "max_position_embeddings": CONTEXTS[2],
            "model_type": "muse_glimmer_text",
            "num_attention_heads": HEADS,
            "num_hidden_layers": LAYERS.len(),
            "num_key_value_heads": KV_HEADS,
            "output_multiplier": 1.0,
            "post_norm_eps": 1e-5,
            "qk_scale_factor": 1.5,
            "rms_norm_eps": 1e-5,
            "rope_parameters": {"rope_theta": THETA, "rope_type": "default"},
            "sliding_window": WINDOW,
            "tie_word_embeddings": false,
            "vocab_size": VOCABULARY,
        },
        "video_token_id": VOCABULARY - 1,
    })
}

type Tensor = (String, Vec<usize>, Vec<u8>);

/// Name, shape and elements of each tensor.
fn tensors() -> Vec<Tensor> {
    let mut random = Random::new(SEED);
    let mut tensors = Vec::new();
    let mut add = |name: String, dims: &[usize], centre: f32, spread: f64| {
        let count = dims.iter().product();
        let values =
            random.take(count).into_iter().map(|x| centre + (spread * f64::from(x)) as f32);
        tensors.push((name, dims.to_vec(), values.flat_map(f32::to_le_bytes).collect()));
    };
    // So that a product keeps the size of what it multiplies, and every position that a query sees
    // moves its logits.
    let spread = |columns: usize| 2.5 / (columns as f64).sqrt();
    let prefix = "model.language_model";
    let table = [VOCABULARY, HIDDEN];
    add(format!("{prefix}.embed_tokens.weight"), &table, 0.0, spread(HIDDEN));
    add(format!("{prefix}.norm.weight"), &[HIDDEN], 1.0, 0.2);
    add("lm_head.weight".to_owned(), &table, 0.0, spread(HIDDEN));
    for layer in 0..LAYERS.len() {
        let (queries, keys) = (HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM);
        for (name, rows, columns) in [
            ("self_attn.q_proj", queries, HIDDEN),
            ("self_attn.k_proj", keys, HIDDEN),
            ("self_attn.v_proj", keys, HIDDEN),
            ("self_attn.gate_proj", queries, HIDDEN),
            ("self_attn.o_proj", HIDDEN, queries),
            ("mlp.gate_proj", INTERMEDIATE, HIDDEN),
            ("mlp.up_proj", INTERMEDIATE, HIDDEN),
            ("mlp.down_proj", HIDDEN, INTERMEDIATE),
        ] {
            let name = format!("{prefix}.layers.{layer}.{name}.weight");
            add(name, &[rows, columns], 0.0, spread(columns));
        }
        for (name, size) in [("q", queries), ("k", keys), ("v", keys)] {
            let name = format!("{prefix}.layers.{layer}.self_attn.{name}_proj.bias");
            add(name, &[size], 0.0, 0.2);
        }
        // The family stores these gains less 1.
        for norm in ["input", "post_attention", "pre_feedforward", "post_feedforward"] {
            let name = format!("{prefix}.layers.{layer}.{norm}_layernorm.weight");
            add(name, &[HIDDEN], 0.0, 0.2);
        }
    }
    tensors
}
