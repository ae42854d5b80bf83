//! In which calls the running requests run: decode calls with all that need one token, then prefill
//! calls.

use std::cmp::Reverse;

use super::call::CallRow;
use super::request::{Request, RequestKey};
use super::state::State;
use crate::{EntryKind, Geometry};

/// The calls of a round that are still to come.
#[derive(Debug, Default)]
pub(super) struct Round {
    /// Requests of which one token is to be taken in, ascending by length: those that share a call
    /// are of like lengths.
    decodes: Vec<RequestKey>,
    /// The entry that verifies drafts, and takes all of `decodes`.
    verify: Option<usize>,
    /// Token columns of the prefill calls so far.
    spent: usize,
    /// There was a prefill call.
    prefilled: bool,
}

impl Round {
    /// Plans the calls of a new round.
    pub fn plan(&mut self, state: &mut State) {
        self.clear();
        let steps = |key: &RequestKey| !has_chunk(&state.geometry, &state.requests[*key]);
        self.decodes.extend(state.running.iter().filter(steps));
        self.decodes.sort_unstable_by_key(|key| {
            let request = &state.requests[*key];
            (request.computed, Reverse(request.rank.order))
        });
        self.verify = state.draft(&self.decodes);
    }

    /// No calls are to come.
    pub fn clear(&mut self) {
        self.decodes.clear();
        self.verify = None;
        self.spent = 0;
        self.prefilled = false;
    }

    /// A request is gone.
    pub fn forget(&mut self, gone: RequestKey) {
        self.decodes.retain(|key| *key != gone);
    }

    /// Fills `rows` with those of the next call and returns its entry; none when all have run.
    pub fn next(&mut self, state: &State, rows: &mut Vec<CallRow>) -> Option<usize> {
        rows.clear();
        self.next_decode(state, rows).or_else(|| self.next_prefill(state, rows))
    }

    fn next_decode(&mut self, state: &State, rows: &mut Vec<CallRow>) -> Option<usize> {
        let geometry = &state.geometry;
        let row = |request| CallRow { request, count: 1 + state.requests[request].drafts };
        if let Some(entry) = self.verify.take() {
            rows.extend(self.decodes.drain(..).rev().map(row));
            return Some(entry);
        }
        let longest = state.requests[*self.decodes.last()?].computed;
        let context = longest + 1 + geometry.beyond_decode();
        let count = geometry.max_decode_batch_at(context).min(self.decodes.len());
        let first = self.decodes.len() - count;
        rows.extend(self.decodes.drain(first..).rev().map(row));
        geometry.choose(EntryKind::Decode, count, context, 1 + geometry.draft_tokens())
    }

    /// The oldest prompt, and others whose chunks it costs no more to run with it than alone.
    fn next_prefill(&mut self, state: &State, rows: &mut Vec<CallRow>) -> Option<usize> {
        let State { geometry, requests, settings, .. } = state;
        let most = settings.max_prefill_tokens_per_step.max(1);
        let budget = most.saturating_sub(self.spent);
        let mut call: Option<Prefill> = None;
        for key in state.running.iter() {
            let request = &requests[key];
            // The oldest prompt goes on whatever its call costs.
            let anyway = call.is_none() && !self.prefilled;
            let alone = chunk(geometry, request, budget, anyway).and_then(|(count, columns)| {
                let reach = request.computed + count + geometry.beyond_prefill();
                Prefill::of(geometry, 1, reach, count, columns)
            });
            let Some(alone) = alone else { continue };
            let row = CallRow { request: key, count: alone.tokens };
            match &mut call {
                None => {
                    rows.push(row);
                    call = Some(alone);
                }
                Some(call) if alone.context == call.context => {
                    rows.push(row);
                    call.separate += alone.columns;
                    let tokens = call.tokens.max(alone.tokens);
                    match Prefill::of(geometry, rows.len(), call.context, tokens, budget) {
                        Some(joint) => call.grow(joint),
                        None => break,
                    }
                }
                Some(_) => {}
            }
        }
        let call = call?;
        rows.truncate(call.rows);
        self.prefilled = true;
        self.spent = self.spent.saturating_add(call.columns);
        Some(call.entry)
    }
}

/// A prefill call in the making.
struct Prefill {
    entry: usize,
    context: usize,
    /// The best so far: its rows, and its token columns.
    rows: usize,
    columns: usize,
    /// Most tokens of a row, of those that were looked at.
    tokens: usize,
    /// Token columns of the rows that were looked at, each in a call of its own.
    separate: usize,
}

impl Prefill {
    /// A call of `rows` rows of up to `tokens` tokens that reach as far as `reach`, of at most
    /// `most` token columns.
    fn of(
        geometry: &Geometry,
        rows: usize,
        reach: usize,
        tokens: usize,
        most: usize,
    ) -> Option<Prefill> {
        let entry = geometry.choose_prefill(rows, reach, tokens, most)?;
        let shape = &geometry.entries()[entry];
        let columns = shape.token_columns();
        Some(Prefill { entry, context: shape.context, rows, columns, tokens, separate: columns })
    }

    /// With more rows, if that costs no more than running them one by one.
    fn grow(&mut self, joint: Prefill) {
        self.tokens = joint.tokens;
        if joint.columns <= self.separate {
            (self.entry, self.rows, self.columns) = (joint.entry, joint.rows, joint.columns);
        }
    }
}

/// Some prefill call takes tokens of a request. Otherwise it goes with the decodes.
fn has_chunk(geometry: &Geometry, request: &Request) -> bool {
    chunk(geometry, request, 0, true).is_some()
}

/// As [`Geometry::prefill_chunk`], of a request. Drafts are verified by decode calls.
fn chunk(
    geometry: &Geometry,
    request: &Request,
    budget: usize,
    anyway: bool,
) -> Option<(usize, usize)> {
    let alone = request.drafts == 0;
    let chunk = || geometry.prefill_chunk(request.computed, request.left(), budget, anyway);
    alone.then(chunk).flatten()
}
