//! Host memory that step inputs are written into and the device reads in place.

use std::sync::Arc;

use crate::buffer::Buffer;
use crate::client::Client;
use crate::error::Error;
use crate::runtime::{DeviceRuntime, MAPPED_ALIGNMENT, Mapped};
use crate::shape::Shape;

/// One block of host memory with room for a set of inputs, each behind a buffer made once.
///
/// Inputs are written through `&mut` ([`Staging::inputs_mut`]) and passed to executions through `&`
/// ([`Staging::input`]); writing is refused while an execution that was given one is not awaited.
#[derive(Debug)]
pub struct Staging {
    inputs: Vec<Input>,
    // Behind the views, which are dropped first.
    region: Arc<Region>,
}

#[derive(Debug)]
struct Input {
    offset: usize,
    view: Buffer,
}

/// An input of a [`Staging`], as an argument of an execution.
#[derive(Debug, Clone, Copy)]
pub struct StagedInput<'a> {
    pub(crate) view: &'a Buffer,
    pub(crate) region: &'a Arc<Region>,
}

/// The memory. Executions that read it hold it; it is only written by its one remaining holder.
#[derive(Debug)]
pub(crate) struct Region {
    memory: Mapped,
    runtime: Arc<dyn DeviceRuntime>,
    ordinal: i32,
}

// SAFETY: plain memory, written only through the one holder of the region.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Staging {
    /// Memory, zeroed, for one input of each shape.
    ///
    /// # Errors
    /// [`Error::NoStaging`] where the device cannot read the host's memory in place
    /// ([`Client::stages_inputs`]), [`Error::Runtime`] where there is no memory.
    pub fn new(
        client: &Arc<Client>,
        shapes: impl IntoIterator<Item = Shape>,
    ) -> Result<Self, Error> {
        let runtime = client.runtime().filter(|_| client.stages_inputs());
        let runtime = runtime
            .ok_or_else(|| Error::NoStaging { platform: client.platform_name().to_owned() })?;
        let mut bytes = 0_usize;
        let mut placed = Vec::new();
        for shape in shapes {
            let end = bytes.saturating_add(shape.bytes());
            placed.push((bytes, shape));
            bytes = end.checked_next_multiple_of(MAPPED_ALIGNMENT).unwrap_or(usize::MAX);
        }
        let region = Arc::new(Region::new(runtime, client.ordinal(), bytes)?);
        let inputs = placed
            .into_iter()
            .map(|(offset, shape)| {
                // SAFETY: inside the region, which outlives the view, and which executions that take
                // the view hold; it is not written while any of them does.
                let view = unsafe { client.view(shape, region.memory.device.add(offset)) }?;
                Ok(Input { offset, view })
            })
            .collect::<Result<_, Error>>()?;
        Ok(Self { inputs, region })
    }

    /// All inputs, in the order of the shapes.
    pub fn inputs(&self) -> impl ExactSizeIterator<Item = StagedInput<'_>> {
        self.inputs.iter().map(|input| StagedInput { view: &input.view, region: &self.region })
    }

    /// An input, to be passed to an execution.
    ///
    /// # Panics
    /// If there is no such input.
    pub fn input(&self, index: usize) -> StagedInput<'_> {
        StagedInput { view: &self.inputs[index].view, region: &self.region }
    }

    /// The bytes of all inputs, to be written, in the order of the shapes.
    ///
    /// # Errors
    /// [`Error::StagingInUse`] while an execution that reads this staging has not been awaited.
    pub fn inputs_mut(&mut self) -> Result<impl ExactSizeIterator<Item = &mut [u8]>, Error> {
        let region = Arc::get_mut(&mut self.region).ok_or(Error::StagingInUse)?;
        let memory = region.memory.host;
        Ok(self.inputs.iter().map(move |input| {
            // SAFETY: inside the region, of which nobody else has a part: it has one holder, borrowed
            // `&mut` for as long as the slices live. Inputs do not overlap.
            unsafe {
                std::slice::from_raw_parts_mut(
                    memory.add(input.offset).as_ptr(),
                    input.view.bytes(),
                )
            }
        }))
    }
}

impl StagedInput<'_> {
    /// Element type, dimensions and dense size.
    pub fn shape(&self) -> &Shape {
        self.view.shape()
    }
}

impl Region {
    fn new(
        runtime: &Arc<dyn DeviceRuntime>,
        ordinal: i32,
        byte_size: usize,
    ) -> Result<Self, Error> {
        runtime.set_device(ordinal)?;
        let memory = runtime.allocate_mapped(byte_size)?;
        Ok(Self { memory, runtime: runtime.clone(), ordinal })
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        let _ = self.runtime.set_device(self.ordinal);
        // SAFETY: allocated by this runtime, and in nobody's use.
        unsafe { self.runtime.free_mapped(self.memory) };
    }
}
