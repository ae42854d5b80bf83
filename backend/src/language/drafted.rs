//! Calls of models with a draft head: what the host reads of them, and verify steps that are launched
//! before the one before them is read (sequence mode §17).

use tlaloc_artifact::{InputRole, OutputRole};
use tlaloc_engine::{CallFailure, Outcome, StepResults, StepSource};
use tlaloc_pjrt::{Argument, Buffer, ElementType, Error, Pending};
use triton_backend::now_ns;

use super::executor::{Executor, Launched};
use super::inputs::block_tables;
use super::programs::{Program, Source};

/// What the host has of the calls of a model with a draft head.
#[derive(Default)]
pub struct Drafted {
    /// The next verify step, where it is launched already.
    next: Option<Next>,
    next_tokens: Vec<i32>,
    accepted: Vec<i32>,
    drafts: Vec<i32>,
    /// Block tables on their way to the device.
    tables: Vec<i32>,
}

/// A verify step on its way. The pools are those that it gives.
struct Next {
    pending: Pending,
    /// What it reads beside pools and weights.
    _inputs: Vec<Buffer>,
}

impl Drafted {
    /// What the last call gave.
    pub fn results(&self) -> StepResults<'_> {
        StepResults {
            next_tokens: &self.next_tokens,
            accepted: &self.accepted,
            drafts: &self.drafts,
        }
    }

    /// Waits for a step that is on its way, whose results nobody wants.
    pub fn forget(&mut self) {
        self.next = None;
    }

    fn read(&mut self, program: &Program, pending: &mut Pending) -> Result<(), Error> {
        let results = [
            (OutputRole::NextTokens, &mut self.next_tokens),
            (OutputRole::Accepted, &mut self.accepted),
            (OutputRole::Drafts, &mut self.drafts),
        ];
        for (role, values) in results {
            values.clear();
            let output = program.result(role).and_then(|output| pending.take(output));
            let Some(output) = output else { continue };
            values.resize(output.bytes() / size_of::<i32>(), 0);
            output.copy_to_host(bytemuck::cast_slice_mut(values))?;
        }
        Ok(())
    }
}

impl Executor {
    /// Runs the current call of `steps`, or takes what was launched of it; `drafted` then has its
    /// results. Where `steps` allows it, the step after it is launched before it is awaited.
    pub fn run_drafted(&mut self, steps: &mut impl StepSource, drafted: &mut Drafted) -> Outcome {
        let (index, rows, begin) = (steps.entry(), steps.rows(), now_ns());
        let model = self.model().clone();
        let program = &model.programs[index];
        // A step that is not this call is waited for: this one's inputs may be in the memory that it
        // reads.
        let next = drafted.next.take().filter(|_| steps.chained());
        let chained = next.is_some();
        let launched = match next {
            Some(Next { pending, .. }) => {
                Ok(Launched { pending, begin, filled: begin, launched: begin })
            }
            None => self.launch(steps, begin),
        };
        let Launched { mut pending, begin, filled, launched } = match launched {
            Ok(launched) => launched,
            Err(error) => return self.failure(begin, &error),
        };

        let mut refused = None;
        if self.donates() && steps.chains() {
            if !chained {
                self.take_pools(index, &mut pending);
            }
            match self.launch_next(index, steps, &mut pending, &mut drafted.tables) {
                Ok(next) => {
                    steps.launched_next();
                    drafted.next = Some(next);
                }
                Err(error) => refused = Some(error),
            }
        }
        let ahead = drafted.next.is_some();

        let waited = pending.wait();
        if let Err(error) = refused.map_or(waited, Err) {
            drafted.forget();
            let mut outcome = self.failure(begin, &error);
            // The pools are those of an execution that failed, or that had none to work on.
            if let Err(CallFailure::Execution { pools_lost, .. }) = &mut outcome.result {
                *pools_lost |= chained || ahead;
            }
            return outcome;
        }
        let seen = now_ns();
        if !chained && !ahead {
            self.take_pools(index, &mut pending);
        }
        let result = drafted
            .read(program, &mut pending)
            .map_err(|error| CallFailure::Copy { message: error.to_string() });
        let end = now_ns();
        // Pools that are still being written have no address to compare.
        if !ahead {
            self.check_addresses(index);
        }
        self.tell_run(index, rows, [begin, filled, launched, seen, end], !ahead);
        Outcome { compute_start: begin, compute_end: end, result }
    }

    /// Launches the verify step after a call on its way: its inputs are results of that.
    fn launch_next(
        &mut self,
        index: usize,
        steps: &impl StepSource,
        call: &mut Pending,
        tables: &mut Vec<i32>,
    ) -> Result<Next, Error> {
        let model = self.model().clone();
        let program = &model.programs[index];
        let mut inputs = Vec::with_capacity(program.steps.len());
        for step in &program.steps {
            let given = chained_role(step.role).and_then(|role| program.result(role));
            inputs.push(match given.and_then(|output| call.take(output)) {
                Some(buffer) => buffer,
                // Memory that is shared by all calls is still being read.
                None => {
                    block_tables(program, steps, tables);
                    let bytes = bytemuck::cast_slice(tables);
                    model.client.upload(ElementType::I32, &step.dims, bytes)?
                }
            });
        }
        let mut pools = self.pools_mut().iter_mut();
        let arguments = program.sources.iter().filter_map(|source| match source {
            Source::Step(step) => inputs.get(*step).map(Argument::Keep),
            Source::Weight(weight) => model.weights.get(*weight).map(Argument::Keep),
            Source::Pool => pools.next().map(Argument::Donate),
        });
        let mut pending = program.executable.execute(arguments)?;
        self.take_pools(index, &mut pending);
        Ok(Next { pending, _inputs: inputs })
    }
}

/// The result that is an input of the next verify step.
fn chained_role(input: InputRole) -> Option<OutputRole> {
    match input {
        InputRole::TokenIds => Some(OutputRole::NextTokenIds),
        InputRole::Positions => Some(OutputRole::NextPositions),
        InputRole::SeqLens => Some(OutputRole::NextSeqLens),
        InputRole::SlotMapping => Some(OutputRole::NextSlotMapping),
        InputRole::StateSlots => Some(OutputRole::NextStateSlots),
        InputRole::StateWriteSlots => Some(OutputRole::NextStateWriteSlots),
        _ => None,
    }
}
