//! Qwen 2 and 3, with dense or routed MLPs.

use super::decoder::{Decoder, SLIDING_OR_FULL, layer, layer_types, mlp};
use super::moe::{self, Shared};
use super::{Family, source};
use crate::Error;
use crate::checkpoint::Config;
use crate::spec::{Activation, AttentionSpec, HeadNorm, ModelSpec};

/// Qwen 2 and 2.5: biases on query, key and value.
pub(super) const QWEN2: Family = Family {
    model_type: "qwen2",
    architecture: "Qwen2ForCausalLM",
    read: |config| dense(config, "qwen2", |plain| AttentionSpec { bias: true, ..plain }),
    source: source::usual,
    ignorable: source::leftover,
};

/// Qwen 3: query and key heads are normed.
pub(super) const QWEN3: Family = Family {
    model_type: "qwen3",
    architecture: "Qwen3ForCausalLM",
    read: |config| {
        dense(config, "qwen3", |plain| AttentionSpec { qk_norm: HeadNorm::Gain, ..plain })
    },
    source: source::usual,
    ignorable: source::leftover,
};

/// Qwen 3 with a mixture of experts in some layers.
pub(super) const QWEN3_MOE: Family = Family {
    model_type: "qwen3_moe",
    architecture: "Qwen3MoeForCausalLM",
    read: moe,
    source: source::usual,
    ignorable: source::leftover,
};

fn moe(config: &mut Config) -> Result<ModelSpec, Error> {
    let decoder = Decoder::read(config, false)?;
    let rope_frequencies = decoder.rope().read(config)?;
    let window = config.count("sliding_window")?;
    let slides = config.boolean("use_sliding_window")?.unwrap_or(false);
    config.ignore("max_window_layers");
    if slides {
        config.require("sliding_window", window)?;
    }
    let attention = AttentionSpec {
        qk_norm: HeadNorm::Gain,
        window: window.filter(|_| slides),
        ..decoder.attention(rope_frequencies)
    };
    let normalise = config.boolean("norm_topk_prob")?.unwrap_or(false);
    let ffns = moe::sparse_and_dense(config, decoder.layers, normalise, Shared::Never)?;
    let layers = ffns.into_iter().map(|ffn| layer(attention.clone(), ffn));
    Ok(decoder.model("qwen3_moe", layers.collect()))
}

fn dense(
    config: &mut Config,
    family: &'static str,
    attention: fn(AttentionSpec) -> AttentionSpec,
) -> Result<ModelSpec, Error> {
    config.only("use_mrope", false)?;
    let decoder = Decoder::read(config, false)?;
    let rope = decoder.rope().read(config)?;
    let windows = windows(config, decoder.layers)?;
    let mlp = mlp(config, "hidden_act", Activation::Silu)?;
    let layers = windows.into_iter().map(|window| {
        let plain = decoder.attention(rope.clone());
        layer(AttentionSpec { window, ..attention(plain) }, mlp.clone())
    });
    Ok(decoder.model(family, layers.collect()))
}

/// `max_window_layers` when absent.
const MAX_WINDOW_LAYERS: usize = 28;

/// Takes the window of each layer. `sliding_window` counts only with `use_sliding_window`, and then
/// from layer `max_window_layers` on, unless `layer_types` says which.
fn windows(config: &mut Config, layers: usize) -> Result<Vec<Option<usize>>, Error> {
    let window = config.count("sliding_window")?;
    let used = config.boolean("use_sliding_window")?.unwrap_or(false);
    let first = config.whole("max_window_layers")?.unwrap_or(MAX_WINDOW_LAYERS);
    let sliding = layer_types(config, layers, SLIDING_OR_FULL, |l| used && l >= first)?;
    if !sliding.contains(&true) {
        return Ok(vec![None; layers]);
    }
    if !used {
        let reason = "has sliding_attention, but use_sliding_window is not true";
        return Err(config.refuse("layer_types", reason));
    }
    let window = config.require("sliding_window", window)?;
    Ok(sliding.into_iter().map(|slides| slides.then_some(window)).collect())
}
