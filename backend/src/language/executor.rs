//! Runs calls on a device: step inputs, pools, logits.

use std::sync::Arc;

use tlaloc_engine::generation::Moves;
use tlaloc_engine::{CallFailure, Nanos, Outcome, StepSource};
use tlaloc_pjrt::{Argument, Buffer, Client, Pending};
use tracing::{debug, info, warn};
use triton_backend::now_ns;

use super::error::Error;
use super::inputs::Inputs;
use super::programs::{DeviceModel, Program, Source, elements};
use super::rows::Rows;
use super::timing::Medians;
use crate::metrics::Memory;
use crate::settings::ExecutionSettings;

const MIB: usize = 1 << 20;
/// Runs whose pool addresses are compared.
const CHECKED_RUNS: u32 = 100;

/// Logits of one call, `[B, 1, vocab]` f32, until its batch is answered.
pub enum Logits {
    /// Read where the execution wrote them.
    InPlace(Buffer),
    /// Copied to the host.
    Copied(Vec<u8>),
}

/// The pools of one instance and the memory that its executions need.
pub struct Executor {
    model: Arc<DeviceModel>,
    options: ExecutionSettings,
    pools: Vec<Buffer>,
    /// Where the pools were after the last run.
    addresses: Vec<Option<usize>>,
    entries: Vec<EntryState>,
    runs: Runs,
}

/// What is kept for each entry between its runs.
struct EntryState {
    inputs: Inputs,
    ran: bool,
    /// Numbers of rows that have been told of.
    rows_told: Vec<u32>,
    medians: Medians,
}

/// Counts of the address check (sequence mode §12.1).
#[derive(Default)]
struct Runs {
    total: u32,
    in_place: u32,
}

impl Executor {
    /// Zeroes a set of pools and prepares the step inputs.
    ///
    /// # Errors
    /// [`Error::Upload`].
    pub fn new(model: Arc<DeviceModel>, options: ExecutionSettings) -> Result<Self, Error> {
        Self::prepare(model, options)
            .map_err(|source| Error::Upload { what: "the KV pools".to_owned(), source })
    }

    fn prepare(
        model: Arc<DeviceModel>,
        options: ExecutionSettings,
    ) -> Result<Self, tlaloc_pjrt::Error> {
        let pools = model.zeroed_pools()?;
        let staged = options.pack_step_inputs && model.client.stages_inputs();
        let entries = model
            .programs
            .iter()
            .map(|program| {
                let inputs = Inputs::new(&model.client, program, staged)?;
                Ok(EntryState {
                    inputs,
                    ran: false,
                    rows_told: Vec::new(),
                    medians: Medians::default(),
                })
            })
            .collect::<Result<Vec<_>, tlaloc_pjrt::Error>>()?;
        let addresses = pools.iter().map(Buffer::device_address).collect();
        Ok(Executor { model, options, pools, addresses, entries, runs: Runs::default() })
    }

    /// Replaces pools that a failed execution took by zeroed ones (sequence mode §14).
    pub fn restore_pools(&mut self) -> Result<(), tlaloc_pjrt::Error> {
        self.pools.clear();
        self.pools = self.model.zeroed_pools()?;
        self.addresses = self.pools.iter().map(Buffer::device_address).collect();
        Ok(())
    }

    /// The creation line's part about executions (sequence mode §5).
    pub fn describe(&self) -> String {
        let pools = if self.options.donate_kv_pools {
            "each execution is handed the pools to update in place"
        } else {
            "executions are not handed the pools (donate_kv_pools is false)"
        };
        let staged = self.step_bytes();
        let inputs = match self.entries.first().map(|entry| &entry.inputs) {
            Some(Inputs::Staged(_)) => {
                format!("step inputs are written to {staged} bytes that the device reads in place")
            }
            _ if !self.options.pack_step_inputs => {
                "step inputs are uploaded one by one (pack_step_inputs is false)".to_owned()
            }
            _ => "step inputs are uploaded one by one (the device does not read host memory)"
                .to_owned(),
        };
        let logits =
            match (self.model.client.shares_host_memory(), self.options.overlap_logits_copy) {
                (true, _) => "logits are read where they are written",
                (false, true) => "the copy of the logits is queued behind the execution",
                (false, false) => {
                    "logits are copied after the execution (overlap_logits_copy is false)"
                }
            };
        format!("{pools}; {inputs}; {logits}")
    }

    /// The client of the device.
    pub fn client(&self) -> &Client {
        &self.model.client
    }

    /// Bytes of all pools.
    pub fn pool_bytes(&self) -> usize {
        self.pools.iter().map(Buffer::bytes).sum()
    }

    /// Number of pools.
    pub fn pool_count(&self) -> usize {
        self.pools.len()
    }

    /// What the instance holds on its device.
    pub fn memory(&self) -> Memory {
        let DeviceModel { weights, programs, .. } = &*self.model;
        let temporary = programs.iter().map(|program| program.executable.memory_stats());
        Memory {
            weights: weights.iter().map(Buffer::bytes).sum(),
            pools: self.pool_bytes(),
            step_inputs: self.step_bytes(),
            temporary: temporary.map(|stats| Some(stats?.temp)).max().flatten(),
        }
    }

    /// Bytes of the step inputs of all entries.
    fn step_bytes(&self) -> usize {
        let steps = self.model.programs.iter().flat_map(|program| &program.steps);
        steps.map(|step| size_of::<i32>() * elements(&step.dims)).sum()
    }

    /// Copies or zeroes rows of the pools.
    pub fn move_rows(&mut self, rows: &mut Rows, moves: &Moves<'_>) -> Result<(), CallFailure> {
        match &self.model.rows {
            Some(programs) => rows.run(programs, &self.model.client, &mut self.pools, moves),
            None => Ok(()),
        }
    }

    /// Runs the current call of `steps`. The logits are kept if someone reads them.
    pub fn run(&mut self, steps: &impl StepSource) -> (Outcome, Option<Logits>) {
        let (index, rows, wanted) = (steps.entry(), steps.rows(), steps.wants_logits());
        let begin = now_ns();
        match self.launch(steps, begin) {
            Ok(launched) => self.finish(index, rows, wanted, launched),
            Err(error) => (self.failure(begin, &error), None),
        }
    }

    /// Writes the inputs of the current call of `steps` and launches it.
    pub(super) fn launch(
        &mut self,
        steps: &impl StepSource,
        begin: Nanos,
    ) -> Result<Launched, tlaloc_pjrt::Error> {
        let index = steps.entry();
        // One program and one state per entry, of which one was chosen.
        let (program, state) = (&self.model.programs[index], &mut self.entries[index]);
        state.inputs.fill(&self.model.client, program, steps)?;
        launch(program, &self.model, &state.inputs, &mut self.pools, self.options, begin)
    }

    /// Puts the pools that an execution gives, or will give, in the place of those it was handed.
    pub(super) fn take_pools(&mut self, index: usize, pending: &mut Pending) {
        for (pool, output) in self.pools.iter_mut().zip(&self.model.programs[index].pools) {
            if let Some(output) = pending.take(*output) {
                *pool = output;
            }
        }
    }

    /// The pools, to be handed to an execution.
    pub(super) fn pools_mut(&mut self) -> &mut [Buffer] {
        &mut self.pools
    }

    /// What the device has of the model.
    pub(super) fn model(&self) -> &Arc<DeviceModel> {
        &self.model
    }

    /// Whether executions are handed the pools.
    pub(super) fn donates(&self) -> bool {
        self.options.donate_kv_pools
    }

    fn finish(
        &mut self,
        index: usize,
        rows: usize,
        wanted: bool,
        launched: Launched,
    ) -> (Outcome, Option<Logits>) {
        let Launched { mut pending, begin, filled, launched } = launched;
        let model = self.model.clone();
        let program = &model.programs[index];
        let logits = wanted.then(|| pending.take(program.logits)).flatten();
        // Where logits have to be copied, their copy can wait behind the execution by itself.
        let copied = match &logits {
            Some(buffer) if !model.client.shares_host_memory() => {
                if !self.options.overlap_logits_copy
                    && let Err(error) = pending.wait()
                {
                    return (self.failure(begin, &error), None);
                }
                let mut bytes = vec![0; buffer.bytes()];
                Some(buffer.copy_to_host(&mut bytes).map(|()| bytes))
            }
            _ => None,
        };
        if let Err(error) = pending.wait() {
            return (self.failure(begin, &error), None);
        }
        let seen = now_ns();
        self.take_pools(index, &mut pending);
        let end = now_ns();
        self.check_addresses(index);
        self.tell_run(index, rows, [begin, filled, launched, seen, end], true);
        let (result, logits) = match (copied, logits) {
            (Some(Err(error)), _) => (Err(CallFailure::Copy { message: error.to_string() }), None),
            (Some(Ok(bytes)), _) => (Ok(()), Some(Logits::Copied(bytes))),
            (None, logits) => (Ok(()), logits.map(Logits::InPlace)),
        };
        (Outcome { compute_start: begin, compute_end: end, result }, logits)
    }

    /// Tells of a run, by the times at which it began, had its inputs, was launched, was seen on the
    /// host and ended. `checked` is whether its pools' addresses were compared.
    pub(super) fn tell_run(&mut self, index: usize, rows: usize, times: [Nanos; 5], checked: bool) {
        let [begin, filled, launched, seen, end] = times;
        let id = &self.model.programs[index].id;
        let state = &mut self.entries[index];
        tell_rows(id, state, rows, end.saturating_sub(begin));
        state.medians.add(id, [filled - begin, launched - filled, seen - launched, end - seen]);
        state.ran |= checked;
    }

    pub(super) fn failure(&self, begin: Nanos, error: &tlaloc_pjrt::Error) -> Outcome {
        let pools_lost = self.pools.iter().any(Buffer::is_deleted);
        let failure = CallFailure::Execution { message: error.to_string(), pools_lost };
        Outcome { compute_start: begin, compute_end: now_ns(), result: Err(failure) }
    }

    /// Compares the pools' addresses with the last ones and tells what was seen (sequence mode
    /// §12.1).
    pub(super) fn check_addresses(&mut self, index: usize) {
        let program = &self.model.programs[index];
        let first = !self.entries[index].ran;
        if (!first && self.runs.total >= CHECKED_RUNS) || self.addresses.contains(&None) {
            return;
        }
        let mut in_place = true;
        for (pool, address) in self.pools.iter().zip(&mut self.addresses) {
            let now = pool.device_address();
            in_place &= now == *address;
            *address = now;
        }
        let (count, mib) = (self.pools.len(), self.pool_bytes() / MIB);
        if first && in_place {
            info!(
                "{} updated the {count} KV pools in place (same device addresses, {mib} MiB not \
                 copied)",
                program.id
            );
        } else if first {
            let reason = if self.options.donate_kv_pools {
                "the artifact does not alias them"
            } else {
                "donate_kv_pools is false"
            };
            warn!(
                "{} wrote the {count} KV pools to new device memory, copying {mib} MiB per run \
                 ({reason})",
                program.id
            );
        }
        if self.runs.total < CHECKED_RUNS {
            self.runs.total += 1;
            self.runs.in_place += u32::from(in_place);
            if self.runs.total == CHECKED_RUNS {
                info!(
                    "in {CHECKED_RUNS} runs the {count} KV pools were updated in place {} times \
                     and copied {} times",
                    self.runs.in_place,
                    CHECKED_RUNS - self.runs.in_place
                );
            }
        }
    }
}

/// An execution on its way, with the times at which it began, had its inputs and was launched.
pub(super) struct Launched {
    pub(super) pending: Pending,
    pub(super) begin: Nanos,
    pub(super) filled: Nanos,
    pub(super) launched: Nanos,
}

fn launch(
    program: &Program,
    model: &DeviceModel,
    inputs: &Inputs,
    pools: &mut [Buffer],
    options: ExecutionSettings,
    begin: Nanos,
) -> Result<Launched, tlaloc_pjrt::Error> {
    let filled = now_ns();
    let mut pools = pools.iter_mut();
    let arguments = program.sources.iter().filter_map(|source| match source {
        Source::Step(step) => inputs.argument(*step),
        Source::Weight(weight) => model.weights.get(*weight).map(Argument::Keep),
        Source::Pool if options.donate_kv_pools => pools.next().map(Argument::Donate),
        Source::Pool => pools.next().map(|pool| Argument::Keep(pool)),
    });
    let pending = program.executable.execute(arguments)?;
    Ok(Launched { pending, begin, filled, launched: now_ns() })
}

impl Logits {
    /// Calls `read` with the logits of one row, f32 little-endian, where they lie. Where an entry
    /// gives several columns, each is a row.
    pub fn with_row<T>(
        &self,
        row: usize,
        vocab: usize,
        read: impl FnOnce(&[u8]) -> T,
    ) -> Result<T, String> {
        let range = row * vocab * 4..(row + 1) * vocab * 4;
        self.with_bytes(|bytes| bytes.get(range).map(read))?
            .ok_or_else(|| format!("the logits of row {row} are not where they should be"))
    }

    /// Calls `read` with all of them.
    pub fn with_bytes<T>(&self, read: impl FnOnce(&[u8]) -> T) -> Result<T, String> {
        match self {
            Logits::Copied(bytes) => Ok(read(bytes)),
            Logits::InPlace(buffer) => {
                let bytes = buffer.host_bytes().map_err(|error| error.to_string())?;
                let bytes = bytes.ok_or("the device does not show its logits to the host")?;
                Ok(read(&bytes))
            }
        }
    }
}

/// Tells of a run: the first of a prefill entry with each number of rows above one where everybody
/// sees it (sequence mode §12.3).
fn tell_rows(id: &str, state: &mut EntryState, rows: usize, nanos: Nanos) {
    let rows = u32::try_from(rows).unwrap_or(u32::MAX);
    let micros = nanos / 1000;
    if rows > 1 && id.starts_with("prefill") && !state.rows_told.contains(&rows) {
        state.rows_told.push(rows);
        info!("{id} ran {rows} sequence(s) in {micros} us");
    } else {
        debug!("{id} ran {rows} sequence(s) in {micros} us");
    }
}
