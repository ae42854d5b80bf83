//! Mixtures of experts, as configs spell them.

use super::decoder::mlp;
use crate::Error;
use crate::checkpoint::Config;
use crate::spec::{Activation, Ffn, MlpSpec, MoeSpec};

/// Whether every token also goes through a shared expert.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Shared {
    Never,
    Always,
}

/// Takes the keys of a mixture. Its experts are of `silu`.
pub(super) fn mixture(config: &mut Config, normalise: bool, shared: Shared) -> Result<Ffn, Error> {
    config.only("hidden_act", "silu")?;
    let mlp = |intermediate_size| MlpSpec { intermediate_size, activation: Activation::Silu };
    // The library renamed the key, published configs did not follow.
    let experts = config.count("num_experts")?;
    let local = config.count("num_local_experts")?;
    if let (Some(experts), Some(local)) = (experts, local)
        && experts != local
    {
        let reason = format!("is {local}, but num_experts is {experts}");
        return Err(config.refuse("num_local_experts", reason));
    }
    let experts = config.require("num_experts", experts.or(local))?;
    let experts_per_token = config.required_count("num_experts_per_tok")?;
    if experts_per_token > experts {
        let reason = format!("is {experts_per_token}, of {experts} experts");
        return Err(config.refuse("num_experts_per_tok", reason));
    }
    Ok(Ffn::Moe(MoeSpec {
        experts,
        experts_per_token,
        normalise,
        expert: mlp(config.required_count("moe_intermediate_size")?),
        shared: match shared {
            Shared::Never => None,
            Shared::Always => Some(mlp(config.required_count("shared_expert_intermediate_size")?)),
        },
    }))
}

/// Takes the keys of a model where some layers have one MLP in place of the mixture: those in
/// `mlp_only_layers`, and all but every `decoder_sparse_step`-th.
pub(super) fn sparse_and_dense(
    config: &mut Config,
    layers: usize,
    normalise: bool,
    shared: Shared,
) -> Result<Vec<Ffn>, Error> {
    let step = config.count("decoder_sparse_step")?.unwrap_or(1);
    let dense = config.wholes("mlp_only_layers")?.unwrap_or_default();
    if let Some(layer) = dense.iter().find(|&&layer| layer >= layers) {
        let reason = format!("names layer {layer}, of {layers}");
        return Err(config.refuse("mlp_only_layers", reason));
    }
    let is_dense = |l: usize| dense.contains(&l) || !(l + 1).is_multiple_of(step);
    let mixture = mixture(config, normalise, shared)?;
    if !(0..layers).any(is_dense) {
        // The size of an MLP that no layer has.
        config.ignore("intermediate_size");
        return Ok(vec![mixture; layers]);
    }
    let mlp = mlp(config, "hidden_act", Activation::Silu)?;
    let ffn = |l| if is_dense(l) { mlp.clone() } else { mixture.clone() };
    Ok((0..layers).map(ffn).collect())
}
