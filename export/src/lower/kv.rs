//! Paged keys and values: writing this call's tokens, reading a row's history.
//!
//! A pool is written once and only its new value is read, so a donated pool is updated in place.

use tlaloc_artifact::DType;

use super::Context;
use crate::stablehlo::{Binary, Compare, Function, Value};

/// `[block, offset]` of each token's slot, i32 `[n, 2]`; slot -1 gives block -1, which is outside
/// every pool, so its write is dropped.
///
/// A lone token gets a second index outside the pool: the compiler turns a scatter of one row into
/// a dynamic update whose reader may want the old pool, and then copies the whole pool.
pub(super) fn write_indices(f: &mut Function, cx: &Context, slots: &Value) -> Value {
    let block_size = cx.pools.block_size as i32;
    let tokens = slots.dims()[0];
    let (block, offset) = if cx.pools.block_size.is_power_of_two() {
        // The arithmetic shift keeps -1, where a division would give block 0.
        (
            f.with_int(Binary::ShiftRightArithmetic, slots, block_size.trailing_zeros() as i32),
            f.with_int(Binary::And, slots, block_size - 1),
        )
    } else {
        let zero = f.int(0, &[tokens]);
        let outside = f.int(-1, &[tokens]);
        let padding = f.compare(Compare::Lt, slots, &zero);
        let block = f.with_int(Binary::Divide, slots, block_size);
        (f.select(&padding, &outside, &block), f.with_int(Binary::Remainder, slots, block_size))
    };
    let (block, offset) = (f.reshape(&block, &[tokens, 1]), f.reshape(&offset, &[tokens, 1]));
    let indices = f.concatenate(&[block, offset], 1);
    if tokens > 1 {
        return indices;
    }
    let outside = f.int(-1, &[1, 2]);
    f.concatenate(&[indices, outside], 0)
}

/// The pool with `tokens` (`[n, kv_heads, head_dim]`) written at [`write_indices`].
pub(super) fn write(f: &mut Function, pool: &Value, indices: &Value, tokens: &Value) -> Value {
    let missing = indices.dims()[0] - tokens.dims()[0];
    if missing == 0 {
        return f.scatter_into_pool(pool, indices, tokens);
    }
    let mut dims = tokens.dims().to_vec();
    dims[0] = missing;
    let padding = f.float(0.0, DType::F32, &dims);
    let padded = f.concatenate(&[tokens.clone(), padding], 0);
    f.scatter_into_pool(pool, indices, &padded)
}

/// Slot of every position of every row, i32 `[B * C]`.
pub(super) fn history_slots(f: &mut Function, cx: &Context, block_tables: &Value) -> Value {
    let [batch, columns] = [block_tables.dims()[0], block_tables.dims()[1]];
    let dims = [batch, columns, cx.pools.block_size];
    let blocks = f.broadcast(block_tables, &dims, &[0, 1]);
    let first = f.with_int(Binary::Multiply, &blocks, cx.pools.block_size as i32);
    let offset = f.iota(&dims, 2);
    let slots = f.add(&first, &offset);
    f.reshape(&slots, &[batch * cx.bucket.context])
}

/// The rows' history out of a pool, by [`history_slots`]: `[B, C, kv_heads * head_dim]`.
pub(super) fn read(f: &mut Function, cx: &Context, pool: &Value, slots: &Value) -> Value {
    let width = pool.dims()[2] * pool.dims()[3];
    let rows = f.reshape(pool, &[pool.dims()[0] * pool.dims()[1], width]);
    let history = f.gather_rows(&rows, slots);
    f.reshape(&history, &[cx.bucket.batch, cx.bucket.context, width])
}
