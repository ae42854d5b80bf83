//! The rules of sequence mode, written down a second time: from the contract, without a look at
//! speed, and predicting everything that can be seen of an engine. Everything is worked out anew
//! from what is pending and what is held whenever it is asked for.

mod admission;
mod calls;
mod waiting;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;

use tlaloc_engine::{
    Amounts, Arrival, Batching, CallFailure, Drafts, EntryKind, EntryShape, Event, FreeCause,
    Generation, Geometry, Nanos, Outcome, Refusal, RowRef, SequenceId, Settings, Step, Times,
    WindowedPools,
};

use crate::mutation::Mutation;
use crate::support::Given;
pub use calls::Planned;
use calls::Progress;

/// A live sequence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sequence {
    pub tokens: Vec<i32>,
    pub pages: Vec<usize>,
    pub ring: Vec<usize>,
    pub state_slots: Vec<usize>,
    /// The last token that it was given, which is not among `tokens` yet.
    pub pending: Option<i32>,
    /// Proposals for those after it.
    pub drafts: Vec<i32>,
    /// When its last batch ended, and its place among all endings.
    last_active: Option<(Nanos, u64)>,
}

impl Sequence {
    pub fn held(&self) -> Amounts {
        Amounts {
            pages: self.pages.len(),
            ring_pages: self.ring.len(),
            state_slots: self.state_slots.len(),
        }
    }
}

/// A request, or the next step of a generation.
#[derive(Clone, Debug)]
pub struct Request {
    arrival: Arrival,
    /// When it came first.
    arrived: Nanos,
    /// What its steps so far gave, and when the last of them ran.
    given: Vec<i32>,
    ran: Option<(Nanos, Nanos)>,
}

impl Deref for Request {
    type Target = Arrival;

    fn deref(&self) -> &Arrival {
        &self.arrival
    }
}

/// A request of the current batch.
#[derive(Debug)]
struct Work {
    arrival: Request,
    refusal: Option<Refusal>,
    /// It passed admission, when its sequence was like this.
    admitted: Option<Sequence>,
    /// Its sequence's drafts are verified.
    verify: bool,
}

impl Work {
    fn tokens(&self) -> &[i32] {
        self.arrival.tokens.as_deref().unwrap_or(&[])
    }
}

/// What is told of a request.
#[derive(Debug)]
pub struct Answer {
    pub ticket: u64,
    pub result: Result<Option<RowRef>, Refusal>,
    pub held: Amounts,
    pub times: Times,
    /// All tokens that it was given, and those of its last step.
    pub emitted: Vec<i32>,
    pub step: Vec<i32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Waiting,
    /// Decided to start, after having waited so long for sequences that did not come.
    Starting(Option<Nanos>),
    Running,
    Replying,
    Answered,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pools {
    There,
    Lost,
    /// Replacing them was tried in vain: the next batch tries again.
    Missing,
}

pub struct Reference {
    mutation: Option<Mutation>,
    settings: Settings,
    block_size: usize,
    windowed: Option<WindowedPools>,
    linear: bool,
    drafts: Option<Drafts>,
    vocabulary: usize,
    entries: Vec<EntryShape>,
    totals: Amounts,

    pub live: BTreeMap<SequenceId, Sequence>,
    free_pages: BTreeSet<usize>,
    free_ring: BTreeSet<usize>,
    free_slots: BTreeSet<usize>,

    pending: Vec<Request>,
    cohort: BTreeSet<SequenceId>,
    last_batch_end: Nanos,
    longest_batch: Nanos,
    stopping: bool,
    pools: Pools,
    phase: Phase,
    batches: u64,
    ran_without: u64,
    endings: u64,
    events: Vec<Event>,

    works: Vec<Work>,
    start: Nanos,
    /// Results of the batch's calls so far.
    outcomes: Vec<(Outcome, Given, bool)>,
    progress: Progress,
    answers: Vec<Answer>,
    /// What generations that go on were given, and their next steps.
    going_on: Vec<(Vec<i32>, Request)>,
}

impl Reference {
    pub fn new(geometry: &Geometry, settings: Settings, mutation: Option<Mutation>) -> Reference {
        let windowed = geometry.windowed();
        let free_pages: BTreeSet<_> = (1..geometry.num_blocks()).collect();
        let free_ring: BTreeSet<_> = (1..windowed.map_or(1, |pools| pools.num_blocks)).collect();
        let free_slots: BTreeSet<_> = (0..geometry.num_state_slots().unwrap_or(0)).collect();
        Reference {
            mutation,
            settings,
            block_size: geometry.block_size(),
            windowed,
            linear: geometry.num_state_slots().is_some(),
            drafts: geometry.drafts(),
            vocabulary: geometry.vocab_size(),
            entries: geometry.entries().to_vec(),
            totals: Amounts {
                pages: free_pages.len(),
                ring_pages: free_ring.len(),
                state_slots: free_slots.len(),
            },
            live: BTreeMap::new(),
            free_pages,
            free_ring,
            free_slots,
            pending: Vec::new(),
            cohort: BTreeSet::new(),
            last_batch_end: 0,
            longest_batch: 0,
            stopping: false,
            pools: Pools::There,
            phase: Phase::Waiting,
            batches: 0,
            ran_without: 0,
            endings: 0,
            events: Vec::new(),
            works: Vec::new(),
            start: 0,
            outcomes: Vec::new(),
            progress: Progress::default(),
            answers: Vec::new(),
            going_on: Vec::new(),
        }
    }

    /// This reference is deliberately wrong here.
    fn breaks(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }

    /// What the contract says, or what a wrong rule makes of it.
    fn rule<T>(&self, right: T, mutation: Mutation, wrong: T) -> T {
        if self.breaks(mutation) { wrong } else { right }
    }

    pub fn push(&mut self, arrival: Arrival) {
        let arrived = arrival.at;
        self.pending.push(Request { arrival, arrived, given: Vec::new(), ran: None });
    }

    pub fn stop(&mut self) {
        self.stopping = true;
    }

    /// No request is pending or in a batch.
    pub fn rests(&self) -> bool {
        self.pending.is_empty() && matches!(self.phase, Phase::Waiting)
    }

    /// No pools are to be replaced.
    pub fn has_pools(&self) -> bool {
        self.pools == Pools::There
    }

    /// The step that is due.
    pub fn next(&mut self, now: Nanos) -> Step {
        loop {
            match self.phase {
                Phase::Waiting if self.pending.is_empty() => {
                    return if self.stopping { Step::Stopped } else { Step::Idle };
                }
                Phase::Waiting => match self.wait(now) {
                    Ok(waited) => self.phase = Phase::Starting(waited),
                    Err(until) => return Step::WaitUntil(until),
                },
                Phase::Starting(_) | Phase::Answered if self.pools == Pools::Lost => {
                    return Step::RestorePools;
                }
                Phase::Starting(waited) => {
                    self.start_batch(waited, now);
                    self.phase = Phase::Running;
                }
                Phase::Running if self.progress.next.is_some() => return Step::Run,
                Phase::Running => {
                    self.end_requests(now);
                    self.phase = Phase::Replying;
                }
                Phase::Replying => return Step::Reply,
                Phase::Answered => {
                    self.end_batch(now);
                    self.phase = Phase::Waiting;
                }
            }
        }
    }

    /// The call that is due.
    pub fn call(&self) -> Option<&Planned> {
        self.progress.next.as_ref()
    }

    /// The request of a row of that call, the tokens of its sequence before it, and the drafts that it
    /// verifies.
    pub fn request(&self, work: usize) -> (&Arrival, &[i32], &[i32]) {
        let Work { arrival, admitted, verify, .. } = &self.works[work];
        let (tokens, drafts) = admitted
            .as_ref()
            .map_or((&[][..], &[][..]), |before| (&before.tokens[..], &before.drafts[..]));
        (arrival, tokens, if *verify { drafts } else { &[] })
    }

    /// What the generations that go on were given.
    pub fn going_on(&self) -> impl Iterator<Item = (u64, &[i32])> {
        self.going_on.iter().map(|(step, request)| (request.ticket.0, &step[..]))
    }

    /// The step after the call may be launched already: `ahead`.
    pub fn complete(&mut self, outcome: Outcome, given: Given, ahead: bool) {
        if let Err(CallFailure::Execution { pools_lost: true, .. }) = outcome.result {
            self.pools = Pools::Lost;
        }
        self.outcomes.push((outcome, given, ahead));
        self.run_calls();
    }

    /// Runs the batch's calls from the first, as far as their results are known.
    fn run_calls(&mut self) {
        self.progress = calls::run(self);
        for (work, state) in self.works.iter().zip(&self.progress.states) {
            let Some(after) = &state.sequence else { continue };
            let Some(id) = &work.arrival.sequence else { continue };
            let Some(sequence) = self.live.get_mut(id) else { continue };
            let last_active = sequence.last_active;
            *sequence = Sequence { last_active, ..after.clone() };
        }
    }

    /// The answers of the batch.
    pub fn replies(&mut self) -> Vec<Answer> {
        self.phase = Phase::Answered;
        std::mem::take(&mut self.answers)
    }

    pub fn restored(&mut self, result: Result<(), String>) {
        let sequences = self.live.len();
        for id in self.live.keys().cloned().collect::<Vec<_>>() {
            self.take_out(&id);
        }
        let (pools, event) = match result {
            Ok(()) => (Pools::There, Event::PoolsRestored { sequences }),
            Err(message) => (Pools::Missing, Event::PoolsMissing { sequences, message }),
        };
        self.pools = pools;
        self.events.push(event);
    }

    pub fn events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Takes a sequence out; what it held is free again.
    fn take_out(&mut self, id: &SequenceId) -> Option<Sequence> {
        let sequence = self.live.remove(id)?;
        self.free_pages.extend(&sequence.pages);
        self.free_ring.extend(&sequence.ring);
        self.free_slots.extend(&sequence.state_slots);
        Some(sequence)
    }

    fn free(&mut self, id: &SequenceId, cause: FreeCause) {
        if let Some(sequence) = self.take_out(id) {
            self.events.push(Event::Freed {
                sequence: id.clone(),
                held: sequence.held(),
                tokens: sequence.tokens.len(),
                cause,
            });
        }
    }

    /// §9 items 1 to 4.
    fn start_batch(&mut self, waited: Option<Nanos>, now: Nanos) {
        self.batches += 1;
        let absent = self.absent();
        let batch = self.split_pending();
        if let Some(waited) = waited.filter(|_| !absent.is_empty()) {
            self.ran_without += 1;
            self.events.push(Event::RanWithout {
                requests: batch.len(),
                absent,
                waited,
                times: self.ran_without,
                batches: self.batches,
            });
        }
        self.start = now;
        self.outcomes.clear();
        self.works = batch
            .into_iter()
            .map(|arrival| {
                let refusal = arrival.tokens.as_ref().err().cloned();
                Work { arrival, refusal, admitted: None, verify: false }
            })
            .collect();
        for index in 0..self.works.len() {
            let Work { arrival, refusal, .. } = &self.works[index];
            let refused_start = arrival.start && refusal.is_some();
            if let Some(id) = arrival.sequence.clone().filter(|_| refused_start)
                && !self.breaks(Mutation::RefusedStartKeeps)
            {
                self.free(&id, FreeCause::StartedAgain);
            }
        }
        for index in 0..self.works.len() {
            if self.works[index].refusal.is_none() {
                match self.admit(index) {
                    Ok(admitted) => {
                        let id = self.works[index].arrival.sequence.as_ref();
                        let sequence = id.and_then(|id| self.live.get(id)).cloned();
                        self.works[index].admitted = sequence.filter(|_| admitted.is_some());
                        self.works[index].verify = admitted.unwrap_or(false);
                    }
                    Err(refusal) => self.works[index].refusal = Some(refusal),
                }
            }
        }
        self.run_calls();
    }

    /// §19, and §8 item 10.
    fn end_requests(&mut self, now: Nanos) {
        self.cohort.clear();
        for index in 0..self.works.len() {
            let state = &self.progress.states[index];
            let Work { arrival, refusal, .. } = &self.works[index];
            let refusal = refusal.clone().or(state.refusal.clone());
            let lost = matches!(
                refusal,
                Some(
                    Refusal::AfterEarlierCall { .. }
                        | Refusal::StateAdvanced { .. }
                        | Refusal::NoToken { .. }
                )
            );
            let (compute_start, compute_end) =
                state.compute.or(arrival.ran).unwrap_or((self.start, self.start));
            let id = arrival.sequence.clone();
            let step = state.emitted.clone();
            let mut given = [&arrival.given[..], &step].concat();
            let generation = arrival.generation.as_ref().filter(|_| refusal.is_none());
            if let Some(Generation { max_tokens, .. }) = generation
                && self.breaks(Mutation::GenerationsAreCut)
                && *max_tokens > 0
            {
                given.truncate(*max_tokens);
            }
            let goes_on = generation.is_some_and(|Generation { max_tokens, end_tokens }| {
                let ends = |token: &i32| end_tokens.contains(token);
                let any = step.iter().any(ends);
                let ended = self.rule(any, Mutation::EndTokenIsLast, step.last().is_some_and(ends));
                given.len() < *max_tokens && !step.is_empty() && !ended
            });
            if goes_on {
                let arrival = Arrival {
                    start: false,
                    tokens: Ok(vec![step[step.len() - 1]]),
                    ..arrival.arrival.clone()
                };
                let arrived = self.works[index].arrival.arrived;
                let ran = state.compute;
                self.going_on.push((step, Request { arrival, arrived, given, ran }));
                let Some(id) = id else { continue };
                if self.works[index].arrival.end && self.breaks(Mutation::EndEndsTheStep) {
                    self.free(&id, FreeCause::Ended);
                }
                self.endings += 1;
                let ended = Some((now, self.endings));
                let idle = self.breaks(Mutation::GenerationsAreIdle);
                if let Some(sequence) = self.live.get_mut(&id).filter(|_| !idle) {
                    sequence.last_active = ended;
                }
                continue;
            }
            let sequence = id.as_ref().and_then(|id| self.live.get(id));
            let start = arrival.arrived.min(self.start);
            let answer = Answer {
                ticket: arrival.ticket.0,
                held: sequence.map(Sequence::held).unwrap_or_default(),
                times: Times { start, compute_start, compute_end },
                result: refusal.clone().map_or(Ok(state.row), Err),
                emitted: given,
                step,
            };
            self.answers.push(answer);
            let Some(id) = id else { continue };
            let end = arrival.end && !(refusal.is_some() && self.breaks(Mutation::RefusedEndKeeps));
            let one_token = self.works[index].tokens().len() == 1;
            if end {
                self.free(&id, FreeCause::Ended);
            } else if lost && !self.breaks(Mutation::LostKeeps) {
                self.free(&id, FreeCause::Lost);
            } else if let Some(sequence) = self.live.get_mut(&id) {
                self.endings += 1;
                let ended = Some((now, self.endings));
                if refusal.is_none() || self.mutation != Some(Mutation::RefusedAreIdle) {
                    sequence.last_active = ended;
                }
                let good = refusal.is_none() || self.breaks(Mutation::CohortOfTheRefused);
                if good && (one_token || self.breaks(Mutation::CohortOfPrompts)) {
                    self.cohort.insert(id);
                }
            }
        }
    }

    /// §8 item 11, §9 item 8, §14.
    fn end_batch(&mut self, now: Nanos) {
        self.longest_batch = self.longest_batch.max(now - self.start);
        self.last_batch_end = self.rule(now, Mutation::BatchEndsAtItsStart, self.start);
        if self.pools == Pools::Missing {
            self.pools = Pools::Lost;
        }
        let mut next: Vec<_> = self.going_on.drain(..).map(|(_, request)| request).collect();
        next.iter_mut().for_each(|request| request.arrival.at = now);
        let waiting = std::mem::take(&mut self.pending);
        let (first, then) = self.rule(
            (next.clone(), waiting.clone()),
            Mutation::GenerationsQueueUp,
            (waiting, next),
        );
        self.pending = [first, then].concat();
    }

    /// Positions beyond `tokens` tokens of a request that its calls write: a verify step its drafts
    /// and those that it makes, but for the last, a prompt those.
    fn extra(&self, tokens: usize, verify: bool) -> usize {
        let Some(Drafts { tokens: k, .. }) = self.drafts.filter(|_| tokens > 0) else { return 0 };
        if verify {
            self.rule(2 * k - 1, Mutation::StepsWithoutDrafts, 0)
        } else {
            self.rule(k - 1, Mutation::PromptsWithoutDrafts, 0)
        }
    }

    fn of_kind(&self, kind: EntryKind) -> impl Iterator<Item = &EntryShape> {
        self.entries.iter().filter(move |entry| entry.kind == kind)
    }

    /// Largest context of a decode entry.
    fn max_context(&self) -> usize {
        self.of_kind(EntryKind::Decode).map(|entry| entry.context).max().unwrap_or(0)
    }

    /// The waits, if the engine forms batches.
    fn waits(&self) -> Option<(Nanos, Nanos)> {
        match self.settings.batching {
            Batching::Engine { cohort_wait, prompt_wait } => Some((cohort_wait, prompt_wait)),
            Batching::Host => None,
        }
    }
}
