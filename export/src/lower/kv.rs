//! Paged keys and values: writing this call's tokens, reading a row's history.
//!
//! A pool is written once and only its new value is read, so a donated pool is updated in place.

use tlaloc_artifact::DType;

use crate::stablehlo::{Binary, Compare, Function, Value};

/// The largest number of `f8e4m3fn`.
const LARGEST_F8E4M3FN: f32 = 448.0;

/// `[block, offset]` of each token's slot, i32 `[n, 2]`; slot -1 gives block -1, which is outside
/// every pool, so its write is dropped.
///
/// A lone token gets a second index outside the pool: the compiler turns a scatter of one row into
/// a dynamic update whose reader may want the old pool, and then copies the whole pool.
pub(crate) fn write_indices(f: &mut Function, block_size: usize, slots: &Value) -> Value {
    let power_of_two = block_size.is_power_of_two();
    let block_size = block_size as i32;
    let tokens = slots.dims()[0];
    let (block, offset) = if power_of_two {
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

/// The pool with `tokens` (f32 `[n, kv_heads, head_dim]`), as its element type holds them, written
/// at [`write_indices`].
pub(crate) fn write(f: &mut Function, pool: &Value, indices: &Value, tokens: &Value) -> Value {
    let missing = indices.dims()[0] - tokens.dims()[0];
    let padded = if missing == 0 {
        tokens.clone()
    } else {
        let mut dims = tokens.dims().to_vec();
        dims[0] = missing;
        let padding = f.float(0.0, DType::F32, &dims);
        f.concatenate(&[tokens.clone(), padding], 0)
    };
    let narrowed = narrow(f, &padded, pool.dtype());
    if pool.dtype() != DType::F8E4M3Fn {
        return f.scatter_into_pool(pool, indices, &narrowed);
    }
    // The CPU compiler would widen the whole pool to f16 and back for a scatter of 8-bit floats. As
    // integers it is copied, which is the less.
    let (bits, update) = (f.bitcast(pool, DType::U8), f.bitcast(&narrowed, DType::U8));
    let written = f.scatter_into_pool(&bits, indices, &update);
    f.bitcast(&written, DType::F8E4M3Fn)
}

/// `tokens` in the element type of a pool, rounded to nearest even (artifact format §12).
fn narrow(f: &mut Function, tokens: &Value, dtype: DType) -> Value {
    let tokens = match dtype {
        // What is larger than the type's largest number would become NaN.
        DType::F8E4M3Fn => f.clamp(tokens, -LARGEST_F8E4M3FN, LARGEST_F8E4M3FN),
        _ => tokens.clone(),
    };
    f.convert(&tokens, dtype)
}

/// The rows' keys or values at `slots` (`[B, n]`) of a pool: f32 `[B, n, kv_heads * head_dim]`.
pub(crate) fn read(f: &mut Function, pool: &Value, slots: &Value) -> Value {
    let (batch, n) = (slots.dims()[0], slots.dims()[1]);
    let width = pool.dims()[2] * pool.dims()[3];
    let rows = f.reshape(pool, &[pool.dims()[0] * pool.dims()[1], width]);
    let slots = f.reshape(slots, &[batch * n]);
    let history = f.gather_rows(&rows, &slots);
    let history = f.convert(&history, DType::F32);
    f.reshape(&history, &[batch, n, width])
}
