//! One instance: its thread, the requests it owns, and the way from scheduler to responses.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex};
use slab::Slab;
use tlaloc_engine::generation::{
    Counts, End, Policy, PromptLookup, Rejection, Scheduler, Settings, Step, Submission, Verdicts,
};
use tlaloc_engine::{CallFailure, Code, Geometry, Level, Outcome, Ticket};
use tlaloc_generation::sampler::{SampleError, Scratch};
use tlaloc_pjrt::Client;
use tracing::{Span, debug, error, info, warn};
use triton_backend::{
    Error as Refused, Instance, InstanceContext, Request, Requests, Times, now_ns,
};

use super::GenerationModel;
use super::error::Error;
use super::intake;
use super::job::{Job, NoToken};
use crate::device;
use crate::failpoint;
use crate::language::{self, Executor, Logits, Rows};
use crate::metrics::GenerationMetrics;
use crate::settings::Speculation;

const MIB: usize = 1 << 20;

/// A model instance. Dropping it lets what is inside run to its end, and joins its thread.
pub struct GenerationInstance {
    shared: Arc<Shared>,
    model: Arc<GenerationModel>,
    geometry: Geometry,
    client: Arc<Client>,
    reports: Instance,
    metrics: Arc<GenerationMetrics>,
    name: String,
    /// Requests that may be inside, and those of them that may wait.
    limits: Limits,
    thread: Option<JoinHandle<()>>,
}

#[derive(Clone, Copy)]
struct Limits {
    waiting: usize,
    inside: usize,
}

/// What Triton's threads and the instance thread share.
#[derive(Default)]
struct Shared {
    inbox: Mutex<Inbox>,
    /// Told when the inbox has something to look at.
    arrived: Condvar,
}

#[derive(Default)]
struct Inbox {
    requests: Vec<Incoming>,
    /// Requests that were taken over and not yet answered.
    inside: usize,
    stop: bool,
    /// The thread is gone after a panic: requests are refused.
    dead: bool,
}

/// A place among the requests inside, given back unless the request gets to the instance thread.
struct Place<'a>(&'a Shared);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut inbox = self.0.inbox.lock();
        inbox.inside = inbox.inside.saturating_sub(1);
    }
}

/// A checked request on its way to the instance thread.
struct Incoming {
    job: Job,
    prompt: Vec<i32>,
    max_tokens: usize,
}

impl GenerationInstance {
    /// Zeroes the pools, prepares the step inputs and starts the thread.
    pub fn create(model: &Arc<GenerationModel>, context: &InstanceContext) -> Result<Self, Error> {
        let device = model
            .devices
            .of_instance(context.kind(), context.device_id())
            .map_err(language::Error::from)?;
        let executor = Executor::new(device.clone(), model.settings.execution)?;
        let rows = Rows::new(&device.artifact, model.swap_bytes())?;
        let geometry = Geometry::of(&device.artifact);
        let settings = scheduler_settings(model, &geometry, &rows, context.name());
        info!("{}", created(&settings, &executor));
        let limits = Limits {
            waiting: settings.max_queue_size,
            inside: settings.max_queue_size + settings.max_running,
        };
        let client = device.client.clone();
        let shared = Arc::new(Shared::default());
        let reports = context.instance();
        let memory = executor.memory();
        let held = device::memory_usage(&client, memory.pools + memory.step_inputs);
        reports.report_memory_usage(&[held]);
        let owner = model.owner.instance(context);
        let metrics = Arc::new(GenerationMetrics::new(&owner, &geometry, &memory));
        let worker = Worker {
            metrics: metrics.clone(),
            counted: Counts::default(),
            panics: failpoint::instance_panics(&model.name),
            shared: shared.clone(),
            model: model.clone(),
            reports: reports.clone(),
            client: client.clone(),
            scheduler: Scheduler::new(geometry.clone(), settings),
            executor,
            rows,
            held: Slab::new(),
            received: Vec::new(),
            answered: 0,
            sampling: Sampled::default(),
        };
        let span = Span::current();
        let thread = std::thread::Builder::new()
            .name("tlaloc-generate".to_owned())
            .spawn(move || span.in_scope(|| worker.run()))
            .map_err(language::Error::Thread)?;
        Ok(GenerationInstance {
            shared,
            model: model.clone(),
            geometry,
            client,
            reports,
            metrics,
            name: context.name().to_owned(),
            limits,
            thread: Some(thread),
        })
    }

    /// Takes requests over: checks and tokenises them, and leaves the rest to the instance thread.
    pub fn execute(&self, requests: Requests<'_>) {
        for request in requests {
            let at = now_ns();
            match self.admit() {
                Ok(place) => self.take(request, place, at),
                Err(error) => self.refuse(request, error, at),
            }
        }
        self.shared.arrived.notify_one();
    }

    /// Counts a request in, unless there are too many.
    fn admit(&self) -> Result<Place<'_>, Refused> {
        let mut inbox = self.shared.inbox.lock();
        if inbox.dead {
            return Err(Refused::unavailable(format!(
                "model '{}': the instance thread has ended; load the model again",
                self.model.name
            )));
        }
        if inbox.inside >= self.limits.inside {
            let full =
                Rejection::QueueFull { limit: self.limits.waiting, instance: self.name.clone() };
            return Err(rejected(&self.model, &full));
        }
        inbox.inside += 1;
        Ok(Place(&self.shared))
    }

    fn take(&self, request: Request, place: Place<'_>, at: u64) {
        let plan = match intake::read(&request, &self.model, &self.geometry, &self.client, at) {
            Ok(plan) => plan,
            Err(error) => return self.refuse(request, error, at),
        };
        let max_tokens = plan.max_tokens;
        let stream = match request.into_stream(&self.reports) {
            Ok(stream) => stream,
            Err(answered) => return answered.report(&self.reports, times(at)),
        };
        let (job, prompt) = Job::new(&self.model, plan, stream);
        let mut inbox = self.shared.inbox.lock();
        // The thread may have ended since.
        if inbox.dead {
            drop(inbox);
            drop((job, place));
            return;
        }
        inbox.requests.push(Incoming { job, prompt, max_tokens });
        std::mem::forget(place);
    }

    fn refuse(&self, request: Request, error: Refused, at: u64) {
        debug!("refused a request: {error}");
        self.metrics.refused_with(error.code());
        request.fail(error).report(&self.reports, times(at));
    }

    /// Whether it can serve.
    pub fn ready(&self) -> Result<(), Refused> {
        if self.shared.inbox.lock().dead {
            return Err(Refused::unavailable(format!(
                "model '{}': the instance thread has ended",
                self.model.name
            )));
        }
        Ok(())
    }
}

/// Times of a request for which nothing was computed.
fn times(start: u64) -> Times {
    let now = now_ns();
    Times { start, compute_start: now, compute_end: now, end: now }
}

impl Drop for GenerationInstance {
    fn drop(&mut self) {
        self.shared.inbox.lock().stop = true;
        self.shared.arrived.notify_one();
        if let Some(thread) = self.thread.take() {
            // Its panics were caught and told of.
            let _ = thread.join();
        }
    }
}

/// Decode batches' worth of requests that run at once where `max_running` does not say.
const DECODE_BATCHES: usize = 4;

fn scheduler_settings(
    model: &GenerationModel,
    geometry: &Geometry,
    rows: &Rows,
    instance: &str,
) -> Settings {
    let settings = &model.settings;
    Settings {
        instance: instance.to_owned(),
        max_queue_size: settings.max_queue_size,
        max_running: settings
            .max_running
            .unwrap_or(DECODE_BATCHES * geometry.max_decode_batch().max(1)),
        max_prefill_tokens_per_step: settings.max_prefill_tokens_per_step,
        policy: match settings.max_utilization {
            true => Policy::MaxUtilization,
            false => Policy::GuaranteedNoEvict,
        },
        swap_pages: rows.host_room(),
        lookup: match settings.speculation {
            Speculation::None => None,
            Speculation::PromptLookup { max_drafts, min_ngram, max_ngram } => {
                Some(PromptLookup { max_drafts, min_ngram, max_ngram })
            }
        },
    }
}

/// The creation line.
fn created(settings: &Settings, executor: &Executor) -> String {
    let policy = match settings.policy {
        Policy::GuaranteedNoEvict => "each reserves all pages that it may need".to_owned(),
        Policy::MaxUtilization => {
            format!("each grows page by page, with host memory for {}", settings.swap_pages)
        }
    };
    let lookup = settings.lookup.map_or(String::new(), |lookup| {
        format!("; up to {} draft tokens from a request's own history", lookup.max_drafts)
    });
    format!(
        "{} KV pools ({} MiB) zeroed; up to {} requests run, {policy}; up to {} wait; up to {} \
         prompt tokens between two tokens of a stream{lookup}; {}",
        executor.pool_count(),
        executor.pool_bytes() / MIB,
        settings.max_running,
        settings.max_queue_size,
        settings.max_prefill_tokens_per_step,
        executor.describe(),
    )
}

/// What the instance thread owns.
struct Worker {
    shared: Arc<Shared>,
    model: Arc<GenerationModel>,
    reports: Instance,
    client: Arc<Client>,
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
    sampling: Sampled,
}

/// Memory for the rows of a call.
#[derive(Default)]
struct Sampled {
    scratch: Scratch,
    verdicts: Verdicts,
    tokens: Vec<i32>,
    /// The rows that sampled: their tickets, and why there is no token.
    rows: Vec<(Ticket, Option<NoToken>)>,
    ended: Vec<tlaloc_engine::generation::Ended>,
}

impl Worker {
    fn run(mut self) {
        self.show();
        let ended = catch_unwind(AssertUnwindSafe(|| while self.step() {}));
        if ended.is_err() {
            error!(
                "the instance thread panicked: every request is refused until the model is loaded \
                 again"
            );
            let mut inbox = self.shared.inbox.lock();
            inbox.dead = true;
            // Dropped requests are answered with an error.
            let waiting = std::mem::take(&mut inbox.requests);
            drop(inbox);
            drop(waiting);
            self.received.clear();
            self.held.clear();
            // Servers that do not ask whether the instance is ready know by this.
            if let Err(error) = self.reports.unload_model() {
                warn!("the model stays ready for those who ask the server: {error}");
            }
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
        let (mut outcome, logits) = self.executor.run(&self.scheduler);
        let (start, end) = (outcome.compute_start, outcome.compute_end);
        let call = self.scheduler.call();
        let rows = call.rows().len();
        let tokens = call.rows().map(|row| row.tokens.len()).sum();
        self.metrics.calls.add(call.entry, rows, tokens, &outcome);
        self.sampling.verdicts.clear();
        self.sampling.rows.clear();
        if outcome.result.is_ok()
            && let Err(message) = self.sample(logits.as_ref(), &outcome)
        {
            outcome.result = Err(CallFailure::Copy { message });
        }
        self.scheduler.complete(outcome, &self.sampling.verdicts);
        // Before the answers: whoever has one finds it counted.
        self.show();
        let mut rows_sampled = std::mem::take(&mut self.sampling.rows);
        for (ticket, failure) in rows_sampled.drain(..) {
            self.deliver(ticket, failure);
        }
        self.sampling.rows = rows_sampled;
        let times = Times { start, compute_start: start, compute_end: end, end: now_ns() };
        self.reports.report_batch(rows as u64, times);
    }

    /// Shows what metrics show between calls.
    fn show(&mut self) {
        let inbox = self.shared.inbox.lock().requests.len();
        self.metrics.show(self.scheduler.counts(), &mut self.counted, inbox);
    }

    /// Chooses the next tokens of the call's rows.
    fn sample(&mut self, logits: Option<&Logits>, outcome: &Outcome) -> Result<(), String> {
        let Sampled { scratch, verdicts, tokens, rows, .. } = &mut self.sampling;
        let (held, geometry, call) =
            (&mut self.held, self.scheduler.geometry(), self.scheduler.call());
        let columns = geometry.entries().get(call.entry).map_or(1, |entry| entry.logits_columns);
        let row_bytes = geometry.vocab_size() * size_of::<f32>();
        let now = now_ns();
        let mut choose = |bytes: &[u8]| {
            for (index, row) in call.rows().enumerate() {
                let Some(job) = held.get_mut(key(row.ticket)) else {
                    verdicts.push_none();
                    continue;
                };
                job.ran(outcome.compute_start, outcome.compute_end);
                if !row.samples {
                    verdicts.push_none();
                    continue;
                }
                let drafts = row.tokens.get(row.tokens.len() - row.drafts..).unwrap_or_default();
                let first = (index + 1) * columns - 1 - row.drafts;
                tokens.clear();
                let previous = job.last_token();
                let mut failure = None;
                for column in 0..=row.drafts {
                    let at = (first + column) * row_bytes;
                    let logits = bytes.get(at..at + row_bytes).unwrap_or_default();
                    let last = column + 1 == row.remaining;
                    match job.choose(logits, last, now, scratch) {
                        Ok(token) => tokens.push(token),
                        Err(error) => failure = Some(error),
                    }
                    let right =
                        drafts.get(column).is_some_and(|draft| tokens.last() == Some(draft));
                    if failure.is_some() || job.is_finished() || !right {
                        break;
                    }
                }
                self.metrics.tokens(job.arrival(), previous, now, tokens.len());
                job.drafted(row.drafts, tokens.len().saturating_sub(1));
                match failure {
                    None => verdicts.push_tokens(tokens, job.is_finished()),
                    Some(_) => verdicts.push_failed(),
                }
                rows.push((row.ticket, failure));
            }
        };
        match logits {
            Some(logits) => logits.with_bytes(choose),
            None => {
                choose(&[]);
                Ok(())
            }
        }
    }

    /// Sends what a request has after a call.
    fn deliver(&mut self, ticket: Ticket, failure: Option<NoToken>) {
        let key = key(ticket);
        let Some(job) = self.held.get_mut(key) else { return };
        let finished = job.is_finished();
        if failure.is_none() && !finished {
            if !job.send(&self.client) && !job.cancelled {
                job.cancelled = true;
                self.scheduler.cancel(ticket);
            }
            return;
        }
        let job = self.held.remove(key);
        self.answered += 1;
        self.metrics.finished(job.finish_reason().filter(|_| failure.is_none()));
        match failure {
            None => job.finish(&self.reports, &self.client),
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
        let mut ended = std::mem::take(&mut self.sampling.ended);
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
        self.sampling.ended = ended;
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

fn key(ticket: Ticket) -> usize {
    usize::try_from(ticket.0).unwrap_or(usize::MAX)
}

/// The error that a rejection is sent as.
fn rejected(model: &GenerationModel, rejection: &Rejection) -> Refused {
    let message = format!("model '{}': {rejection}", model.name);
    match rejection.code() {
        Code::InvalidArgument => Refused::invalid_argument(message),
        Code::Unavailable => Refused::unavailable(message),
        Code::Internal => Refused::internal(message),
    }
}
