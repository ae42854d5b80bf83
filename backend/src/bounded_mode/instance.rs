//! One instance: pads each request, runs it and cuts its result (bounded mode §4).

use std::sync::Arc;

use parking_lot::Mutex;
use tlaloc_artifact::bounded::{BoundedEntry, BoundedInput, InputValue};
use tlaloc_artifact::{DType, Tensor};
use tlaloc_pjrt::{Argument, Buffer};
use triton_backend::{
    Answered, Code, DataType, Error as TritonError, Instance, InstanceContext, OutputBuffer,
    Request, Requests, Times, now_ns,
};

use super::BoundedModel;
use super::blocks::{WIDTH, crop, pad};
use super::error::Error;
use super::intake::{Prepared, prepare};
use super::programs::DeviceModel;
use crate::dtype::{element_type, signed};
use crate::gpu;
use crate::metrics::{Execution, ExecutionMetrics, OTHER};

/// A model instance. Triton calls it from one thread at a time, and several instances at once.
pub struct BoundedInstance {
    model: Arc<BoundedModel>,
    device: Arc<DeviceModel>,
    reports: Instance,
    scratch: Mutex<Scratch>,
    metrics: ExecutionMetrics,
}

/// Memory that every request uses anew.
#[derive(Default)]
struct Scratch {
    /// An input as the client sent it.
    block: Vec<u8>,
    /// An argument at its bucket's size, or the result.
    array: Vec<u8>,
}

/// When a request ran.
struct Ran {
    start: u64,
    end: u64,
}

impl BoundedInstance {
    /// Finds the instance's device.
    pub fn create(model: &Arc<BoundedModel>, context: &InstanceContext) -> Result<Self, Error> {
        let device = model.devices.of_instance(context.kind(), context.device_id())?;
        let entries = model.artifact.entries.iter().map(|entry| (entry.id.as_str(), OTHER));
        Ok(BoundedInstance {
            metrics: ExecutionMetrics::new(&model.owner.instance(context), entries),
            model: model.clone(),
            device: device.clone(),
            reports: context.instance(),
            scratch: Mutex::default(),
        })
    }

    /// Runs and answers the requests, one after the other.
    pub fn execute(&self, requests: Requests<'_>) {
        let called = now_ns();
        let mut scratch = self.scratch.lock();
        let (mut count, mut batch) = (0, Ran { start: 0, end: 0 });
        for request in requests {
            let start = now_ns();
            let (answered, ran) = self.serve(request, &mut scratch);
            if count == 0 {
                batch.start = ran.start;
            }
            batch.end = ran.end;
            count += 1;
            let (compute_start, compute_end) = (ran.start, ran.end);
            answered
                .report(&self.reports, Times { start, compute_start, compute_end, end: now_ns() });
        }
        let (compute_start, compute_end) = (batch.start, batch.end);
        let times = Times { start: called, compute_start, compute_end, end: now_ns() };
        self.reports.report_batch(count, times);
    }

    fn serve(&self, request: Request, scratch: &mut Scratch) -> (Answered, Ran) {
        let fail = |request: Request, code: Code, reason: &dyn std::fmt::Display, start| {
            let reason = format!("model '{}': {reason}", self.model.name);
            (request.fail(TritonError::new(code, reason)), Ran { start, end: now_ns() })
        };
        let start = now_ns();
        let prepared = prepare(&request, &self.model.artifact).map(|prepared| {
            let dims = self.model.output.dims(&prepared.sizes);
            let begin = now_ns();
            let result = self.run(&prepared, scratch);
            let end = now_ns();
            let (entry, nanos, succeeded) = (prepared.entry, end - begin, result.is_ok());
            self.metrics.add(Execution { entry, rows: 1, nanos, succeeded });
            (dims, result, end)
        });
        match prepared {
            Err(refusal) => fail(request, refusal.code(), &refusal, start),
            Ok((_, Err(reason), _)) => fail(request, Code::Internal, &reason, start),
            Ok((dims, Ok((entry, result)), end)) => {
                let answered = self.answer(request, &dims, entry, &result, scratch);
                (answered, Ran { start, end })
            }
        }
    }

    /// Executes the entry of a request and waits for its result.
    fn run(
        &self,
        prepared: &Prepared<'_>,
        scratch: &mut Scratch,
    ) -> Result<(&BoundedEntry, Buffer), String> {
        let artifact = &self.model.artifact;
        let (entry, program) = artifact
            .entries
            .get(prepared.entry)
            .zip(self.device.programs.get(prepared.entry))
            .ok_or("the program is gone")?;
        let named =
            |reason: &dyn std::fmt::Display| format!("bounded entry {}: {reason}", entry.id);
        let mut given = prepared.inputs.iter();
        let mut buffers = Vec::with_capacity(artifact.inputs.len());
        for (input, tensor) in artifact.inputs.iter().zip(&entry.inputs) {
            scratch.array.resize(tensor.bytes(), 0);
            match input.value {
                InputValue::Data => {
                    let input_given = given.next().ok_or_else(|| named(&"an input is gone"))?;
                    gpu::read_input(input_given, &mut scratch.block, &self.device.client)
                        .map_err(|error| named(&error))?;
                    self.pad(input, tensor, &prepared.sizes, scratch);
                }
                InputValue::ValidMask(bound) => {
                    let real = prepared.sizes.get(bound).copied().unwrap_or(0);
                    let elements = scratch.array.as_chunks_mut::<WIDTH>().0.iter_mut();
                    for (index, element) in elements.enumerate() {
                        *element = if index < real { 1.0_f32 } else { 0.0 }.to_ne_bytes();
                    }
                }
                InputValue::ValidLength(bound) => {
                    let real = prepared.sizes.get(bound).copied().unwrap_or(0);
                    scratch.array.copy_from_slice(&(real as f32).to_ne_bytes());
                }
            }
            let (element, dims) = (element_type(tensor.dtype()), signed(tensor.dims()));
            let buffer = self.device.client.upload(element, &dims, &scratch.array);
            buffers.push(buffer.map_err(|error| named(&error))?);
        }
        let mut pending =
            program.execute(buffers.iter().map(Argument::Keep)).map_err(|error| named(&error))?;
        pending.wait().map_err(|error| named(&error))?;
        let result = pending.take(0).ok_or_else(|| named(&"it left no result"))?;
        Ok((entry, result))
    }

    /// Puts the input that the scratch holds to its bucket's size.
    fn pad(&self, input: &BoundedInput, tensor: &Tensor, sizes: &[usize], scratch: &mut Scratch) {
        let padding = self.model.artifact.padding;
        let padding = match tensor.dtype() {
            DType::F32 => (padding as f32).to_ne_bytes(),
            // Bounded programs have no other types; what is behind the point is cut off.
            _ => (padding as i32).to_ne_bytes(),
        };
        let inner = input.tensor.dims(sizes);
        pad(&scratch.block, &inner, &mut scratch.array, tensor.dims(), padding);
    }

    /// Answers with the part of the result that is the request's, of these dims.
    fn answer(
        &self,
        request: Request,
        dims: &[usize],
        entry: &BoundedEntry,
        result: &Buffer,
        scratch: &mut Scratch,
    ) -> Answered {
        let model = &self.model;
        let outer = entry.outputs.first().map(Tensor::dims).unwrap_or_default();
        request.respond(|response| {
            let named = |error: &dyn std::fmt::Display| {
                let reason = format!(
                    "model '{}': bounded entry {}: output '{}': {error}",
                    model.name, entry.id, model.output.name
                );
                TritonError::internal(reason)
            };
            let bytes = WIDTH * dims.iter().product::<usize>();
            let buffer = response
                .output_buffer(&model.output.name, DataType::Fp32, &signed(dims), bytes)
                .map_err(|error| named(&error))?;
            let mut sent = Vec::new();
            let (memory, on_gpu) = match buffer {
                OutputBuffer::Host(memory) => (memory, None),
                OutputBuffer::Gpu(memory) => {
                    sent.resize(bytes, 0);
                    (sent.as_mut_slice(), Some(memory))
                }
            };
            match result.host_bytes().map_err(|error| named(&error))? {
                Some(array) => crop(&array, outer, memory, dims),
                None => {
                    scratch.array.resize(result.bytes(), 0);
                    result.copy_to_host(&mut scratch.array).map_err(|error| named(&error))?;
                    crop(&scratch.array, outer, memory, dims);
                }
            }
            if let Some(memory) = on_gpu {
                let client = &self.device.client;
                gpu::send(client, &model.output.name, &sent, &memory)
                    .map_err(|error| named(&error))?;
            }
            Ok(())
        })
    }
}
