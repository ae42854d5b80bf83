//! Qwen 3 Next and 3.5: three of four layers are Gated DeltaNet, the others gated attention; gains
//! are stored less 1.

use super::decoder::{self, Decoder, layer_types};
use super::moe::{self, Shared};
use super::rope::Rope;
use super::source::{self, Source};
use super::{Family, nested};
use crate::Error;
use crate::checkpoint::{Config, Tensors};
use crate::spec::{Activation, AttentionSpec, DraftSpec, Ffn, GatedDeltaSpec, HeadNorm, LayerRole};
use crate::spec::{LayerSpec, Mixer, ModelSpec, Role};

/// Qwen 3 Next: mixtures of experts, DeltaNet projections fused by key head.
pub(super) const QWEN3_NEXT: Family = Family {
    model_type: "qwen3_next",
    architecture: "Qwen3NextForCausalLM",
    read: |config| {
        let normalise = config.boolean("norm_topk_prob")?.unwrap_or(true);
        read(config, "qwen3_next", |config, layers| {
            moe::sparse_and_dense(config, layers, normalise, Shared::Always)
        })
    },
    source: |spec, role, _| fused(spec, role),
    ignorable: is_draft_head,
};

/// Qwen 3.5.
pub(super) const QWEN3_5_TEXT: Family = Family {
    model_type: "qwen3_5_text",
    architecture: "Qwen3_5ForCausalLM",
    read: qwen3_5,
    source: |spec, role, tensors| separate("model", spec, role, tensors),
    ignorable: is_other_part,
};

/// Qwen 3.5 with a vision part, which is left out.
pub(super) const QWEN3_5: Family = Family {
    model_type: "qwen3_5",
    architecture: "Qwen3_5ForConditionalGeneration",
    read: |config| nested::read(config, "qwen3_5_text", &VISION_KEYS, qwen3_5),
    source: |spec, role, tensors| separate("model.language_model", spec, role, tensors),
    ignorable: is_other_part,
};

/// Qwen 3.5 with a mixture of experts in every layer.
pub(super) const QWEN3_5_MOE_TEXT: Family = Family {
    model_type: "qwen3_5_moe_text",
    architecture: "Qwen3_5MoeForCausalLM",
    read: qwen3_5_moe,
    source: |spec, role, tensors| separate("model", spec, role, tensors),
    ignorable: is_other_part,
};

/// Qwen 3.5 with a mixture of experts in every layer and a vision part, which is left out.
pub(super) const QWEN3_5_MOE: Family = Family {
    model_type: "qwen3_5_moe",
    architecture: "Qwen3_5MoeForConditionalGeneration",
    read: |config| nested::read(config, "qwen3_5_moe_text", &VISION_KEYS, qwen3_5_moe),
    source: |spec, role, tensors| separate("model.language_model", spec, role, tensors),
    ignorable: is_other_part,
};

/// Delimiters of images, which are tokens like any other.
const VISION_KEYS: [&str; 2] = ["vision_start_token_id", "vision_end_token_id"];

fn is_draft_head(name: &str) -> bool {
    name.starts_with("mtp.")
}

fn is_other_part(name: &str) -> bool {
    is_draft_head(name) || name.starts_with("model.visual.")
}

fn qwen3_5(config: &mut Config) -> Result<ModelSpec, Error> {
    config.only("mlp_only_layers", Vec::<usize>::new())?;
    read(config, "qwen3_5", |config, layers| {
        Ok(vec![decoder::mlp(config, "hidden_act", Activation::Silu)?; layers])
    })
}

fn qwen3_5_moe(config: &mut Config) -> Result<ModelSpec, Error> {
    // The reference normalises whatever the config says.
    config.only("norm_topk_prob", true)?;
    config.only("mlp_only_layers", Vec::<usize>::new())?;
    read(config, "qwen3_5_moe", |config, layers| {
        Ok(vec![moe::mixture(config, true, Shared::Always)?; layers])
    })
}

fn read(
    config: &mut Config,
    family: &'static str,
    ffns: impl FnOnce(&mut Config, usize) -> Result<Vec<Ffn>, Error>,
) -> Result<ModelSpec, Error> {
    config.only("attn_output_gate", true)?;
    config.only("use_sliding_window", false)?;
    config.only("mamba_ssm_dtype", "float32")?;
    let decoder = Decoder::read(config, false)?;
    // With text alone the three position rows of images are equal, however they are mixed.
    let mixed = &["mrope_section", "mrope_interleaved"];
    let rope = Rope::partial(decoder.head_dim, 0.25, mixed).read(config)?;
    let attention = Mixer::Attention(AttentionSpec {
        qk_norm: HeadNorm::Gain,
        gate: true,
        ..decoder.attention(rope)
    });
    let delta = Mixer::GatedDelta(gated_delta(config)?);
    let interval = config.count("full_attention_interval")?.unwrap_or(4);
    let kinds = ["linear_attention", "full_attention"];
    let linear = layer_types(config, decoder.layers, kinds, |l| !(l + 1).is_multiple_of(interval))?;
    if !linear.contains(&false) {
        let reason = "gives no layer of full_attention; at least one is needed";
        return Err(config.refuse("layer_types", reason));
    }
    let ffns = ffns(config, decoder.layers)?;
    let draft = draft(config, &attention, ffns.last())?;
    let layers = linear.into_iter().zip(ffns).map(|(linear, ffn)| LayerSpec {
        mixer: if linear { delta.clone() } else { attention.clone() },
        ffn,
        output_norm_eps: None,
    });
    Ok(ModelSpec { draft, ..decoder.model(family, layers.collect()) })
}

/// The draft head, if there is one of a single layer that shares the model's embedding: its layer is
/// as the model's last.
fn draft(
    config: &mut Config,
    attention: &Mixer,
    ffn: Option<&Ffn>,
) -> Result<Option<DraftSpec>, Error> {
    let layers = config.whole("mtp_num_hidden_layers")?.unwrap_or(0);
    let own_embedding = config.boolean("mtp_use_dedicated_embeddings")?.unwrap_or(false);
    let layer =
        |ffn: &Ffn| LayerSpec { mixer: attention.clone(), ffn: ffn.clone(), output_norm_eps: None };
    let ffn = ffn.filter(|_| layers == 1 && !own_embedding);
    Ok(ffn.map(|ffn| DraftSpec { layer: layer(ffn), tokens: 0 }))
}

fn gated_delta(config: &mut Config) -> Result<GatedDeltaSpec, Error> {
    let spec = GatedDeltaSpec {
        key_heads: config.required_count("linear_num_key_heads")?,
        value_heads: config.required_count("linear_num_value_heads")?,
        key_dim: config.required_count("linear_key_head_dim")?,
        value_dim: config.required_count("linear_value_head_dim")?,
        kernel: config.required_count("linear_conv_kernel_dim")?,
    };
    if !spec.value_heads.is_multiple_of(spec.key_heads) {
        let reason = format!(
            "is {}, which linear_num_key_heads {} does not divide",
            spec.value_heads, spec.key_heads
        );
        return Err(config.refuse("linear_num_value_heads", reason));
    }
    if spec.kernel < 2 {
        return Err(config.refuse("linear_conv_kernel_dim", "is 1; at least 2 is supported"));
    }
    Ok(spec)
}

/// Names under `prefix` that all of these families have.
fn common(prefix: &str, spec: &ModelSpec, role: Role) -> Source {
    let usual = Source { zero_centred: role.is_norm(), ..source::under(prefix, spec, role) };
    let Some((layer, part)) = spec.layer_of(role) else { return usual };
    match (&layer.mixer, part) {
        // Each query head is followed by its gate.
        (Mixer::Attention(attention), LayerRole::Query | LayerRole::AttentionGate) => {
            let size = attention.head_dim;
            let start = if part == LayerRole::Query { 0 } else { size };
            let layer = source::layer_prefix(prefix, role);
            let tensor = format!("{layer}.self_attn.q_proj.weight");
            let dims = vec![2 * attention.query_width(), spec.hidden_size];
            Source::rows(tensor, dims, 2 * size, start, size)
        }
        (Mixer::GatedDelta(delta), LayerRole::DeltaConv) => {
            Source { dims: Some(vec![delta.channels(), 1, delta.kernel]), ..usual }
        }
        _ => usual,
    }
}

/// Qwen 3 Next: DeltaNet's projections are two tensors, which hold what belongs to a key head
/// together.
fn fused(spec: &ModelSpec, role: Role) -> Source {
    let plain = common("model", spec, role);
    let Role::Layer(l, role) = role else { return plain };
    let Mixer::GatedDelta(delta) = &spec.layers[l].mixer else { return plain };
    let group = delta.value_heads / delta.key_heads;
    let (key, value) = (delta.key_dim, group * delta.value_dim);
    let (name, widths, part) = match role {
        LayerRole::DeltaQuery => ("in_proj_qkvz", vec![key, key, value, value], 0),
        LayerRole::DeltaKey => ("in_proj_qkvz", vec![key, key, value, value], 1),
        LayerRole::DeltaValue => ("in_proj_qkvz", vec![key, key, value, value], 2),
        LayerRole::DeltaGate => ("in_proj_qkvz", vec![key, key, value, value], 3),
        LayerRole::DeltaBeta => ("in_proj_ba", vec![group, group], 0),
        LayerRole::DeltaDecay => ("in_proj_ba", vec![group, group], 1),
        _ => return plain,
    };
    let period: usize = widths.iter().sum();
    let start = widths[..part].iter().sum();
    let tensor = format!("model.layers.{l}.linear_attn.{name}.weight");
    let dims = vec![delta.key_heads * period, spec.hidden_size];
    Source::rows(tensor, dims, period, start, widths[part])
}

/// Qwen 3.5: DeltaNet's query, key and value are one tensor, and experts may be stacked.
fn separate(prefix: &str, spec: &ModelSpec, role: Role, tensors: &Tensors) -> Source {
    let plain = common(prefix, spec, role);
    let Some((layer, part)) = spec.layer_of(role) else { return plain };
    let hidden = spec.hidden_size;
    if let Mixer::GatedDelta(delta) = &layer.mixer {
        let (key, value) = (delta.key_width(), delta.value_width());
        let rows = match part {
            LayerRole::DeltaQuery => Some((0, key)),
            LayerRole::DeltaKey => Some((key, key)),
            LayerRole::DeltaValue => Some((2 * key, value)),
            _ => None,
        };
        if let Some((start, len)) = rows {
            let dims = vec![delta.channels(), hidden];
            return Source::rows(plain.tensor, dims, delta.channels(), start, len);
        }
    }
    let experts = format!("{}.mlp.experts", source::layer_prefix(prefix, role));
    let (gate_up, down) = (format!("{experts}.gate_up_proj"), format!("{experts}.down_proj"));
    match &layer.ffn {
        Ffn::Moe(moe) if tensors.has(&gate_up) => {
            let (all, width) = (moe.experts, moe.expert.intermediate_size);
            let gates_and_ups = |start| {
                let dims = vec![all, 2 * width, hidden];
                Source::rows(gate_up.clone(), dims, all * 2 * width, start, width)
            };
            match part {
                LayerRole::ExpertGate(e) => gates_and_ups(e * 2 * width),
                LayerRole::ExpertUp(e) => gates_and_ups(e * 2 * width + width),
                LayerRole::ExpertDown(e) => {
                    let dims = vec![all, hidden, width];
                    Source::rows(down, dims, all * hidden, e * hidden, hidden)
                }
                _ => plain,
            }
        }
        _ => plain,
    }
}
