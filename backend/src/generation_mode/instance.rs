//! One instance: how it comes up, and what it does with requests on Triton's thread.

use std::sync::Arc;
use std::thread::JoinHandle;

use tlaloc_engine::Geometry;
use tlaloc_engine::generation::{Policy, PromptLookup, Rejection, Scheduler, Settings};
use tlaloc_pjrt::Client;
use tracing::{Span, debug, info};
use triton_backend::{
    Error as Refused, Instance, InstanceContext, Request, Requests, Times, now_ns,
};

use super::GenerationModel;
use super::error::Error;
use super::inbox::{Incoming, Place, Shared};
use super::intake;
use super::job::Job;
use super::worker::{Parts, Worker, rejected};
use crate::device;
use crate::language::{self, Executor, Rows};
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
        let scheduler = Scheduler::new(geometry.clone(), settings);
        let parts = Parts { scheduler, executor, rows };
        let worker =
            Worker::new(shared.clone(), model.clone(), reports.clone(), metrics.clone(), parts);
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
