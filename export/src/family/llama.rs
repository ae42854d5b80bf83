//! Llama: SmolLM2, TinyLlama, Llama 2 and 3.

use super::decoder::{Decoder, layer, mlp};
use super::{Family, source};
use crate::Error;
use crate::checkpoint::Config;
use crate::spec::{Activation, ModelSpec};

pub(super) const FAMILY: Family = Family {
    model_type: "llama",
    architecture: "LlamaForCausalLM",
    read,
    source: source::usual,
    ignorable: source::leftover,
};

fn read(config: &mut Config) -> Result<ModelSpec, Error> {
    for key in ["mlp_bias", "rope_interleaved"] {
        config.only(key, false)?;
    }
    let decoder = Decoder::read(config, false)?;
    let attention = decoder.attention(decoder.rope().read(config)?);
    let mlp = mlp(config, "hidden_act", Activation::Silu)?;
    Ok(decoder.model("llama", vec![layer(attention, mlp); decoder.layers]))
}
