//! Llama: SmolLM2, TinyLlama, Llama 2 and 3.

use super::source::usual;
use super::{Family, rope};
use crate::Error;
use crate::checkpoint::Config;
use crate::spec::{Activation, AttentionSpec, EmbeddingTransform, Ffn, HeadNorm, HeadSpec};
use crate::spec::{LayerSpec, Mixer, MlpSpec, ModelSpec};

pub(super) const FAMILY: Family = Family {
    model_type: "llama",
    architecture: "LlamaForCausalLM",
    read,
    source: |_, role, _| usual(role),
    // Old exports store the rotary frequencies, which follow from the config.
    ignorable: |name| name.ends_with(".rotary_emb.inv_freq"),
};

fn read(config: &mut Config) -> Result<ModelSpec, Error> {
    for key in ["attention_bias", "mlp_bias", "rope_interleaved"] {
        config.only(key, false)?;
    }
    config.only("hidden_act", "silu")?;
    config.only("partial_rotary_factor", 1)?;
    if config.object("quantization_config")?.is_some() {
        return Err(config.refuse("quantization_config", "quantised checkpoints are not supported"));
    }

    let mut required = |key: &str| {
        let value = config.count(key)?;
        config.require(key, value)
    };
    let vocab_size = required("vocab_size")?;
    let hidden_size = required("hidden_size")?;
    let intermediate_size = required("intermediate_size")?;
    let layers = required("num_hidden_layers")?;
    let heads = required("num_attention_heads")?;
    let max_positions = required("max_position_embeddings")?;
    let kv_heads = config.count("num_key_value_heads")?.unwrap_or(heads);
    if !heads.is_multiple_of(kv_heads) {
        return Err(config.refuse(
            "num_key_value_heads",
            format!("is {kv_heads}, which does not divide num_attention_heads {heads}"),
        ));
    }
    let head_dim = match config.count("head_dim")? {
        Some(head_dim) => head_dim,
        None if hidden_size.is_multiple_of(heads) => hidden_size / heads,
        None => return Err(config.refuse("head_dim", "is missing, and does not follow")),
    };
    if !head_dim.is_multiple_of(2) {
        return Err(config.refuse("head_dim", format!("is {head_dim}, which is odd")));
    }
    let norm_eps = config.positive("rms_norm_eps")?.unwrap_or(1e-6) as f32;
    let tied_head = config.boolean("tie_word_embeddings")?.unwrap_or(false);
    let rope_frequencies = rope::frequencies(config, head_dim)?;

    let layer = LayerSpec {
        mixer: Mixer::Attention(AttentionSpec {
            heads,
            kv_heads,
            head_dim,
            scale: (1.0 / (head_dim as f64).sqrt()) as f32,
            rope_frequencies,
            qk_norm: HeadNorm::Off,
            bias: false,
            gate: false,
            window: None,
            softcap: None,
        }),
        ffn: Ffn::Dense(MlpSpec { intermediate_size, activation: Activation::Silu }),
        output_norm_eps: None,
    };
    Ok(ModelSpec {
        family: "llama",
        vocab_size,
        hidden_size,
        norm_eps,
        max_positions,
        embedding: EmbeddingTransform::None,
        layers: vec![layer; layers],
        head: HeadSpec { tied: tied_head, multiplier: 1.0, softcap: None },
        refused_tokens: Vec::new(),
    })
}
