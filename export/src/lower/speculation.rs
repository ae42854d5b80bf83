//! What an entry of a model with a draft head returns (artifact format §10): the target's greedy
//! tokens, how many of the drafts they confirm, new drafts, and the next verify step's inputs.

pub(super) use super::draft::{Model, Next};
use super::draft::{greedy, read_hidden, slots, to_rows, write_hidden};
use super::rows::Rows;
use super::{Request, head, norm};
use crate::stablehlo::{Binary, Compare, Function, Value};

/// Results before the pools: three that the host reads, six for the next verify step.
pub(super) const RESULTS: usize = 9;

/// The results, the draft head's pools after the call, and the function of its layer. `x` is what
/// the last layer leaves; `pools` are the head's keys, values and hidden states.
pub(super) fn results(
    f: &mut Function,
    model: Model<'_>,
    request: &Request,
    x: &Value,
    pools: Vec<Value>,
) -> (Vec<Value>, Vec<Value>, Function) {
    let [Some(keys), Some(values), Some(hidden)] = ({
        let mut pools = pools.into_iter();
        std::array::from_fn(|_| pools.next())
    }) else {
        unreachable!("a draft head has three pools")
    };
    let call = Call { model, request, pools: [keys, values], hidden };
    if model.cx.decodes_drafts() { call.verify(f, x) } else { call.prefill(f, x) }
}

struct Call<'a> {
    model: Model<'a>,
    request: &'a Request,
    /// The head's keys and values.
    pools: [Value; 2],
    /// The hidden state after each sequence's last token.
    hidden: Value,
}

impl Call<'_> {
    /// A prompt, or a part of one: the greedy token after it and the first drafts.
    fn prefill(self, f: &mut Function, x: &Value) -> (Vec<Value>, Vec<Value>, Function) {
        let Call { model, request, pools, hidden } = self;
        let (cx, drafts) = (model.cx, model.draft.tokens);
        let (batch, tokens) = (cx.bucket.batch, cx.bucket.tokens);
        let h = norm::rms(f, cx, x, Some(&model.weights.final_norm), cx.norm_eps);
        let last = head::last_tokens(f, cx, &h);
        let logits = head::of_normed(f, cx, &model.spec.head, &last, model.weights);
        let next = greedy(f, &logits);

        let dims = [batch, tokens];
        let rows = Rows::build(f, cx, &request.full.slot_mapping);
        let state_slots = state_slots(request);
        let h = to_rows(f, cx, &h);
        let carried = read_hidden(f, &hidden, state_slots);
        let before = hidden_before(f, &rows, &h, &carried);
        let before_positions = f.with_int(Binary::Subtract, &request.positions, 1);
        let zero = f.int(0, &dims);
        let exists = f.compare(Compare::Le, &zero, &before_positions);
        let follows = f.binary(Binary::And, &rows.live, &exists);
        let at = (&before_positions, &follows);
        let pools = model.remember(f, request, &before, &request.token_ids, at, pools.each_ref());

        let column = |f: &mut Function, x: &Value| {
            let x = f.slice(x, 1, tokens - 1, 1);
            f.reshape(&x, &[batch])
        };
        let (position, live) = (column(f, &request.positions), column(f, &rows.live));
        let last = to_rows(f, cx, &last);
        let step = Next { hidden: last.clone(), token: next.clone(), position, live: live.clone() };
        let (proposed, [keys, values], function) = model.propose(f, request, step, pools);
        let nowhere = f.int(-1, &[batch]);
        let written = f.select(&live, state_slots, &nowhere);
        let hidden = write_hidden(f, &hidden, &written, &last);

        let next = f.reshape(&next, &[batch, 1]);
        let rest = f.int(0, &[batch, drafts]);
        let mut results = vec![f.concatenate(&[next, rest], 1), f.int(0, &[batch]), proposed];
        // No verify step follows a prompt without its host: what padding holds.
        let wide = [batch, drafts + 1];
        results.extend([
            f.int(0, &wide),
            f.int(0, &wide),
            f.int(1, &[batch]),
            f.int(-1, &[batch * (drafts + 1)]),
            f.int(0, &[batch]),
            f.int(-1, &wide),
        ]);
        (results, vec![keys, values, hidden], function)
    }

    /// A token and the drafts after it.
    fn verify(self, f: &mut Function, x: &Value) -> (Vec<Value>, Vec<Value>, Function) {
        let Call { model, request, pools, hidden } = self;
        let cx = model.cx;
        let (batch, tokens) = (cx.bucket.batch, cx.bucket.tokens);
        let h = norm::rms(f, cx, x, Some(&model.weights.final_norm), cx.norm_eps);
        let logits = head::of_normed(f, cx, &model.spec.head, &h, model.weights);
        let next = greedy(f, &logits);
        let next = f.reshape(&next, &[batch, tokens]);
        let accepted = self::accepted(f, &request.token_ids, &next);

        // What the head would remember of the model's own tokens: right up to the first wrong draft,
        // and written over from there on.
        let rows = Rows::build(f, cx, &request.full.slot_mapping);
        let h = to_rows(f, cx, &h);
        let at = (&request.positions, &rows.live);
        let pools = model.remember(f, request, &h, &next, at, pools.each_ref());

        let row = f.iota(&[batch], 0);
        let row = f.with_int(Binary::Multiply, &row, tokens as i32);
        let place = f.add(&row, &accepted);
        let chosen = |f: &mut Function, of: &Value| {
            let of = f.reshape(of, &[batch * tokens, 1]);
            let chosen = f.gather_rows(&of, &place);
            f.reshape(&chosen, &[batch])
        };
        let (token, position) = (chosen(f, &next), chosen(f, &request.positions));
        let live = f.slice(&rows.live, 1, tokens - 1, 1);
        let live = f.reshape(&live, &[batch]);
        let step = Next {
            hidden: f.gather_rows(&h, &place),
            token: token.clone(),
            position: position.clone(),
            live: live.clone(),
        };
        let (drafts, [keys, values], function) = model.propose(f, request, step, pools);
        let writes = write_slots(request);
        let writes_flat = f.reshape(writes, &[batch * tokens]);
        let hidden = write_hidden(f, &hidden, &writes_flat, &h);

        let state_slot = chosen(f, writes);
        let chained = Chained { token, position, live, accepted: &accepted, state_slot };
        let chained = chained.inputs(f, self.model, request, &drafts);
        let mut results = vec![next, accepted, drafts];
        results.extend(chained);
        (results, vec![keys, values, hidden], function)
    }
}

/// The next verify step's inputs, as far as they are not pools and block tables.
struct Chained<'a> {
    /// The last token that this step gives, i32 `[B]`.
    token: Value,
    /// Position of the token before it, i32 `[B]`.
    position: Value,
    live: Value,
    accepted: &'a Value,
    /// Where the state before that token is.
    state_slot: Value,
}

impl Chained<'_> {
    /// Token ids, positions, lengths, slots, state slots and state write slots (artifact format
    /// §10.5); those of this step in rows without tokens.
    fn inputs(
        self,
        f: &mut Function,
        model: Model<'_>,
        request: &Request,
        drafts: &Value,
    ) -> [Value; 6] {
        let cx = model.cx;
        let (batch, tokens) = (cx.bucket.batch, cx.bucket.tokens);
        let wide = [batch, tokens];
        let Chained { token, position, live, accepted, state_slot } = self;
        let token = f.reshape(&token, &[batch, 1]);
        let ids = f.concatenate(&[token, drafts.clone()], 1);

        let first = f.with_int(Binary::Add, &position, 1);
        let first = f.broadcast(&first, &wide, &[0]);
        let column = f.iota(&wide, 1);
        let positions = f.add(&first, &column);
        let lengths = f.with_int(Binary::Add, &position, 1 + tokens as i32);
        let live_wide = f.broadcast(&live, &wide, &[0]);
        let slots = slots(f, cx, &request.full.block_tables, &positions, &live_wide);

        let writes = write_slots(request);
        let accepted = f.broadcast(accepted, &wide, &[0]);
        let taken = f.compare(Compare::Eq, &column, &accepted);
        let freed = f.broadcast(state_slots(request), &wide, &[0]);
        let next_writes = f.select(&taken, &freed, writes);

        let flat = f.reshape(&live_wide, &[batch * tokens]);
        [
            f.select(&live_wide, &ids, &request.token_ids),
            f.select(&live_wide, &positions, &request.positions),
            f.select(&live, &lengths, &request.seq_lens),
            f.select(&flat, &slots, &request.full.slot_mapping),
            f.select(&live, &state_slot, state_slots(request)),
            f.select(&live_wide, &next_writes, writes),
        ]
    }
}

fn state_slots(request: &Request) -> &Value {
    match &request.state_slots {
        Some(slots) => slots,
        None => unreachable!("a model with a draft head has state slots"),
    }
}

fn write_slots(request: &Request) -> &Value {
    match &request.state_write_slots {
        Some(slots) => slots,
        None => unreachable!("a model with a draft head has slots to write states to"),
    }
}

/// The hidden state before each column's token, `[B * T, hidden]`: of the column before it in `h`
/// (`[B * T, hidden]`), at a row's first token in `carried` (`[B, hidden]`).
fn hidden_before(f: &mut Function, rows: &Rows, h: &Value, carried: &Value) -> Value {
    let (batch, tokens) = (rows.live.dims()[0], rows.live.dims()[1]);
    let hidden = h.dims()[1];
    let dims = [batch, tokens, hidden];
    let h = f.reshape(h, &dims);
    let mut parts = vec![f.reshape(carried, &[batch, 1, hidden])];
    if tokens > 1 {
        parts.push(f.slice(&h, 1, 0, tokens - 1));
    }
    let shifted = f.concatenate(&parts, 1);
    let column = f.iota(&dims, 1);
    let padding = f.broadcast(&rows.padding, &dims, &[0]);
    let first = f.compare(Compare::Eq, &column, &padding);
    let carried = f.broadcast(carried, &dims, &[0, 2]);
    let before = f.select(&first, &carried, &shifted);
    f.reshape(&before, &[batch * tokens, hidden])
}

/// How many leading drafts of each row are the model's own tokens, i32 `[B]`: `ids` (i32 `[B, T]`) are
/// a token and its drafts, `next` (i32 `[B, T]`) what the model gives after each.
fn accepted(f: &mut Function, ids: &Value, next: &Value) -> Value {
    let (batch, drafts) = (ids.dims()[0], ids.dims()[1] - 1);
    let proposed = f.slice(ids, 1, 1, drafts);
    let given = f.slice(next, 1, 0, drafts);
    let equal = f.compare(Compare::Eq, &proposed, &given);
    let dims = [batch, drafts];
    let (one, zero) = (f.int(1, &dims), f.int(0, &dims));
    let equal = f.select(&equal, &one, &zero);
    let mut all = f.int(1, &[batch, 1]);
    let mut count = f.int(0, &[batch, 1]);
    for draft in 0..drafts {
        let own = f.slice(&equal, 1, draft, 1);
        all = f.multiply(&all, &own);
        count = f.add(&count, &all);
    }
    f.reshape(&count, &[batch])
}
