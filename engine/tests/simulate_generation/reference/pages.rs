//! Who gets pages, and who gives them up.

use std::cmp::Reverse;

use tlaloc_engine::generation::{Event, MoveKind, Policy, Preemption, Stage};

use super::{Classes, Move, Reference, Request, Stock, amounts};
use crate::mutation::Mutation;

impl Reference {
    /// What a request of `positions` holds.
    pub(super) fn needs(&self, positions: usize) -> Classes<usize> {
        let drafts = self.geometry.draft_tokens();
        let beyond = match drafts {
            0 => 0,
            _ if self.wrong(Mutation::NoPagesForDrafts) => 0,
            drafts => 2 * drafts - 1,
        };
        let blocks = (positions + beyond).div_ceil(self.geometry.block_size());
        let ring = self.geometry.windowed().map_or(0, |pools| pools.ring_pages.min(blocks));
        let slots = match drafts {
            0 => usize::from(self.geometry.num_state_slots().is_some()),
            drafts => drafts + 2,
        };
        [blocks, ring, slots]
    }

    /// What it lacks for that.
    pub(super) fn lacks(&self, request: &Request, positions: usize) -> Classes<usize> {
        let needs = self.needs(positions);
        [0, 1, 2].map(|class| needs[class].saturating_sub(request.held[class].len()))
    }

    pub(super) fn are_free(&self, needs: Classes<usize>) -> bool {
        (0..3).all(|class| self.free[class].len() >= needs[class])
    }

    pub(super) fn give(&mut self, ticket: u64, needs: Classes<usize>) {
        let highest = self.wrong(Mutation::HighestFirst);
        let index = self.index(ticket);
        for (class, count) in needs.into_iter().enumerate() {
            for _ in 0..count {
                let free = &mut self.free[class];
                let number = if highest { free.pop_last() } else { free.pop_first() };
                self.requests[index].held[class].push(number.expect("enough is free"));
            }
        }
    }

    /// What a request held is free, or is to be zeroed before it is.
    fn take_back(&mut self, held: Stock, clean: bool) {
        for (class, numbers) in held.into_iter().enumerate() {
            if clean {
                self.free[class].extend(numbers);
            } else {
                self.dirty[class].extend(numbers);
            }
        }
    }

    pub(super) fn take_back_host(&mut self, ticket: u64) {
        let index = self.index(ticket);
        let host = std::mem::take(&mut self.requests[index].host);
        for (class, rows) in host.into_iter().enumerate() {
            self.host_free[class].extend(rows);
        }
    }

    pub(super) fn zeroed(&mut self) {
        let dirty = std::mem::take(&mut self.dirty);
        self.take_back(dirty, true);
    }

    /// Takes a request out of everything.
    pub(super) fn remove(&mut self, ticket: u64, suspect: bool) {
        self.take_back_host(ticket);
        let request = self.requests.remove(self.index(ticket));
        if let Some(round) = &mut self.round {
            round.decodes.retain(|decodes| *decodes != ticket);
        }
        let unseen = request.finite != request.computed;
        let clean = !(suspect || (unseen && !self.wrong(Mutation::CancelledStays)));
        self.take_back(request.held, clean);
    }

    /// What a request holds goes back, and it starts from its tokens.
    pub(super) fn recompute(&mut self, ticket: u64, clean: bool) {
        self.take_back_host(ticket);
        let index = self.index(ticket);
        let request = &mut self.requests[index];
        request.stage = Stage::Preempted(Preemption::Recompute);
        request.moves = false;
        request.drafts.clear();
        (request.computed, request.finite) = (0, 0);
        let held = std::mem::take(&mut request.held);
        self.take_back(held, clean);
    }

    /// Preempts requests until all that run can take one more token.
    pub(super) fn make_room(&mut self) -> Option<Move> {
        let mut moving = Move {
            kind: MoveKind::Out,
            tickets: Vec::new(),
            device: Stock::default(),
            host: Stock::default(),
        };
        loop {
            let running = || self.requests.iter().filter(|request| request.runs());
            let enough = (0..3).all(|class| {
                let lacks = |request: &Request| self.lacks(request, request.computed + 1)[class];
                let leaving: usize = moving
                    .tickets
                    .iter()
                    .map(|ticket| self.requests[self.index(*ticket)].held[class].len())
                    .sum();
                let slack = usize::from(self.rule == Some(Mutation::GrowLater) && class == 0);
                let has = self.free[class].len() + self.dirty[class].len() + leaving + slack;
                running().map(lacks).sum::<usize>() <= has
            });
            let spared = usize::from(!self.wrong(Mutation::OldestMayGo));
            let victims = || running().enumerate().skip(spared);
            let victim = match self.rule {
                Some(Mutation::VictimIsTheOldest) => {
                    victims().max_by_key(|(age, request)| (request.priority, Reverse(*age)))
                }
                Some(Mutation::VictimWhateverPriority) => victims().max_by_key(|(age, _)| *age),
                _ => victims().max_by_key(|(age, request)| (request.priority, *age)),
            };
            let victim = victim.map(|(_, request)| request.ticket);
            match victim.filter(|_| !enough) {
                Some(ticket) => self.preempt(ticket, &mut moving),
                None => break,
            }
        }
        Some(moving).filter(|moving| !moving.tickets.is_empty())
    }

    fn preempt(&mut self, ticket: u64, moving: &mut Move) {
        let index = self.index(ticket);
        let request = self.requests[index].clone();
        let [pages, ring, slots] = request.held.each_ref().map(Vec::len);
        let blocks = request.computed.div_ceil(self.geometry.block_size());
        let rows = if self.wrong(Mutation::MoveEmptyPages) {
            [pages, ring, slots]
        } else {
            [blocks, ring.min(blocks), slots.min(1)]
        };
        let mean = |(time, units): (u64, u64), count: usize| {
            u128::from(time) * count as u128 / u128::from(units.max(1))
        };
        let ways = if self.wrong(Mutation::SwapOneWay) { 1 } else { 2 };
        let swap = mean(self.moved, ways * rows.iter().sum::<usize>());
        let cheaper = match self.rule {
            Some(Mutation::AlwaysSwap) => true,
            Some(Mutation::NeverSwap) => false,
            _ => swap <= mean(self.prefilled, request.tokens.len()),
        };
        let seen = request.finite == request.computed;
        let swaps = cheaper
            && request.computed > 0
            && (seen || self.wrong(Mutation::SwapUnseen))
            && (0..3).all(|class| self.host_free[class].len() >= rows[class]);
        let by = if swaps { Preemption::Swap } else { Preemption::Recompute };
        let (held, computed) = (amounts([pages, ring, slots]), request.computed);
        self.tell(ticket, |ticket| Event::Preempted { ticket, by, held, computed });
        if !swaps {
            self.totals.preempted_recompute += 1;
            self.recompute(ticket, seen);
            return;
        }
        let forgets = self.wrong(Mutation::DraftsForgottenOnTheWay);
        let request = &mut self.requests[index];
        if forgets {
            request.drafts.clear();
        }
        request.stage = Stage::Preempted(by);
        request.moves = true;
        moving.tickets.push(ticket);
        for (class, &count) in rows.iter().enumerate() {
            let host: Vec<_> =
                (0..count).filter_map(|_| self.host_free[class].pop_first()).collect();
            moving.device[class].extend(&request.held[class][..count]);
            moving.host[class].extend(&host);
            request.host[class] = host;
        }
    }

    pub(super) fn grow(&mut self) {
        let tickets: Vec<_> = self
            .requests
            .iter()
            .filter(|request| request.runs())
            .map(|request| request.ticket)
            .collect();
        for ticket in tickets {
            let request = &self.requests[self.index(ticket)];
            let mut needs = self.lacks(request, request.computed + 1);
            if self.wrong(Mutation::GrowLater) {
                needs = [0, 1, 2].map(|class| needs[class].min(self.free[class].len()));
            }
            self.give(ticket, needs);
        }
    }

    pub(super) fn admit(&mut self) -> Option<Move> {
        let mut moving = Move {
            kind: MoveKind::In,
            tickets: Vec::new(),
            device: Stock::default(),
            host: Stock::default(),
        };
        loop {
            let most = self.settings.max_running + usize::from(self.wrong(Mutation::OneMoreRuns));
            let running = self.requests.iter().filter(|request| request.runs()).count();
            if running + moving.tickets.len() >= most {
                break;
            }
            let mut line: Vec<_> = self
                .requests
                .iter()
                .enumerate()
                .filter(|(_, request)| request.stage == Stage::Waiting || request.is_preempted())
                .collect();
            line.sort_by_key(|(age, request)| {
                let waits = request.stage == Stage::Waiting;
                let later = waits != self.wrong(Mutation::NewBeforePreempted);
                let priority =
                    if self.wrong(Mutation::PriorityIgnored) { 0 } else { request.priority };
                (later, priority, *age)
            });
            if !self.wrong(Mutation::PassTheFirst) {
                line.truncate(1);
            }
            let fits = line.iter().find_map(|(_, request)| {
                let needs = self.lacks(request, self.reserved(request));
                self.are_free(needs).then_some((request.ticket, needs))
            });
            let Some((ticket, needs)) = fits else { break };
            self.give(ticket, needs);
            let index = self.index(ticket);
            let request = &mut self.requests[index];
            match request.stage {
                Stage::Preempted(Preemption::Swap) => {
                    request.moves = true;
                    moving.tickets.push(ticket);
                    for class in 0..3 {
                        let count = request.host[class].len();
                        moving.device[class].extend(&request.held[class][..count]);
                        moving.host[class].extend(&request.host[class]);
                    }
                    continue;
                }
                Stage::Preempted(from) => {
                    self.tell(ticket, |ticket| Event::Resumed { ticket, from });
                }
                _ => {}
            }
            self.requests[index].stage = Stage::Running;
        }
        Some(moving).filter(|moving| !moving.tickets.is_empty())
    }

    fn reserved(&self, request: &Request) -> usize {
        let all = request.prompt + request.max_tokens - 1;
        let page = self.geometry.block_size();
        match self.settings.policy {
            Policy::GuaranteedNoEvict if self.wrong(Mutation::LastTokenReserved) => all + 1,
            Policy::GuaranteedNoEvict => all,
            Policy::MaxUtilization if self.wrong(Mutation::NoPageToGrow) => request.tokens.len(),
            Policy::MaxUtilization if self.wrong(Mutation::PageBeyondTheEnd) => {
                request.tokens.len() + page
            }
            Policy::MaxUtilization => all.min(request.tokens.len() + page),
        }
    }
}
