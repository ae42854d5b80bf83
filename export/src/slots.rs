//! Which weights a program takes, and what each weight file holds.
//!
//! The backend treats staged weights as opaque bytes, so slots are cut the way the programs run
//! fastest: `q`, `k` and `v` are one matrix, and so are gate and up.
//!
//! | Slot | Elements | Shape with `out-in` | with `in-out` |
//! |---|---|---|---|
//! | `embedTokens` | weight dtype | `[vocab, hidden]` | same |
//! | `inputNorm<l>`, `postAttnNorm<l>`, `finalNorm` | f32 | `[hidden]` | same |
//! | `qkvProj<l>` | weight dtype | `[q + k + v, hidden]` | `[hidden, q + k + v]` |
//! | `oProj<l>` | weight dtype | `[hidden, q]` | `[q, hidden]` |
//! | `gateUpProj<l>` | weight dtype | `[2 * intermediate, hidden]` | `[hidden, 2 * intermediate]` |
//! | `downProj<l>` | weight dtype | `[hidden, intermediate]` | `[intermediate, hidden]` |
//! | `lmHead`, untied models only | weight dtype | `[vocab, hidden]` | `[hidden, vocab]` |

use tlaloc_artifact::DType;

use crate::spec::{ModelSpec, Role};

/// Order of a projection's two dimensions in its file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum WeightLayout {
    /// `[out, in]`, as in checkpoints: the default CPU plugin runs it fastest.
    #[default]
    OutIn,
    /// `[in, out]`, for plugins that prefer it.
    InOut,
}

/// Element type of embedding, projections and head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum WeightDType {
    /// 32-bit floats; products in f32.
    #[default]
    F32,
    /// bfloat16; a product's other operand is rounded to bf16 and the sum is f32.
    Bf16,
}

impl WeightDType {
    /// The element type.
    pub fn dtype(self) -> DType {
        match self {
            WeightDType::F32 => DType::F32,
            WeightDType::Bf16 => DType::Bf16,
        }
    }
}

/// One weight argument and how its file is made.
#[derive(Clone, Debug, PartialEq)]
pub struct WeightSlot {
    /// Slot name.
    pub name: String,
    /// Element type in the file.
    pub dtype: DType,
    /// Shape in the file.
    pub dims: Vec<usize>,
    /// The checkpoint's tensors, stacked along their first dimension.
    pub parts: Vec<Role>,
    /// Whether the stacked matrix is transposed in the file.
    pub transposed: bool,
}

/// One value per weight of a layer.
#[derive(Clone, Debug)]
pub struct LayerWeights<T> {
    /// Norm before attention.
    pub input_norm: T,
    /// Query, key and value projections, stacked.
    pub qkv: T,
    /// Attention output projection.
    pub attention_output: T,
    /// Norm before the MLP.
    pub mlp_norm: T,
    /// Gate and up projections, stacked.
    pub gate_up: T,
    /// Down projection.
    pub down: T,
}

impl<T> LayerWeights<T> {
    /// The values in slot order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        [
            &self.input_norm,
            &self.qkv,
            &self.attention_output,
            &self.mlp_norm,
            &self.gate_up,
            &self.down,
        ]
        .into_iter()
    }

    /// `f` of each value, called in slot order.
    pub fn map<U>(&self, mut f: impl FnMut(&T) -> U) -> LayerWeights<U> {
        LayerWeights {
            input_norm: f(&self.input_norm),
            qkv: f(&self.qkv),
            attention_output: f(&self.attention_output),
            mlp_norm: f(&self.mlp_norm),
            gate_up: f(&self.gate_up),
            down: f(&self.down),
        }
    }
}

/// One value per weight of a model.
#[derive(Clone, Debug)]
pub struct ModelWeights<T> {
    /// Token embedding.
    pub embedding: T,
    /// The layers, first to last.
    pub layers: Vec<LayerWeights<T>>,
    /// Last norm.
    pub final_norm: T,
    /// Output matrix of an untied model.
    pub head: Option<T>,
}

impl<T> ModelWeights<T> {
    /// The values in slot order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        [&self.embedding]
            .into_iter()
            .chain(self.layers.iter().flat_map(LayerWeights::iter))
            .chain([&self.final_norm])
            .chain(&self.head)
    }

    /// `f` of each value, called in slot order.
    pub fn map<U>(&self, mut f: impl FnMut(&T) -> U) -> ModelWeights<U> {
        ModelWeights {
            embedding: f(&self.embedding),
            layers: self.layers.iter().map(|layer| layer.map(&mut f)).collect(),
            final_norm: f(&self.final_norm),
            head: self.head.as_ref().map(f),
        }
    }
}

/// The weight slots of a model.
pub fn weight_slots(
    spec: &ModelSpec,
    dtype: WeightDType,
    layout: WeightLayout,
) -> ModelWeights<WeightSlot> {
    let hidden = spec.hidden_size;
    let table = |name: &str, role| WeightSlot {
        name: name.to_owned(),
        dtype: dtype.dtype(),
        dims: vec![spec.vocab_size, hidden],
        parts: vec![role],
        transposed: false,
    };
    // Norm gains are few and enter products of f32: they are never rounded.
    let norm = |name: String, role| WeightSlot {
        name,
        dtype: DType::F32,
        dims: vec![hidden],
        parts: vec![role],
        transposed: false,
    };
    let projection = |name: String, out, input, parts| WeightSlot {
        name,
        dtype: dtype.dtype(),
        dims: match layout {
            WeightLayout::OutIn => vec![out, input],
            WeightLayout::InOut => vec![input, out],
        },
        parts,
        transposed: layout == WeightLayout::InOut,
    };
    let layer = |(l, layer): (usize, &crate::spec::LayerSpec)| {
        let (q, kv) = (layer.attention.query_width(), layer.attention.kv_width());
        let mlp = layer.mlp.intermediate_size;
        LayerWeights {
            input_norm: norm(format!("inputNorm{l}"), Role::InputNorm(l)),
            qkv: projection(
                format!("qkvProj{l}"),
                q + 2 * kv,
                hidden,
                vec![Role::Query(l), Role::Key(l), Role::Value(l)],
            ),
            attention_output: projection(
                format!("oProj{l}"),
                hidden,
                q,
                vec![Role::AttentionOutput(l)],
            ),
            mlp_norm: norm(format!("postAttnNorm{l}"), Role::MlpNorm(l)),
            gate_up: projection(
                format!("gateUpProj{l}"),
                2 * mlp,
                hidden,
                vec![Role::Gate(l), Role::Up(l)],
            ),
            down: projection(format!("downProj{l}"), hidden, mlp, vec![Role::Down(l)]),
        }
    };
    ModelWeights {
        embedding: table("embedTokens", Role::Embedding),
        layers: spec.layers.iter().enumerate().map(layer).collect(),
        final_norm: norm("finalNorm".to_owned(), Role::FinalNorm),
        head: (!spec.tied_head)
            .then(|| projection("lmHead".to_owned(), spec.vocab_size, hidden, vec![Role::Head])),
    }
}
