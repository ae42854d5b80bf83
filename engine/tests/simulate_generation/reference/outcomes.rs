//! What becomes of calls and moves.

use tlaloc_engine::generation::{End, Event, Failure, MoveKind, Preemption, Stage};
use tlaloc_engine::{CallFailure, EntryKind, Nanos};

use super::{Pools, Reference};
use crate::mutation::Mutation;

/// What the owner made of a row.
#[derive(Clone, Debug)]
pub enum Sampled {
    Nothing,
    /// Tokens, proposals for those after them, and whether the request ends with them.
    Tokens(Vec<i32>, Vec<i32>, bool),
    Failed,
}

impl Reference {
    pub fn complete(&mut self, nanos: Nanos, result: Result<(), CallFailure>, sampled: &[Sampled]) {
        let call = self.call.take().expect("a call");
        let entry = self.geometry.entries()[call.entry].clone();
        self.totals.calls += 1;
        if let Err(failure) = result {
            let lost = matches!(failure, CallFailure::Execution { pools_lost: true, .. });
            let (instance, entry) = (self.settings.instance.clone(), entry.id);
            let failure = match failure {
                CallFailure::Execution { message, .. } if lost => {
                    Failure::PoolsLost { entry, instance, message }
                }
                CallFailure::Execution { message, .. } => Failure::Execution { entry, message },
                CallFailure::Copy { message } => Failure::Copy { entry, message },
            };
            for (ticket, _) in call.rows {
                self.end(ticket, End::Failed(failure.clone()));
            }
            if self.wrong(Mutation::FailureEndsAll)
                || (lost && self.wrong(Mutation::LostPoolsEndAll))
            {
                self.fail_all(&failure, |request| request.runs());
            }
            if lost {
                self.lose_pools();
            }
            return;
        }
        if entry.kind == EntryKind::Prefill && entry.logits_columns == 1 {
            let tokens: usize = call.rows.iter().map(|row| row.1).sum();
            self.prefilled = (self.prefilled.0 + nanos, self.prefilled.1 + tokens as u64);
        }
        for ((ticket, count), sampled) in call.rows.into_iter().zip(sampled) {
            let index = self.index(ticket);
            let request = &mut self.requests[index];
            let drafts = std::mem::take(&mut request.drafts);
            if !request.decodes() {
                self.totals.prefilled_tokens += count as u64;
            }
            request.computed += count - drafts.len();
            match sampled {
                Sampled::Nothing => {}
                Sampled::Failed => {
                    let suspect = !self.wrong(Mutation::NotFiniteStays);
                    let request = &mut self.requests[index];
                    request.finite = request.computed;
                    self.remove(ticket, suspect);
                }
                Sampled::Tokens(tokens, proposed, finished) => {
                    let right = tokens.len() - 1;
                    self.totals.drafts_proposed += drafts.len() as u64;
                    self.totals.drafts_accepted += right as u64;
                    self.totals.generated_tokens += tokens.len() as u64;
                    request.computed += right;
                    request.finite = request.computed;
                    request.tokens.extend(tokens);
                    if self.geometry.draft_tokens() > 0 {
                        request.drafts = proposed.clone();
                        let (slots, verified) = (&mut request.held[2], !drafts.is_empty());
                        if verified && self.rule != Some(Mutation::StateStays) {
                            // The state after the last right token, and the old one in its place.
                            let old = slots[0];
                            slots[0] = slots[tokens.len()];
                            slots[tokens.len()] = old;
                        }
                    }
                    if *finished || request.remaining() == 0 {
                        self.remove(ticket, false);
                    }
                }
            }
        }
    }

    pub fn moved(&mut self, nanos: Nanos, result: Result<(), CallFailure>) {
        let moving = self.moving.take().expect("a move");
        let rows: usize = moving.device.iter().map(Vec::len).sum();
        let lost = matches!(result, Err(CallFailure::Execution { pools_lost: true, .. }));
        match (moving.kind, result) {
            (MoveKind::Scrub, Err(failure)) if !self.wrong(Mutation::ScrubFailureIgnored) => {
                self.events.push(Event::ScrubFailed { message: text(failure) });
                self.lose_pools();
            }
            (MoveKind::Scrub, _) => self.zeroed(),
            (kind, Ok(())) => {
                self.moved = (self.moved.0 + nanos, self.moved.1 + rows as u64);
                for ticket in moving.tickets {
                    let index = self.index(ticket);
                    self.requests[index].moves = false;
                    if kind == MoveKind::Out {
                        self.totals.preempted_swap += 1;
                        let held = std::mem::take(&mut self.requests[index].held);
                        for (class, numbers) in held.into_iter().enumerate() {
                            self.free[class].extend(numbers);
                        }
                    } else {
                        self.take_back_host(ticket);
                        self.requests[index].stage = Stage::Running;
                        let from = Preemption::Swap;
                        self.tell(ticket, |ticket| Event::Resumed { ticket, from });
                    }
                }
            }
            (kind, Err(failure)) => {
                let requests = moving.tickets.len();
                self.events.push(Event::SwapFailed { requests, message: text(failure) });
                for ticket in moving.tickets {
                    let index = self.index(ticket);
                    if kind == MoveKind::In && self.wrong(Mutation::SwapInAgain) {
                        self.requests[index].moves = false;
                        let held = std::mem::take(&mut self.requests[index].held);
                        for (class, numbers) in held.into_iter().enumerate() {
                            self.free[class].extend(numbers);
                        }
                        continue;
                    }
                    self.totals.preempted_recompute += 1;
                    self.recompute(ticket, true);
                }
                if lost {
                    self.lose_pools();
                }
            }
        }
    }

    fn lose_pools(&mut self) {
        self.pools = Pools::Lost;
        self.round = None;
        self.zeroed();
        let tickets: Vec<_> = self
            .requests
            .iter()
            .filter(|request| {
                let swapped = request.stage == Stage::Preempted(Preemption::Swap);
                request.runs() || (swapped && self.rule == Some(Mutation::LostPoolsForgetHost))
            })
            .map(|request| request.ticket)
            .collect();
        for ticket in tickets {
            self.totals.preempted_recompute += 1;
            self.recompute(ticket, true);
        }
    }

    pub fn restored(&mut self, result: Result<(), String>) {
        self.restoring = false;
        match result {
            Ok(()) => {
                self.pools = Pools::Intact;
                let requests = self.counts().preempted;
                self.events.push(Event::PoolsRestored { requests });
            }
            Err(message) => {
                self.pools = Pools::Missing;
                let instance = self.settings.instance.clone();
                let failure = Failure::PoolsMissing { instance, message: message.clone() };
                let keeps = self.wrong(Mutation::MissingPoolsKeepWaiting);
                let requests =
                    self.fail_all(&failure, |request| !keeps || request.stage != Stage::Waiting);
                self.zeroed();
                self.events.push(Event::PoolsMissing { requests, message });
            }
        }
    }
}

fn text(failure: CallFailure) -> String {
    match failure {
        CallFailure::Execution { message, .. } | CallFailure::Copy { message } => message,
    }
}
