//! One instance: its thread, the requests it owns, and the way from engine to answers.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use slab::Slab;
use tlaloc_engine::{
    Arrival, Batching, Counts, Drafts, Engine, Geometry, Level, Nanos, Progress, Reply, RowRef,
    Settings, Step, Ticket,
};
use tlaloc_pjrt::Client;
use tracing::{Span, debug, error, info, warn};
use triton_backend::{
    Answered, Code, Instance, InstanceContext, Request, Requests, Response, ResponseStream, Times,
    now_ns,
};

use super::SequenceModel;
use super::answer::{self, Answer, Given};
use super::error::Error;
use super::intake::{self, Parsed, Wants};
use crate::device;
use crate::failpoint;
use crate::language::{self, DeviceModel, Drafted, Executor, Logits, run_until_panic, withdraw};
use crate::metrics::SequenceMetrics;

/// A model instance. Dropping it runs what is queued, without waits, and joins its thread.
pub struct SequenceInstance {
    shared: Arc<Shared>,
    model: Arc<SequenceModel>,
    geometry: Geometry,
    client: Arc<Client>,
    /// Memory of [`SequenceInstance::execute`], kept between calls.
    intake: Mutex<Intake>,
    thread: Option<JoinHandle<()>>,
}

/// Memory for reading requests; empty while nothing is read.
#[derive(Default)]
struct Intake {
    incoming: Vec<Incoming>,
    bytes: Vec<u8>,
}

/// What Triton's threads and the instance thread share.
#[derive(Default)]
struct Shared {
    inbox: Mutex<Inbox>,
    /// Told when the inbox has something to look at.
    arrived: Condvar,
    /// Told when requests were answered.
    answered: Condvar,
}

#[derive(Default)]
struct Inbox {
    requests: Vec<Incoming>,
    /// Empty token vectors for reuse.
    spare: Vec<Vec<i32>>,
    /// Requests handed over and not yet answered.
    outstanding: usize,
    stop: bool,
    /// The thread is gone after a panic: requests are refused.
    dead: bool,
}

/// A parsed request on its way to the instance thread.
struct Incoming {
    request: Request,
    parsed: Parsed,
    at: Nanos,
}

impl SequenceInstance {
    /// Zeroes the pools, prepares the step inputs and starts the thread.
    pub fn create(model: &Arc<SequenceModel>, context: &InstanceContext) -> Result<Self, Error> {
        let device = model
            .devices
            .of_instance(context.kind(), context.device_id())
            .map_err(language::Error::from)?;
        let executor = Executor::new(device.clone(), model.settings.execution)?;
        info!("{}", created(model, device, &executor));
        if model.settings.backend_batching && !model.config.max_queue_delay.is_zero() {
            warn!(
                "max_queue_delay_microseconds is {}: Triton holds each request back that long \
                 before the backend sees it; set 0 and let the backend batch",
                model.config.max_queue_delay.as_micros()
            );
        }

        let geometry = Geometry::of(&device.artifact);
        let memory = executor.memory();
        let reports = context.instance();
        let held = device::memory_usage(&device.client, memory.pools + memory.step_inputs);
        reports.report_memory_usage(&[held]);
        let owner = model.owner.instance(context);
        let client = device.client.clone();
        let shared = Arc::new(Shared::default());
        let worker = Worker {
            shared: shared.clone(),
            model: model.clone(),
            reports,
            metrics: SequenceMetrics::new(&owner, &geometry, &memory),
            panics: failpoint::instance_panics(&model.name),
            engine: Engine::new(geometry.clone(), engine_settings(model, context.name())),
            executor,
            held: Slab::new(),
            received: Vec::new(),
            spare: Vec::new(),
            logits: Vec::new(),
            drafted: Drafted::default(),
        };
        let span = Span::current();
        let thread = std::thread::Builder::new()
            .name("tlaloc-sequence".to_owned())
            .spawn(move || span.in_scope(|| worker.run()))
            .map_err(language::Error::Thread)?;
        let (model, thread) = (model.clone(), Some(thread));
        Ok(SequenceInstance { shared, model, geometry, client, intake: Mutex::default(), thread })
    }

    /// Takes requests over. They are answered by the instance thread; only without backend batching
    /// does this wait for it.
    pub fn execute(&self, requests: Requests<'_>) {
        let at = now_ns();
        let Intake { mut incoming, mut bytes } = std::mem::take(&mut *self.intake.lock());
        for request in requests {
            let spare = self.shared.inbox.lock().spare.pop().unwrap_or_default();
            let (config, geometry, client) = (&self.model.config, &self.geometry, &self.client);
            let batching = self.model.settings.backend_batching;
            let parsed =
                intake::parse(&request, config, geometry, client, batching, spare, &mut bytes);
            incoming.push(Incoming { request, parsed, at });
        }
        {
            // All at once: the thread may be awake, and what Triton hands over together is one batch.
            let mut inbox = self.shared.inbox.lock();
            if !inbox.dead {
                inbox.outstanding += incoming.len();
                inbox.requests.append(&mut incoming);
            }
        }
        for Incoming { request, .. } in incoming.drain(..) {
            // Not in the statistics: the instance is not at work any more.
            drop(request.fail(dead(&self.model.name, Code::Internal)));
        }
        self.shared.arrived.notify_one();
        bytes.clear();
        bytes.shrink_to(size_of::<i32>() * most_tokens_kept(&self.geometry));
        *self.intake.lock() = Intake { incoming, bytes };
        if !self.model.settings.backend_batching {
            let mut inbox = self.shared.inbox.lock();
            while inbox.outstanding > 0 && !inbox.dead {
                self.shared.answered.wait(&mut inbox);
            }
        }
    }
}

impl SequenceInstance {
    /// Whether it can serve.
    pub fn ready(&self) -> Result<(), triton_backend::Error> {
        match self.shared.inbox.lock().dead {
            false => Ok(()),
            true => Err(dead(&self.model.name, Code::Unavailable)),
        }
    }
}

/// The thread of an instance is gone.
fn dead(model: &str, code: Code) -> triton_backend::Error {
    let message = format!("model '{model}': the instance thread has ended; load the model again");
    triton_backend::Error::new(code, message)
}

impl Drop for SequenceInstance {
    fn drop(&mut self) {
        self.shared.inbox.lock().stop = true;
        self.shared.arrived.notify_one();
        if let Some(thread) = self.thread.take() {
            // Its panics were caught and told of.
            let _ = thread.join();
        }
    }
}

fn engine_settings(model: &SequenceModel, instance: &str) -> Settings {
    let settings = &model.settings;
    Settings {
        batching: if settings.backend_batching {
            Batching::Engine {
                cohort_wait: nanos(settings.cohort_wait),
                prompt_wait: nanos(settings.prompt_wait),
            }
        } else {
            Batching::Host
        },
        max_sequence_idle: nanos(model.config.max_sequence_idle),
        max_batch_size: usize::try_from(model.config.max_batch_size).unwrap_or(usize::MAX),
        instance: instance.to_owned(),
        chain: model.chain,
    }
}

/// Tokens for which a request's memory is kept for later ones: one that is refused for its length
/// must not keep its memory for ever.
fn most_tokens_kept(geometry: &Geometry) -> usize {
    2 * geometry.max_context()
}

fn nanos(duration: Duration) -> Nanos {
    Nanos::try_from(duration.as_nanos()).unwrap_or(Nanos::MAX)
}

/// The creation line (sequence mode §5).
fn created(model: &SequenceModel, device: &DeviceModel, executor: &Executor) -> String {
    let settings = &model.settings;
    let batching = if settings.backend_batching {
        format!(
            "the backend batches steps itself, waiting up to {} us for the sequences of the \
             previous batch and {} us for prompts to share a call",
            settings.cohort_wait.as_micros(),
            settings.prompt_wait.as_micros()
        )
    } else {
        "batches are the ones Triton's sequence batcher forms (backend_batching is false)"
            .to_owned()
    };
    let artifact = &device.artifact;
    let windowed = artifact.windowed().map_or(String::new(), |windowed| {
        let (pages, ring) = (windowed.num_blocks - 1, windowed.ring_pages);
        format!("{pages} windowed pages, at most {ring} per sequence; ")
    });
    let drafts = Geometry::of(artifact).drafts();
    let slots = artifact.linear_state().map_or(String::new(), |state| match drafts {
        None => {
            format!("{} linear-attention state slots, one per live sequence; ", state.num_slots)
        }
        Some(Drafts { tokens, .. }) => format!(
            "{} linear-attention state slots, {} per live sequence; ",
            state.num_slots,
            tokens + 2
        ),
    });
    let steps = match drafts {
        None => "",
        Some(Drafts { chained: true, .. }) if model.chain => {
            "verify steps are chained: a generation's next one is launched before this one is read; "
        }
        Some(_) => "a verify step is launched when the one before it was read; ",
    };
    format!(
        "{} KV pools ({} MiB) zeroed; {} pages for sequences (page 0 is the padding page); \
         {windowed}{slots}{}; {steps}{batching}",
        executor.pool_count(),
        executor.pool_bytes() >> 20,
        artifact.num_blocks() - 1,
        executor.describe(),
    )
}

/// A request that waits for its answer.
enum Asker {
    /// It gets one.
    Once(Request),
    /// It may get several, as its model is decoupled.
    Stream(ResponseStream),
}

impl Asker {
    fn fail(self, error: triton_backend::Error) -> Answered {
        self.finish(|_| Err(error))
    }

    /// Sends the only answer, or the last.
    fn finish(
        self,
        fill: impl FnOnce(&mut Response<'_>) -> Result<(), triton_backend::Error>,
    ) -> Answered {
        match self {
            Asker::Once(request) => request.respond(fill),
            Asker::Stream(stream) => stream.finish(fill),
        }
    }
}

/// What the instance thread owns.
struct Worker {
    shared: Arc<Shared>,
    model: Arc<SequenceModel>,
    reports: Instance,
    metrics: SequenceMetrics,
    /// See [`failpoint`].
    panics: bool,
    engine: Engine,
    /// Results of models with a draft head, and a step of theirs that may be on its way.
    drafted: Drafted,
    executor: Executor,
    /// Requests in the engine, by ticket.
    held: Slab<(Asker, Wants)>,
    /// The inbox's vector of the last look.
    received: Vec<Incoming>,
    /// Token vectors to give back.
    spare: Vec<Vec<i32>>,
    /// Logits of the current batch's calls.
    logits: Vec<Option<Logits>>,
}

impl Worker {
    fn run(mut self) {
        self.show();
        if run_until_panic(|| self.step()) {
            let mut inbox = self.shared.inbox.lock();
            inbox.dead = true;
            inbox.outstanding = 0;
            let waiting = std::mem::take(&mut inbox.requests);
            drop(inbox);
            let held = self.held.drain().map(|(request, _)| request);
            let waiting = waiting.into_iter().map(|incoming| Asker::Once(incoming.request));
            for request in held.chain(waiting) {
                drop(request.fail(dead(&self.model.name, Code::Internal)));
            }
            self.shared.answered.notify_all();
            withdraw(&self.reports);
        }
    }

    /// Does the engine's next step; false when it has stopped.
    fn step(&mut self) -> bool {
        self.receive();
        let step = self.engine.next(now_ns());
        self.tell_events();
        match step {
            Step::Run => {
                if self.panics {
                    failpoint::panic();
                }
                let call = self.engine.call();
                let (entry, rows) = (call.entry, call.rows().len());
                let tokens = call.rows().map(|row| row.tokens.len()).sum();
                if call.ordinal == 0 {
                    let inbox = self.shared.inbox.lock().requests.len();
                    self.metrics.show_requests(self.engine.counts(), inbox);
                }
                if self.engine.geometry().drafts().is_some() {
                    let outcome = self.executor.run_drafted(&mut self.engine, &mut self.drafted);
                    self.metrics.calls.add(entry, rows, tokens, &outcome);
                    self.logits.push(None);
                    self.engine.complete_with(outcome, Some(self.drafted.results()));
                } else {
                    let (outcome, logits) = self.executor.run(&self.engine);
                    self.metrics.calls.add(entry, rows, tokens, &outcome);
                    self.logits.push(logits);
                    self.engine.complete(outcome);
                }
            }
            Step::Reply => self.reply(),
            Step::RestorePools => {
                self.drafted.forget();
                let restored = self.executor.restore_pools().map_err(|error| error.to_string());
                self.engine.restored(restored);
                self.show();
            }
            Step::WaitUntil(time) => self.park(Some(time)),
            Step::Idle => self.park(None),
            Step::Stopped => return false,
        }
        true
    }

    /// Hands what has arrived to the engine.
    fn receive(&mut self) {
        {
            let mut inbox = self.shared.inbox.lock();
            std::mem::swap(&mut inbox.requests, &mut self.received);
            inbox.spare.append(&mut self.spare);
            if inbox.stop {
                self.engine.stop();
            }
        }
        for Incoming { request, parsed, at } in self.received.drain(..) {
            let Parsed { sequence, start, end, tokens, wants, generation } = parsed;
            let asker = match self.model.config.decoupled {
                false => Asker::Once(request),
                true => match request.into_stream(&self.reports) {
                    Ok(stream) => Asker::Stream(stream),
                    Err(answered) => {
                        // Its client has the error. What it would have done is not done.
                        drop(answered);
                        self.shared.inbox.lock().outstanding -= 1;
                        continue;
                    }
                },
            };
            let key = self.held.insert((asker, wants));
            let ticket = Ticket(key as u64);
            self.engine.push(Arrival { ticket, sequence, start, end, tokens, at, generation });
        }
    }

    /// Waits for an arrival, for the end or for a time.
    fn park(&self, until: Option<Nanos>) {
        let mut inbox = self.shared.inbox.lock();
        // A stop that the engine knows of already does not wake it: it waits for no one then.
        if !inbox.requests.is_empty() || inbox.stop {
            return;
        }
        match until {
            None => self.shared.arrived.wait(&mut inbox),
            Some(time) => {
                let left = Duration::from_nanos(time.saturating_sub(now_ns()));
                self.shared.arrived.wait_for(&mut inbox, left);
            }
        }
    }

    /// Shows what metrics show between batches.
    fn show(&mut self) {
        let inbox = self.shared.inbox.lock().requests.len();
        self.metrics.show_requests(Counts { running: 0, ..self.engine.counts() }, inbox);
        self.metrics.pools.show(self.engine.free(), self.engine.total());
    }

    /// Answers the batch in its order, then reports it.
    fn reply(&mut self) {
        // Before the answers: whoever has one finds it counted.
        self.show();
        let vocab = self.engine.geometry().vocab_size();
        let most_tokens = most_tokens_kept(self.engine.geometry());
        self.stream_progress();
        let replies = self.engine.replies();
        let report = replies.report;
        let mut answered = 0;
        for mut reply in replies {
            answered += 1;
            let key = usize::try_from(reply.ticket.0).unwrap_or(usize::MAX);
            if let Err(refusal) = &reply.result {
                self.metrics.refused(refusal);
            }
            if let Some((asker, wants)) = self.held.try_remove(key) {
                let computed =
                    Computed { logits: &self.logits, vocab, client: self.executor.client() };
                answer(&self.model, &self.reports, asker, wants, &reply, &computed);
            }
            let mut tokens = std::mem::take(&mut reply.tokens);
            if tokens.capacity() <= most_tokens {
                tokens.clear();
                self.spare.push(tokens);
            }
        }
        self.logits.clear();
        self.reports.report_batch(
            report.requests as u64,
            Times {
                start: report.start,
                compute_start: report.compute_start,
                compute_end: report.compute_end,
                end: now_ns(),
            },
        );
        self.shared.inbox.lock().outstanding -= answered;
        self.shared.answered.notify_all();
    }

    /// Sends what the generations that go on were given, where their clients take it piece by piece.
    fn stream_progress(&mut self) {
        let (outputs, client) = (&self.model.config.outputs, self.executor.client());
        for Progress { ticket, tokens } in self.engine.progress() {
            let key = usize::try_from(ticket.0).unwrap_or(usize::MAX);
            let Some((Asker::Stream(stream), _)) = self.held.get_mut(key) else { continue };
            // All that it asked for comes with the last response.
            let wants = Wants { emitted: true, ..Wants::default() };
            let sent = stream
                .respond(|response| answer::progress(response, wants, outputs, tokens, client));
            if let Err(error) = sent {
                warn!("the tokens of a step do not reach their client: {error}");
            }
        }
    }

    fn tell_events(&mut self) {
        for event in self.engine.events() {
            self.metrics.event(&event);
            match event.level() {
                Level::Verbose => debug!("{event}"),
                Level::Info => info!("{event}"),
                Level::Error => error!("{event}"),
            }
        }
    }
}

/// What a batch has computed.
struct Computed<'a> {
    /// Of each call.
    logits: &'a [Option<Logits>],
    /// Size of a row.
    vocab: usize,
    client: &'a Client,
}

/// Sends the answer, reports the request and releases it.
fn answer(
    model: &SequenceModel,
    reports: &Instance,
    asker: Asker,
    wants: Wants,
    reply: &Reply,
    computed: &Computed<'_>,
) {
    let answered = match &reply.result {
        Err(refusal) => asker.fail(answer::refusal(&model.name, refusal)),
        // Only ended its sequence: an answer without outputs.
        Ok(None) => asker.finish(|_| Ok(())),
        Ok(Some(row)) => {
            let given = given(&model.name, &asker, *row, reply, computed);
            asker.finish(|response| {
                let held = [reply.held.pages, reply.held.ring_pages];
                let pages = held.map(|pages| i32::try_from(pages).unwrap_or(i32::MAX));
                let answer = Answer { given: given?, pages, client: computed.client };
                answer::fill(response, wants, &model.config.outputs, &answer).map_err(|error| {
                    triton_backend::Error::internal(format!(
                        "model '{}': the request ran and its tokens are appended, but its outputs \
                         cannot be delivered: {error}",
                        model.name
                    ))
                })
            })
        }
    };
    let times = Times {
        start: reply.times.start,
        compute_start: reply.times.compute_start,
        compute_end: reply.times.compute_end,
        end: now_ns(),
    };
    answered.report(reports, times);
}

/// What was computed for a request: logits, or tokens, all of them or where its client has those of
/// the steps before already, those of the last.
fn given<'a>(
    model: &str,
    asker: &Asker,
    RowRef { call, row }: RowRef,
    reply: &'a Reply,
    computed: &Computed<'a>,
) -> Result<Given<'a>, triton_backend::Error> {
    let Computed { logits, vocab, .. } = *computed;
    match (asker, reply.emitted()) {
        (_, []) => {
            let logits = logits.get(call).and_then(Option::as_ref).ok_or_else(|| {
                triton_backend::Error::internal(format!(
                    "model '{model}': the logits of call {call} are gone"
                ))
            })?;
            Ok(Given::Logits { logits, row, vocab })
        }
        (Asker::Once(_), tokens) => Ok(Given::Tokens(tokens)),
        (Asker::Stream(_), _) => Ok(Given::Tokens(reply.step())),
    }
}
