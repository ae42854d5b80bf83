//! Where a family's checkpoints keep a weight.

use crate::Error;
use crate::checkpoint::{Rows, StoredWeight, Tensors};
use crate::spec::{DraftRole, LayerRole, LayerSpec, ModelSpec, Role};

/// Where a checkpoint keeps a weight.
pub(super) struct Source {
    /// Name of the tensor.
    pub(super) tensor: String,
    /// Shape of the tensor; `None` for the weight's own.
    pub(super) dims: Option<Vec<usize>>,
    /// The tensor's rows that the weight is.
    pub(super) rows: Rows,
    /// Whether the tensor holds the weight less 1.
    pub(super) zero_centred: bool,
}

impl Source {
    /// The whole of `tensor`.
    pub(super) fn whole(tensor: impl Into<String>) -> Source {
        Source { tensor: tensor.into(), dims: None, rows: Rows::All, zero_centred: false }
    }

    /// Rows of `tensor`, which has the shape `dims`: of every `period` the `len` from `start` on.
    pub(super) fn rows(
        tensor: impl Into<String>,
        dims: Vec<usize>,
        period: usize,
        start: usize,
        len: usize,
    ) -> Source {
        let rows = Rows::Every { period, start, len };
        Source { dims: Some(dims), rows, ..Source::whole(tensor) }
    }

    /// The weight of shape `dims` in `tensors`.
    ///
    /// # Errors
    /// When it is missing, of another shape or of an element type that cannot be read.
    pub(super) fn find(self, tensors: &mut Tensors, dims: &[usize]) -> Result<StoredWeight, Error> {
        let tensor = tensors.claim(&self.tensor, self.dims.as_deref().unwrap_or(dims))?;
        let Source { rows, zero_centred, .. } = self;
        Ok(StoredWeight { tensor, dims: dims.to_vec(), rows, zero_centred })
    }
}

/// The names that nearly all families use.
pub(super) fn usual(spec: &ModelSpec, role: Role, _: &Tensors) -> Source {
    under("model", spec, role)
}

/// The usual names, with `prefix` in place of `model`.
pub(super) fn under(prefix: &str, spec: &ModelSpec, role: Role) -> Source {
    Source::whole(match (role, spec.layer_of(role)) {
        (_, Some((layer, part))) => {
            format!("{}.{}", layer_prefix(prefix, role), in_layer(layer, part))
        }
        (Role::Embedding, _) => format!("{prefix}.embed_tokens.weight"),
        (Role::FinalNorm, _) => format!("{prefix}.norm.weight"),
        (Role::Head, _) => "lm_head.weight".to_owned(),
        (Role::Draft(DraftRole::EmbeddingNorm), _) => "mtp.pre_fc_norm_embedding.weight".to_owned(),
        (Role::Draft(DraftRole::HiddenNorm), _) => "mtp.pre_fc_norm_hidden.weight".to_owned(),
        (Role::Draft(DraftRole::Projection), _) => "mtp.fc.weight".to_owned(),
        (Role::Draft(DraftRole::FinalNorm), _) => "mtp.norm.weight".to_owned(),
        (Role::Layer(..) | Role::Draft(DraftRole::Layer(_)), None) => {
            unreachable!("{role:?} is of a layer that the model does not have")
        }
    })
}

/// What precedes the names of the tensors of a role's layer.
pub(super) fn layer_prefix(prefix: &str, role: Role) -> String {
    match role {
        Role::Layer(l, _) => format!("{prefix}.layers.{l}"),
        _ => "mtp.layers.0".to_owned(),
    }
}

/// Old exports store the rotary frequencies, which follow from the config.
pub(super) fn leftover(name: &str) -> bool {
    name.ends_with(".rotary_emb.inv_freq")
}

fn in_layer(layer: &LayerSpec, role: LayerRole) -> String {
    let name = match role {
        LayerRole::ExpertGate(e) => return format!("mlp.experts.{e}.gate_proj.weight"),
        LayerRole::ExpertUp(e) => return format!("mlp.experts.{e}.up_proj.weight"),
        LayerRole::ExpertDown(e) => return format!("mlp.experts.{e}.down_proj.weight"),
        LayerRole::Router => "mlp.gate.weight",
        LayerRole::SharedExpertGate => "mlp.shared_expert.gate_proj.weight",
        LayerRole::SharedExpertUp => "mlp.shared_expert.up_proj.weight",
        LayerRole::SharedExpertDown => "mlp.shared_expert.down_proj.weight",
        LayerRole::SharedExpertScale => "mlp.shared_expert_gate.weight",
        LayerRole::DeltaQuery | LayerRole::DeltaKey | LayerRole::DeltaValue => {
            "linear_attn.in_proj_qkv.weight"
        }
        LayerRole::DeltaGate => "linear_attn.in_proj_z.weight",
        LayerRole::DeltaBeta => "linear_attn.in_proj_b.weight",
        LayerRole::DeltaDecay => "linear_attn.in_proj_a.weight",
        LayerRole::DeltaConv => "linear_attn.conv1d.weight",
        LayerRole::DeltaLogRate => "linear_attn.A_log",
        LayerRole::DeltaDecayBias => "linear_attn.dt_bias",
        LayerRole::DeltaNorm => "linear_attn.norm.weight",
        LayerRole::DeltaOutput => "linear_attn.out_proj.weight",
        LayerRole::MixerNorm => "input_layernorm.weight",
        LayerRole::Query => "self_attn.q_proj.weight",
        LayerRole::Key => "self_attn.k_proj.weight",
        LayerRole::Value => "self_attn.v_proj.weight",
        LayerRole::AttentionGate => "self_attn.gate_proj.weight",
        LayerRole::QueryBias => "self_attn.q_proj.bias",
        LayerRole::KeyBias => "self_attn.k_proj.bias",
        LayerRole::ValueBias => "self_attn.v_proj.bias",
        LayerRole::QueryNorm => "self_attn.q_norm.weight",
        LayerRole::KeyNorm => "self_attn.k_norm.weight",
        LayerRole::AttentionOutput => "self_attn.o_proj.weight",
        LayerRole::MixerOutputNorm => "post_attention_layernorm.weight",
        LayerRole::FfnNorm if layer.output_norm_eps.is_some() => "pre_feedforward_layernorm.weight",
        // Named for its place: what else stands between attention and MLP when outputs are not normed.
        LayerRole::FfnNorm => "post_attention_layernorm.weight",
        LayerRole::Gate => "mlp.gate_proj.weight",
        LayerRole::Up => "mlp.up_proj.weight",
        LayerRole::Down => "mlp.down_proj.weight",
        LayerRole::FfnOutputNorm => "post_feedforward_layernorm.weight",
    };
    name.to_owned()
}
