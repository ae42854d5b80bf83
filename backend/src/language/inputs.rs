//! The integer inputs of an entry: where they are written, and how they reach the device.

use std::sync::Arc;

use tlaloc_artifact::InputRole;
use tlaloc_engine::{StepInputs, StepSource, WindowInputs};
use tlaloc_pjrt::{Argument, Buffer, Client, ElementType, Error, Shape, Staging};

use super::programs::{Program, elements};

/// The integer inputs of an entry, in the order of [`Program::steps`].
pub enum Inputs {
    /// Read by the device where they are written.
    Staged(Staging),
    /// Uploaded for each run.
    Uploaded {
        /// What is uploaded.
        host: Vec<Vec<i32>>,
        /// The last upload.
        device: Vec<Buffer>,
    },
}

impl Inputs {
    /// Memory for the inputs of a program.
    pub fn new(client: &Arc<Client>, program: &Program, staged: bool) -> Result<Self, Error> {
        let dims = program.steps.iter().map(|step| step.dims.as_slice());
        if staged {
            let shapes = dims.map(|dims| Shape::new(ElementType::I32, dims));
            let shapes = shapes.collect::<Result<Vec<_>, _>>()?;
            Ok(Inputs::Staged(Staging::new(client, shapes)?))
        } else {
            let host = dims.map(|dims| vec![0; elements(dims)]).collect();
            Ok(Inputs::Uploaded { host, device: Vec::with_capacity(program.steps.len()) })
        }
    }

    /// Writes the current call of `steps`.
    pub fn fill(
        &mut self,
        client: &Arc<Client>,
        program: &Program,
        steps: &impl StepSource,
    ) -> Result<(), Error> {
        match self {
            Inputs::Staged(staging) => {
                let arrays = staging.inputs_mut()?.map(integers);
                steps.pack(step_inputs(program, arrays));
            }
            Inputs::Uploaded { host, device } => {
                steps.pack(step_inputs(program, host.iter_mut().map(Vec::as_mut_slice)));
                device.clear();
                for (values, step) in host.iter().zip(&program.steps) {
                    let bytes = bytemuck::cast_slice(values);
                    device.push(client.upload(ElementType::I32, &step.dims, bytes)?);
                }
            }
        }
        Ok(())
    }

    /// An input as an argument.
    pub fn argument(&self, step: usize) -> Option<Argument<'_>> {
        match self {
            Inputs::Staged(staging) => Some(Argument::Staged(staging.input(step))),
            Inputs::Uploaded { device, .. } => device.get(step).map(Argument::Keep),
        }
    }
}

/// Writes the block tables of the current call of `steps` to `tables`, and nothing else anywhere.
pub fn block_tables(program: &Program, steps: &impl StepSource, tables: &mut Vec<i32>) {
    let sizes = program.steps.iter().map(|step| elements(&step.dims));
    let mut arrays: Vec<Vec<i32>> = sizes.map(|size| vec![0; size]).collect();
    steps.pack(step_inputs(program, arrays.iter_mut().map(Vec::as_mut_slice)));
    let step = program.steps.iter().position(|step| step.role == InputRole::BlockTables);
    *tables = step.map_or_else(Vec::new, |step| arrays.swap_remove(step));
}

/// The arrays of a program's step inputs by their role.
fn step_inputs<'a>(
    program: &Program,
    arrays: impl Iterator<Item = &'a mut [i32]>,
) -> StepInputs<'a> {
    let mut inputs = StepInputs {
        token_ids: &mut [],
        positions: &mut [],
        block_tables: &mut [],
        seq_lens: &mut [],
        slot_mapping: &mut [],
        windowed: None,
        state_slots: None,
        state_write_slots: None,
    };
    let without = || WindowInputs { block_tables: &mut [], slot_mapping: &mut [] };
    for (step, array) in program.steps.iter().zip(arrays) {
        match step.role {
            InputRole::TokenIds => inputs.token_ids = array,
            InputRole::Positions => inputs.positions = array,
            InputRole::BlockTables => inputs.block_tables = array,
            InputRole::SeqLens => inputs.seq_lens = array,
            InputRole::SlotMapping => inputs.slot_mapping = array,
            InputRole::WindowBlockTables => {
                inputs.windowed.get_or_insert_with(without).block_tables = array;
            }
            InputRole::WindowSlotMapping => {
                inputs.windowed.get_or_insert_with(without).slot_mapping = array;
            }
            InputRole::StateSlots => inputs.state_slots = Some(array),
            InputRole::StateWriteSlots => inputs.state_write_slots = Some(array),
            // They are no steps.
            InputRole::Pool(_) | InputRole::Weight => {}
        }
    }
    inputs
}

/// Staged memory is aligned for any element.
fn integers(bytes: &mut [u8]) -> &mut [i32] {
    bytemuck::try_cast_slice_mut(bytes).unwrap_or_default()
}
