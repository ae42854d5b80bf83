//! Tokens through their experts.
//!
//! An expert's matrices are sliced out of the stacked ones in a loop and multiplied right there: the
//! copy of one expert stays in the cache. Gathering all chosen matrices first, or slicing them
//! outside of a loop, moves them through memory: at 16 choices that takes five times as long.

use tlaloc_artifact::DType;

use super::router::Chosen;
use crate::lower::forms::Product;
use crate::lower::rows::Rows;
use crate::lower::{Context, mlp, projection};
use crate::slots::Projection;
use crate::spec::MoeSpec;
use crate::stablehlo::{Binary, Compare, Function, Reduce, Value};

/// Most tokens that go through an expert together.
const MOST_TOGETHER: usize = 32;

/// How many tokens go through an expert together.
///
/// One at a time as long as few experts are chosen twice; later, about twice as many as an expert is
/// chosen for on average, so that most experts are sliced once.
///
/// Milliseconds with 32 experts of 3 x 2 MB, 4 a token, by tokens of the call, of 1, 2, 4, 8, 16 and
/// 32 together: 4 tokens 11, 10, 12, 12; 8 tokens 18, 16, 16, 17, 22; 16 tokens 31, 29, 25, 25, 32,
/// 46; 128 tokens 194, 148, 89, 67, 56, 66; 512 tokens –, –, –, 183, 130, 117.
fn together(moe: &MoeSpec, tokens: usize) -> usize {
    let choices = tokens * moe.experts_per_token;
    (2 * choices / moe.experts).next_power_of_two().min(MOST_TOGETHER)
}

/// A layer's experts.
pub(super) struct Experts<'a> {
    pub(super) cx: &'a Context,
    pub(super) moe: &'a MoeSpec,
    /// Gate and up projections of all, stacked.
    pub(super) gate_up: Projection<'a, Value>,
    /// Down projections of all, stacked.
    pub(super) down: Projection<'a, Value>,
}

impl Experts<'_> {
    /// The weighted sums of the experts' outputs for `tokens` (`[tokens, hidden]`), of the same
    /// shape.
    pub(super) fn sum(
        &self,
        f: &mut Function,
        tokens: &Value,
        chosen: &Chosen,
        rows: &Rows,
    ) -> Value {
        let (count, hidden) = (tokens.dims()[0], tokens.dims()[1]);
        let outputs = match together(self.moe, count) {
            1 if self.cx.is_one_token() => self.one_by_one(f, tokens, chosen, rows),
            size => self.in_groups(f, tokens, chosen, rows, size),
        };
        let outputs = f.reshape(&outputs, &[count, self.moe.experts_per_token, hidden]);
        let share = f.broadcast(&chosen.weights, outputs.dims(), &[0, 1]);
        let outputs = f.multiply(&outputs, &share);
        f.reduce(Reduce::Add, &outputs, 1)
    }

    /// Output of each choice, `[tokens * experts_per_token, hidden]`, one after the other; 0 in rows
    /// without a token. Only for one token a row.
    fn one_by_one(&self, f: &mut Function, tokens: &Value, chosen: &Chosen, rows: &Rows) -> Value {
        let (count, hidden) = (tokens.dims()[0], tokens.dims()[1]);
        let each = self.moe.experts_per_token;
        let choices = f.reshape(&chosen.experts, &[count * each]);
        let trips = f.with_int(Binary::Multiply, &rows.count, each as i32);
        let outputs = f.float(0.0, DType::F32, &[count * each, hidden]);
        let fixed = self.with_weights([tokens, &choices]);
        let [outputs] = f.repeat(&trips, [&outputs], &fixed, |f, choice, [outputs], fixed| {
            let token = f.with_int(Binary::Divide, choice, each as i32);
            let token = f.dynamic_slice(&fixed[0], 0, &token, 1);
            let number = f.element(&fixed[1], choice);
            let output = self.expert(f, &fixed[2..], &number, &token);
            [f.dynamic_update_slice(&outputs, &output, &[(0, choice)])]
        });
        outputs
    }

    /// As [`Experts::one_by_one`], for any tokens: choices sorted by expert, up to `size` of one
    /// expert together.
    ///
    /// The last group of an expert may reach into the next expert's choices. What it writes there is
    /// overwritten, as groups are done in the order of their choices.
    fn in_groups(
        &self,
        f: &mut Function,
        tokens: &Value,
        chosen: &Chosen,
        rows: &Rows,
        size: usize,
    ) -> Value {
        let (count, hidden) = (tokens.dims()[0], tokens.dims()[1]);
        let MoeSpec { experts, experts_per_token: each, .. } = *self.moe;
        let choices = count * each;
        // Padding goes to an expert that there is none of, behind all others.
        let live = f.reshape(&rows.live, &[count]);
        let live = f.broadcast(&live, &[count, each], &[0]);
        let nowhere = f.int(experts as i32, &[count, each]);
        let numbers = f.select(&live, &chosen.experts, &nowhere);
        let numbers = f.reshape(&numbers, &[choices]);
        let identity = f.iota(&[choices], 0);
        let (sorted, order) = f.sort_pairs(&numbers, &identity);
        let (_, places) = f.sort_pairs(&order, &identity);
        let groups = Groups::of(f, experts, &sorted, size);

        let token = f.with_int(Binary::Divide, &order, each as i32);
        let gathered = f.gather_rows(tokens, &token);
        let beyond = f.float(0.0, DType::F32, &[size, hidden]);
        let gathered = f.concatenate(&[gathered, beyond], 0);
        let outputs = f.float(0.0, DType::F32, &[choices + size, hidden]);
        let Groups { count, first_choice, first, end } = &groups;
        let fixed = self.with_weights([&gathered, first_choice, first, end]);
        let [outputs] = f.repeat(count, [&outputs], &fixed, |f, group, [outputs], fixed| {
            let (number, start) = Groups::at(f, group, &fixed[1..4], size);
            let tokens = f.dynamic_slice(&fixed[0], 0, &start, size);
            let output = self.expert(f, &fixed[4..], &number, &tokens);
            [f.dynamic_update_slice(&outputs, &output, &[(0, &start)])]
        });
        f.gather_rows(&outputs, &places)
    }

    /// `values`, then the weights: the matrices of [`Experts::gate_up`] and [`Experts::down`], and
    /// where they are quantised their scales.
    fn with_weights<'a, const N: usize>(&'a self, values: [&'a Value; N]) -> Vec<&'a Value> {
        let mut all = values.to_vec();
        all.extend([self.gate_up.matrix, self.down.matrix]);
        all.extend([self.gate_up.scale, self.down.scale].into_iter().flatten());
        all
    }

    /// Expert `number` (an i32 scalar) of `tokens` (`[n, hidden]`), of the same shape. `weights` are
    /// those of [`Experts::with_weights`] where this is called.
    ///
    /// The products are `W · h` whatever the orientation: `h · Wᵀ` takes up to six times as long with
    /// few tokens.
    fn expert(&self, f: &mut Function, weights: &[Value], number: &Value, tokens: &Value) -> Value {
        let product = |f: &mut Function, which: usize, rows: usize, x: &Value| {
            let first = f.with_int(Binary::Multiply, number, rows as i32);
            let matrix = f.dynamic_slice(&weights[which], 0, &first, rows);
            let scale = weights.get(2 + which).map(|scale| f.dynamic_slice(scale, 0, &first, rows));
            let (matrix, x) = match (self.cx.product, &scale) {
                (Product::F32, None) => (matrix, x.clone()),
                (Product::F32, Some(_)) => (projection::widen(f, &matrix), x.clone()),
                (Product::Bf16 | Product::WidenedBf16, _) => {
                    (f.convert(&matrix, DType::Bf16), f.convert(x, DType::Bf16))
                }
            };
            let product = f.dot(&matrix, &x, (1, 0));
            match scale {
                Some(scale) => {
                    let scale = f.broadcast(&scale, product.dims(), &[0]);
                    f.multiply(&product, &scale)
                }
                None => product,
            }
        };
        let spec = &self.moe.expert;
        let x = f.transpose(tokens, &[1, 0]);
        let [x] = f.barrier([&x]);
        let gate_up = product(f, 0, 2 * spec.intermediate_size, &x);
        let gated = mlp::gated(f, spec, &gate_up, 0);
        let out = product(f, 1, tokens.dims()[1], &gated);
        let [out] = f.barrier([&out]);
        f.transpose(&out, &[1, 0])
    }
}

/// Sorted choices cut into groups of one expert each; vectors are i32 `[experts]`.
struct Groups {
    /// An i32 scalar.
    count: Value,
    /// Each expert's first choice.
    first_choice: Value,
    /// Each expert's first group.
    first: Value,
    /// The group after each expert's last.
    end: Value,
}

impl Groups {
    fn of(f: &mut Function, experts: usize, sorted: &Value, size: usize) -> Groups {
        let choices = sorted.dims()[0];
        // Choices of experts below each, and up to each.
        let mut counted = |op: Compare| {
            let dims = [experts, choices];
            let number = f.broadcast(sorted, &dims, &[1]);
            let expert = f.iota(&dims, 0);
            let counted = f.compare(op, &number, &expert);
            let (one, zero) = (f.int(1, &dims), f.int(0, &dims));
            let counted = f.select(&counted, &one, &zero);
            f.reduce(Reduce::Add, &counted, 1)
        };
        let (first_choice, end_choice) = (counted(Compare::Lt), counted(Compare::Le));
        let groups = f.subtract(&end_choice, &first_choice);
        let groups = f.with_int(Binary::Add, &groups, size as i32 - 1);
        let groups = f.with_int(Binary::Divide, &groups, size as i32);
        let dims = [experts, experts];
        let (to, from) = (f.iota(&dims, 0), f.iota(&dims, 1));
        let counted = f.compare(Compare::Le, &from, &to);
        let (each, zero) = (f.broadcast(&groups, &dims, &[1]), f.int(0, &dims));
        let each = f.select(&counted, &each, &zero);
        let end = f.reduce(Reduce::Add, &each, 1);
        let count = f.reduce(Reduce::Add, &groups, 0);
        Groups { count, first_choice, first: f.subtract(&end, &groups), end }
    }

    /// The expert of group `group` and its first choice, i32 scalars; `vectors` are `first_choice`,
    /// `first` and `end`.
    fn at(f: &mut Function, group: &Value, vectors: &[Value], size: usize) -> (Value, Value) {
        let (first_choice, first, end) = (&vectors[0], &vectors[1], &vectors[2]);
        let all = f.broadcast(group, end.dims(), &[]);
        let passed = f.compare(Compare::Le, end, &all);
        let (one, zero) = (f.int(1, end.dims()), f.int(0, end.dims()));
        let passed = f.select(&passed, &one, &zero);
        let number = f.reduce(Reduce::Add, &passed, 0);

        let first = f.element(first, &number);
        let before = f.subtract(group, &first);
        let before = f.with_int(Binary::Multiply, &before, size as i32);
        let first_choice = f.element(first_choice, &number);
        (number, f.add(&first_choice, &before))
    }
}
