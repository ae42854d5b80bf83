//! The arguments and results of an entry (artifact format §7): roles, names, shapes, order.
//!
//! One description serves both sides: the checker compares a manifest's slots with it, the exporter
//! builds its slots from it.

use crate::Pool;
use crate::{DType, Error, Tensor};

/// What the runtime puts into an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InputRole {
    /// Token ids, i32 `[B,T]`.
    TokenIds,
    /// Positions of the tokens, i32 `[B,T]`.
    Positions,
    /// Pages of each row, i32 `[B,M]`.
    BlockTables,
    /// Length of each row including this call's tokens, i32 `[B]`.
    SeqLens,
    /// Pool slot of each token, i32 `[B*T]`.
    SlotMapping,
    /// Pages of each row's ring, i32 `[B,M]`.
    WindowBlockTables,
    /// Ring slot of each token, i32 `[B*T]`.
    WindowSlotMapping,
    /// State slot read by each row, i32 `[B]`.
    StateSlots,
    /// State slots written by each token, i32 `[B,T]`.
    StateWriteSlots,
    /// A pool, donated and replaced by its output.
    Pool(PoolRole),
    /// A weight.
    Weight,
}

/// Class of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PoolRole {
    /// Pages of full-history attention, `[numBlocks, blockSize, …]`.
    Kv,
    /// Pages of sliding-window attention, `[windowedKv.numBlocks, blockSize, …]`.
    WindowKv,
    /// Linear-attention state, `[numSlots, …]`.
    State,
}

/// What the runtime takes from a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OutputRole {
    /// Logits of each row's last token, f32 `[B,1,vocabSize]`; in a verify entry of every token,
    /// `[B,T,vocabSize]`.
    Logits,
    /// Greedy tokens of a speculative step, i32 `[B,1+K]`.
    NextTokens,
    /// Drafts accepted, i32 `[B]`.
    Accepted,
    /// New drafts, i32 `[B,K]`.
    Drafts,
    /// Token ids of the next verify step, i32 `[B,K+1]`.
    NextTokenIds,
    /// Positions of the next verify step, i32 `[B,K+1]`.
    NextPositions,
    /// Lengths of the next verify step, i32 `[B]`.
    NextSeqLens,
    /// Pool slots of the next verify step, i32 `[B*(K+1)]`.
    NextSlotMapping,
    /// State slots read by the next verify step, i32 `[B]`.
    NextStateSlots,
    /// State slots written by the next verify step, i32 `[B,K+1]`.
    NextStateWriteSlots,
    /// A pool's new contents.
    Pool(PoolRole),
}

impl InputRole {
    const ALL: [InputRole; 13] = [
        InputRole::TokenIds,
        InputRole::Positions,
        InputRole::BlockTables,
        InputRole::SeqLens,
        InputRole::SlotMapping,
        InputRole::WindowBlockTables,
        InputRole::WindowSlotMapping,
        InputRole::StateSlots,
        InputRole::StateWriteSlots,
        InputRole::Pool(PoolRole::Kv),
        InputRole::Pool(PoolRole::WindowKv),
        InputRole::Pool(PoolRole::State),
        InputRole::Weight,
    ];

    /// The spelling in manifests.
    pub fn manifest_name(self) -> &'static str {
        match self {
            InputRole::TokenIds => "TOKEN_IDS",
            InputRole::Positions => "POSITIONS",
            InputRole::BlockTables => "BLOCK_TABLES",
            InputRole::SeqLens => "SEQ_LENS",
            InputRole::SlotMapping => "SLOT_MAPPING",
            InputRole::WindowBlockTables => "WINDOW_BLOCK_TABLES",
            InputRole::WindowSlotMapping => "WINDOW_SLOT_MAPPING",
            InputRole::StateSlots => "STATE_SLOTS",
            InputRole::StateWriteSlots => "STATE_WRITE_SLOTS",
            InputRole::Pool(PoolRole::Kv) => "KV_POOL_IN",
            InputRole::Pool(PoolRole::WindowKv) => "WINDOW_KV_POOL_IN",
            InputRole::Pool(PoolRole::State) => "STATE_POOL_IN",
            InputRole::Weight => "WEIGHT",
        }
    }

    pub(crate) fn parse(name: &str) -> Option<InputRole> {
        InputRole::ALL.into_iter().find(|role| role.manifest_name() == name)
    }
}

impl OutputRole {
    const ALL: [OutputRole; 13] = [
        OutputRole::Logits,
        OutputRole::NextTokens,
        OutputRole::Accepted,
        OutputRole::Drafts,
        OutputRole::NextTokenIds,
        OutputRole::NextPositions,
        OutputRole::NextSeqLens,
        OutputRole::NextSlotMapping,
        OutputRole::NextStateSlots,
        OutputRole::NextStateWriteSlots,
        OutputRole::Pool(PoolRole::Kv),
        OutputRole::Pool(PoolRole::WindowKv),
        OutputRole::Pool(PoolRole::State),
    ];

    /// The spelling in manifests.
    pub fn manifest_name(self) -> &'static str {
        match self {
            OutputRole::Logits => "LOGITS",
            OutputRole::NextTokens => "NEXT_TOKENS",
            OutputRole::Accepted => "ACCEPTED",
            OutputRole::Drafts => "DRAFTS",
            OutputRole::NextTokenIds => "NEXT_TOKEN_IDS",
            OutputRole::NextPositions => "NEXT_POSITIONS",
            OutputRole::NextSeqLens => "NEXT_SEQ_LENS",
            OutputRole::NextSlotMapping => "NEXT_SLOT_MAPPING",
            OutputRole::NextStateSlots => "NEXT_STATE_SLOTS",
            OutputRole::NextStateWriteSlots => "NEXT_STATE_WRITE_SLOTS",
            OutputRole::Pool(PoolRole::Kv) => "KV_POOL_OUT",
            OutputRole::Pool(PoolRole::WindowKv) => "WINDOW_KV_POOL_OUT",
            OutputRole::Pool(PoolRole::State) => "STATE_POOL_OUT",
        }
    }

    pub(crate) fn parse(name: &str) -> Option<OutputRole> {
        OutputRole::ALL.into_iter().find(|role| role.manifest_name() == name)
    }
}

/// One argument of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// Slot name; equal across entries for pools and weights.
    pub name: String,
    /// What the runtime puts there.
    pub role: InputRole,
    /// Its type.
    pub tensor: Tensor,
}

/// One result of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// Slot name.
    pub name: String,
    /// What the runtime takes from it.
    pub role: OutputRole,
    /// Its type.
    pub tensor: Tensor,
}

/// The sizes that an entry's request slots follow from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Rows, `B`.
    pub batch: usize,
    /// Token columns of a row, `T`.
    pub tokens: usize,
    /// Columns of a row's block table, `M`.
    pub columns: usize,
    /// Columns of a row's logits: 1, or `T` in a verify entry.
    pub logits_columns: usize,
    /// Size of the last logits axis.
    pub vocab_size: usize,
    /// Draft tokens of a speculative step, `K`; 0 when the model has no draft head.
    pub draft_tokens: usize,
    /// Whether the model has a windowed KV pool.
    pub windowed: bool,
    /// Whether the model has linear-attention state.
    pub linear_state: bool,
}

impl Geometry {
    /// The arguments that a request fills, in signature order (artifact format §7.1): `(name, role,
    /// dims)`, all i32.
    pub(crate) fn request_inputs(&self) -> Vec<(&'static str, InputRole, Vec<usize>)> {
        let (b, t, m) = (self.batch, self.tokens, self.columns);
        let flat = b.saturating_mul(t);
        let mut slots = vec![
            ("tokenIds", InputRole::TokenIds, vec![b, t]),
            ("positions", InputRole::Positions, vec![b, t]),
            ("blockTables", InputRole::BlockTables, vec![b, m]),
            ("seqLens", InputRole::SeqLens, vec![b]),
            ("slotMapping", InputRole::SlotMapping, vec![flat]),
        ];
        if self.windowed {
            slots.push(("windowBlockTables", InputRole::WindowBlockTables, vec![b, m]));
            slots.push(("windowSlotMapping", InputRole::WindowSlotMapping, vec![flat]));
        }
        if self.linear_state {
            slots.push(("stateSlots", InputRole::StateSlots, vec![b]));
        }
        if self.draft_tokens > 0 {
            slots.push(("stateWriteSlots", InputRole::StateWriteSlots, vec![b, t]));
        }
        slots
    }

    /// The results before the pools, in signature order (§7.2): `(name, role, dtype, dims)`. The
    /// chain group of a speculative model, which may be left out, is not among them.
    pub(crate) fn leading_outputs(&self) -> Vec<(&'static str, OutputRole, DType, Vec<usize>)> {
        let (b, k) = (self.batch, self.draft_tokens);
        if k == 0 {
            let dims = vec![b, self.logits_columns, self.vocab_size];
            return vec![("logits", OutputRole::Logits, DType::F32, dims)];
        }
        vec![
            ("nextTokens", OutputRole::NextTokens, DType::I32, vec![b, k + 1]),
            ("accepted", OutputRole::Accepted, DType::I32, vec![b]),
            ("drafts", OutputRole::Drafts, DType::I32, vec![b, k]),
        ]
    }

    /// The chain group (§7.2): the next verify step's inputs, all present or all absent.
    pub(crate) fn chain_outputs(&self) -> Vec<(&'static str, OutputRole, DType, Vec<usize>)> {
        let (b, k) = (self.batch, self.draft_tokens);
        if k == 0 {
            return Vec::new();
        }
        let i32s = |name, role, dims| (name, role, DType::I32, dims);
        vec![
            i32s("nextTokenIds", OutputRole::NextTokenIds, vec![b, k + 1]),
            i32s("nextPositions", OutputRole::NextPositions, vec![b, k + 1]),
            i32s("nextSeqLens", OutputRole::NextSeqLens, vec![b]),
            i32s("nextSlotMapping", OutputRole::NextSlotMapping, vec![b.saturating_mul(k + 1)]),
            i32s("nextStateSlots", OutputRole::NextStateSlots, vec![b]),
            i32s("nextStateWriteSlots", OutputRole::NextStateWriteSlots, vec![b, k + 1]),
        ]
    }
}

/// Everything positional about an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// Arguments in order.
    pub inputs: Vec<Input>,
    /// Results in order.
    pub outputs: Vec<Output>,
    /// `(input, output)` of each pool.
    pub donations: Vec<(usize, usize)>,
}

impl Signature {
    /// The signature of an entry of `geometry` over `pools` and staged `weights`, both in the order
    /// that all entries of the artifact share. Pool outputs are named as their pool plus `Out`.
    ///
    /// # Errors
    /// [`Error::Oversize`] when a slot's byte size does not fit memory arithmetic.
    pub fn new(
        geometry: &Geometry,
        pools: &[Pool],
        weights: &[(String, Tensor)],
    ) -> Result<Signature, Error> {
        let sized = |name: &str, dtype, dims: Vec<usize>| {
            Tensor::new(dtype, dims).ok_or_else(|| Error::Oversize { slot: name.to_owned() })
        };
        let mut inputs = Vec::new();
        for (name, role, dims) in geometry.request_inputs() {
            inputs.push(Input {
                name: name.to_owned(),
                role,
                tensor: sized(name, DType::I32, dims)?,
            });
        }
        let mut outputs = Vec::new();
        let chain = geometry.chain_outputs();
        for (name, role, dtype, dims) in geometry.leading_outputs().into_iter().chain(chain) {
            outputs.push(Output { name: name.to_owned(), role, tensor: sized(name, dtype, dims)? });
        }
        let mut donations = Vec::new();
        for pool in pools {
            donations.push((inputs.len(), outputs.len()));
            inputs.push(Input {
                name: pool.name.clone(),
                role: InputRole::Pool(pool.role),
                tensor: pool.tensor.clone(),
            });
            outputs.push(Output {
                name: format!("{}Out", pool.name),
                role: OutputRole::Pool(pool.role),
                tensor: pool.tensor.clone(),
            });
        }
        inputs.extend(weights.iter().map(|(name, tensor)| Input {
            name: name.clone(),
            role: InputRole::Weight,
            tensor: tensor.clone(),
        }));
        Ok(Signature { inputs, outputs, donations })
    }

    /// Columns of a row's logits; 1 where there are none.
    pub fn logits_columns(&self) -> usize {
        logits_columns(&self.outputs)
    }
}

/// Columns of a row's logits among `outputs`; 1 where there are none.
pub(crate) fn logits_columns(outputs: &[Output]) -> usize {
    let logits = outputs.iter().find(|output| output.role == OutputRole::Logits);
    logits.and_then(|output| output.tensor.dims().get(1)).copied().unwrap_or(1)
}
