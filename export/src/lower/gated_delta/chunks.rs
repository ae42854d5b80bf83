//! Many tokens per row: the recurrence in chunks, each a few matrix products.
//!
//! Over a chunk that starts from state `S`, with `G_i` the sum of the logarithmic decays up to token
//! `i`, the errors `e_i = b_i * (v_i - (state before i, decayed)^T k_i)` solve
//!
//! ```text
//! e_i + sum over j < i of b_i exp(G_i - G_j) (k_i · k_j) e_j = b_i (v_i - exp(G_i) S^T k_i)
//! ```
//!
//! a triangular system. The outputs are `exp(G_i) S^T q_i + sum over j <= i of exp(G_i - G_j)
//! (q_i · k_j) e_j`, the next state `exp(G_n) S + sum over j of exp(G_n - G_j) k_j e_j^T`.
//!
//! Padding has decay 0 and beta 0, so it changes nothing wherever it stands: rows are lengthened with
//! it to whole chunks, and chunks of nothing else are skipped.

use tlaloc_artifact::DType;

use super::state::{Slot, slots};
use super::{Shared, Tokens};
use crate::spec::GatedDeltaSpec;
use crate::stablehlo::{Binary, Compare, Function, Reduce, Unary, Value};

/// Most tokens of a chunk. A power of two, as every chunk is.
const CHUNK: usize = 64;

/// Logarithm of a weight that is to be 0.
const NEVER: f32 = -1e30;

/// The outputs of all columns, `[B, T, value_heads, value_dim]`, and the pool with the new states.
pub(super) fn advance(
    f: &mut Function,
    delta: &GatedDeltaSpec,
    tokens: &Tokens,
    pool: &Value,
    shared: &Shared,
) -> (Value, Value) {
    let GatedDeltaSpec { value_heads, key_dim, value_dim, .. } = *delta;
    let (batch, columns) = (tokens.value.dims()[0], tokens.value.dims()[1]);
    let chunk = columns.next_power_of_two().min(CHUNK);
    let added = columns.next_multiple_of(chunk) - columns;
    let Tokens { query, key, value, decay, beta } = tokens;
    let lengthened = [query, key, value, decay, beta].map(|x| lengthen(f, x, added));

    let total = columns + added;
    let outputs = f.float(0.0, DType::F32, &[batch, total, value_heads, value_dim]);
    let mut fixed: Vec<&Value> = lengthened.iter().collect();
    fixed.extend(slots(shared));
    let count = &shared.rows.count;
    let [pool, outputs] = f.repeat(count, [pool, &outputs], &fixed, |f, row, state, fixed| {
        let [pool, outputs] = state;
        let slot = Slot::of(f, row, batch, &fixed[5..]);
        let (held, start) = slot.read(f, &pool);
        let start = f.reshape(&start, &[value_heads, key_dim, value_dim]);

        let padding = f.with_int(Binary::Add, &slot.padding, added as i32);
        let skipped = f.with_int(Binary::Divide, &padding, chunk as i32);
        let chunks = f.int((total / chunk) as i32, &[]);
        let chunks = f.subtract(&chunks, &skipped);
        let mut inner: Vec<&Value> = fixed[..5].iter().collect();
        inner.extend([row, &skipped]);
        let [next, outputs] =
            f.repeat(&chunks, [&start, &outputs], &inner, |f, index, [state, outputs], inner| {
                let (row, skipped) = (&inner[5], &inner[6]);
                let index = f.add(index, skipped);
                let first = f.with_int(Binary::Multiply, &index, chunk as i32);
                let chunk = Chunk::at(f, delta, &inner[..5], row, &first, chunk);
                let (out, next) = chunk.advance(f, &state);
                let out = f.transpose(&out, &[1, 0, 2]);
                let dims = [&[1], out.dims()].concat();
                let out = f.reshape(&out, &dims);
                [next, f.dynamic_update_slice(&outputs, &out, &[(0, row), (1, &first)])]
            });
        let next = f.reshape(&next, held.dims());
        [slot.write(f, &pool, &held, &[next], columns), outputs]
    });
    (f.slice(&outputs, 1, added, columns), pool)
}

/// `x` (`[B, T, ..]`) with `added` columns of zeros before it.
fn lengthen(f: &mut Function, x: &Value, added: usize) -> Value {
    if added == 0 {
        return x.clone();
    }
    let mut dims = x.dims().to_vec();
    dims[1] = added;
    let zeros = f.float(0.0, DType::F32, &dims);
    f.concatenate(&[zeros, x.clone()], 1)
}

/// One row's chunk of `n` tokens, head-major, with queries and keys repeated for every value head.
struct Chunk {
    /// Keys, then queries, `[value_heads, 2 * n, key_dim]`.
    keys_queries: Value,
    /// Products of keys and queries with keys, `[value_heads, 2 * n, n]`.
    products: Value,
    /// `[value_heads, n, value_dim]`.
    values: Value,
    /// Sum of the logarithmic decays up to each token, `[value_heads, n]`.
    decay: Value,
    /// `[value_heads, n]`.
    beta: Value,
}

impl Chunk {
    /// The `n` columns from `first` on of row `row`, out of query, key, value, decay and beta.
    fn at(
        f: &mut Function,
        delta: &GatedDeltaSpec,
        sequence: &[Value],
        row: &Value,
        first: &Value,
        n: usize,
    ) -> Chunk {
        let mut head_major = |x: &Value| {
            let x = f.dynamic_slice(x, 0, row, 1);
            let x = f.dynamic_slice(&x, 1, first, n);
            let dims = x.dims()[1..].to_vec();
            let x = f.reshape(&x, &dims);
            let order = [&[1, 0], &[2][..dims.len() - 2]].concat();
            f.transpose(&x, &order)
        };
        let (query, key) = (head_major(&sequence[0]), head_major(&sequence[1]));
        let values = head_major(&sequence[2]);
        let (decay, beta) = (head_major(&sequence[3]), head_major(&sequence[4]));

        let keys_queries = f.concatenate(&[key.clone(), query], 1);
        let products = f.batched_dot(&keys_queries, &key, 1, (2, 2));
        // A sum up to each token is a product with ones on and above the diagonal.
        let visible = triangle(f, n, Compare::Le);
        let (one, zero) = (f.float(1.0, DType::F32, &[n, n]), f.float(0.0, DType::F32, &[n, n]));
        let ones = f.select(&visible, &one, &zero);
        Chunk {
            keys_queries: by_value_head(f, delta, &keys_queries),
            products: by_value_head(f, delta, &products),
            values,
            decay: f.dot(&decay, &ones, (1, 1)),
            beta,
        }
    }

    /// The chunk's outputs, `[value_heads, n, value_dim]`, and the state after it, both from the
    /// state before, `[value_heads, key_dim, value_dim]`.
    fn advance(&self, f: &mut Function, state: &Value) -> (Value, Value) {
        let Chunk { keys_queries, products, values, decay, beta } = self;
        let n = decay.dims()[1];
        let (of_keys, of_queries) = (f.slice(products, 1, 0, n), f.slice(products, 1, n, n));

        // exp(G_i - G_j) at and below the diagonal, 0 above.
        let dims = of_keys.dims().to_vec();
        let (to, from) = (f.broadcast(decay, &dims, &[0, 1]), f.broadcast(decay, &dims, &[0, 2]));
        let between = f.subtract(&to, &from);
        let visible = triangle(f, n, Compare::Le);
        let visible = f.broadcast(&visible, &dims, &[1, 2]);
        let never = f.float(NEVER, DType::F32, &dims);
        let between = f.select(&visible, &between, &never);
        let between = f.unary(Unary::Exponential, &between);

        let beta_of = f.broadcast(beta, &dims, &[0, 1]);
        let lower = f.multiply(&of_keys, &between);
        let lower = f.multiply(&lower, &beta_of);
        let below = triangle(f, n, Compare::Lt);
        let below = f.broadcast(&below, &dims, &[1, 2]);
        let zero = f.float(0.0, DType::F32, &dims);
        let lower = f.select(&below, &lower, &zero);
        let inverse = inverse_of_unit(f, &lower);

        let seen = f.batched_dot(keys_queries, state, 1, (2, 1));
        let since = f.unary(Unary::Exponential, decay);
        let since = f.broadcast(&since, values.dims(), &[0, 1]);
        let (at_keys, at_queries) = (f.slice(&seen, 1, 0, n), f.slice(&seen, 1, n, n));
        let at_keys = f.multiply(&at_keys, &since);
        let errors = f.subtract(values, &at_keys);
        let beta = f.broadcast(beta, values.dims(), &[0, 1]);
        let errors = f.multiply(&errors, &beta);
        let errors = f.batched_dot(&inverse, &errors, 1, (2, 1));

        let weights = f.multiply(&of_queries, &between);
        let own = f.batched_dot(&weights, &errors, 1, (2, 1));
        let at_queries = f.multiply(&at_queries, &since);
        let outputs = f.add(&at_queries, &own);

        let last = f.slice(decay, 1, n - 1, 1);
        let last = f.reshape(&last, &decay.dims()[..1]);
        let until = f.broadcast(&last, decay.dims(), &[0]);
        let until = f.subtract(&until, decay);
        let until = f.unary(Unary::Exponential, &until);
        let keys = f.slice(keys_queries, 1, 0, n);
        let until = f.broadcast(&until, keys.dims(), &[0, 1]);
        let keys = f.multiply(&keys, &until);
        let update = f.batched_dot(&keys, &errors, 1, (1, 1));
        let whole = f.unary(Unary::Exponential, &last);
        let whole = f.broadcast(&whole, state.dims(), &[0]);
        let kept = f.multiply(state, &whole);
        (outputs, f.add(&kept, &update))
    }
}

/// Each key head's matrix for every value head that reads it.
fn by_value_head(f: &mut Function, delta: &GatedDeltaSpec, x: &Value) -> Value {
    let (rows, columns) = (x.dims()[1], x.dims()[2]);
    let x = f.broadcast(x, &[delta.key_heads, delta.group(), rows, columns], &[0, 2, 3]);
    f.reshape(&x, &[delta.value_heads, rows, columns])
}

/// Where `column op row` holds in an `n` by `n` matrix.
fn triangle(f: &mut Function, n: usize, op: Compare) -> Value {
    let (row, column) = (f.iota(&[n, n], 0), f.iota(&[n, n], 1));
    f.compare(op, &column, &row)
}

/// `(1 + lower)^-1` of matrices `[heads, n, n]` that are zero on and above the diagonal; `n` is a
/// power of two.
///
/// From the inverses `A`, `B` of two diagonal blocks and the block `C` below the first, the inverse of
/// all three is `A` and `B` with `-B C A` below. That is as stable as substitution, which the shorter
/// series of powers of `lower` is not.
fn inverse_of_unit(f: &mut Function, lower: &Value) -> Value {
    let (heads, n) = (lower.dims()[0], lower.dims()[1]);
    let mut inverses = f.float(1.0, DType::F32, &[heads, n, 1, 1]);
    let mut size = 1;
    while size < n {
        let pairs = n / (2 * size);
        let below = blocks_below(f, lower, size);
        let halves = f.reshape(&inverses, &[heads, pairs, 2, size, size]);
        let mut half = |i: usize| {
            let half = f.slice(&halves, 2, i, 1);
            f.reshape(&half, &[heads, pairs, size, size])
        };
        let (first, second) = (half(0), half(1));
        let corner = f.batched_dot(&below, &first, 2, (3, 2));
        let corner = f.batched_dot(&second, &corner, 2, (3, 2));
        let corner = f.unary(Unary::Negate, &corner);
        let zero = f.float(0.0, DType::F32, corner.dims());
        let upper = f.concatenate(&[first, zero], 3);
        let under = f.concatenate(&[corner, second], 3);
        inverses = f.concatenate(&[upper, under], 2);
        size *= 2;
    }
    f.reshape(&inverses, &[heads, n, n])
}

/// The blocks of `size` just below every second diagonal block, `[heads, pairs, size, size]`.
fn blocks_below(f: &mut Function, lower: &Value, size: usize) -> Value {
    let (heads, n) = (lower.dims()[0], lower.dims()[1]);
    let pairs = n / (2 * size);
    let blocks = f.reshape(lower, &[heads, pairs, 2 * size, pairs, 2 * size]);
    let blocks = f.slice(&blocks, 2, size, size);
    let blocks = f.slice(&blocks, 4, 0, size);
    if pairs == 1 {
        return f.reshape(&blocks, &[heads, 1, size, size]);
    }
    let diagonal = f.identity(pairs);
    let diagonal = f.broadcast(&diagonal, blocks.dims(), &[1, 3]);
    let blocks = f.multiply(&blocks, &diagonal);
    f.reduce(Reduce::Add, &blocks, 3)
}
