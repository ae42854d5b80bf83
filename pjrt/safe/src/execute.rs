//! Executions.

use std::ptr::{self, NonNull};
use std::sync::Arc;

use tlaloc_pjrt_sys::{
    PJRT_Buffer, PJRT_ExecuteOptions, PJRT_LoadedExecutable_Execute_Args, Versioned,
};

use crate::api::{Api, call};
use crate::buffer::{Buffer, device_address};
use crate::compile::{Executable, Loaded};
use crate::error::{Code, Error, Failure};
use crate::event::Event;
use crate::host_target::HostTarget;
use crate::staging::{Region, StagedInput};
use crate::view::View;

/// One argument of an execution.
#[derive(Debug)]
pub enum Argument<'a> {
    /// A buffer that is only read.
    Keep(&'a Buffer),
    /// A buffer that the execution may write an output over, where the body allows it for this
    /// parameter (`tf.aliasing_output`): it is then deleted, and the output has its memory. After a
    /// failed execution, [`Buffer::is_deleted`] tells whether it is still there.
    Donate(&'a mut Buffer),
    /// Staged memory, read where it lies.
    Staged(StagedInput<'a>),
    /// Memory of others, read where it lies. An execution with such an argument has ended when
    /// [`Executable::execute`] returns.
    Borrowed(&'a View<'a>),
    /// Memory of others that an output is written to, for a parameter that the body aliases to the
    /// output (`tf.aliasing_output`). The execution has ended when [`Executable::execute`] returns,
    /// and the output is in the memory where [`Pending::take`] does not give it: plugins may put it
    /// elsewhere.
    Place(HostTarget<'a>),
}

/// An execution on its way. Dropping it waits for its end.
#[derive(Debug)]
#[must_use = "dropping a pending execution waits for it and loses its outcome"]
pub struct Pending {
    executable: Arc<Loaded>,
    scratch: Scratch,
    event: Option<Event>,
    failure: Option<Failure>,
}

/// Memory of an execution, kept by its executable for the next one.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    arguments: Vec<*mut PJRT_Buffer>,
    /// Indices of the arguments that are not donated.
    kept: Vec<i64>,
    /// The outputs that have not been taken; the rest are null.
    outputs: Vec<*mut PJRT_Buffer>,
    /// Staged memory that the execution reads.
    staged: Vec<Arc<Region>>,
}

// SAFETY: handles of the C API, which may be used from any thread.
unsafe impl Send for Scratch {}
// SAFETY: a shared scratch gives access to nothing.
unsafe impl Sync for Scratch {}

impl Executable {
    /// Launches the executable and returns before it has finished, but for borrowed arguments. Nothing is allocated here once as
    /// many executions as ever run at once have been launched.
    ///
    /// # Errors
    /// [`Error::Call`] where the plugin refuses the launch, by the number or the size of the
    /// arguments for example; [`Error::ForeignArgument`]. Donated buffers may be deleted even so.
    pub fn execute<'a>(
        &self,
        arguments: impl IntoIterator<Item = Argument<'a>>,
    ) -> Result<Pending, Error> {
        let client = &self.inner.client;
        let mut pending = Pending {
            executable: self.inner.clone(),
            scratch: self.inner.scratch.lock().pop().unwrap_or_default(),
            event: None,
            failure: None,
        };
        let scratch = &mut pending.scratch;
        let mut borrowed = false;
        let mut targets = Vec::new();
        for (argument, index) in arguments.into_iter().zip(0_i64..) {
            let (buffer, kept) = match &argument {
                Argument::Donate(buffer) => (&**buffer, false),
                Argument::Keep(buffer) => (*buffer, true),
                Argument::Staged(input) => {
                    if !scratch.staged.last().is_some_and(|last| Arc::ptr_eq(last, input.region)) {
                        scratch.staged.push(input.region.clone());
                    }
                    (input.view, true)
                }
                Argument::Borrowed(view) => {
                    borrowed = true;
                    (&view.buffer, true)
                }
                Argument::Place(target) => (target.buffer(), false),
            };
            if !Arc::ptr_eq(buffer.client(), client) {
                return Err(Error::ForeignArgument { index: scratch.arguments.len() });
            }
            if kept {
                scratch.kept.push(index);
            }
            scratch.arguments.push(buffer.raw());
            if let Argument::Place(target) = argument {
                targets.push(target);
            }
        }
        scratch.outputs.resize(self.num_outputs(), ptr::null_mut());

        let mut options = PJRT_ExecuteOptions {
            non_donatable_input_indices: scratch.kept.as_ptr(),
            num_non_donatable_input_indices: scratch.kept.len(),
            ..Versioned::new()
        };
        let argument_lists = [scratch.arguments.as_ptr()];
        let output_lists = [scratch.outputs.as_mut_ptr()];
        let mut events = [ptr::null_mut()];
        let mut args = PJRT_LoadedExecutable_Execute_Args {
            executable: self.inner.raw(),
            options: &mut options,
            argument_lists: argument_lists.as_ptr(),
            num_devices: 1,
            num_args: scratch.arguments.len(),
            output_lists: output_lists.as_ptr(),
            device_complete_events: events.as_mut_ptr(),
            ..Versioned::new()
        };
        // SAFETY: the executable and all arguments (borrowed for `'a`) are alive, the lists outlive
        // the call and the output list has room for every output. What the execution goes on to read
        // or write is held by the plugin, by `pending` where it is staged memory, or of no use to it
        // any more before this function returns where it is borrowed.
        unsafe { launch(client.api(), &mut args) }?;
        let [event] = events;
        let event = client.api().non_null("PJRT_LoadedExecutable_Execute", event)?;
        // SAFETY: ours alone.
        pending.event = unsafe { Event::new(client.api(), event.as_ptr()) };
        if borrowed || !targets.is_empty() {
            // Whoever waits later is told of a failure again.
            let _ = pending.wait();
            pending.give_back(&targets);
        }
        Ok(pending)
    }
}

/// The plugin's part of [`Executable::execute`]: a function of its own, so that profiles tell the two
/// apart.
///
/// # Safety
/// As the plugin's function asks for.
#[inline(never)]
unsafe fn launch(api: Api, args: &mut PJRT_LoadedExecutable_Execute_Args) -> Result<(), Error> {
    // SAFETY: the caller's promise.
    unsafe { call!(api, PJRT_LoadedExecutable_Execute, args) }
}

impl Pending {
    /// Waits for the end of the execution. Staged memory that it reads can be written again after.
    ///
    /// # Errors
    /// [`Error::Execution`], again at every later call.
    pub fn wait(&mut self) -> Result<(), Error> {
        if let Some(event) = self.event.take() {
            self.failure = event.wait().err();
            self.scratch.staged.clear();
        }
        match &self.failure {
            None => Ok(()),
            Some(failure) => Err(Error::Execution(failure.clone())),
        }
    }

    /// Destroys the outputs that lie in memory of others, after the end of the execution.
    fn give_back(&mut self, targets: &[HostTarget<'_>]) {
        if targets.is_empty() {
            return;
        }
        for index in 0..self.scratch.outputs.len() {
            let Some(raw) = self.scratch.outputs.get(index).filter(|raw| !raw.is_null()) else {
                continue;
            };
            // SAFETY: an output of this execution that was not taken.
            let address = unsafe { device_address(self.executable.client.api(), *raw) };
            let elsewhere =
                address.is_some_and(|address| targets.iter().all(|t| t.address() != address));
            if elsewhere && self.failure.is_none() {
                continue;
            }
            drop(self.take(index));
            if address.is_none() && self.failure.is_none() {
                let message = format!("the plugin does not tell where it wrote output {index}");
                self.failure = Some(Failure { code: Code::Unimplemented, message });
            }
        }
    }

    /// Moves an output out; none where there is no such output, or it was taken. It may be taken, and
    /// passed to further executions, before the execution has finished.
    pub fn take(&mut self, index: usize) -> Option<Buffer> {
        let raw = std::mem::replace(self.scratch.outputs.get_mut(index)?, ptr::null_mut());
        let shape = self.executable.outputs.get(index)?.clone();
        // SAFETY: an output of this execution, of the shape it was compiled to, and out of the list.
        Some(unsafe { Buffer::from_raw(NonNull::new(raw)?, shape, self.executable.client.clone()) })
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        // Whoever wants the outcome has waited.
        let _ = self.wait();
        for index in 0..self.scratch.outputs.len() {
            drop(self.take(index));
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.arguments.clear();
        scratch.kept.clear();
        scratch.outputs.clear();
        scratch.staged.clear();
        self.executable.scratch.lock().push(scratch);
    }
}
