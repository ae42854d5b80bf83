//! Who gets pages, ring pages and state slots, and who gives them up.

use super::moves::{MoveKind, Moving};
use super::request::{Request, RequestKey, Stage};
use super::state::State;
use super::{Event, Policy, Preemption, Rejection, Submission};
use crate::Amounts;
use crate::resources::Held;

impl State {
    /// Whether a request can ever run, and may wait for it.
    pub fn check(&self, submission: &Submission, stopping: bool) -> Result<(), Rejection> {
        let (prompt, max_tokens) = (submission.prompt.len(), submission.max_tokens);
        let max_context = self.geometry.max_length();
        let instance = || self.settings.instance.clone();
        if prompt == 0 {
            return Err(Rejection::EmptyPrompt);
        }
        if max_tokens == 0 {
            return Err(Rejection::NoTokens);
        }
        if prompt > max_context {
            return Err(Rejection::PromptTooLong { prompt, max_context });
        }
        let capacity = prompt.saturating_add(max_tokens - 1);
        if capacity > max_context {
            return Err(Rejection::ContextExceeded { prompt, max_tokens, max_context });
        }
        let needs = self.lacking(&Held::default(), capacity);
        let total = self.resources.total();
        if let Some(resource) = needs.beyond(total) {
            return Err(Rejection::NeverFits {
                resource,
                needed: needs.of(resource),
                total: total.of(resource),
                prompt,
                max_tokens,
                instance: instance(),
            });
        }
        if stopping {
            return Err(Rejection::Stopping { instance: instance() });
        }
        let limit = self.settings.max_queue_size.max(1);
        if self.waiting.len() >= limit {
            return Err(Rejection::QueueFull { limit, instance: instance() });
        }
        Ok(())
    }

    /// Sees to it that every running request can take its next token in; those that cannot all
    /// stay give up what they hold. What is returned has to be moved out first.
    pub fn make_room(&mut self) -> Option<Moving> {
        let next = |state: &State, key: RequestKey| {
            let request = &state.requests[key];
            state.lacking(&request.held, request.computed + 1)
        };
        let mut needs = Amounts::default();
        for key in self.running.iter() {
            needs = needs.plus(next(self, key));
        }
        let mut available = self.resources.free();
        let mut moving = Moving::new(MoveKind::Out);
        while needs.beyond(available).is_some() {
            // Alone, a request has all that it was found to fit into.
            let Some(victim) = self.victim() else { break };
            needs = needs.minus(next(self, victim));
            available = available.plus(self.requests[victim].held.amounts());
            self.preempt(victim, &mut moving);
        }
        Some(moving).filter(|moving| !moving.requests.is_empty())
    }

    /// The newest of the lowest priority, but never the oldest of all: it gets done, and so
    /// everyone does.
    fn victim(&self) -> Option<RequestKey> {
        self.running.iter().skip(1).max_by_key(|key| self.requests[*key].rank)
    }

    fn preempt(&mut self, key: RequestKey, moving: &mut Moving) {
        let request = &mut self.requests[key];
        self.running.remove(request.rank);
        let blocks = self.geometry.blocks_for(request.computed);
        let rows = Amounts {
            pages: blocks,
            ring_pages: request.held.ring.len().min(blocks),
            // The first has its state. A verify step writes the others before it reads them.
            state_slots: request.held.state_slots.len().min(1),
        };
        // There and back again.
        let swap = self.move_cost.cost(2 * rows.sum());
        let swaps = request.computed > 0
            && request.is_finite()
            && self.host.short_of(rows).is_none()
            && swap <= self.prefill_cost.cost(request.length());
        let by = if swaps { Preemption::Swap } else { Preemption::Recompute };
        let (held, computed) = (request.held.amounts(), request.computed);
        self.events.push(Event::Preempted { ticket: request.ticket, by, held, computed });
        request.stage = Stage::Preempted(by);
        if swaps {
            self.host.take(rows, &mut request.host);
            moving.add(key, &request.held, &request.host);
        } else {
            self.totals.preempted_recompute += 1;
            let (held, finite) = (std::mem::take(&mut request.held), request.is_finite());
            request.rewind();
            self.preempted.insert(request.rank, key);
            self.release(held, finite);
        }
    }

    /// Gives every running request what its next token needs: [`State::make_room`] has seen to it.
    pub fn grow(&mut self) {
        for key in self.running.iter() {
            let request = &self.requests[key];
            let needs = self.lacking(&request.held, request.computed + 1);
            self.resources.take(needs, &mut self.requests[key].held);
        }
    }

    /// Lets requests run while there is room: first those that ran before, then those that wait.
    /// Nobody passes the first in line. What is returned has to be moved in first.
    pub fn admit(&mut self) -> Option<Moving> {
        let mut moving = Moving::new(MoveKind::In);
        while self.running.len() + moving.requests.len() < self.settings.max_running.max(1) {
            let Some(key) = self.preempted.first().or_else(|| self.waiting.first()) else { break };
            let request = &self.requests[key];
            let needs = self.lacking(&request.held, self.reserved(request));
            if self.resources.short_of(needs).is_some() {
                break;
            }
            let request = &mut self.requests[key];
            request.held = self.resources.none_held();
            self.resources.take(needs, &mut request.held);
            match request.stage {
                Stage::Preempted(Preemption::Swap) => {
                    self.preempted.remove(request.rank);
                    moving.add(key, &request.held, &request.host);
                    continue;
                }
                Stage::Preempted(from) => {
                    self.preempted.remove(request.rank);
                    self.events.push(Event::Resumed { ticket: request.ticket, from });
                }
                Stage::Waiting | Stage::Running => {
                    self.waiting.remove(request.rank);
                    let looked_up = self.lookup.map_or(0, |lookup| lookup.max_drafts);
                    let drafts = looked_up.max(self.geometry.draft_tokens());
                    request.tokens.reserve_exact(request.max_tokens + drafts);
                    if self.lookup.is_some() {
                        request.lookup.reserve(request.prompt + request.max_tokens);
                    }
                }
            }
            request.stage = Stage::Running;
            self.running.insert(request.rank, key);
        }
        Some(moving).filter(|moving| !moving.requests.is_empty())
    }

    /// Positions that a request reserves when it is admitted.
    fn reserved(&self, request: &Request) -> usize {
        match self.settings.policy {
            Policy::GuaranteedNoEvict => request.capacity(),
            Policy::MaxUtilization => {
                request.capacity().min(request.length() + self.geometry.block_size())
            }
        }
    }
}
