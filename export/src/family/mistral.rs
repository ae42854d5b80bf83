//! Mistral: Llama with, in some models, a sliding window in every layer.

use super::decoder::{Decoder, layer, mlp};
use super::{Family, source};
use crate::Error;
use crate::checkpoint::Config;
use crate::spec::{Activation, AttentionSpec, ModelSpec};

pub(super) const FAMILY: Family = Family {
    model_type: "mistral",
    architecture: "MistralForCausalLM",
    read,
    source: source::usual,
    ignorable: source::leftover,
};

fn read(config: &mut Config) -> Result<ModelSpec, Error> {
    config.stated("sliding_window")?;
    let decoder = Decoder::read(config, false)?;
    let attention = AttentionSpec {
        window: config.count("sliding_window")?,
        ..decoder.attention(decoder.rope().read(config)?)
    };
    let mlp = mlp(config, "hidden_act", Activation::Silu)?;
    Ok(decoder.model("mistral", vec![layer(attention, mlp); decoder.layers]))
}
