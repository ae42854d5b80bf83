//! Answers a request with what the engine says of it (sequence mode §18).

use tlaloc_engine::Refusal;
use tlaloc_pjrt::Client;
use triton_backend::{DataType, Error, Response};

use super::intake::Wants;
use crate::config::Outputs;
use crate::gpu;
use crate::language::Logits;

/// What a request is answered with.
pub enum Given<'a> {
    /// The logits of a call.
    Logits {
        /// All of the call's.
        logits: &'a Logits,
        /// The request's row.
        row: usize,
        /// Size of the row.
        vocab: usize,
    },
    /// The tokens that a model with a draft head gave.
    Tokens(&'a [i32]),
}

/// An answer.
pub struct Answer<'a> {
    /// What was computed.
    pub given: Given<'a>,
    /// KV pages and ring pages held.
    pub pages: [i32; 2],
    /// Copies to clients that take outputs on a GPU.
    pub client: &'a Client,
}

/// Writes the outputs that were asked for.
pub fn fill(
    response: &mut Response<'_>,
    wants: Wants,
    outputs: &Outputs,
    answer: &Answer<'_>,
) -> Result<(), Error> {
    let Answer { given, pages, client } = answer;
    if let Given::Logits { logits, row, vocab } = given
        && let Some(name) = outputs.logits.as_deref().filter(|_| wants.logits)
    {
        let shape = [1, i64::try_from(*vocab).unwrap_or(i64::MAX)];
        logits
            .with_row(*row, *vocab, |row| {
                gpu::write_output(response, name, DataType::Fp32, &shape, row, client)
            })
            .map_err(Error::internal)
            .flatten()?;
    }
    if let Given::Tokens(tokens) = given {
        let wants = Wants { emitted: wants.emitted, ..Wants::default() };
        progress(response, wants, outputs, tokens, client)?;
    }
    if let Some(name) = outputs.pages.as_deref().filter(|_| wants.pages) {
        integers(response, name, pages, client)?;
    }
    if let Some(name) = outputs.next_token.as_deref().filter(|_| wants.next_token) {
        let next = match given {
            Given::Logits { logits, row, vocab } => {
                logits.with_row(*row, *vocab, greedy).map_err(Error::internal)?
            }
            Given::Tokens(tokens) => tokens.last().copied().unwrap_or_default(),
        };
        integers(response, name, &[next], client)?;
    }
    Ok(())
}

/// Writes the tokens that one step of a generation gave.
pub fn progress(
    response: &mut Response<'_>,
    wants: Wants,
    outputs: &Outputs,
    tokens: &[i32],
    client: &Client,
) -> Result<(), Error> {
    match outputs.emitted.as_deref().filter(|_| wants.emitted) {
        Some(name) => integers(response, name, tokens, client),
        None => Ok(()),
    }
}

/// The error that a refusal is sent as.
pub fn refusal(model: &str, refusal: &Refusal) -> Error {
    use tlaloc_engine::Code;
    let message = format!("model '{model}': {refusal}");
    match refusal.code() {
        Code::InvalidArgument => Error::invalid_argument(message),
        Code::Unavailable => Error::unavailable(message),
        Code::Internal => Error::internal(message),
    }
}

/// INT32 `[1, n]`.
fn integers(
    response: &mut Response<'_>,
    name: &str,
    values: &[i32],
    client: &Client,
) -> Result<(), Error> {
    let shape = [1, i64::try_from(values.len()).unwrap_or(i64::MAX)];
    let bytes = bytemuck::cast_slice(values);
    gpu::write_output(response, name, DataType::Int32, &shape, bytes, client)
}

/// Index of the largest of f32 little-endian values; the first where several are.
fn greedy(row: &[u8]) -> i32 {
    let mut best = (0, f32::NEG_INFINITY);
    for (index, bytes) in (0..).zip(row.chunks_exact(4)) {
        let value = bytes.try_into().map_or(f32::NEG_INFINITY, f32::from_le_bytes);
        if value > best.1 {
            best = (index, value);
        }
    }
    best.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_equal_maxima_wins() {
        let row = |values: &[f32]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>();
        assert_eq!(greedy(&row(&[0.5, 2.0, -1.0, 2.0])), 1);
        assert_eq!(greedy(&row(&[-3.0, -2.0, -2.0])), 1);
        assert_eq!(greedy(&row(&[f32::NAN, -1.0, 4.0, f32::NAN])), 2);
        assert_eq!(greedy(&row(&[f32::NEG_INFINITY, f32::NEG_INFINITY])), 0);
    }
}
