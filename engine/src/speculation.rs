//! Models with a draft head (sequence mode §15 to §17): what a call gives its sequences, when a
//! generation goes on, and when its next step may start before this one is read.

use crate::schedule::View;
use crate::sequence::Sequence;
use crate::work::{CallRow, Work};
use crate::{Geometry, Settings, Ticket};

/// What a call of a model with a draft head gave: results of its entry, `B` rows each.
#[derive(Clone, Copy, Debug)]
pub struct StepResults<'a> {
    /// `NEXT_TOKENS`, `[B, K + 1]`.
    pub next_tokens: &'a [i32],
    /// `ACCEPTED`, `[B]`.
    pub accepted: &'a [i32],
    /// `DRAFTS`, `[B, K]`.
    pub drafts: &'a [i32],
}

/// What a call gave one row.
#[derive(Clone, Copy, Debug)]
pub struct RowResults<'a> {
    /// The tokens that follow, 1 to `K + 1`.
    pub emitted: &'a [i32],
    /// Proposals for those after them, `K`.
    pub drafts: &'a [i32],
}

impl<'a> StepResults<'a> {
    /// Those of a row; none where they are not what a model can give: a token outside its vocabulary
    /// stands for logits that are not numbers.
    pub fn row(self, row: usize, geometry: &Geometry) -> Option<RowResults<'a>> {
        let drafts = geometry.draft_tokens();
        let accepted = usize::try_from(*self.accepted.get(row)?).ok()?;
        let next = self.next_tokens.get(row * (drafts + 1)..(row + 1) * (drafts + 1))?;
        let emitted = next.get(..=accepted)?;
        let known = emitted.iter().all(|&token| geometry.has_token(token));
        let drafts = self.drafts.get(row * drafts..(row + 1) * drafts)?;
        known.then_some(RowResults { emitted, drafts })
    }
}

impl Sequence {
    /// Whether `tokens` are what it was given last, so that the drafts after them can be verified.
    pub fn continues_with(&self, tokens: &[i32], geometry: &Geometry) -> bool {
        matches!(tokens, [token] if self.pending == Some(*token))
            && self.drafts.len() == geometry.draft_tokens()
            && !self.drafts.is_empty()
    }

    /// Takes what a call gave it. A verify step leaves the state after each of its tokens in a slot
    /// of its own, of which that of the last right one becomes the sequence's.
    pub fn take_results(&mut self, results: RowResults<'_>, verify: bool, geometry: &Geometry) {
        self.pending = results.emitted.last().copied();
        self.drafts.clear();
        self.drafts.extend(results.drafts.iter().map(|&draft| geometry.legal_draft(draft)));
        if verify {
            self.held.state_slots.swap(0, results.emitted.len());
        }
    }
}

/// Positions beyond a request's tokens that its calls write: drafts, and what the head keeps of its
/// own proposals (artifact format §10.4).
pub(crate) fn extra_positions(tokens: usize, verify: bool, geometry: &Geometry) -> usize {
    match tokens {
        0 => 0,
        _ if verify => geometry.beyond_decode(),
        _ => geometry.beyond_prefill(),
    }
}

/// As [`extra_positions`] of a verify step and the one after it, whatever the first gives.
pub(crate) fn extra_positions_ahead(geometry: &Geometry) -> usize {
    3 * geometry.draft_tokens()
}

/// A verify step that was launched before the one before it was read, if there is one.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    entry: Option<usize>,
    rows: Vec<Ticket>,
}

impl Chain {
    /// The step after a call of these rows is launched.
    pub fn launched(&mut self, entry: usize, rows: &[CallRow], works: &[Work]) {
        self.entry = Some(entry);
        self.rows.clear();
        self.rows.extend(rows.iter().map(|row| works[row.work].ticket));
    }

    /// There is none any more; whether there was one.
    pub fn forget(&mut self) -> bool {
        self.entry.take().is_some()
    }

    /// Whether a call is that step, which is then no more to come.
    pub fn take(&mut self, entry: usize, rows: &[CallRow], works: &[Work]) -> bool {
        let tickets = rows.iter().map(|row| works[row.work].ticket);
        let same = tickets.eq(self.rows.iter().copied());
        self.entry.take() == Some(entry) && same && rows.iter().all(|row| row.verify)
    }
}

/// Whether the step after a call can start before the call is read: it has the same rows whatever
/// they are given, and everything that it writes has its place (sequence mode §17).
pub(crate) fn chains(view: View<'_>, settings: &Settings, entry: usize, rows: &[CallRow]) -> bool {
    let View { works, sequences, geometry } = view;
    let Some(drafts) = geometry.drafts().filter(|drafts| drafts.chained && settings.chain) else {
        return false;
    };
    let shape = &geometry.entries()[entry];
    let alone = rows.len() == works.len();
    alone
        && rows.iter().all(|row| {
            let sequence = &sequences[row.sequence];
            let pages = sequence.held.pages.len().min(shape.columns);
            let reach = sequence.length + 1 + extra_positions_ahead(geometry);
            let covered = (pages * geometry.block_size()).min(shape.context);
            row.verify && works[row.work].goes_on_after(drafts.tokens + 1) && reach <= covered
        })
}
