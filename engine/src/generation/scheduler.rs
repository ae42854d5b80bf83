//! The state machine.

use std::vec;

use super::call::{Call, CallRow};
use super::moves::{MoveKind, Moves, Moving};
use super::request::{LiveRequest, Request, RequestKey};
use super::round::Round;
use super::state::State;
use super::verdicts::{Sampled, Verdicts};
use super::{Counts, End, Ended, Event, Failure, Rejection, Settings, Submission};
use crate::packing::{self, PackedRow, StepInputs, StepSource};
use crate::{CallFailure, EntryKind, Geometry, Nanos, Outcome, Ticket};

/// What the owner does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Execute [`Scheduler::call`], then [`Scheduler::complete`].
    Run,
    /// Do [`Scheduler::moves`], then [`Scheduler::moved`].
    Move,
    /// Replace all pools by zeroed ones, then [`Scheduler::restored`].
    RestorePools,
    /// Answer the requests that ended: [`Scheduler::ended`].
    Ended,
    /// Wait for the next submission.
    Idle,
    /// [`Scheduler::stop`] was called and every request has ended.
    Stopped,
}

/// Where the scheduler stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// A round is to be planned.
    Planning,
    /// Calls of a round are to come.
    Running,
    /// A call is with the owner.
    Called,
    /// Moves are with the owner; a round may have been interrupted for them.
    Moving { in_round: bool },
    /// The owner replaces the pools.
    Restoring,
}

/// Whether the pools are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pools {
    Intact,
    /// They are to be replaced.
    Lost,
    /// Replacing them failed; the next request tries again.
    Missing,
}

/// The scheduler of one instance. See the module's documentation for how it is driven.
#[derive(Debug)]
pub struct Scheduler {
    state: State,
    phase: Phase,
    pools: Pools,
    stopping: bool,
    submitted: u64,
    round: Round,
    /// What the owner moves.
    moving: Moving,
    // The current call.
    rows: Vec<CallRow>,
    entry: usize,
    /// Requests that a sweep ended.
    gone: Vec<RequestKey>,
}

impl Scheduler {
    /// A scheduler without requests; everything is free.
    pub fn new(geometry: Geometry, settings: Settings) -> Scheduler {
        Scheduler {
            state: State::new(geometry, settings),
            phase: Phase::Planning,
            pools: Pools::Intact,
            stopping: false,
            submitted: 0,
            round: Round::default(),
            moving: Moving::new(MoveKind::Scrub),
            rows: Vec::new(),
            entry: 0,
            gone: Vec::new(),
        }
    }

    /// Sizes of the model.
    pub fn geometry(&self) -> &Geometry {
        &self.state.geometry
    }

    /// The requests inside, in no order that means anything.
    pub fn requests(&self) -> impl Iterator<Item = LiveRequest<'_>> {
        self.state.requests.iter().map(|(_, request)| request.look())
    }

    /// What is there, and what has happened.
    pub fn counts(&self) -> Counts {
        self.state.counts()
    }

    /// Hands a request over, at any time. It runs in a round that starts later.
    ///
    /// # Errors
    /// Why it is refused. Nothing is changed then.
    pub fn submit(&mut self, submission: Submission) -> Result<(), Rejection> {
        self.state.check(&submission, self.stopping)?;
        let order = self.submitted;
        self.submitted += 1;
        let state = &mut self.state;
        if let Some(deadline) = submission.deadline {
            let earliest = state.earliest_deadline.map_or(deadline, |at| at.min(deadline));
            state.earliest_deadline = Some(earliest);
        }
        let request = Request::new(submission, order);
        let rank = request.rank;
        let key = state.requests.insert(request);
        state.waiting.insert(rank, key);
        Ok(())
    }

    /// Ends a request, wherever it is: at the next [`Scheduler::next`], or after the call or the
    /// move that is with the owner. One that is not inside is none of the scheduler's.
    pub fn cancel(&mut self, ticket: Ticket) {
        if let Some(request) = self.state.requests.find(ticket)
            && !request.cancelled
        {
            request.cancelled = true;
            self.state.cancelled += 1;
        }
    }

    /// Takes no more submissions: what is inside runs to its end, then [`Step::Stopped`].
    pub fn stop(&mut self) {
        self.stopping = true;
    }

    /// What to do at time `now`. Asked again before it is done, it answers the same.
    pub fn next(&mut self, now: Nanos) -> Step {
        match self.phase {
            Phase::Called => return Step::Run,
            Phase::Moving { .. } => return Step::Move,
            Phase::Restoring => return Step::RestorePools,
            Phase::Planning | Phase::Running => {}
        }
        self.state.sweep(now, &mut self.gone);
        for gone in self.gone.drain(..) {
            self.round.forget(gone);
        }
        loop {
            if !self.state.ended.is_empty() {
                return Step::Ended;
            }
            if self.pools == Pools::Lost
                || (self.pools == Pools::Missing && !self.state.requests.is_empty())
            {
                self.phase = Phase::Restoring;
                return Step::RestorePools;
            }
            if self.state.dirty.amounts().sum() > 0 {
                let mut scrub = Moving::new(MoveKind::Scrub);
                scrub.device = self.state.dirty.clone();
                return self.start(scrub);
            }
            if self.phase == Phase::Planning {
                if let Some(out) = self.state.make_room() {
                    return self.start(out);
                }
                if self.state.dirty.amounts().sum() > 0 {
                    continue;
                }
                self.state.grow();
                if let Some(back) = self.state.admit() {
                    return self.start(back);
                }
                if self.state.running.is_empty() {
                    return if self.stopping { Step::Stopped } else { Step::Idle };
                }
                self.state.totals.rounds += 1;
                self.round.plan(&mut self.state);
                self.phase = Phase::Running;
            }
            match self.round.next(&self.state, &mut self.rows) {
                Some(entry) => {
                    self.entry = entry;
                    self.phase = Phase::Called;
                    return Step::Run;
                }
                None => self.phase = Phase::Planning,
            }
        }
    }

    fn start(&mut self, moving: Moving) -> Step {
        self.moving = moving;
        self.phase = Phase::Moving { in_round: self.phase == Phase::Running };
        Step::Move
    }

    /// The call to run after [`Step::Run`]. At other times it has no rows.
    pub fn call(&self) -> Call<'_> {
        let rows = if self.phase == Phase::Called { &self.rows[..] } else { &[] };
        Call { entry: self.entry, rows, requests: &self.state.requests }
    }

    /// Takes the result of the call, and what became of each of its rows if it ran. Without a call
    /// it does nothing.
    pub fn complete(&mut self, outcome: Outcome, verdicts: &Verdicts) {
        if self.phase != Phase::Called {
            return;
        }
        self.phase = Phase::Running;
        self.state.totals.calls += 1;
        let rows = std::mem::take(&mut self.rows);
        let Outcome { compute_start, compute_end, result } = outcome;
        match result {
            Ok(()) => {
                self.learn(&rows, compute_end.saturating_sub(compute_start));
                for (row, sampled) in rows.iter().zip(verdicts.iter()) {
                    self.advance(*row, sampled);
                }
            }
            Err(failure) => self.fail(&rows, failure),
        }
        self.rows = rows;
    }

    fn learn(&mut self, rows: &[CallRow], nanos: Nanos) {
        let shape = &self.state.geometry.entries()[self.entry];
        if shape.kind == EntryKind::Prefill && !shape.verifies() {
            let tokens = rows.iter().map(|row| row.count).sum();
            self.state.prefill_cost.learn(nanos, tokens);
        }
    }

    /// A row ran.
    fn advance(&mut self, row: CallRow, sampled: Sampled<'_>) {
        let state = &mut self.state;
        let request = &mut state.requests[row.request];
        let (length, drafts) = (request.length(), request.drafts);
        if !request.decodes() {
            state.totals.prefilled_tokens += row.count as u64;
        }
        request.computed += row.count - drafts;
        if request.computed == length {
            let next = match sampled {
                Sampled::Tokens { tokens, drafts: proposed, finished } if !tokens.is_empty() => {
                    let count = tokens.len().min(drafts + 1).min(request.remaining());
                    Some((&tokens[..count], proposed, finished))
                }
                _ => None,
            };
            let Some((tokens, proposed, finished)) = next else {
                state.remove(row.request, true);
                self.round.forget(row.request);
                return;
            };
            let before_last = &tokens[..tokens.len() - 1];
            let right = before_last.iter().zip(&request.tokens[length..]);
            let accepted = right.take_while(|(token, draft)| token == draft).count();
            state.totals.drafts_proposed += drafts as u64;
            state.totals.drafts_accepted += accepted as u64;
            state.totals.generated_tokens += tokens.len() as u64;
            request.computed += accepted;
            request.finite = request.computed;
            request.forget_drafts();
            request.tokens.extend_from_slice(tokens);
            if finished || request.remaining() == 0 {
                state.remove(row.request, false);
                self.round.forget(row.request);
                return;
            }
            let slots = &mut request.held.state_slots;
            if drafts > 0 && !slots.is_empty() {
                // Each token of a verify step left the state after it in a slot of its own.
                slots.swap(0, accepted + 1);
            }
            if proposed.len() == state.geometry.draft_tokens() {
                let legal = |&draft: &i32| state.geometry.legal_draft(draft);
                request.propose(proposed.iter().map(legal));
            }
        }
        if let Some(lookup) = state.lookup {
            let known = request.length().min(request.computed + 1);
            request.lookup.extend(&request.tokens[..known], lookup);
        }
    }

    /// A call failed.
    fn fail(&mut self, rows: &[CallRow], failure: CallFailure) {
        let lost = matches!(failure, CallFailure::Execution { pools_lost: true, .. });
        let state = &mut self.state;
        let entry = &state.geometry.entries()[self.entry].id;
        let failure = Failure::of_call(failure, entry, &state.settings.instance);
        for row in rows {
            state.end(row.request, End::Failed(failure.clone()));
            self.round.forget(row.request);
        }
        if lost {
            self.lose_pools();
        }
    }

    /// What is to be moved after [`Step::Move`]. At other times it is of no use.
    pub fn moves(&self) -> Moves<'_> {
        let Moving { kind, device, host, .. } = &self.moving;
        Moves { kind: *kind, device, host }
    }

    /// Takes the result of the moves, and how long they took. Without moves it does nothing.
    pub fn moved(&mut self, result: Result<(), CallFailure>, nanos: Nanos) {
        let Phase::Moving { in_round } = self.phase else { return };
        self.phase = if in_round { Phase::Running } else { Phase::Planning };
        let moving = std::mem::replace(&mut self.moving, Moving::new(MoveKind::Scrub));
        let state = &mut self.state;
        match (moving.kind, result) {
            (MoveKind::Scrub, Ok(())) => state.clean(),
            (MoveKind::Scrub, Err(failure)) => {
                state.events.push(Event::ScrubFailed { message: message(failure) });
                self.lose_pools();
            }
            (kind, Ok(())) => {
                state.move_cost.learn(nanos, moving.rows());
                for key in moving.requests {
                    if kind == MoveKind::Out {
                        state.swapped_out(key);
                    } else {
                        state.swapped_in(key);
                    }
                }
            }
            (_, Err(failure)) => {
                let lost = matches!(failure, CallFailure::Execution { pools_lost: true, .. });
                let requests = moving.requests.len();
                state.events.push(Event::SwapFailed { requests, message: message(failure) });
                for key in moving.requests {
                    state.totals.preempted_recompute += 1;
                    state.recompute(key);
                }
                if lost {
                    self.lose_pools();
                }
            }
        }
    }

    fn lose_pools(&mut self) {
        self.pools = Pools::Lost;
        self.phase = Phase::Planning;
        self.round.clear();
        self.state.lose_pools();
    }

    /// Takes the result of [`Step::RestorePools`]: whether the pools are zeroed anew, or why not;
    /// then every request ends. Unless that was asked for it does nothing.
    pub fn restored(&mut self, result: Result<(), String>) {
        if self.phase != Phase::Restoring {
            return;
        }
        self.phase = Phase::Planning;
        let state = &mut self.state;
        match result {
            Ok(()) => {
                self.pools = Pools::Intact;
                let requests = state.counts().preempted;
                state.events.push(Event::PoolsRestored { requests });
            }
            Err(message) => {
                self.pools = Pools::Missing;
                let instance = state.settings.instance.clone();
                let failure = Failure::PoolsMissing { instance, message: message.clone() };
                let requests = state.fail_all(&failure);
                state.events.push(Event::PoolsMissing { requests, message });
            }
        }
    }

    /// The requests that ended without a verdict since the last call of this, after
    /// [`Step::Ended`]. Those whose verdict was that they finished or failed are not among them.
    pub fn ended(&mut self) -> vec::Drain<'_, Ended> {
        self.state.ended.drain(..)
    }

    /// What happened since the last call of this, in order.
    pub fn events(&mut self) -> vec::Drain<'_, Event> {
        self.state.events.drain(..)
    }
}

impl StepSource for Scheduler {
    fn geometry(&self) -> &Geometry {
        &self.state.geometry
    }

    fn entry(&self) -> usize {
        self.entry
    }

    fn rows(&self) -> usize {
        self.call().rows().len()
    }

    fn wants_logits(&self) -> bool {
        self.call().rows().any(|row| row.samples)
    }

    fn pack(&self, inputs: StepInputs<'_>) {
        let rows = self.call().rows().map(|row| {
            let (tokens, drafts) = row.tokens.split_at(row.tokens.len() - row.drafts);
            PackedRow { position: row.position, tokens, drafts, held: row.held }
        });
        packing::pack(&self.state.geometry, self.entry, rows, inputs);
    }
}

fn message(failure: CallFailure) -> String {
    match failure {
        CallFailure::Execution { message, .. } | CallFailure::Copy { message } => message,
    }
}
