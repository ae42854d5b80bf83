//! Whether a request may run, and what it takes for that (sequence mode §10).

use std::collections::HashSet;

use crate::event::{Event, FreeCause};
use crate::refusal::HOLDERS_LISTED;
use crate::resources::{Amounts, Resource};
use crate::sequence::SequenceKey;
use crate::speculation::{extra_positions, extra_positions_ahead};
use crate::state::State;
use crate::work::Work;
use crate::{
    Aftermath, Exhausted, Geometry, Holder, Nanos, Refusal, SequenceId, Settings, reclaim,
};

/// What admission of a batch reads.
#[derive(Clone, Copy)]
pub(crate) struct Admission<'a> {
    pub geometry: &'a Geometry,
    pub settings: &'a Settings,
    /// Sequences with a request in the batch. Others have none waiting: a batch takes the first of
    /// each.
    pub in_batch: &'a HashSet<SequenceId>,
    pub longest_batch: Nanos,
    /// When the batch started.
    pub now: Nanos,
}

impl Admission<'_> {
    /// Admits a request: its sequence, and whether that verifies its drafts; none if it has nothing to
    /// run and no sequence. A refused START leaves no sequence, any other refusal leaves it as it was.
    pub fn admit(
        self,
        work: &Work,
        state: &mut State,
    ) -> Result<Option<(SequenceKey, bool)>, Refusal> {
        let Some(id) = &work.id else { return Err(Refusal::NoSequence) };
        if work.start {
            state.free(id, FreeCause::StartedAgain);
            let key = state.create(id);
            let admitted = self.admit_tokens(work, key, state);
            if admitted.is_err() {
                state.free(id, FreeCause::StartRefused);
            }
            return admitted.map(|verify| Some((key, verify)));
        }
        match state.sequences.find(id) {
            Some(key) => self.admit_tokens(work, key, state).map(|verify| Some((key, verify))),
            // A refused START is still a live sequence to the server, which clients end.
            None if work.end && work.tokens.is_empty() => Ok(None),
            None => Err(Refusal::NoState {
                sequence: id.clone(),
                instance: self.settings.instance.clone(),
            }),
        }
    }

    fn admit_tokens(
        self,
        work: &Work,
        key: SequenceKey,
        state: &mut State,
    ) -> Result<bool, Refusal> {
        let sequence = &state.sequences[key];
        let (length, sent) = (sequence.length, work.count);
        if sent == 0 && !work.end {
            return Err(Refusal::NoTokens { sequence: sequence.id.clone() });
        }
        let max_context = self.geometry.max_context();
        let verify = !work.start && sequence.continues_with(work.to_run(), self.geometry);
        let extra = extra_positions(sent, verify, self.geometry);
        let target = length.saturating_add(sent).saturating_add(extra);
        if target > max_context {
            return Err(Refusal::ContextExceeded {
                sequence: sequence.id.clone(),
                length,
                sent,
                extra,
                max_context,
                aftermath: Aftermath::of(work.start, work.end),
            });
        }
        let needs = Amounts::lacking(target, &sequence.held, self.geometry);
        if state.resources.short_of(needs).is_some() {
            let limit = self.reclaim_limit(state);
            self.reclaim(needs, limit, key, state);
            if let Some(resource) = state.resources.short_of(needs) {
                let exhausted = self.exhausted(resource, needs, limit, work, key, state);
                return Err(Refusal::Exhausted(Box::new(exhausted)));
            }
        }
        let needs = self.ahead(work, verify, key, state).unwrap_or(needs);
        state.resources.take(needs, &mut state.sequences[key].held);
        Ok(verify)
    }

    /// What a generation's verify step lacks to have room for the step after it, too, so that this
    /// can start before the other is read (sequence mode §17). Nobody gives way for it.
    fn ahead(self, work: &Work, verify: bool, key: SequenceKey, state: &State) -> Option<Amounts> {
        let chained = self.settings.chain && self.geometry.drafts()?.chained;
        let sequence = &state.sequences[key];
        let target = sequence.length + 1 + extra_positions_ahead(self.geometry);
        let needs = Amounts::lacking(target, &sequence.held, self.geometry);
        let fits =
            target <= self.geometry.max_context() && state.resources.short_of(needs).is_none();
        (chained && verify && work.generates() && fits).then_some(needs)
    }

    fn reclaim_limit(self, state: &State) -> Nanos {
        let Settings { max_sequence_idle, max_batch_size, .. } = *self.settings;
        let live = state.sequences.len();
        reclaim::limit(max_sequence_idle, live, max_batch_size, self.longest_batch)
    }

    /// Frees sequences idle for longer than `limit`, one at a time, until `needs` can be met.
    fn reclaim(self, needs: Amounts, limit: Nanos, beneficiary: SequenceKey, state: &mut State) {
        let busy = |id: &SequenceId| self.in_batch.contains(id);
        for (id, idle) in reclaim::candidates(&state.sequences, self.now, limit, busy) {
            if state.resources.short_of(needs).is_none() {
                break;
            }
            let beneficiary = state.sequences[beneficiary].id.clone();
            state.remove(&id, |sequence| Event::Reclaimed {
                sequence: id.clone(),
                idle,
                limit,
                beneficiary,
                held: sequence.held.amounts(),
            });
        }
    }

    fn exhausted(
        self,
        resource: Resource,
        needs: Amounts,
        limit: Nanos,
        work: &Work,
        key: SequenceKey,
        state: &State,
    ) -> Exhausted {
        let sequence = &state.sequences[key];
        let target = sequence.length + work.count;
        let mut holders: Vec<_> = state
            .sequences
            .iter()
            .filter(|other| other.id != sequence.id)
            .map(|other| Holder {
                sequence: other.id.clone(),
                held: other.held.amounts().of(resource),
                tokens: other.length,
                idle: other.last_active.map(|active| self.now.saturating_sub(active.at)),
            })
            .filter(|holder| holder.held > 0)
            .collect();
        holders
            .sort_unstable_by(|a, b| b.held.cmp(&a.held).then_with(|| a.sequence.cmp(&b.sequence)));
        let holder_count = holders.len();
        holders.truncate(HOLDERS_LISTED);
        Exhausted {
            resource,
            sequence: sequence.id.clone(),
            aftermath: Aftermath::of(work.start, work.end),
            needed: needs.of(resource),
            held: sequence.held.amounts().of(resource),
            free: state.resources.free().of(resource),
            total: state.resources.total().of(resource),
            block_size: self.geometry.block_size(),
            length: sequence.length,
            target,
            holders,
            holder_count,
            reclaim_limit: limit,
        }
    }
}
