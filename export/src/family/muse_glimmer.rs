//! Muse Glimmer, its text decoder: sliding layers with and full layers without rotary embedding, a
//! gate on the heads' outputs, four norms a layer, capped logits.

use super::decoder::{Decoder, SLIDING_OR_FULL, layer, layer_types, mlp};
use super::source::{self, Source};
use super::{Family, nested};
use crate::Error;
use crate::checkpoint::Config;
use crate::spec::{Activation, AttentionSpec, EmbeddingTransform, HeadNorm, HeadSpec, LayerSpec};
use crate::spec::{ModelSpec, Role};

pub(super) const FAMILY: Family = Family {
    model_type: "muse_glimmer",
    architecture: "MuseGlimmerForConditionalGeneration",
    read: |config| {
        let ignored = ["out_hidden_size", "projector_hidden_act", "projector_hidden_size"];
        nested::read(config, "muse_glimmer_text", &ignored, read)
    },
    source: |spec, role, _| Source {
        // Layers store their gains less 1, the last norm does not.
        zero_centred: role.is_norm() && role != Role::FinalNorm,
        ..source::under("model.language_model", spec, role)
    },
    ignorable: |name| {
        ["model.vision_tower.", "model.vision_adapter.", "model.vision_projection."]
            .iter()
            .any(|part| name.starts_with(part))
    },
};

fn read(config: &mut Config) -> Result<ModelSpec, Error> {
    let tied = config.boolean("tie_word_embeddings")?;
    let tied = config.require("tie_word_embeddings", tied)?;
    let decoder = Decoder::read(config, tied)?;
    let output_norm_eps = Some(config.required_positive("post_norm_eps")? as f32);
    let query_factor = config.required_positive("qk_scale_factor")?;
    let multiplier = config.required_positive("output_multiplier")? as f32;
    let softcap = config.positive("final_logit_softcapping")?.map(|cap| cap as f32);
    let mlp = mlp(config, "hidden_activation", Activation::Silu)?;

    let (theta, rope) = decoder.rope().read_with_theta(config)?;
    let rotated = rotated_layers(config, decoder.layers, theta)?;
    let last = decoder.layers - 1;
    let slides_unless_said = |l: usize| !(last - l).is_multiple_of(4);
    let sliding = layer_types(config, decoder.layers, SLIDING_OR_FULL, slides_unless_said)?;
    let window = config.count("sliding_window")?;
    if sliding.contains(&true) {
        config.require("sliding_window", window)?;
    }

    let layers = sliding.into_iter().zip(rotated).map(|(slides, rotates)| {
        let plain = decoder.attention(if rotates { rope.clone() } else { Vec::new() });
        let attention = AttentionSpec {
            scale: (query_factor / (decoder.head_dim as f64).sqrt()) as f32,
            qk_norm: HeadNorm::Plain,
            gate: true,
            window: window.filter(|_| slides),
            ..plain
        };
        LayerSpec { output_norm_eps, ..layer(attention, mlp.clone()) }
    });
    let plain = decoder.model("muse_glimmer", layers.collect());
    Ok(ModelSpec {
        embedding: EmbeddingTransform::Norm,
        head: HeadSpec { multiplier, softcap, ..plain.head },
        ..plain
    })
}

/// Takes `layer_rope_theta`: which layers rotate, by an entry of `theta` or of 0.
fn rotated_layers(config: &mut Config, layers: usize, theta: f64) -> Result<Vec<bool>, Error> {
    let key = "layer_rope_theta";
    let thetas = config.numbers(key)?;
    let thetas = config.require(key, thetas)?;
    if thetas.len() != layers {
        let reason = format!("has {} entries for {layers} layers", thetas.len());
        return Err(config.refuse(key, reason));
    }
    match thetas.iter().find(|&&entry| entry != 0.0 && entry != theta) {
        Some(other) => {
            Err(config
                .refuse(key, format!("has {other}, which is neither 0 nor rope_theta {theta}")))
        }
        None => Ok(thetas.into_iter().map(|entry| entry != 0.0).collect()),
    }
}
