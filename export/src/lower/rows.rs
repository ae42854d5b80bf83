//! The rows of a call: which of them have tokens, and where these begin (artifact format §7.5).

use super::Context;
use crate::stablehlo::{Binary, Compare, Function, Reduce, Value};

/// What layers that work row by row need to know of a call.
#[derive(Clone)]
pub(super) struct Rows {
    /// Rows to visit, an i32 scalar: those up to the last one with a token.
    pub(super) count: Value,
    /// Padding columns before each row's tokens, i32 `[B]`; `T` in a row without tokens.
    pub(super) padding: Value,
    /// Whether each column holds a token, `[B, T]`.
    pub(super) live: Value,
}

impl Rows {
    /// A token is one with a slot in the pools; padding has slot -1.
    pub(super) fn build(f: &mut Function, cx: &Context, slot_mapping: &Value) -> Rows {
        let dims = [cx.bucket.batch, cx.bucket.tokens];
        let slots = f.reshape(slot_mapping, &dims);
        let zero = f.int(0, &dims);
        let live = f.compare(Compare::Le, &zero, &slots);
        let ones = f.int(1, &dims);
        let tokens = f.select(&live, &ones, &zero);
        let tokens = f.reduce(Reduce::Add, &tokens, 1);
        let all = f.int(dims[1] as i32, &dims[..1]);
        let padding = f.subtract(&all, &tokens);

        let number = f.iota(&dims[..1], 0);
        let number = f.with_int(Binary::Add, &number, 1);
        let none = f.int(0, &dims[..1]);
        let filled = f.compare(Compare::Lt, &padding, &all);
        let number = f.select(&filled, &number, &none);
        let count = f.reduce(Reduce::Maximum, &number, 0);
        Rows { count, padding, live }
    }

    /// `each` of every value and its name, in the order of a layer's parameters.
    pub(super) fn map(&self, each: &mut dyn FnMut(&str, &Value) -> Value) -> Rows {
        Rows {
            count: each("rowCount", &self.count),
            padding: each("padding", &self.padding),
            live: each("live", &self.live),
        }
    }
}
