//! The instance thread: what it owns, and the way from scheduler to responses.

use std::sync::Arc;

use slab::Slab;
use tlaloc_engine::generation::{Counts, End, Ended, Rejection, Scheduler, Step, Submission};
use tlaloc_engine::{CallFailure, Code, Level, Outcome, Ticket};
use tlaloc_generation::sampler::SampleError;
use tracing::{debug, error, info};
use triton_backend::{Error as Refused, Instance, Times, now_ns};

use super::GenerationModel;
use super::choice::{Choices, Given};
use super::inbox::{Incoming, Shared};
use super::job::{Job, NoToken};
use crate::failpoint;
use crate::language::{Drafted, Executor, Logits, Rows, run_until_panic, withdraw};
use crate::metrics::GenerationMetrics;

/// What the instance thread owns.
pub struct Worker {
    shared: Arc<Shared>,
    model: Arc<GenerationModel>,
    reports: Instance,
    metrics: Arc<GenerationMetrics>,
    /// What metrics have of the scheduler's counts.
    counted: Counts,
    /// See [`failpoint`].
    panics: bool,
    scheduler: Scheduler,
    executor: Executor,
    rows: Rows,
    /// Requests in the scheduler, by ticket.
    held: Slab<Job>,
    /// The inbox's vector of the last look.
    received: Vec<Incoming>,
    /// Requests answered since the last look.
    answered: usize,
    choices: Choices,
    ended: Vec<Ended>,
    /// What a model with a draft head gave.
    drafted: Drafted,
}

/// What runs the requests.
pub struct Parts {
    /// Chooses the calls.
    pub scheduler: Scheduler,
    /// Runs them.
    pub executor: Executor,
    /// Moves rows of the pools between them.
    pub rows: Rows,
}

impl Worker {
    /// A worker without requests.
    pub fn new(
        shared: Arc<Shared>,
        model: Arc<GenerationModel>,
        reports: Instance,
        metrics: Arc<GenerationMetrics>,
        parts: Parts,
    ) -> Self {
        let Parts { scheduler, executor, rows } = parts;
        Worker {
            panics: failpoint::instance_panics(&model.name),
            shared,
            model,
            reports,
            metrics,
            counted: Counts::default(),
            scheduler,
            executor,
            rows,
            held: Slab::new(),
            received: Vec::new(),
            answered: 0,
            choices: Choices::default(),
            ended: Vec::new(),
            drafted: Drafted::default(),
        }
    }

    /// Runs until it is stopped and everything inside has ended.
    pub fn run(mut self) {
        self.show();
        if run_until_panic(|| self.step()) {
            let mut inbox = self.shared.inbox.lock();
            inbox.dead = true;
            // Dropped requests are answered with an error.
            let waiting = std::mem::take(&mut inbox.requests);
            drop(inbox);
            drop(waiting);
            self.received.clear();
            self.held.clear();
            withdraw(&self.reports);
        }
    }

    /// Does the scheduler's next step; false when it has stopped.
    fn step(&mut self) -> bool {
        self.receive();
        self.look_for_cancelled();
        let step = self.scheduler.next(now_ns());
        self.tell_events();
        match step {
            Step::Run => self.call(),
            Step::Move => {
                let start = now_ns();
                let moves = self.scheduler.moves();
                let moved = self.executor.move_rows(&mut self.rows, &moves);
                self.scheduler.moved(moved, now_ns() - start);
            }
            Step::Ended => self.answer_ended(),
            Step::RestorePools => {
                let restored = self.executor.restore_pools().map_err(|error| error.to_string());
                self.scheduler.restored(restored);
                self.show();
            }
            Step::Idle => self.park(),
            Step::Stopped => return false,
        }
        true
    }

    /// Hands what has arrived to the scheduler.
    fn receive(&mut self) {
        {
            let mut inbox = self.shared.inbox.lock();
            std::mem::swap(&mut inbox.requests, &mut self.received);
            inbox.inside = inbox.inside.saturating_sub(std::mem::take(&mut self.answered));
            // What was taken over before the stop is still run.
            if inbox.stop && self.received.is_empty() {
                self.scheduler.stop();
            }
        }
        for Incoming { job, prompt, max_tokens } in self.received.drain(..) {
            let entry = self.held.vacant_entry();
            let submission = Submission {
                ticket: Ticket(entry.key() as u64),
                prompt,
                max_tokens,
                priority: job.priority(),
                deadline: job.deadline(),
                at: job.arrival(),
            };
            match self.scheduler.submit(submission) {
                Ok(()) => {
                    entry.insert(job);
                }
                Err(rejection) => {
                    self.answered += 1;
                    self.metrics.rejected(&rejection);
                    job.fail(rejected(&self.model, &rejection), &self.reports);
                }
            }
        }
    }

    /// Ends requests whose clients have gone.
    fn look_for_cancelled(&mut self) {
        for (key, job) in &mut self.held {
            if !job.cancelled && job.is_abandoned() {
                job.cancelled = true;
                debug!("request {key}: its client has gone");
                self.scheduler.cancel(Ticket(key as u64));
            }
        }
    }

    /// Waits for an arrival or for the end.
    fn park(&self) {
        let mut inbox = self.shared.inbox.lock();
        if inbox.requests.is_empty() && !inbox.stop {
            self.shared.arrived.wait(&mut inbox);
        }
    }

    /// Runs a call, chooses its rows' tokens and sends them.
    fn call(&mut self) {
        if self.panics {
            failpoint::panic();
        }
        let (mut outcome, logits) = match self.scheduler.geometry().drafts() {
            Some(_) => (self.executor.run_drafted(&mut self.scheduler, &mut self.drafted), None),
            None => self.executor.run(&self.scheduler),
        };
        let (start, end) = (outcome.compute_start, outcome.compute_end);
        let call = self.scheduler.call();
        let rows = call.rows().len();
        let tokens = call.rows().map(|row| row.tokens.len()).sum();
        self.metrics.calls.add(call.entry, rows, tokens, &outcome);
        self.choices.clear();
        if outcome.result.is_ok()
            && let Err(message) = self.choose(logits.as_ref(), &outcome)
        {
            outcome.result = Err(CallFailure::Copy { message });
        }
        self.scheduler.complete(outcome, &self.choices.verdicts);
        // Before the answers: whoever has one finds it counted.
        self.show();
        let mut chosen = std::mem::take(&mut self.choices.rows);
        for (ticket, failure) in chosen.drain(..) {
            self.deliver(ticket, failure);
        }
        self.choices.rows = chosen;
        let times = Times { start, compute_start: start, compute_end: end, end: now_ns() };
        self.reports.report_batch(rows as u64, times);
    }

    /// Shows what metrics show between calls.
    fn show(&mut self) {
        let inbox = self.shared.inbox.lock().requests.len();
        self.metrics.show(self.scheduler.counts(), &mut self.counted, inbox);
    }

    /// Chooses the next tokens of the rows of a call that ran.
    fn choose(&mut self, logits: Option<&Logits>, outcome: &Outcome) -> Result<(), String> {
        let Worker { choices, scheduler, held, metrics, drafted, .. } = self;
        let mut choose = |given: Given<'_>| {
            choices.choose(given, scheduler, held, metrics, outcome);
        };
        match (scheduler.geometry().drafts(), logits) {
            (Some(_), _) => choose(Given::Step(drafted.results())),
            (None, Some(logits)) => logits.with_bytes(|bytes| choose(Given::Logits(bytes)))?,
            (None, None) => choose(Given::Logits(&[])),
        }
        Ok(())
    }

    /// Sends what a request has after a call.
    fn deliver(&mut self, ticket: Ticket, failure: Option<NoToken>) {
        let key = key(ticket);
        let Some(job) = self.held.get_mut(key) else { return };
        let finished = job.is_finished();
        if failure.is_none() && !finished {
            if !job.send(self.executor.client()) && !job.cancelled {
                job.cancelled = true;
                self.scheduler.cancel(ticket);
            }
            return;
        }
        let job = self.held.remove(key);
        self.answered += 1;
        self.metrics.finished(job.finish_reason().filter(|_| failure.is_none()));
        match failure {
            None => job.finish(&self.reports, self.executor.client()),
            Some(error) => {
                let message = format!("model '{}': {error}", self.model.name);
                let error = match error {
                    NoToken::Sample(SampleError::NothingLeft { .. }) => {
                        Refused::invalid_argument(message)
                    }
                    _ => Refused::internal(message),
                };
                debug!("request {} failed after {} token(s): {error}", ticket.0, job.generated());
                job.fail(error, &self.reports);
            }
        }
    }

    /// Answers requests that ended without a token.
    fn answer_ended(&mut self) {
        let mut ended = std::mem::take(&mut self.ended);
        ended.extend(self.scheduler.ended());
        self.show();
        for ended in ended.drain(..) {
            let Some(job) = self.held.try_remove(key(ended.ticket)) else { continue };
            self.answered += 1;
            self.metrics.ended(&ended.end);
            let tokens = job.generated();
            let name = &self.model.name;
            let error = match ended.end {
                End::Cancelled => Refused::new(
                    triton_backend::Code::Cancelled,
                    format!("model '{name}': the request was cancelled after {tokens} token(s)"),
                ),
                End::TimedOut => Refused::unavailable(format!(
                    "model '{name}': the request's timeout of {} us has passed after {tokens} \
                     token(s)",
                    job.deadline().map_or(0, |deadline| (deadline - job.arrival()) / 1000)
                )),
                End::Failed(failure) => {
                    let message = format!("model '{name}': {failure}");
                    match failure.code() {
                        Code::InvalidArgument => Refused::invalid_argument(message),
                        Code::Unavailable => Refused::unavailable(message),
                        Code::Internal => Refused::internal(message),
                    }
                }
            };
            let counts = self.scheduler.counts();
            debug!(
                "request {} ended after {} rounds: {error}; free now: {} of {}",
                ended.ticket.0, counts.rounds, counts.free, counts.total
            );
            job.fail(error, &self.reports);
        }
        self.ended = ended;
    }

    fn tell_events(&mut self) {
        for event in self.scheduler.events() {
            match event.level() {
                Level::Verbose => debug!("{event}"),
                Level::Info => info!("{event}"),
                Level::Error => error!("{event}"),
            }
        }
    }
}

/// Where a request's job is.
pub fn key(ticket: Ticket) -> usize {
    usize::try_from(ticket.0).unwrap_or(usize::MAX)
}

/// The error that a rejection is sent as.
pub fn rejected(model: &GenerationModel, rejection: &Rejection) -> Refused {
    let message = format!("model '{}': {rejection}", model.name);
    match rejection.code() {
        Code::InvalidArgument => Refused::invalid_argument(message),
        Code::Unavailable => Refused::unavailable(message),
        Code::Internal => Refused::internal(message),
    }
}
