//! Gemma 2 and 3, text decoders: sliding and full layers, four norms each, gains stored less 1.

use super::decoder::{Decoder, SLIDING_OR_FULL, layer, layer_types, mlp};
use super::source::{self, Source};
use super::{Family, nested};
use crate::Error;
use crate::checkpoint::{Config, Tensors};
use crate::spec::{Activation, AttentionSpec, EmbeddingTransform, HeadNorm, HeadSpec, LayerSpec};
use crate::spec::{ModelSpec, Role};

/// Gemma 2: one rope for all layers, capped scores and logits.
pub(super) const GEMMA2: Family = Family {
    model_type: "gemma2",
    architecture: "Gemma2ForCausalLM",
    read: gemma2,
    source: |spec, role, _| gain_less_one("model", spec, role),
    ignorable: source::leftover,
};

/// Gemma 3: a rope for sliding and one for full layers, normed query and key heads.
pub(super) const GEMMA3_TEXT: Family = Family {
    model_type: "gemma3_text",
    architecture: "Gemma3ForCausalLM",
    read: gemma3,
    source: |spec, role, _| gain_less_one("model", spec, role),
    ignorable: source::leftover,
};

/// Gemma 3 with a vision part, which is left out.
pub(super) const GEMMA3: Family = Family {
    model_type: "gemma3",
    architecture: "Gemma3ForConditionalGeneration",
    read: |config| {
        let ignored = ["boi_token_index", "eoi_token_index", "mm_tokens_per_image"];
        nested::read(config, "gemma3_text", &ignored, gemma3)
    },
    source: nested_source,
    ignorable: |name| name.contains("vision_tower.") || name.contains("multi_modal_projector."),
};

fn gemma2(config: &mut Config) -> Result<ModelSpec, Error> {
    for cap in ["attn_logit_softcapping", "final_logit_softcapping"] {
        config.stated(cap)?;
    }
    let decoder = decoder(config)?;
    let rope = decoder.rope().read(config)?;
    let softcap = config.positive("attn_logit_softcapping")?.map(|cap| cap as f32);
    let sliding = layer_types(config, decoder.layers, SLIDING_OR_FULL, |l| l % 2 == 0)?;
    let attention = AttentionSpec { softcap, ..attention(config, &decoder, rope)? };
    model(config, "gemma2", &decoder, sliding, &attention, &attention)
}

fn gemma3(config: &mut Config) -> Result<ModelSpec, Error> {
    // The reference reads the cap but never applies it.
    config.unset("attn_logit_softcapping")?;
    let decoder = decoder(config)?;
    let (full, local) = decoder.rope().read_full_and_sliding(config)?;
    // Newer configs write the pattern beside the types that it gave.
    let pattern = config.count("sliding_window_pattern")?;
    let pattern = config.count("_sliding_window_pattern")?.or(pattern).unwrap_or(6);
    let sliding =
        layer_types(config, decoder.layers, SLIDING_OR_FULL, |l| !(l + 1).is_multiple_of(pattern))?;
    let full = AttentionSpec { qk_norm: HeadNorm::Gain, ..attention(config, &decoder, full)? };
    let local = AttentionSpec { rope_frequencies: local, ..full.clone() };
    model(config, "gemma3", &decoder, sliding, &full, &local)
}

fn decoder(config: &mut Config) -> Result<Decoder, Error> {
    config.only("use_bidirectional_attention", false)?;
    Decoder::read(config, true)
}

fn attention(
    config: &mut Config,
    decoder: &Decoder,
    rope_frequencies: Vec<f32>,
) -> Result<AttentionSpec, Error> {
    let scalar = config.positive("query_pre_attn_scalar")?;
    let scalar = config.require("query_pre_attn_scalar", scalar)?;
    Ok(AttentionSpec { scale: (1.0 / scalar.sqrt()) as f32, ..decoder.attention(rope_frequencies) })
}

/// The model of `full` layers and, where `sliding`, `local` ones, whose window is yet to be read.
fn model(
    config: &mut Config,
    family: &'static str,
    decoder: &Decoder,
    sliding: Vec<bool>,
    full: &AttentionSpec,
    local: &AttentionSpec,
) -> Result<ModelSpec, Error> {
    // Some configs name the activation twice.
    config.only("hidden_act", "gelu_pytorch_tanh")?;
    let mlp = mlp(config, "hidden_activation", Activation::GeluTanh)?;
    let softcap = config.positive("final_logit_softcapping")?.map(|cap| cap as f32);
    let window = config.count("sliding_window")?;
    if sliding.contains(&true) {
        config.require("sliding_window", window)?;
    }
    let layers = sliding.into_iter().map(|slides| {
        let attention =
            if slides { AttentionSpec { window, ..local.clone() } } else { full.clone() };
        LayerSpec { output_norm_eps: Some(decoder.norm_eps), ..layer(attention, mlp.clone()) }
    });
    let plain = decoder.model(family, layers.collect());
    Ok(ModelSpec {
        embedding: EmbeddingTransform::Scale((decoder.hidden_size as f64).sqrt() as f32),
        head: HeadSpec { softcap, ..plain.head },
        ..plain
    })
}

/// The text decoder in a multimodal checkpoint, whose names changed over time.
fn nested_source(spec: &ModelSpec, role: Role, tensors: &Tensors) -> Source {
    if !tensors.has("language_model.model.embed_tokens.weight") {
        return gain_less_one("model.language_model", spec, role);
    }
    match role {
        Role::Head => Source::whole("language_model.lm_head.weight"),
        _ => gain_less_one("language_model.model", spec, role),
    }
}

/// The usual names, with every norm's gain stored less 1.
fn gain_less_one(prefix: &str, spec: &ModelSpec, role: Role) -> Source {
    Source { zero_centred: role.is_norm(), ..source::under(prefix, spec, role) }
}
