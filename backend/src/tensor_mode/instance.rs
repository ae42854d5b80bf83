//! One instance: from Triton's execute call to the answers (tensor mode §9).

use std::sync::Arc;

use parking_lot::Mutex;
use tlaloc_pjrt::Client;
use tracing::info;
use triton_backend::{
    Code, Error as TritonError, Instance, InstanceContext, Request, Requests, Times, now_ns,
};

use super::TensorModel;
use super::answer::{Outputs, Rows, ToGpu};
use super::error::Error;
use super::executor::Executor;
use super::grouping::{Group, group};
use super::intake::{Prepared, prepare};
use super::paths::Delivered;
use super::placement::memories;
use crate::device::memory_usage;
use crate::metrics::{Execution, ExecutionMetrics, OTHER};

/// A model instance. Triton calls it from one thread at a time, and several instances at once.
pub struct TensorInstance {
    model: Arc<TensorModel>,
    reports: Instance,
    client: Arc<Client>,
    executor: Mutex<Executor>,
    metrics: ExecutionMetrics,
}

/// What became of a request.
enum Outcome {
    /// Refused before anything ran.
    Refused(String),
    /// It has rows in the execution of the group of this index.
    Ran { group: usize, rows: Rows, start: u64 },
}

/// What became of a group.
struct Executed {
    outputs: Result<Outputs, (Code, String)>,
    /// Of one request, which fills it.
    direct: bool,
    compute_start: u64,
    compute_end: u64,
}

/// The requests of one call.
struct Batch<'a> {
    requests: &'a [Request],
    /// With the time at which its preparation began.
    prepared: &'a [(u64, Result<Prepared<'a>, String>)],
}

impl<'a> Batch<'a> {
    fn prepared(&self, index: usize) -> Option<&'a Prepared<'a>> {
        self.prepared.get(index)?.1.as_ref().ok()
    }
}

impl TensorInstance {
    /// Zeroes the states.
    pub fn create(model: &Arc<TensorModel>, context: &InstanceContext) -> Result<Self, Error> {
        let device = model.devices.of_instance(context.kind(), context.device_id())?;
        let (plan, paths) = (model.plan.clone(), model.paths.clone());
        let executor = Executor::new(device.clone(), plan, paths, model.common.zero_copy)
            .map_err(|source| Error::Upload { what: "the states".to_owned(), source })?;
        if !model.plan.states.is_empty() {
            info!(
                "{} states ({} KiB) zeroed",
                model.plan.states.len(),
                executor.state_bytes().div_ceil(1024)
            );
        }
        let reports = context.instance();
        let states = memory_usage(&device.client, executor.state_bytes());
        reports.report_memory_usage(&[states]);
        let programs = device.programs.iter().map(|program| (program.file.as_str(), OTHER));
        Ok(TensorInstance {
            model: model.clone(),
            reports,
            client: device.client.clone(),
            executor: Mutex::new(executor),
            metrics: ExecutionMetrics::new(&model.owner.instance(context), programs),
        })
    }

    /// Runs the requests and answers them in their order.
    pub fn execute(&self, requests: Requests<'_>) {
        let called = now_ns();
        let requests: Vec<Request> = requests.collect();
        let (outcomes, mut executed) = self.run(&requests, called);
        for (request, outcome) in requests.into_iter().zip(outcomes) {
            self.answer(request, outcome, &mut executed);
        }
        let mut executor = self.executor.lock();
        for outputs in executed.into_iter().filter_map(|executed| executed.outputs.ok()) {
            executor.recycle(outputs.into_blocks());
        }
    }

    fn run(&self, requests: &[Request], called: u64) -> (Vec<Outcome>, Vec<Executed>) {
        let TensorModel { config, buckets, common, .. } = &*self.model;
        let prepared: Vec<(u64, Result<Prepared<'_>, String>)> = requests
            .iter()
            .map(|request| (now_ns(), prepare(request, config, buckets, &self.client)))
            .collect();
        let members = prepared.iter().enumerate().filter_map(|(index, (_, prepared))| {
            prepared.as_ref().ok().map(|prepared| prepared.member(index))
        });
        let groups = group(members, buckets, common.group_by_shape);
        let mut executor = self.executor.lock();
        let batch = Batch { requests, prepared: &prepared };
        let executed: Vec<Executed> = groups
            .iter()
            .map(|group| self.run_group(&mut executor, group, &batch, called))
            .collect();
        drop(executor);
        let mut outcomes: Vec<Outcome> = prepared
            .into_iter()
            .map(|(start, prepared)| match prepared {
                Err(reason) => Outcome::Refused(reason),
                // Every request that can be served is in a group, which the next loop tells.
                Ok(_) => {
                    Outcome::Ran { group: groups.len(), rows: Rows { first: 0, count: 0 }, start }
                }
            })
            .collect();
        for (index, group) in groups.iter().enumerate() {
            let mut next = 0;
            for member in &group.members {
                if let Some(Outcome::Ran { group, rows, .. }) = outcomes.get_mut(member.request) {
                    *group = index;
                    *rows = Rows { first: next, count: member.rows };
                }
                next += member.rows;
            }
        }
        (outcomes, executed)
    }

    fn run_group(
        &self,
        executor: &mut Executor,
        group: &Group,
        batch: &Batch<'_>,
        called: u64,
    ) -> Executed {
        let TensorModel { config, plan, buckets, paths, .. } = &*self.model;
        let requests: Vec<&Prepared<'_>> =
            group.members.iter().filter_map(|member| batch.prepared(member.request)).collect();
        let asked = match (group.members.as_slice(), executor.program(group)) {
            ([member], Some(program)) if group.is_direct() => {
                batch.requests.get(member.request).map_or(Ok(Vec::new()), |request| {
                    memories(request, program, plan, &config.outputs)
                })
            }
            _ => Ok(Vec::new()),
        };
        let mut memories = match asked {
            Ok(memories) => memories,
            Err(error) => {
                let now = now_ns();
                let outputs = Err((error.code(), error.to_string()));
                let direct = group.is_direct();
                return Executed { outputs, direct, compute_start: now, compute_end: now };
            }
        };
        let compute_start = now_ns();
        let left = executor.run(group, &requests, &mut memories);
        let compute_end = now_ns();
        self.metrics.add(Execution {
            entry: group.bucket.index,
            rows: group.rows,
            nanos: compute_end - compute_start,
            succeeded: left.is_ok(),
        });
        let rows = buckets.batching().then_some(group.bucket.batch);
        let delivered = left.and_then(|left| {
            let mut outputs = Outputs::new(left, rows);
            for (index, memory) in memories.iter_mut().enumerate() {
                let Some(memory) = memory else { continue };
                paths.output(
                    index,
                    match outputs.deliver(index, memory)? {
                        true => &Delivered::Copied,
                        false => &Delivered::InPlace,
                    },
                );
            }
            Ok(outputs)
        });
        let times = Times { start: called, compute_start, compute_end, end: now_ns() };
        self.reports.report_batch(group.rows as u64, times);
        let outputs = delivered.map_err(|reason| (Code::Internal, reason));
        Executed { outputs, direct: group.is_direct(), compute_start, compute_end }
    }

    fn answer(&self, request: Request, outcome: Outcome, executed: &mut [Executed]) {
        let named =
            |reason: &dyn std::fmt::Display| format!("model '{}': {reason}", self.model.name);
        let (group, rows, start) = match outcome {
            Outcome::Refused(reason) => {
                let answered = request.fail(TritonError::invalid_argument(named(&reason)));
                let now = now_ns();
                let times = Times { start: now, compute_start: now, compute_end: now, end: now };
                return answered.report(&self.reports, times);
            }
            Outcome::Ran { group, rows, start } => (group, rows, start),
        };
        // Dropped, a request is answered with INTERNAL; every one that ran has a group.
        let Some(executed) = executed.get_mut(group) else { return };
        let Executed { outputs, direct, compute_start, compute_end } = executed;
        let zero_copy = self.model.common.zero_copy;
        let to_gpu = ToGpu { client: &self.client, zero_copy, direct: *direct };
        let answered = match outputs {
            Err((code, reason)) => request.fail(TritonError::new(*code, named(reason))),
            Ok(outputs) => {
                let declared = &self.model.config.outputs;
                let wanted: Vec<bool> =
                    declared.iter().map(|output| request.wants(&output.name)).collect();
                request.respond(|response| {
                    for (index, (tensor, _)) in
                        declared.iter().zip(&wanted).enumerate().filter(|(_, (_, wanted))| **wanted)
                    {
                        let delivered = outputs
                            .write(index, tensor, rows, response, to_gpu)
                            .map_err(|error| TritonError::new(error.code(), named(&error)))?;
                        if let Some(delivered) = delivered {
                            self.model.paths.output(index, &delivered);
                        }
                    }
                    Ok(())
                })
            }
        };
        let (compute_start, compute_end) = (*compute_start, *compute_end);
        answered.report(&self.reports, Times { start, compute_start, compute_end, end: now_ns() });
    }
}
