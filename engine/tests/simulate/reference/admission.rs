//! Whether a request may run, and what it takes for that (sequence mode §10).

use std::collections::BTreeSet;

use tlaloc_engine::{
    Aftermath, Amounts, Drafts, Event, Exhausted, FreeCause, Holder, Nanos, Refusal, Resource,
    SequenceId,
};

use super::{Reference, Sequence};
use crate::mutation::Mutation;

impl Reference {
    /// Whether request `index` verifies its sequence's drafts; none if there is nothing to run and no
    /// sequence.
    pub(super) fn admit(&mut self, index: usize) -> Result<Option<bool>, Refusal> {
        let arrival = &self.works[index].arrival;
        let (start, end, n) = (arrival.start, arrival.end, self.works[index].tokens().len());
        let Some(id) = arrival.sequence.clone() else { return Err(Refusal::NoSequence) };
        if start {
            self.free(&id, FreeCause::StartedAgain);
            self.live.insert(id.clone(), Sequence::default());
        }
        if !self.live.contains_key(&id) {
            if end && n == 0 {
                return Ok(None);
            }
            let instance = self.settings.instance.clone();
            return Err(Refusal::NoState { sequence: id, instance });
        }
        // Item 5.
        let verify = self.drafts.is_some_and(|Drafts { tokens: k, .. }| {
            let sequence = &self.live[&id];
            let known = sequence.pending == self.works[index].tokens().first().copied();
            let known = self.rule(known, Mutation::VerifyAnyToken, sequence.pending.is_some());
            !start && n == 1 && known && sequence.drafts.len() == k
        });
        let generates = self.works[index].arrival.generation.as_ref();
        let generates = generates.is_some_and(|generation| generation.max_tokens > 0);
        let taken = self.take_needs(&id, n, end, verify, Aftermath::of(start, end));
        if taken.is_ok()
            && verify
            && generates
            && let Err(short) = self.take_ahead(&id)
            && self.breaks(Mutation::RoomAheadOrNothing)
        {
            return Err(short);
        }
        if taken.is_err() && start && !self.breaks(Mutation::RefusedStartStays) {
            self.free(&id, FreeCause::StartRefused);
        }
        taken.map(|()| Some(verify))
    }

    /// §17: a generation's verify step has room for the one after it, if there is any.
    fn take_ahead(&mut self, id: &SequenceId) -> Result<(), Refusal> {
        let Some(Drafts { tokens: k, chained }) = self.drafts else { return Ok(()) };
        let chains = chained && self.settings.chain;
        let chains = self.rule(chains, Mutation::RoomAheadAlways, true);
        let sequence = &self.live[id];
        let target = sequence.tokens.len() + 1 + 3 * k;
        let pages = target.div_ceil(self.block_size).saturating_sub(sequence.pages.len());
        let fits = target <= self.max_context() && pages <= self.free_pages.len();
        if !chains || self.breaks(Mutation::NoRoomAhead) {
            return Ok(());
        }
        if !fits {
            return Err(Refusal::NoSequence);
        }
        for _ in 0..pages {
            let page = self.free_pages.pop_first();
            if let Some(sequence) = self.live.get_mut(id) {
                sequence.pages.extend(page);
            }
        }
        Ok(())
    }

    /// Items 4 to 11.
    fn take_needs(
        &mut self,
        id: &SequenceId,
        n: usize,
        end: bool,
        verify: bool,
        aftermath: Aftermath,
    ) -> Result<(), Refusal> {
        let length = self.live[id].tokens.len();
        if n == 0 && !end {
            return Err(Refusal::NoTokens { sequence: id.clone() });
        }
        let max_context = self.max_context();
        let extra = self.extra(n, verify);
        if length + n + extra > max_context {
            let sequence = id.clone();
            let sent = n;
            return Err(Refusal::ContextExceeded {
                sequence,
                length,
                sent,
                extra,
                max_context,
                aftermath,
            });
        }
        let held = self.live[id].held();
        let blocks = (length + n + extra).div_ceil(self.block_size);
        let ring = self.windowed.map_or(0, |pools| {
            self.rule(blocks.min(pools.ring_pages), Mutation::EndlessRing, blocks)
        });
        let needs = Amounts {
            pages: blocks.saturating_sub(held.pages),
            ring_pages: ring.saturating_sub(held.ring_pages),
            state_slots: match self.drafts {
                _ if !self.linear || held.state_slots > 0 => 0,
                Some(Drafts { tokens: k, .. }) => self.rule(k + 2, Mutation::OneSlotEach, 1),
                None => 1,
            },
        };

        let live = self.live.len();
        let live = self.rule(live, Mutation::LimitWithoutTheNew, live - 1);
        let batches = live.div_ceil(self.settings.max_batch_size.max(1)) as Nanos;
        let serving = self.rule(batches * self.longest_batch, Mutation::LimitWithoutBatches, 0);
        let limit = 2 * self.settings.max_sequence_idle + serving;
        if self.short_of(needs).is_some() || self.breaks(Mutation::ReclaimTooEarly) {
            self.reclaim(needs, limit, id);
        }
        if let Some(resource) = self.short_of(needs) {
            let target = length + n;
            let exhausted = self.exhausted(resource, needs, target, limit, id, aftermath);
            return Err(Refusal::Exhausted(Box::new(exhausted)));
        }

        let highest = self.breaks(Mutation::HighestFirst);
        let take = |free: &mut BTreeSet<usize>, count: usize, held: &mut Vec<usize>| {
            for _ in 0..count {
                held.extend(if highest { free.pop_last() } else { free.pop_first() });
            }
        };
        if let Some(sequence) = self.live.get_mut(id) {
            take(&mut self.free_pages, needs.pages, &mut sequence.pages);
            take(&mut self.free_ring, needs.ring_pages, &mut sequence.ring);
            take(&mut self.free_slots, needs.state_slots, &mut sequence.state_slots);
        }
        Ok(())
    }

    /// Item 10: ring pages, then pages, then state slots.
    fn short_of(&self, needs: Amounts) -> Option<Resource> {
        let ring = (Resource::RingPages, needs.ring_pages > self.free_ring.len());
        let pages = (Resource::Pages, needs.pages > self.free_pages.len());
        let slots = (Resource::StateSlots, needs.state_slots > self.free_slots.len());
        let told = [ring, pages, slots];
        let told = self.rule(told, Mutation::PagesBeforeRing, [pages, ring, slots]);
        told.into_iter().find(|(_, short)| *short).map(|(resource, _)| resource)
    }

    /// §10.2. A batch counts as ended, and its sequences as active, in its order.
    fn reclaim(&mut self, needs: Amounts, limit: Nanos, beneficiary: &SequenceId) {
        let busy = |id: &SequenceId| {
            let mut here = self.pending.iter().chain(self.works.iter().map(|work| &work.arrival));
            here.any(|request| request.sequence.as_ref() == Some(id))
                && !self.breaks(Mutation::ReclaimTheBusy)
        };
        let mut idle: Vec<_> = self
            .live
            .iter()
            .filter(|(id, _)| *id != beneficiary && !busy(id))
            .filter_map(|(id, sequence)| Some((sequence.last_active?, id.clone())))
            .filter(|((ended, _), _)| self.start - ended > limit)
            .collect();
        idle.sort_unstable();
        if self.breaks(Mutation::ReclaimTheLatest) {
            idle.reverse();
        }
        for ((ended, _), id) in idle {
            let all = self.breaks(Mutation::ReclaimAll) || self.breaks(Mutation::ReclaimTooEarly);
            if self.short_of(needs).is_none() && !all {
                break;
            }
            if let Some(sequence) = self.take_out(&id) {
                self.events.push(Event::Reclaimed {
                    sequence: id,
                    idle: self.start - ended,
                    limit,
                    beneficiary: beneficiary.clone(),
                    held: sequence.held(),
                });
            }
        }
    }

    /// §10.1.
    fn exhausted(
        &self,
        resource: Resource,
        needs: Amounts,
        target: usize,
        limit: Nanos,
        id: &SequenceId,
        aftermath: Aftermath,
    ) -> Exhausted {
        let amount = |amounts: Amounts| match resource {
            Resource::Pages => amounts.pages,
            Resource::RingPages => amounts.ring_pages,
            Resource::StateSlots => amounts.state_slots,
        };
        let mut holders: Vec<_> = self
            .live
            .iter()
            .filter(|(other, sequence)| *other != id && amount(sequence.held()) > 0)
            .map(|(other, sequence)| Holder {
                sequence: other.clone(),
                held: amount(sequence.held()),
                tokens: sequence.tokens.len(),
                idle: sequence.last_active.map(|(ended, _)| self.start - ended),
            })
            .collect();
        // Ascending by id already.
        holders.sort_by_key(|holder| std::cmp::Reverse(holder.held));
        let holder_count = holders.len();
        holders.truncate(6);
        Exhausted {
            resource,
            sequence: id.clone(),
            aftermath,
            needed: amount(needs),
            held: amount(self.live[id].held()),
            free: match resource {
                Resource::Pages => self.free_pages.len(),
                Resource::RingPages => self.free_ring.len(),
                Resource::StateSlots => self.free_slots.len(),
            },
            total: amount(self.totals),
            block_size: self.block_size,
            length: self.live[id].tokens.len(),
            target,
            holders,
            holder_count,
            reclaim_limit: limit,
        }
    }
}
