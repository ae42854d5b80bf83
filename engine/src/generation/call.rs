//! The execution to run now.

use super::request::{RequestKey, Requests};
use crate::Ticket;
use crate::resources::Held;

/// The execution to run now.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// Index into [`Geometry::entries`](crate::Geometry::entries).
    pub entry: usize,
    pub(super) rows: &'a [CallRow],
    pub(super) requests: &'a Requests,
}

impl<'a> Call<'a> {
    /// Its rows, from row 0 without gaps. Rows of the entry beyond them are padding.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = Row<'a>> + use<'a> {
        let Call { rows, requests, .. } = *self;
        rows.iter().map(move |row| {
            let request = &requests[row.request];
            let end = request.computed + row.count;
            Row {
                ticket: request.ticket,
                position: request.computed,
                tokens: &request.tokens[request.computed..end],
                drafts: request.drafts,
                samples: end == request.tokens.len(),
                remaining: request.remaining(),
                held: &request.held,
            }
        })
    }
}

/// One request's part of a call.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// The request.
    pub ticket: Ticket,
    /// Position of the first token.
    pub position: usize,
    /// Tokens that the call takes in.
    pub tokens: &'a [i32],
    /// How many of the last tokens are drafts. The logits of a row are those of its last
    /// `drafts + 1` tokens, in the last logits columns of its entry; a model with a draft head gives
    /// [`StepResults`](crate::StepResults) instead.
    pub drafts: usize,
    /// The row has all tokens of the request: what comes next is to be sampled.
    pub samples: bool,
    /// Tokens that the request may still generate, at least one.
    pub remaining: usize,
    pub(super) held: &'a Held,
}

/// A row of the current call.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallRow {
    pub request: RequestKey,
    /// Tokens that the call takes in, drafts included.
    pub count: usize,
}
