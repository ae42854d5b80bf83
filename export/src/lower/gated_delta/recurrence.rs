//! Few tokens per row: the recurrence itself, token by token.

use tlaloc_artifact::DType;

use super::state::{Slot, slots};
use super::{Shared, Tokens};
use crate::spec::GatedDeltaSpec;
use crate::stablehlo::{Function, Reduce, Unary, Value};

/// The outputs of all columns, `[B, T, value_heads, value_dim]`, and the pool with the new states.
///
/// With the decayed state `S`, the error `e = b * (v - S^T k)` and the new state `S + k e^T`, the
/// output is `S^T q + (k · q) e`: one product reads the state, one pass writes it.
pub(super) fn advance(
    f: &mut Function,
    delta: &GatedDeltaSpec,
    tokens: &Tokens,
    pool: &Value,
    shared: &Shared,
) -> (Value, Value) {
    let GatedDeltaSpec { key_heads, value_heads, key_dim, value_dim, .. } = *delta;
    let (batch, columns) = (tokens.value.dims()[0], tokens.value.dims()[1]);
    let mut by_value_head = |x: &Value| {
        let dims = [batch, columns, key_heads, delta.group(), key_dim];
        let x = f.broadcast(x, &dims, &[0, 1, 2, 4]);
        f.reshape(&x, &[batch, columns, value_heads, 1, key_dim])
    };
    let (key, query) = (by_value_head(&tokens.key), by_value_head(&tokens.query));
    let pairs = f.concatenate(&[key.clone(), query.clone()], 3);
    let product = f.multiply(&key, &query);
    let product = f.reduce(Reduce::Add, &product, 4);
    let product = f.reshape(&product, &[batch, columns, value_heads]);
    let decay = f.unary(Unary::Exponential, &tokens.decay);

    let outputs = f.float(0.0, DType::F32, &[batch, columns, value_heads, value_dim]);
    let mut fixed = vec![&pairs, &product, &decay, &tokens.beta, &tokens.value];
    fixed.extend(slots(shared));
    let count = &shared.rows.count;
    let [pool, outputs] = f.repeat(count, [pool, &outputs], &fixed, |f, row, state, fixed| {
        let [pool, outputs] = state;
        let slot = Slot::of(f, row, batch, &fixed[5..]);
        let of_row: Vec<Value> = fixed[..5].iter().map(|x| f.dynamic_slice(x, 0, row, 1)).collect();

        let (held, start) = slot.read(f, &pool);
        let mut state = f.reshape(&start, &[value_heads, key_dim, value_dim]);
        let (mut states, mut results) = (Vec::new(), Vec::new());
        for column in 0..columns {
            let token = Token::at(f, &of_row, column);
            let (output, next) = token.advance(f, &state);
            results.push(f.reshape(&output, &[1, 1, value_heads, value_dim]));
            states.push(f.reshape(&next, held.dims()));
            state = next;
        }
        let results = f.concatenate(&results, 1);
        [
            slot.write(f, &pool, &held, &states, columns),
            f.dynamic_update_slice(&outputs, &results, &[(0, row)]),
        ]
    });
    (outputs, pool)
}

/// What the recurrence takes of one token.
struct Token {
    /// Key, then query, `[value_heads, 2, key_dim]`.
    pairs: Value,
    /// Product of key and query, `[value_heads]`.
    product: Value,
    /// What the state is multiplied by, `[value_heads]`.
    decay: Value,
    /// `[value_heads]`.
    beta: Value,
    /// `[value_heads, value_dim]`.
    value: Value,
}

impl Token {
    /// The token of a column of one row's pairs, products, decays, betas and values.
    fn at(f: &mut Function, of_row: &[Value], column: usize) -> Token {
        let mut of_column = |x: &Value| {
            let x = f.slice(x, 1, column, 1);
            let dims = x.dims()[2..].to_vec();
            f.reshape(&x, &dims)
        };
        Token {
            pairs: of_column(&of_row[0]),
            product: of_column(&of_row[1]),
            decay: of_column(&of_row[2]),
            beta: of_column(&of_row[3]),
            value: of_column(&of_row[4]),
        }
    }

    /// The token's output, `[value_heads, value_dim]`, and the state after it, both from the state
    /// before, `[value_heads, key_dim, value_dim]`.
    fn advance(&self, f: &mut Function, state: &Value) -> (Value, Value) {
        let Token { pairs, product, decay, beta, value } = self;
        let seen = f.batched_dot(pairs, state, 1, (2, 1));
        let by_head = f.broadcast(decay, seen.dims(), &[0]);
        let seen = f.multiply(&seen, &by_head);
        let mut at = |i: usize| {
            let x = f.slice(&seen, 1, i, 1);
            f.reshape(&x, value.dims())
        };
        let (at_key, at_query) = (at(0), at(1));

        let error = f.subtract(value, &at_key);
        let beta = f.broadcast(beta, error.dims(), &[0]);
        let error = f.multiply(&error, &beta);
        let product = f.broadcast(product, error.dims(), &[0]);
        let own = f.multiply(&error, &product);
        let output = f.add(&at_query, &own);

        let decay = f.broadcast(decay, state.dims(), &[0]);
        let decayed = f.multiply(state, &decay);
        let key = f.slice(pairs, 1, 0, 1);
        let key = f.reshape(&key, &[state.dims()[0], state.dims()[1]]);
        let key = f.broadcast(&key, state.dims(), &[0, 1]);
        let error = f.broadcast(&error, state.dims(), &[0, 2]);
        let update = f.multiply(&key, &error);
        (output, f.add(&decayed, &update))
    }
}
