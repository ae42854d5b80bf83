//! Which weights a program takes, and what each weight file holds.
//!
//! The backend treats staged weights as opaque bytes, so slots are cut the way the programs run
//! fastest: projections of one input are one matrix (`q`, `k`, `v` and the attention gate; gate and
//! up).
//!
//! | Slot | Class | Rows, stacked | Columns |
//! |---|---|---|---|
//! | `embedTokens` | table | vocab | hidden |
//! | `inputNorm<l>`, `postAttnNorm<l>` (before the ffn), `finalNorm` | exact | hidden | |
//! | `mixerOutputNorm<l>`, `ffnOutputNorm<l>`, where the layer has them | exact | hidden | |
//! | `qkvProj<l>` | projection | q, k, v, then the attention gate's where there is one | hidden |
//! | `qkvBias<l>`, where the projections have a bias | exact | q, k, v | |
//! | `queryNorm<l>`, `keyNorm<l>`, where heads are normed with a gain | exact | head size | |
//! | `oProj<l>` | projection | hidden | q |
//! | `deltaInProj<l>` | projection | DeltaNet's q, k, v, gate | hidden |
//! | `deltaBetaDecay<l>` | exact | DeltaNet's beta, decay | hidden |
//! | `deltaConv<l>` | taps | channels: q, k, v | kernel |
//! | `deltaLogRate<l>`, `deltaDecayBias<l>` | exact | value heads | |
//! | `deltaNorm<l>` | exact | value head size | |
//! | `deltaOutProj<l>` | projection | hidden | value heads |
//! | `gateUpProj<l>` | projection | gate, up | hidden |
//! | `downProj<l>` | projection | hidden | intermediate |
//! | `router<l>` | exact | experts | hidden |
//! | `expertGateUpProj<l>` | experts | gate, up of each expert | hidden |
//! | `expertDownProj<l>` | experts | hidden, of each expert | intermediate |
//! | `sharedGateUpProj<l>`, `sharedDownProj<l>` | projection | as those of an MLP | |
//! | `sharedScale<l>` | exact | 1 | hidden |
//! | `lmHead`, untied models only | head | vocab | hidden |
//! | `mtpEmbeddingNorm`, `mtpHiddenNorm`, `mtpNorm`, with drafts | exact | hidden | |
//! | `mtpProj`, with drafts | head | hidden | embedding, hidden |
//! | `qkvProjMtp` and so on, with drafts | as those of a layer | | |
//!
//! What is exact is f32, as are taps; all others have the weight dtype. A table is `[rows, columns]`,
//! as are experts, of whose rows a program takes those of one at a time; projections and the head are
//! too with the layout `out-in`, and `[columns, rows]` with `in-out`, as taps always are.
//!
//! A quantised model has codes in the place of each projection and of experts, followed by the slot
//! `<name>Scale` (`qkvProj0Scale`) with the f32 scale of each row.

use std::fmt::Display;
use std::ops::Index;

use tlaloc_artifact::DType;

use crate::quantise::WeightQuant;
use crate::spec::{AttentionSpec, Ffn, GatedDeltaSpec, HeadNorm, LayerRole, LayerSpec, Mixer};
use crate::spec::{DraftRole, MlpSpec, ModelSpec, MoeSpec, Role};

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

/// What the elements of a weight file are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// The checkpoint's values in this type.
    Values(DType),
    /// Codes of the values.
    Codes(WeightQuant),
    /// The scale of each row's codes.
    Scales(WeightQuant),
}

impl Content {
    /// Element type in the file.
    pub fn dtype(self) -> DType {
        match self {
            Content::Values(dtype) => dtype,
            Content::Codes(quant) => quant.dtype(),
            Content::Scales(_) => DType::F32,
        }
    }
}

/// One weight argument and how its file is made.
#[derive(Clone, Debug, PartialEq)]
pub struct WeightSlot {
    /// Slot name.
    pub name: String,
    /// What its elements are.
    pub content: Content,
    /// Shape in the file.
    pub dims: Vec<usize>,
    /// What the checkpoint holds of it, stacked along the first dimension.
    pub parts: Vec<Part>,
    /// Whether the stacked matrix is transposed in the file.
    pub transposed: bool,
}

/// A tensor of the checkpoint in a slot.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// What it is for.
    pub role: Role,
    /// Its shape.
    pub dims: Vec<usize>,
}

/// A weight argument of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayerWeight {
    /// Gain of the norm before the mixer.
    MixerNorm,
    /// Query, key, value and attention gate projections, stacked.
    Qkv,
    /// Biases of the query, key and value projections, stacked.
    QkvBias,
    /// Gain of the query heads' norm.
    QueryNorm,
    /// Gain of the key heads' norm.
    KeyNorm,
    /// Attention output projection.
    AttentionOutput,
    /// Projections of DeltaNet's query, key, value and gate, stacked.
    DeltaIn,
    /// Projections of DeltaNet's step size and decay, stacked.
    DeltaBetaDecay,
    /// Taps of DeltaNet's convolution.
    DeltaConv,
    /// Logarithm of DeltaNet's decay rates.
    DeltaLogRate,
    /// Bias of DeltaNet's decay.
    DeltaDecayBias,
    /// Gain of the norm of DeltaNet's heads.
    DeltaNorm,
    /// DeltaNet output projection.
    DeltaOutput,
    /// Gain of the norm of the mixer's output.
    MixerOutputNorm,
    /// Gain of the norm before the ffn.
    FfnNorm,
    /// Gate and up projections, stacked.
    GateUp,
    /// Down projection.
    Down,
    /// The router's matrix.
    Router,
    /// Gate and up projections of all experts, stacked.
    ExpertGateUp,
    /// Down projections of all experts, stacked.
    ExpertDown,
    /// Gate and up projections of the shared expert, stacked.
    SharedGateUp,
    /// Down projection of the shared expert.
    SharedDown,
    /// What the shared expert's output is multiplied by, before the sigmoid.
    SharedScale,
    /// Gain of the norm of the ffn's output.
    FfnOutputNorm,
}

impl LayerWeight {
    /// The slot's name, without the layer's number.
    pub fn name(self) -> &'static str {
        match self {
            LayerWeight::MixerNorm => "inputNorm",
            LayerWeight::Qkv => "qkvProj",
            LayerWeight::QkvBias => "qkvBias",
            LayerWeight::QueryNorm => "queryNorm",
            LayerWeight::KeyNorm => "keyNorm",
            LayerWeight::AttentionOutput => "oProj",
            LayerWeight::DeltaIn => "deltaInProj",
            LayerWeight::DeltaBetaDecay => "deltaBetaDecay",
            LayerWeight::DeltaConv => "deltaConv",
            LayerWeight::DeltaLogRate => "deltaLogRate",
            LayerWeight::DeltaDecayBias => "deltaDecayBias",
            LayerWeight::DeltaNorm => "deltaNorm",
            LayerWeight::DeltaOutput => "deltaOutProj",
            LayerWeight::MixerOutputNorm => "mixerOutputNorm",
            LayerWeight::FfnNorm => "postAttnNorm",
            LayerWeight::GateUp => "gateUpProj",
            LayerWeight::Down => "downProj",
            LayerWeight::Router => "router",
            LayerWeight::ExpertGateUp => "expertGateUpProj",
            LayerWeight::ExpertDown => "expertDownProj",
            LayerWeight::SharedGateUp => "sharedGateUpProj",
            LayerWeight::SharedDown => "sharedDownProj",
            LayerWeight::SharedScale => "sharedScale",
            LayerWeight::FfnOutputNorm => "ffnOutputNorm",
        }
    }
}

/// What a slot of a layer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayerSlot {
    /// The weight, or its codes.
    Weight(LayerWeight),
    /// The scales of its codes.
    Scale(LayerWeight),
}

impl LayerSlot {
    /// The slot's name in layer `layer`.
    pub fn name(self, layer: impl Display) -> String {
        match self {
            LayerSlot::Weight(weight) => format!("{}{layer}", weight.name()),
            LayerSlot::Scale(weight) => format!("{}{layer}Scale", weight.name()),
        }
    }
}

/// A projection's values.
#[derive(Clone, Copy, Debug)]
pub struct Projection<'a, T> {
    /// Of the matrix, or its codes.
    pub matrix: &'a T,
    /// Of the scales of its codes, where it is quantised.
    pub scale: Option<&'a T>,
}

/// One value per slot of a layer, in slot order.
#[derive(Clone, Debug)]
pub struct LayerWeights<T>(Vec<(LayerSlot, T)>);

impl<T> LayerWeights<T> {
    /// The value of `weight`, if the layer has it.
    pub fn get(&self, weight: LayerWeight) -> Option<&T> {
        self.find(LayerSlot::Weight(weight))
    }

    /// The values of the projection `weight`, which the layer's spec says it has.
    pub fn projection(&self, weight: LayerWeight) -> Projection<'_, T> {
        Projection { matrix: &self[weight], scale: self.find(LayerSlot::Scale(weight)) }
    }

    fn find(&self, slot: LayerSlot) -> Option<&T> {
        self.0.iter().find(|(key, _)| *key == slot).map(|(_, value)| value)
    }

    /// The values in slot order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|(_, value)| value)
    }

    /// `f` of each value, called in slot order.
    pub fn map<U>(&self, mut f: impl FnMut(LayerSlot, &T) -> U) -> LayerWeights<U> {
        LayerWeights(self.0.iter().map(|(key, value)| (*key, f(*key, value))).collect())
    }
}

impl<T> Index<LayerWeight> for LayerWeights<T> {
    type Output = T;

    /// The value of a weight that the layer's spec says it has.
    fn index(&self, weight: LayerWeight) -> &T {
        self.get(weight).unwrap_or_else(|| unreachable!("the layer has no slot {}", weight.name()))
    }
}

/// One value per weight of a model.
#[derive(Clone, Debug)]
pub struct ModelWeights<T> {
    /// Token embedding.
    pub embedding: T,
    /// The layers, first to last.
    pub layers: Vec<LayerWeights<T>>,
    /// Gain of the last norm.
    pub final_norm: T,
    /// Output matrix of an untied model.
    pub head: Option<T>,
    /// The draft head of an artifact with drafts.
    pub draft: Option<DraftWeights<T>>,
}

/// One value per weight of a draft head.
#[derive(Clone, Debug)]
pub struct DraftWeights<T> {
    /// Gain of the norm of the next token's embedding.
    pub embedding_norm: T,
    /// Gain of the norm of the hidden input.
    pub hidden_norm: T,
    /// Projection of both.
    pub projection: T,
    /// Its layer.
    pub layer: LayerWeights<T>,
    /// Gain of its last norm.
    pub norm: T,
}

impl<T> DraftWeights<T> {
    fn iter(&self) -> impl Iterator<Item = &T> {
        [&self.embedding_norm, &self.hidden_norm, &self.projection]
            .into_iter()
            .chain(self.layer.iter())
            .chain([&self.norm])
    }

    fn map<U>(&self, f: &mut dyn FnMut(&T) -> U) -> DraftWeights<U> {
        DraftWeights {
            embedding_norm: f(&self.embedding_norm),
            hidden_norm: f(&self.hidden_norm),
            projection: f(&self.projection),
            layer: self.layer.map(|_, value| f(value)),
            norm: f(&self.norm),
        }
    }
}

impl<T> ModelWeights<T> {
    /// The values in slot order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        [&self.embedding]
            .into_iter()
            .chain(self.layers.iter().flat_map(LayerWeights::iter))
            .chain([&self.final_norm])
            .chain(&self.head)
            .chain(self.draft.iter().flat_map(DraftWeights::iter))
    }

    /// `f` of each value, called in slot order.
    pub fn map<U>(&self, mut f: impl FnMut(&T) -> U) -> ModelWeights<U> {
        ModelWeights {
            embedding: f(&self.embedding),
            layers: self.layers.iter().map(|layer| layer.map(|_, value| f(value))).collect(),
            final_norm: f(&self.final_norm),
            head: self.head.as_ref().map(&mut f),
            draft: self.draft.as_ref().map(|draft| draft.map(&mut f)),
        }
    }
}

/// How a slot's file is typed and laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// Few values that enter arithmetic in f32: never rounded.
    Exact,
    /// A matrix whose rows are looked up.
    Table,
    /// A matrix that activations are multiplied by.
    Projection,
    /// Matrices of several experts, of which activations are multiplied by some.
    Experts,
    /// Taps of a convolution, few values for each channel: never rounded.
    Taps,
    /// As a projection, but never quantised.
    Head,
}

/// A slot before its content and layout are known.
#[derive(Clone)]
struct Row<R> {
    class: Class,
    parts: Vec<(R, Vec<usize>)>,
}

impl<R> Row<R> {
    fn vector(role: R, len: usize) -> Row<R> {
        Row { class: Class::Exact, parts: vec![(role, vec![len])] }
    }

    /// Projections of `columns` features, `(role, rows)` each, stacked.
    fn projection(columns: usize, parts: impl IntoIterator<Item = (R, usize)>) -> Row<R> {
        Row::matrix(Class::Projection, columns, parts)
    }

    /// Matrices of `columns` columns, `(role, rows)` each, stacked.
    fn matrix(class: Class, columns: usize, parts: impl IntoIterator<Item = (R, usize)>) -> Row<R> {
        let parts = parts.into_iter().map(|(role, rows)| (role, vec![rows, columns])).collect();
        Row { class, parts }
    }
}

impl Row<Role> {
    /// The slot `name` with `content`.
    fn slot(self, name: String, content: Content, layout: WeightLayout) -> WeightSlot {
        let parts: Vec<_> =
            self.parts.into_iter().map(|(role, dims)| Part { role, dims }).collect();
        let mut dims = parts.first().map_or(Vec::new(), |part| part.dims.clone());
        if let Some(rows) = dims.first_mut() {
            *rows = parts.iter().map(|part| part.dims[0]).sum();
        }
        let transposed = match (content, self.class) {
            (Content::Scales(_), _) => {
                dims.truncate(1);
                false
            }
            (_, Class::Projection | Class::Head) => layout == WeightLayout::InOut,
            (_, Class::Taps) => true,
            (_, Class::Exact | Class::Table | Class::Experts) => false,
        };
        if transposed {
            dims.reverse();
        }
        WeightSlot { name, content, dims, parts, transposed }
    }
}

/// The weight slots of a model, its draft head included if it has one. With `quant`, the layers'
/// projections and experts are quantised.
pub fn weight_slots(
    spec: &ModelSpec,
    dtype: WeightDType,
    layout: WeightLayout,
    quant: Option<WeightQuant>,
) -> ModelWeights<WeightSlot> {
    let (vocab, hidden) = (spec.vocab_size, spec.hidden_size);
    let values = |class| match class {
        Class::Exact | Class::Taps => Content::Values(DType::F32),
        Class::Table | Class::Projection | Class::Experts | Class::Head => {
            Content::Values(dtype.dtype())
        }
    };
    let slot = |name: &str, row: Row<Role>| {
        let content = values(row.class);
        row.slot(name.to_owned(), content, layout)
    };
    let layer = |layer: &LayerSpec, name: &dyn Display, role: &dyn Fn(LayerRole) -> Role| {
        let mut slots = Vec::new();
        for (weight, Row { class, parts }) in layer_rows(layer, hidden) {
            let parts = parts.into_iter().map(|(part, dims)| (role(part), dims)).collect();
            let row = Row { class, parts };
            let mut push = |key: LayerSlot, row: Row<Role>, content| {
                slots.push((key, row.slot(key.name(name), content, layout)));
            };
            match quant.filter(|_| matches!(class, Class::Projection | Class::Experts)) {
                Some(quant) => {
                    push(LayerSlot::Weight(weight), row.clone(), Content::Codes(quant));
                    push(LayerSlot::Scale(weight), row, Content::Scales(quant));
                }
                None => push(LayerSlot::Weight(weight), row, values(class)),
            }
        }
        LayerWeights(slots)
    };
    let matrix = |class, role| Row { class, parts: vec![(role, vec![vocab, hidden])] };
    let numbered = spec.layers.iter().enumerate();
    let draft = spec.draft.as_ref().map(|draft| {
        let norm = |name, role| slot(name, Row::vector(Role::Draft(role), hidden));
        let both = [(Role::Draft(DraftRole::Projection), hidden)];
        DraftWeights {
            embedding_norm: norm("mtpEmbeddingNorm", DraftRole::EmbeddingNorm),
            hidden_norm: norm("mtpHiddenNorm", DraftRole::HiddenNorm),
            projection: slot("mtpProj", Row::matrix(Class::Head, 2 * hidden, both)),
            layer: layer(&draft.layer, &"Mtp", &|role| Role::Draft(DraftRole::Layer(role))),
            norm: norm("mtpNorm", DraftRole::FinalNorm),
        }
    });
    ModelWeights {
        embedding: slot("embedTokens", matrix(Class::Table, Role::Embedding)),
        layers: numbered.map(|(l, spec)| layer(spec, &l, &|role| Role::Layer(l, role))).collect(),
        final_norm: slot("finalNorm", Row::vector(Role::FinalNorm, hidden)),
        head: (!spec.head.tied).then(|| slot("lmHead", matrix(Class::Head, Role::Head))),
        draft,
    }
}

type LayerRows = Vec<(LayerWeight, Row<LayerRole>)>;

/// The slots of a layer, in order.
fn layer_rows(layer: &LayerSpec, hidden: usize) -> LayerRows {
    let norm = |weight, role| (weight, Row::vector(role, hidden));
    let mut rows = vec![norm(LayerWeight::MixerNorm, LayerRole::MixerNorm)];
    rows.extend(match &layer.mixer {
        Mixer::Attention(attention) => attention_rows(attention, hidden),
        Mixer::GatedDelta(delta) => gated_delta_rows(delta, hidden),
    });
    if layer.output_norm_eps.is_some() {
        rows.push(norm(LayerWeight::MixerOutputNorm, LayerRole::MixerOutputNorm));
    }
    rows.push(norm(LayerWeight::FfnNorm, LayerRole::FfnNorm));
    rows.extend(match &layer.ffn {
        Ffn::Dense(mlp) => mlp_rows(mlp, hidden),
        Ffn::Moe(moe) => moe_rows(moe, hidden),
    });
    if layer.output_norm_eps.is_some() {
        rows.push(norm(LayerWeight::FfnOutputNorm, LayerRole::FfnOutputNorm));
    }
    rows
}

fn attention_rows(attention: &AttentionSpec, hidden: usize) -> LayerRows {
    let (q, kv) = (attention.query_width(), attention.kv_width());
    let mut qkv = vec![(LayerRole::Query, q), (LayerRole::Key, kv), (LayerRole::Value, kv)];
    if attention.gate {
        qkv.push((LayerRole::AttentionGate, q));
    }
    let mut rows = vec![(LayerWeight::Qkv, Row::projection(hidden, qkv))];
    if attention.bias {
        let parts =
            [(LayerRole::QueryBias, q), (LayerRole::KeyBias, kv), (LayerRole::ValueBias, kv)];
        let parts = parts.map(|(role, len)| (role, vec![len])).to_vec();
        rows.push((LayerWeight::QkvBias, Row { class: Class::Exact, parts }));
    }
    if attention.qk_norm == HeadNorm::Gain {
        let size = attention.head_dim;
        rows.push((LayerWeight::QueryNorm, Row::vector(LayerRole::QueryNorm, size)));
        rows.push((LayerWeight::KeyNorm, Row::vector(LayerRole::KeyNorm, size)));
    }
    let output = Row::projection(q, [(LayerRole::AttentionOutput, hidden)]);
    rows.push((LayerWeight::AttentionOutput, output));
    rows
}

fn gated_delta_rows(delta: &GatedDeltaSpec, hidden: usize) -> LayerRows {
    let (key, value, heads) = (delta.key_width(), delta.value_width(), delta.value_heads);
    let projections = [
        (LayerRole::DeltaQuery, key),
        (LayerRole::DeltaKey, key),
        (LayerRole::DeltaValue, value),
        (LayerRole::DeltaGate, value),
    ];
    // Decay is an exponent: what is rounded here adds up over tokens.
    let beta_decay = [(LayerRole::DeltaBeta, heads), (LayerRole::DeltaDecay, heads)];
    let conv = [(LayerRole::DeltaConv, delta.channels())];
    vec![
        (LayerWeight::DeltaIn, Row::projection(hidden, projections)),
        (LayerWeight::DeltaBetaDecay, Row::matrix(Class::Exact, hidden, beta_decay)),
        (LayerWeight::DeltaConv, Row::matrix(Class::Taps, delta.kernel, conv)),
        (LayerWeight::DeltaLogRate, Row::vector(LayerRole::DeltaLogRate, heads)),
        (LayerWeight::DeltaDecayBias, Row::vector(LayerRole::DeltaDecayBias, heads)),
        (LayerWeight::DeltaNorm, Row::vector(LayerRole::DeltaNorm, delta.value_dim)),
        (LayerWeight::DeltaOutput, Row::projection(value, [(LayerRole::DeltaOutput, hidden)])),
    ]
}

fn moe_rows(moe: &MoeSpec, hidden: usize) -> LayerRows {
    let width = moe.expert.intermediate_size;
    let gate_up = (0..moe.experts)
        .flat_map(|e| [(LayerRole::ExpertGate(e), width), (LayerRole::ExpertUp(e), width)]);
    let down = (0..moe.experts).map(|e| (LayerRole::ExpertDown(e), hidden));
    // Routing is a choice: a rounded router would choose other experts.
    let router = [(LayerRole::Router, moe.experts)];
    let mut rows = vec![
        (LayerWeight::Router, Row::matrix(Class::Exact, hidden, router)),
        (LayerWeight::ExpertGateUp, Row::matrix(Class::Experts, hidden, gate_up)),
        (LayerWeight::ExpertDown, Row::matrix(Class::Experts, width, down)),
    ];
    if let Some(shared) = &moe.shared {
        let width = shared.intermediate_size;
        let gate_up = [(LayerRole::SharedExpertGate, width), (LayerRole::SharedExpertUp, width)];
        let scale = [(LayerRole::SharedExpertScale, 1)];
        rows.extend([
            (LayerWeight::SharedGateUp, Row::projection(hidden, gate_up)),
            (
                LayerWeight::SharedDown,
                Row::projection(width, [(LayerRole::SharedExpertDown, hidden)]),
            ),
            (LayerWeight::SharedScale, Row::matrix(Class::Exact, hidden, scale)),
        ]);
    }
    rows
}

fn mlp_rows(mlp: &MlpSpec, hidden: usize) -> LayerRows {
    let width = mlp.intermediate_size;
    let gate_up = [(LayerRole::Gate, width), (LayerRole::Up, width)];
    vec![
        (LayerWeight::GateUp, Row::projection(hidden, gate_up)),
        (LayerWeight::Down, Row::projection(width, [(LayerRole::Down, hidden)])),
    ]
}
