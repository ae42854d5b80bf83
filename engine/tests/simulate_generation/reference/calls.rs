//! In which calls the running requests run.

use std::cmp::Reverse;

use tlaloc_engine::{EntryKind, EntryShape};

use super::{Call, Reference, Request, Round};
use crate::mutation::Mutation;

impl Reference {
    pub(super) fn plan(&mut self) {
        let mut decodes: Vec<_> = self
            .requests
            .iter()
            .enumerate()
            .filter(|(_, request)| request.runs() && self.chunk(request, 0, true).is_none())
            .map(|(age, request)| (request.computed, Reverse(age), request.ticket))
            .collect();
        if self.wrong(Mutation::DecodesInOrder) {
            decodes.sort_by_key(|(_, age, _)| *age);
        } else {
            decodes.sort();
        }
        let decodes: Vec<_> = decodes.into_iter().map(|(.., ticket)| ticket).collect();
        let verify = self.draft(&decodes);
        self.round = Some(Round { decodes, verify, ..Round::default() });
    }

    fn most(&self) -> usize {
        self.settings.max_prefill_tokens_per_step
    }

    fn entry(&self, serves: impl Fn(&EntryShape) -> bool) -> Option<usize> {
        let mut best: Option<usize> = None;
        let entries = self.geometry.entries();
        for (index, entry) in entries.iter().enumerate().filter(|(_, entry)| serves(entry)) {
            let size = |entry: &EntryShape| (entry.batch * entry.context, entry.tokens);
            if best.is_none_or(|best| size(entry) < size(&entries[best])) {
                best = Some(index);
            }
        }
        best
    }

    fn prefill_entry(
        &self,
        rows: usize,
        context: usize,
        tokens: usize,
        most: usize,
    ) -> Option<usize> {
        self.entry(|entry| {
            entry.kind == EntryKind::Prefill
                && entry.logits_columns == 1
                && entry.batch * entry.tokens <= most
                && entry.batch >= rows
                && entry.context >= context
                && entry.tokens >= tokens
        })
    }

    /// Positions of the ring that a call from `start` on may write.
    fn ring_room(&self, start: usize) -> usize {
        self.geometry.windowed().map_or(usize::MAX, |pools| {
            let seen = start.min(pools.window - 1);
            (pools.ring_pages * self.geometry.block_size()).saturating_sub(seen)
        })
    }

    /// The most tokens of a request, at least two, that a prefill entry of up to `budget` columns
    /// takes. If there is none, `anyway` asks for the fewest columns that there are.
    fn chunk(&self, request: &Request, budget: usize, anyway: bool) -> Option<(usize, usize)> {
        if !request.drafts.is_empty() {
            return None;
        }
        let start = request.computed;
        let limit = request.left().min(self.ring_room(start));
        let fits = |count: usize, budget| {
            let reach = self.prefill_reach(start + count);
            self.prefill_entry(1, reach, count, budget).is_some()
        };
        // With a draft head decode entries verify: single tokens are prefilled, too.
        let least = if self.geometry.draft_tokens() > 0 { 1 } else { 2 };
        let longest = |budget| {
            let mut counts = (least..=limit).rev();
            if self.wrong(Mutation::LongestChunkOrNone) {
                return counts.next().filter(|count| fits(*count, budget));
            }
            counts.find(|count| fits(*count, budget))
        };
        let mut budgets = vec![budget];
        if anyway {
            let mut columns: Vec<_> =
                self.geometry.entries().iter().map(|entry| entry.batch * entry.tokens).collect();
            columns.sort();
            budgets.extend(columns);
        }
        budgets.into_iter().find_map(|budget| Some((longest(budget)?, budget)))
    }

    /// Positions that a prefill call up to `end` writes: a draft head keeps some of its proposals.
    fn prefill_reach(&self, end: usize) -> usize {
        let drafts = self.geometry.draft_tokens();
        match drafts {
            0 => end,
            _ if self.wrong(Mutation::PrefillWithoutProposals) => end,
            drafts => end + drafts - 1,
        }
    }

    pub(super) fn next_call(&mut self) -> Option<Call> {
        let mut round = self.round.take()?;
        let call = if self.wrong(Mutation::PrefillFirst) {
            self.prefill_call(&mut round).or_else(|| self.decode_call(&mut round))
        } else {
            self.decode_call(&mut round).or_else(|| self.prefill_call(&mut round))
        };
        self.round = Some(round);
        call
    }

    fn decode_call(&self, round: &mut Round) -> Option<Call> {
        let row = |ticket: u64| (ticket, 1 + self.requests[self.index(ticket)].drafts.len());
        if let Some(entry) = round.verify.take() {
            let rows = round.decodes.drain(..).rev().map(row).collect();
            return Some(Call { entry, rows });
        }
        for count in (1..=round.decodes.len()).rev() {
            let first = round.decodes.len() - count;
            let tickets = &round.decodes[first..];
            let drafts = self.geometry.draft_tokens();
            let writes = match drafts {
                0 => 1,
                drafts if self.wrong(Mutation::VerifyWithoutProposals) => drafts + 1,
                drafts => 2 * drafts,
            };
            let context = |ticket: &u64| self.requests[self.index(*ticket)].computed + writes;
            let context = tickets.iter().map(context).max()?;
            let entry = self.entry(|entry| {
                entry.kind == EntryKind::Decode && entry.batch >= count && entry.context >= context
            });
            if let Some(entry) = entry {
                let rows = round.decodes.drain(first..).rev().map(row).collect();
                return Some(Call { entry, rows });
            }
        }
        None
    }

    fn prefill_call(&self, round: &mut Round) -> Option<Call> {
        let columns = |entry: usize| {
            let entry = &self.geometry.entries()[entry];
            entry.batch * entry.tokens
        };
        if self.wrong(Mutation::OnePrefillCall) && round.prefills > 0 {
            return None;
        }
        let budget = self.most().saturating_sub(round.spent);
        let mut running: Vec<_> = self.requests.iter().filter(|request| request.runs()).collect();
        if self.wrong(Mutation::NewestPromptFirst) {
            running.reverse();
        }
        let alone = |request: &Request, anyway: bool| {
            let (count, most) = self.chunk(request, budget, anyway)?;
            let reach = self.prefill_reach(request.computed + count);
            let entry = self.prefill_entry(1, reach, count, most)?;
            Some((request.ticket, count, entry))
        };
        let first =
            running.iter().position(|request| alone(request, round.prefills == 0).is_some())?;
        let (ticket, count, entry) = alone(running[first], round.prefills == 0)?;
        let mut call = Call { entry, rows: vec![(ticket, count)] };
        let context = self.geometry.entries()[entry].context;
        let (mut rows, mut separate, mut tokens) = (call.rows.clone(), columns(entry), count);
        let others = running[first + 1..].iter().filter_map(|request| alone(request, false));
        for (ticket, count, entry) in others {
            if self.geometry.entries()[entry].context != context {
                continue;
            }
            rows.push((ticket, count));
            separate += columns(entry);
            tokens = tokens.max(count);
            let joint = self.prefill_entry(rows.len(), context, tokens, budget);
            let Some(joint) = joint.filter(|_| !self.wrong(Mutation::NeverShare)) else { break };
            if columns(joint) <= separate || self.wrong(Mutation::ShareWhateverItCosts) {
                call = Call { entry: joint, rows: rows.clone() };
            }
        }
        round.prefills += 1;
        round.spent += if self.wrong(Mutation::BudgetOfTokens) {
            call.rows.iter().map(|row| row.1).sum()
        } else {
            columns(call.entry)
        };
        Some(call)
    }

    /// Drafts for requests that decode, and the entry that verifies them.
    fn draft(&mut self, tickets: &[u64]) -> Option<usize> {
        self.settings.lookup?;
        let verifies = |entry: &&EntryShape| entry.logits_columns > 1;
        let verify = || self.geometry.entries().iter().filter(verifies);
        let batch = verify().map(|entry| entry.batch).max()?;
        let most = verify().map(|entry| entry.tokens).max()? - 1;
        if self.geometry.num_state_slots().is_some() || tickets.len() > batch {
            return None;
        }
        for ticket in tickets {
            self.draft_one(*ticket, most);
        }
        let of = |ticket: &u64| &self.requests[self.index(*ticket)];
        let drafted = tickets.iter().filter(|ticket| !of(ticket).drafts.is_empty()).count();
        let enough = 2 * drafted >= tickets.len() || self.wrong(Mutation::DraftsOfOne);
        let tokens = tickets.iter().map(|ticket| 1 + of(ticket).drafts.len()).max()?;
        let reach = |ticket: &u64| of(ticket).computed + 1 + of(ticket).drafts.len();
        let context = tickets.iter().map(reach).max()?;
        let entry = self.entry(|entry| {
            entry.logits_columns > 1
                && entry.batch >= tickets.len()
                && entry.context >= context
                && entry.tokens >= tokens
        });
        let entry = entry.filter(|_| drafted > 0 && enough);
        if entry.is_none() {
            self.requests.iter_mut().for_each(|request| request.drafts.clear());
        }
        entry
    }

    fn draft_one(&mut self, ticket: u64, most: usize) {
        let index = self.index(ticket);
        let request = &self.requests[index];
        let lookup = self.settings.lookup.expect("it is asked for");
        if !request.decodes() {
            return;
        }
        let tokens = &request.tokens;
        let same = |place: usize| {
            (0..lookup.max_ngram.min(place))
                .take_while(|back| tokens[place - 1 - back] == tokens[tokens.len() - 1 - back])
                .count()
        };
        // Of equally long ones the newest.
        let mut places: Vec<_> = (1..tokens.len())
            .filter(|place| same(*place) >= lookup.min_ngram)
            .map(|place| (same(place), place))
            .collect();
        if self.wrong(Mutation::ShortestNgram) {
            places.iter_mut().for_each(|(length, _)| *length = 0);
        }
        let place = if self.wrong(Mutation::OldestPlace) {
            places.into_iter().max_by_key(|(length, place)| (*length, Reverse(*place)))
        } else {
            places.into_iter().max()
        };
        let Some((_, place)) = place else { return };
        let start = request.computed;
        let past = usize::from(self.wrong(Mutation::DraftsPastTheEnd));
        let mut count = most
            .min(lookup.max_drafts)
            .min(request.remaining() - 1 + past)
            .min(self.ring_room(start).saturating_sub(1))
            .min(self.geometry.max_context() - start - 1);
        let needs = self.lacks(request, start + 1 + count);
        if self.are_free(needs) && !self.wrong(Mutation::DraftsTakeNoPages) {
            self.give(ticket, needs);
        } else {
            let here =
                |count: &usize| self.lacks(request, start + 1 + count).iter().sum::<usize>() == 0;
            // The pages at hand bound it; if the ring does not reach as far there are none.
            let room = request.held[0].len() * self.geometry.block_size();
            count = Some(count.min(room - start - 1)).filter(here).unwrap_or(0);
        }
        let request = &mut self.requests[index];
        let mut history = request.tokens.clone();
        for next in place..place + count {
            if next >= request.tokens.len() && self.rule == Some(Mutation::NoDraftsFromDrafts) {
                break;
            }
            history.push(history[next]);
        }
        request.drafts = history.split_off(request.tokens.len());
    }
}
