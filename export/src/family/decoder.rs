//! What the configs of all families have in common.

use super::rope::Rope;
use crate::Error;
use crate::checkpoint::Config;
use crate::spec::{Activation, AttentionSpec, EmbeddingTransform, Ffn, HeadNorm, HeadSpec};
use crate::spec::{LayerSpec, Mixer, MlpSpec, ModelSpec};

/// Most layers of a model and most features of a head: many times what models have, and still little
/// memory to describe.
const MOST_LAYERS: usize = 4096;
const MOST_HEAD_DIM: usize = 16_384;

/// The sizes of a decoder, and constructors for the plain form of each of its parts, from which a
/// family's specs differ in some fields.
pub(super) struct Decoder {
    pub(super) vocab_size: usize,
    pub(super) hidden_size: usize,
    pub(super) layers: usize,
    pub(super) heads: usize,
    pub(super) kv_heads: usize,
    pub(super) head_dim: usize,
    pub(super) max_positions: usize,
    pub(super) norm_eps: f32,
    pub(super) tied: bool,
}

impl Decoder {
    /// Takes the keys of the sizes. `tied` is the value of `tie_word_embeddings` when absent.
    pub(super) fn read(config: &mut Config, tied: bool) -> Result<Decoder, Error> {
        config.only("attention_bias", false)?;
        let vocab_size = config.required_count("vocab_size")?;
        let hidden_size = config.required_count("hidden_size")?;
        let layers = config.required_count("num_hidden_layers")?;
        if layers > MOST_LAYERS {
            let reason = format!("is {layers}, expected at most {MOST_LAYERS}");
            return Err(config.refuse("num_hidden_layers", reason));
        }
        let heads = config.required_count("num_attention_heads")?;
        let max_positions = config.required_count("max_position_embeddings")?;
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
        if head_dim > MOST_HEAD_DIM {
            let reason = format!("is {head_dim}, expected at most {MOST_HEAD_DIM}");
            return Err(config.refuse("head_dim", reason));
        }
        let norm_eps = config.positive("rms_norm_eps")?.unwrap_or(1e-6) as f32;
        let tied = config.boolean("tie_word_embeddings")?.unwrap_or(tied);
        Ok(Decoder {
            vocab_size,
            hidden_size,
            layers,
            heads,
            kv_heads,
            head_dim,
            max_positions,
            norm_eps,
            tied,
        })
    }

    /// The rotary embedding of whole heads.
    pub(super) fn rope(&self) -> Rope {
        Rope::whole(self.head_dim)
    }

    /// Attention over all positions, scores divided by the root of the head size.
    pub(super) fn attention(&self, rope_frequencies: Vec<f32>) -> AttentionSpec {
        AttentionSpec {
            heads: self.heads,
            kv_heads: self.kv_heads,
            head_dim: self.head_dim,
            scale: (1.0 / (self.head_dim as f64).sqrt()) as f32,
            rope_frequencies,
            qk_norm: HeadNorm::Off,
            bias: false,
            gate: false,
            window: None,
            softcap: None,
        }
    }

    /// A model of `layers` between a plain embedding and a plain head.
    pub(super) fn model(&self, family: &'static str, layers: Vec<LayerSpec>) -> ModelSpec {
        ModelSpec {
            family,
            vocab_size: self.vocab_size,
            hidden_size: self.hidden_size,
            norm_eps: self.norm_eps,
            max_positions: self.max_positions,
            embedding: EmbeddingTransform::None,
            layers,
            head: HeadSpec { tied: self.tied, multiplier: 1.0, softcap: None },
            refused_tokens: Vec::new(),
            draft: None,
        }
    }
}

/// Takes the MLP's size and the activation at `key`, which must be `activation`, its value when
/// absent.
pub(super) fn mlp(config: &mut Config, key: &str, activation: Activation) -> Result<Ffn, Error> {
    config.only(key, activation_name(activation))?;
    let intermediate_size = config.required_count("intermediate_size")?;
    Ok(Ffn::Dense(MlpSpec { intermediate_size, activation }))
}

fn activation_name(activation: Activation) -> &'static str {
    match activation {
        Activation::Silu => "silu",
        Activation::GeluTanh => "gelu_pytorch_tanh",
    }
}

/// A layer of `attention` and `ffn` with no norms of their outputs.
pub(super) fn layer(attention: AttentionSpec, ffn: Ffn) -> LayerSpec {
    LayerSpec { mixer: Mixer::Attention(attention), ffn, output_norm_eps: None }
}

/// Takes `layer_types`: for each of `layers` layers whether it is of the first of two `kinds`, or
/// `otherwise` of the layer's number when the key is absent.
pub(super) fn layer_types(
    config: &mut Config,
    layers: usize,
    kinds: [&str; 2],
    otherwise: impl Fn(usize) -> bool,
) -> Result<Vec<bool>, Error> {
    let Some(types) = config.texts("layer_types")? else {
        return Ok((0..layers).map(otherwise).collect());
    };
    if types.len() != layers {
        return Err(config
            .refuse("layer_types", format!("has {} entries for {layers} layers", types.len())));
    }
    types
        .iter()
        .map(|found| match kinds.iter().position(|kind| kind == found) {
            Some(kind) => Ok(kind == 0),
            None => Err(config.refuse(
                "layer_types",
                format!("has '{found}'; {} and {} are supported", kinds[0], kinds[1]),
            )),
        })
        .collect()
}

/// The entries of `layer_types` for models whose attention is sliding in some layers.
pub(super) const SLIDING_OR_FULL: [&str; 2] = ["sliding_attention", "full_attention"];
