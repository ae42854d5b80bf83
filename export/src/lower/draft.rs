//! The draft head (multi-token prediction): what it remembers of tokens, and what it proposes.
//!
//! At a token it takes the last norm's output there and the token that follows, and its keys and
//! values go to the token's position. What it proposes for the token after that is its next input,
//! with its own normed output as the hidden state, one position further on.

use tlaloc_artifact::DType;

use super::forms::Orientation;
use super::layer::{self, LayerInputs, Shared};
use super::{Context, Paging, Request, embed, head, kv, norm, projection, self_attention};
use crate::slots::{DraftWeights, LayerWeight, ModelWeights, Projection};
use crate::spec::{DraftSpec, ModelSpec};
use crate::stablehlo::{Binary, Compare, Function, Reduce, Value};

/// What the draft head's part of a program needs to know.
#[derive(Clone, Copy)]
pub(super) struct Model<'a> {
    pub(super) cx: &'a Context,
    pub(super) spec: &'a ModelSpec,
    pub(super) draft: &'a DraftSpec,
    pub(super) weights: &'a ModelWeights<Value>,
}

/// A token of each row, and what it follows.
pub(super) struct Next {
    /// The last norm's output at the token before, `[B, hidden]`.
    pub(super) hidden: Value,
    /// The token, i32 `[B]`.
    pub(super) token: Value,
    /// Position of the token before, i32 `[B]`.
    pub(super) position: Value,
    /// Whether the row has tokens, `[B]`.
    pub(super) live: Value,
}

impl Model<'_> {
    fn weights(&self) -> &DraftWeights<Value> {
        match &self.weights.draft {
            Some(weights) => weights,
            None => unreachable!("a model with a draft head has its weights"),
        }
    }

    /// The input of the head's layer, as activations of `cx`: of tokens (i32 `[n]`) and of the hidden
    /// states before them (`[n, hidden]`).
    fn stem(&self, f: &mut Function, cx: &Context, hidden: &Value, tokens: &Value) -> Value {
        let weights = self.weights();
        let table = &self.weights.embedding;
        let embedding = embed(f, cx, self.spec.embedding, table, tokens);
        let hidden = from_rows(f, cx, hidden);
        let embedding = norm::rms(f, cx, &embedding, Some(&weights.embedding_norm), cx.norm_eps);
        let hidden = norm::rms(f, cx, &hidden, Some(&weights.hidden_norm), cx.norm_eps);
        let both = f.concatenate(&[embedding, hidden], cx.orientation.features());
        let projection = Projection { matrix: &weights.projection, scale: None };
        projection::project(f, cx, &both, projection)
    }

    /// The head's pools with the keys and values of as many tokens as the call has columns: of
    /// `tokens` (i32 `[B, T]`) after the hidden states (`[B * T, hidden]`) at `positions` (i32
    /// `[B, T]`), where `live` (`[B, T]`).
    pub(super) fn remember(
        &self,
        f: &mut Function,
        request: &Request,
        hidden: &Value,
        tokens: &Value,
        (positions, live): (&Value, &Value),
        pools: [&Value; 2],
    ) -> [Value; 2] {
        let cx = self.cx;
        let Some(attention) = self.draft.layer.attention() else {
            unreachable!("the draft head's layer has attention")
        };
        let weights = &self.weights().layer;
        let tokens = f.reshape(tokens, &[cx.tokens()]);
        let x = self.stem(f, cx, hidden, &tokens);
        let h = norm::rms(f, cx, &x, Some(&weights[LayerWeight::MixerNorm]), cx.norm_eps);
        let slots = slots(f, cx, &request.full.block_tables, positions, live);
        self_attention::remember(f, cx, attention, &h, (positions, &slots), pools, weights)
    }

    /// Draft tokens of each row, i32 `[B, K]`, the head's pools after them, and the function of its
    /// layer, which a program has to have.
    pub(super) fn propose(
        &self,
        f: &mut Function,
        request: &Request,
        next: Next,
        mut pools: [Value; 2],
    ) -> (Value, [Value; 2], Function) {
        let cx = self.cx.one_token();
        let batch = cx.bucket.batch;
        let Next { mut hidden, mut token, mut position, live } = next;
        let (mut drafts, mut function) = (Vec::new(), None);
        let column_live = f.reshape(&live, &[batch, 1]);
        for _ in 0..self.draft.tokens {
            let positions = f.reshape(&position, &[batch, 1]);
            let tables = request.full.block_tables.clone();
            let slot_mapping = slots(f, &cx, &tables, &positions, &column_live);
            let step = Request {
                token_ids: f.reshape(&token, &[batch, 1]),
                positions,
                seq_lens: f.with_int(Binary::Add, &position, 1),
                full: Paging { block_tables: tables, slot_mapping },
                windowed: None,
                state_slots: None,
                state_write_slots: None,
            };
            let inputs = LayerInputs {
                x: self.stem(f, &cx, &hidden, &token),
                pools,
                shared: Shared::build(f, &cx, &self.draft.layer, &step),
                weights: self.weights().layer.clone(),
            };
            let layer = function
                .get_or_insert_with(|| layer::function(&cx, &self.draft.layer, "draft", &inputs));
            let arguments = inputs.list();
            let arguments: Vec<_> = arguments.iter().collect();
            let mut outputs = f.call(layer, &arguments).into_iter();
            let [Some(x), Some(keys), Some(values)] = std::array::from_fn(|_| outputs.next())
            else {
                unreachable!("a layer returns the residual stream and two pools")
            };
            pools = [keys, values];

            let h = norm::rms(f, &cx, &x, Some(&self.weights().norm), cx.norm_eps);
            let logits = head::of_normed(f, &cx, &self.spec.head, &h, self.weights);
            token = greedy(f, &logits);
            drafts.push(f.reshape(&token, &[batch, 1]));
            hidden = to_rows(f, &cx, &h);
            position = f.with_int(Binary::Add, &position, 1);
        }
        let Some(function) = function else { unreachable!("a draft head proposes a token") };
        (f.concatenate(&drafts, 1), pools, function)
    }
}

/// Activations as `[tokens, features]`.
pub(super) fn to_rows(f: &mut Function, cx: &Context, x: &Value) -> Value {
    match cx.orientation {
        Orientation::FeatureMajor => {
            // Keeps the transpose out of the product before it.
            let [x] = f.barrier([x]);
            f.transpose(&x, &[1, 0])
        }
        Orientation::RowMajor => x.clone(),
    }
}

fn from_rows(f: &mut Function, cx: &Context, rows: &Value) -> Value {
    match cx.orientation {
        Orientation::FeatureMajor => f.transpose(rows, &[1, 0]),
        Orientation::RowMajor => rows.clone(),
    }
}

/// Index of the first largest logit of each row of `[n, vocab]`, i32 `[n]`; beyond the vocabulary
/// where a logit is not a number.
pub(super) fn greedy(f: &mut Function, logits: &Value) -> Value {
    let largest = f.reduce(Reduce::Maximum, logits, 1);
    let largest = f.broadcast(&largest, logits.dims(), &[0]);
    let found = f.compare(Compare::Eq, logits, &largest);
    let index = f.iota(logits.dims(), 1);
    let none = f.int(i32::MAX, logits.dims());
    let index = f.select(&found, &index, &none);
    f.reduce(Reduce::Minimum, &index, 1)
}

/// Pool slots of `positions` (i32 `[B, n]`) by the rows' block tables, i32 `[B * n]`, -1 where not
/// `live` (`[B, n]`). Positions beyond a table are taken for some of its last page.
pub(super) fn slots(
    f: &mut Function,
    cx: &Context,
    tables: &Value,
    positions: &Value,
    live: &Value,
) -> Value {
    let block_size = cx.pools.block_size as i32;
    let (dims, columns) = (positions.dims().to_vec(), tables.dims()[1]);
    let count = dims.iter().product();
    let zero = f.int(0, &dims);
    let from_zero = f.binary(Binary::Maximum, positions, &zero);
    let column = f.with_int(Binary::Divide, &from_zero, block_size);
    let last = f.int(columns as i32 - 1, &dims);
    let column = f.binary(Binary::Minimum, &column, &last);
    let row = f.iota(&dims, 0);
    let row = f.with_int(Binary::Multiply, &row, columns as i32);
    let place = f.add(&row, &column);
    let place = f.reshape(&place, &[count]);
    let entries = f.reshape(tables, &[tables.dims().iter().product(), 1]);
    let pages = f.gather_rows(&entries, &place);
    let pages = f.reshape(&pages, &dims);
    let first = f.with_int(Binary::Multiply, &pages, block_size);
    let offset = f.with_int(Binary::Remainder, &from_zero, block_size);
    let slots = f.add(&first, &offset);
    let dead = f.int(-1, &dims);
    let slots = f.select(live, &slots, &dead);
    f.reshape(&slots, &[count])
}

/// The rows' hidden states in `pool` (`[numSlots, 1, 1, hidden]`) at `slots` (i32 `[B]`): `[B, hidden]`.
pub(super) fn read_hidden(f: &mut Function, pool: &Value, slots: &Value) -> Value {
    let batch = slots.dims()[0];
    let slots = f.reshape(slots, &[batch, 1]);
    let rows = kv::read(f, pool, &slots);
    f.reshape(&rows, &[batch, rows.dims()[2]])
}

/// The pool with hidden states (`[n, hidden]`) at `slots` (i32 `[n]`); those at -1 are dropped.
pub(super) fn write_hidden(f: &mut Function, pool: &Value, slots: &Value, hidden: &Value) -> Value {
    let indices = kv::write_indices(f, 1, slots);
    let hidden = f.reshape(hidden, &[hidden.dims()[0], 1, hidden.dims()[1]]);
    debug_assert_eq!(pool.dtype(), DType::F32);
    kv::write(f, pool, &indices, &hidden)
}
