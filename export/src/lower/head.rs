//! Logits of each row's last token, or in a verify entry of every token.
//!
//! The table is large (113 MB in SmolLM2) and read once per step, so the form matters more than
//! anywhere else. `table · h` runs at bandwidth, but only with a barrier before its transpose: the
//! compiler otherwise turns the product around, into a form that takes 64 ms instead of 4 at two to
//! four rows (SmolLM2, default plugin), whatever the size of the vocabulary.

use tlaloc_artifact::DType;

use super::forms::{Orientation, Product};
use super::{Context, norm};
use crate::slots::{ModelWeights, WeightLayout};
use crate::spec::HeadSpec;
use crate::stablehlo::{Binary, Function, Reduce, Unary, Value};

/// Logits f32 `[B, 1, vocab]` of the last token column of `x`; f32 `[B, T, vocab]` of every column in
/// a verify entry.
pub(super) fn logits(
    f: &mut Function,
    cx: &Context,
    spec: &HeadSpec,
    x: &Value,
    weights: &ModelWeights<Value>,
) -> Value {
    let (batch, columns) = (cx.bucket.batch, cx.bucket.logits_columns());
    let x = if cx.bucket.verify { x.clone() } else { last_tokens(f, cx, x) };
    let h = norm::rms(f, cx, &x, Some(&weights.final_norm), cx.norm_eps);
    let logits = of_normed(f, cx, spec, &h, weights);
    f.reshape(&logits, &[batch, columns, logits.dims()[1]])
}

/// Logits f32 `[n, vocab]` of `n` tokens' activations after the last norm.
pub(super) fn of_normed(
    f: &mut Function,
    cx: &Context,
    spec: &HeadSpec,
    h: &Value,
    weights: &ModelWeights<Value>,
) -> Value {
    let mut logits = match &weights.head {
        Some(head) if cx.layout == WeightLayout::InOut => in_out(f, cx, h, head),
        Some(head) => table(f, cx, h, head),
        None => table(f, cx, h, &weights.embedding),
    };
    if spec.multiplier != 1.0 {
        logits = f.with_float(Binary::Multiply, &logits, spec.multiplier);
    }
    if let Some(cap) = spec.softcap {
        let ratio = f.with_float(Binary::Divide, &logits, cap);
        let bounded = f.unary(Unary::Tanh, &ratio);
        logits = f.with_float(Binary::Multiply, &bounded, cap);
    }
    logits
}

/// The last of each row's token columns, as activations of `B` tokens.
pub(super) fn last_tokens(f: &mut Function, cx: &Context, x: &Value) -> Value {
    let (batch, tokens) = (cx.bucket.batch, cx.bucket.tokens);
    let hidden = x.dims()[cx.orientation.features()];
    let (dims, column) = match cx.orientation {
        Orientation::FeatureMajor => ([hidden, batch, tokens], 2),
        Orientation::RowMajor => ([batch, tokens, hidden], 1),
    };
    let x = f.reshape(x, &dims);
    let last = f.slice(&x, column, tokens - 1, 1);
    f.reshape(&last, &cx.orientation.dims(hidden, batch))
}

/// `h` times a `[hidden, vocab]` matrix: `[n, vocab]`.
fn in_out(f: &mut Function, cx: &Context, h: &Value, head: &Value) -> Value {
    let h = match cx.product {
        Product::F32 => h.clone(),
        Product::Bf16 | Product::WidenedBf16 => f.convert(h, DType::Bf16),
    };
    f.dot(&h, head, (1, 0))
}

/// `h` times the transpose of a `[vocab, hidden]` table: `[n, vocab]`.
fn table(f: &mut Function, cx: &Context, h: &Value, table: &Value) -> Value {
    let (vocab, hidden) = (table.dims()[0], table.dims()[1]);
    let count = h.dims()[cx.orientation.tokens()];
    match (cx.product, cx.orientation) {
        (Product::WidenedBf16, _) => {
            let h = f.round_to_bf16(h);
            let h = f.reshape(&h, &[hidden]);
            let h = f.broadcast(&h, table.dims(), &[1]);
            let table = f.convert(table, DType::F32);
            let products = f.multiply(&table, &h);
            let sums = f.reduce(Reduce::Add, &products, 1);
            f.reshape(&sums, &[1, vocab])
        }
        (Product::Bf16, _) => {
            // A bf16 product of one row is expanded slowly; two rows are not.
            let mut h = f.convert(h, DType::Bf16);
            if count == 1 {
                let padding = f.float(0.0, DType::Bf16, &[1, hidden]);
                h = f.concatenate(&[h, padding], 0);
            }
            let logits = f.dot(&h, table, (1, 1));
            f.slice(&logits, 0, 0, count)
        }
        (Product::F32, Orientation::RowMajor) if count == 1 => f.dot(h, table, (1, 1)),
        (Product::F32, Orientation::RowMajor) => {
            let h = f.transpose(h, &[1, 0]);
            let [h] = f.barrier([&h]);
            columns(f, &h, table)
        }
        (Product::F32, Orientation::FeatureMajor) => columns(f, h, table),
    }
}

/// An f32 `[vocab, hidden]` table times `h` (`[hidden, n]`), transposed: `[n, vocab]`.
fn columns(f: &mut Function, h: &Value, table: &Value) -> Value {
    let logits = f.dot(table, h, (1, 0));
    let [logits] = f.barrier([&logits]);
    f.transpose(&logits, &[1, 0])
}
