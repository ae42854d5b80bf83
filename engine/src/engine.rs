//! The state machine (sequence mode §9, §14, §19).

use std::collections::HashSet;
use std::vec;

use crate::admission::Admission;
use crate::event::{Event, FreeCause};
use crate::packing::{self, PackedRow, StepInputs, StepSource};
use crate::queue::{Queue, Ready, Waits};
use crate::schedule::{Admitted, Demand, Schedule, View};
use crate::sequence::Activity;
use crate::speculation::{self, Chain, StepResults};
use crate::state::State;
use crate::work::{CallRow, Progress, Replies, Work};
use crate::{
    Amounts, Arrival, BatchReport, Batching, Call, CallFailure, Counts, Geometry, LiveSequence,
    Nanos, Outcome, Refusal, RowRef, SequenceId, Settings,
};

/// What the owner does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Execute [`Engine::call`], then [`Engine::complete`].
    Run,
    /// Answer the batch: [`Engine::replies`].
    Reply,
    /// Replace all pools by zeroed ones, then [`Engine::restored`].
    RestorePools,
    /// Wait until this time or the next arrival.
    WaitUntil(Nanos),
    /// Wait for the next arrival.
    Idle,
    /// [`Engine::stop`] was called and everything pushed is answered.
    Stopped,
}

/// Where the engine stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// No batch.
    Waiting,
    /// A batch is about to start; `waited` is how long it was held for sequences that did not come.
    Starting { waited: Option<Nanos> },
    /// A batch runs, and its next call is to be found.
    Running,
    /// A call is with the owner.
    Called,
    /// The batch has run, its replies are to be taken.
    Replying,
    /// The replies are with the owner.
    Answered,
}

/// Whether the pools are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pools {
    Intact,
    /// A failed execution took them; the owner is to replace them.
    Lost,
    /// Replacing them failed; the next batch tries again.
    Missing,
}

#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    batches: u64,
    requests: u64,
    calls: u64,
    ran_without: u64,
    cohort_waits: u64,
}

/// Batches from one summary to the next.
const SUMMARY_EVERY: u64 = 1000;

/// The scheduler of one instance. See the crate's documentation for how it is driven.
#[derive(Debug)]
pub struct Engine {
    geometry: Geometry,
    settings: Settings,
    queue: Queue,
    state: State,
    phase: Phase,
    pools: Pools,
    stopping: bool,
    longest_batch: Nanos,
    activities: u64,
    totals: Totals,
    /// The next batch was held back for sequences of the last one.
    held_back: bool,

    // The current batch.
    works: Vec<Work>,
    /// Those of it that go on, once it has run.
    continuing: Vec<Work>,
    in_batch: HashSet<SequenceId>,
    start: Nanos,
    /// Start of the first execution, end of the last.
    compute: Option<(Nanos, Nanos)>,
    calls: usize,
    schedule: Schedule,
    // Its current call.
    rows: Vec<CallRow>,
    entry: usize,
    /// It was launched with the call before.
    chained: bool,
    chain: Chain,
}

impl Engine {
    /// An engine without sequences; everything is free.
    pub fn new(geometry: Geometry, settings: Settings) -> Engine {
        let waits = match settings.batching {
            Batching::Engine { cohort_wait, prompt_wait } => {
                Some(Waits { cohort: cohort_wait, prompt: prompt_wait })
            }
            Batching::Host => None,
        };
        Engine {
            queue: Queue::new(waits),
            state: State::new(&geometry),
            geometry,
            settings,
            phase: Phase::Waiting,
            pools: Pools::Intact,
            stopping: false,
            longest_batch: 0,
            activities: 0,
            totals: Totals::default(),
            held_back: false,
            works: Vec::new(),
            continuing: Vec::new(),
            in_batch: HashSet::new(),
            start: 0,
            compute: None,
            calls: 0,
            schedule: Schedule::default(),
            rows: Vec::new(),
            entry: 0,
            chained: false,
            chain: Chain::default(),
        }
    }

    /// Sizes of the model.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The live sequences, in no order that means anything.
    pub fn sequences(&self) -> impl Iterator<Item = LiveSequence<'_>> {
        self.state.sequences.iter().map(|sequence| LiveSequence {
            id: &sequence.id,
            length: sequence.length,
            pages: &sequence.held.pages,
            ring: &sequence.held.ring,
            state_slots: &sequence.held.state_slots,
            pending: sequence.pending,
            drafts: &sequence.drafts,
        })
    }

    /// What no sequence holds.
    pub fn free(&self) -> Amounts {
        self.state.resources.free()
    }

    /// What sequences can hold, free or not.
    pub fn total(&self) -> Amounts {
        self.state.resources.total()
    }

    /// What is there and what has happened.
    pub fn counts(&self) -> Counts {
        Counts {
            waiting: self.queue.len(),
            running: self.works.len(),
            sequences: self.state.sequences.len(),
            cohort_waits: self.totals.cohort_waits,
        }
    }

    /// Hands a request over, at any time. It is in a batch that starts later.
    pub fn push(&mut self, arrival: Arrival) {
        self.queue.push(Work::new(arrival));
    }

    /// Starts no more waits: what is pending runs at once, then [`Step::Stopped`].
    pub fn stop(&mut self) {
        self.stopping = true;
    }

    /// What to do at time `now`. Asked again before it is done, it answers the same.
    pub fn next(&mut self, now: Nanos) -> Step {
        loop {
            match self.phase {
                Phase::Waiting => match self.queue.ready(now) {
                    Ready::Empty if self.stopping => return Step::Stopped,
                    Ready::Empty => return Step::Idle,
                    Ready::Until(time) if !self.stopping => {
                        self.held_back |= self.queue.is_cohort_absent();
                        return Step::WaitUntil(time);
                    }
                    Ready::Until(_) => self.phase = Phase::Starting { waited: None },
                    Ready::Start { waited } => {
                        let waited = waited.filter(|_| !self.stopping);
                        self.phase = Phase::Starting { waited };
                    }
                },
                Phase::Starting { waited } => {
                    if self.pools == Pools::Lost {
                        return Step::RestorePools;
                    }
                    self.start_batch(waited, now);
                    self.phase = Phase::Running;
                }
                Phase::Running => {
                    if self.next_call() {
                        self.phase = Phase::Called;
                    } else {
                        self.finish_works(now);
                        self.phase = Phase::Replying;
                    }
                }
                Phase::Called => return Step::Run,
                Phase::Replying => return Step::Reply,
                Phase::Answered => {
                    if self.pools == Pools::Lost {
                        return Step::RestorePools;
                    }
                    self.close_batch(now);
                    self.phase = Phase::Waiting;
                }
            }
        }
    }

    /// The call to run after [`Step::Run`]. At other times it has no rows.
    pub fn call(&self) -> Call<'_> {
        Call {
            chained: self.chained,
            entry: self.entry,
            ordinal: self.calls,
            rows: if self.phase == Phase::Called { &self.rows } else { &[] },
            works: &self.works,
            sequences: &self.state.sequences,
        }
    }

    /// Whether the step after the call can be launched before this one is read, from what the device
    /// has of it (artifact format §10.5): after [`Step::Run`], as far as the engine knows, which is of
    /// requests that were pushed. Its owner then tells [`Engine::launched_next`].
    pub fn chains(&self) -> bool {
        let view =
            View { works: &self.works, sequences: &self.state.sequences, geometry: &self.geometry };
        self.phase == Phase::Called
            && self.queue.len() == 0
            && speculation::chains(view, &self.settings, self.entry, &self.rows)
    }

    /// The step after the call is launched, as [`Engine::chains`] allowed. It is a later call, which
    /// says so ([`Call::chained`]), or none, if something else comes between: it is then of no use and
    /// has done no harm.
    pub fn launched_next(&mut self) {
        self.chain.launched(self.entry, &self.rows, &self.works);
    }

    /// Takes the result of the call. Without a call it does nothing.
    pub fn complete(&mut self, outcome: Outcome) {
        self.complete_with(outcome, None);
    }

    /// As [`Engine::complete`], with what a call of a model with a draft head gave, if it ran.
    pub fn complete_with(&mut self, outcome: Outcome, results: Option<StepResults<'_>>) {
        if self.phase != Phase::Called {
            return;
        }
        self.phase = Phase::Running;
        let Outcome { compute_start, compute_end, result } = outcome;
        let first = self.compute.map_or(compute_start, |(first, _)| first);
        self.compute = Some((first, compute_end));
        for row in &self.rows {
            self.works[row.work].compute = Some((compute_start, compute_end));
        }
        match result {
            Ok(()) => match (self.geometry.drafts(), results) {
                (None, _) => self.advance_rows(),
                (Some(_), Some(results)) => self.give_rows(results),
                (Some(_), None) => {
                    let message = "nobody read them".to_owned();
                    let refusal = self.refusal_of(CallFailure::Copy { message }, true);
                    self.fail_rows(&refusal);
                }
            },
            Err(failure) => {
                let ahead = self.chain.forget();
                if let CallFailure::Execution { pools_lost: true, .. } = failure {
                    self.pools = Pools::Lost;
                }
                let refusal = self.refusal_of(failure, ahead);
                self.fail_rows(&refusal);
            }
        }
        self.calls += 1;
    }

    /// What the generations of the batch that go on were given, after [`Step::Reply`] and until the
    /// next step.
    pub fn progress(&self) -> impl Iterator<Item = Progress<'_>> {
        self.continuing.iter().map(Work::progress)
    }

    /// The replies of the batch in batch order, after [`Step::Reply`].
    pub fn replies(&mut self) -> Replies<'_> {
        let (compute_start, compute_end) = self.compute.unwrap_or((self.start, self.start));
        let report = BatchReport {
            requests: self.works.len() + self.continuing.len(),
            start: self.start,
            compute_start,
            compute_end,
        };
        let works = if self.phase == Phase::Replying {
            self.phase = Phase::Answered;
            self.works.drain(..)
        } else {
            self.works.drain(..0)
        };
        Replies { report, works }
    }

    /// Takes the result of [`Step::RestorePools`]: whether the pools are zeroed anew, or why not.
    /// Every sequence is freed either way, as its KV is gone.
    /// Without lost pools it does nothing.
    pub fn restored(&mut self, result: Result<(), String>) {
        if self.pools != Pools::Lost {
            return;
        }
        let sequences = self.state.free_all();
        self.queue.forget_cohort();
        let (pools, event) = match result {
            Ok(()) => (Pools::Intact, Event::PoolsRestored { sequences }),
            Err(message) => (Pools::Missing, Event::PoolsMissing { sequences, message }),
        };
        self.pools = pools;
        self.state.events.push(event);
    }

    /// What happened since the last call of this, in order.
    pub fn events(&mut self) -> vec::Drain<'_, Event> {
        self.state.events.drain(..)
    }

    /// Forms the batch and admits its requests (sequence mode §9 items 1–4).
    fn start_batch(&mut self, waited: Option<Nanos>, now: Nanos) {
        self.start = now;
        self.compute = None;
        self.calls = 0;
        self.in_batch.clear();
        self.schedule.clear();
        self.queue.take(&mut self.works, &mut self.in_batch);
        self.totals.batches += 1;
        self.totals.requests += self.works.len() as u64;
        self.totals.cohort_waits += u64::from(std::mem::take(&mut self.held_back));
        let absent = waited.map(|waited| (waited, self.queue.absent()));
        // They may have come, or be gone, since: replacing the pools takes time.
        if let Some((waited, absent)) = absent.filter(|(_, absent)| !absent.is_empty()) {
            self.totals.ran_without += 1;
            self.state.events.push(Event::RanWithout {
                requests: self.works.len(),
                absent,
                waited,
                times: self.totals.ran_without,
                batches: self.totals.batches,
            });
        }
        self.queue.forget_cohort();

        // The id denotes a new sequence to the server, even if its first request is refused.
        for work in self.works.iter().filter(|work| work.start && work.refusal.is_some()) {
            if let Some(id) = &work.id {
                self.state.free(id, FreeCause::StartedAgain);
            }
        }
        let admission = Admission {
            geometry: &self.geometry,
            settings: &self.settings,
            in_batch: &self.in_batch,
            longest_batch: self.longest_batch,
            now,
        };
        for (index, work) in self.works.iter_mut().enumerate() {
            if work.refusal.is_some() {
                continue;
            }
            match admission.admit(work, &mut self.state) {
                Ok(Some((sequence, verify))) => {
                    let admitted = Admitted { work: index, sequence, verify };
                    self.schedule.add(admitted, work.count, &self.geometry);
                }
                Ok(None) => {}
                Err(refusal) => work.refusal = Some(refusal),
            }
        }
    }

    /// Finds the next call that can run; those that cannot refuse their rows.
    fn next_call(&mut self) -> bool {
        loop {
            let view = View {
                works: &self.works,
                sequences: &self.state.sequences,
                geometry: &self.geometry,
            };
            let Some(demand) = self.schedule.next(view, &mut self.rows) else { return false };
            let Demand { kind, context, tokens } = demand;
            let rows = self.rows.len();
            let Some(entry) = self.geometry.choose(kind, rows, context, tokens) else {
                let kind = kind.manifest_name();
                self.fail_rows(&Refusal::NoEntry { kind, rows, tokens, context });
                continue;
            };
            if self.pools != Pools::Intact {
                let instance = self.settings.instance.clone();
                self.fail_rows(&Refusal::PoolsGone { instance });
                continue;
            }
            self.entry = entry;
            self.chained = self.chain.take(entry, &self.rows, &self.works);
            self.totals.calls += 1;
            return true;
        }
    }

    fn advance_rows(&mut self) {
        for (index, row) in self.rows.iter().enumerate() {
            let work = &mut self.works[row.work];
            work.done += row.count;
            work.row = Some(RowRef { call: self.calls, row: index });
            self.state.sequences[row.sequence].length += row.count;
        }
    }

    /// As [`Engine::advance_rows`], with what the call gave its rows.
    fn give_rows(&mut self, results: StepResults<'_>) {
        for (index, row) in self.rows.iter().enumerate() {
            let work = &mut self.works[row.work];
            let sequence = &mut self.state.sequences[row.sequence];
            let Some(results) = results.row(index, &self.geometry) else {
                let entry = self.geometry.entries()[self.entry].id.clone();
                work.fail(Refusal::NoToken { entry, sequence: sequence.id.clone() });
                continue;
            };
            sequence.length += if row.verify { results.emitted.len() } else { row.count };
            sequence.take_results(results, row.verify, &self.geometry);
            work.done += row.count;
            work.row = Some(RowRef { call: self.calls, row: index });
            work.give(results.emitted);
        }
    }

    fn fail_rows(&mut self, refusal: &Refusal) {
        for row in &self.rows {
            self.works[row.work].fail(refusal.clone());
        }
    }

    /// Why a call that failed refuses its rows; `ahead` if the step after it was launched already.
    fn refusal_of(&self, failure: CallFailure, ahead: bool) -> Refusal {
        let entry = self.geometry.entries()[self.entry].id.clone();
        match failure {
            CallFailure::Execution { message, pools_lost: false } => {
                Refusal::ExecutionFailed { entry, message }
            }
            CallFailure::Execution { message, pools_lost: true } => {
                Refusal::PoolsLost { entry, instance: self.settings.instance.clone(), message }
            }
            CallFailure::Copy { message } => {
                let copy_failed = Refusal::CopyFailed { entry, message };
                // KV past a sequence's length is written over, but a recurrent state has taken the
                // tokens in: they cannot be run again. A verify step leaves the state that it read, but
                // the one after it does not.
                let kept = self.rows.iter().all(|row| row.verify) && !ahead;
                if self.geometry.num_state_slots().is_some() && !kept {
                    Refusal::StateAdvanced { cause: Box::new(copy_failed) }
                } else {
                    copy_failed
                }
            }
        }
    }

    /// Ends every request of the batch (sequence mode §19) and notes whom the next batch waits for.
    fn finish_works(&mut self, now: Nanos) {
        for work in &mut self.works {
            let Some(id) = &work.id else { continue };
            let goes_on = work.goes_on();
            if let Some(key) = self.state.sequences.find(id) {
                work.held = self.state.sequences[key].held.amounts();
            }
            if work.end && !goes_on {
                self.state.free(id, FreeCause::Ended);
            } else if work.is_lost() {
                self.state.free(id, FreeCause::Lost);
            } else if let Some(key) = self.state.sequences.find(id) {
                // The server's idle clock starts again at every arrival, refused or not.
                self.activities += 1;
                let activity = Activity { at: now, order: self.activities };
                self.state.sequences[key].last_active = Some(activity);
                // A generation's next step is there already.
                if work.refusal.is_none() && work.count == 1 && !goes_on {
                    self.queue.expect(id);
                }
            }
        }
        self.continuing.extend(self.works.extract_if(.., |work| work.goes_on()));
    }

    fn close_batch(&mut self, now: Nanos) {
        self.longest_batch = self.longest_batch.max(now.saturating_sub(self.start));
        self.queue.batch_ended(now);
        for work in self.continuing.drain(..).rev() {
            self.queue.push_front(work.again(now));
        }
        // Replacing the pools failed at the end of this batch or at its start.
        if self.pools == Pools::Missing {
            self.pools = Pools::Lost;
        }
        let Totals { batches, requests, calls, ran_without, .. } = self.totals;
        if batches.is_multiple_of(SUMMARY_EVERY) {
            let sequences = self.state.sequences.len();
            let summary = Event::Summary { batches, requests, calls, ran_without, sequences };
            self.state.events.push(summary);
        }
    }
}

impl StepSource for Engine {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn entry(&self) -> usize {
        self.call().entry
    }

    fn rows(&self) -> usize {
        self.call().rows().len()
    }

    fn wants_logits(&self) -> bool {
        self.call().rows().any(|row| row.last)
    }

    fn chained(&self) -> bool {
        self.call().chained
    }

    fn chains(&self) -> bool {
        Engine::chains(self)
    }

    fn launched_next(&mut self) {
        Engine::launched_next(self);
    }

    fn pack(&self, inputs: StepInputs<'_>) {
        let call = self.call();
        let rows = call.rows().map(|row| PackedRow {
            position: row.position,
            tokens: row.tokens,
            drafts: row.drafts,
            held: row.held,
        });
        packing::pack(&self.geometry, call.entry, rows, inputs);
    }
}
