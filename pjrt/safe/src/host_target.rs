//! Host memory of others that an execution writes an output to.

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;

use tlaloc_pjrt_sys::PJRT_HostBufferSemantics_kMutableZeroCopy;

use crate::buffer::Buffer;
use crate::client::Client;
use crate::error::Error;
use crate::shape::{ElementType, Shape};

/// Borrowed host memory for an output, passed to an execution as the parameter that the output is
/// aliased to ([`crate::Argument::Place`]).
#[derive(Debug)]
pub struct HostTarget<'a> {
    /// Its end waits until the device touches the memory no more.
    buffer: Buffer,
    address: usize,
    memory: PhantomData<&'a mut [u8]>,
}

impl Client {
    /// Lends host memory to an execution for an output; none where the device does not write to it
    /// in place, because it has memory of its own, the bytes are not aligned to
    /// [`Client::view_alignment`], or there are none.
    ///
    /// # Errors
    /// [`Error::Shape`] and [`Error::Size`] for arguments that do not fit together, [`Error::Call`]
    /// where the plugin refuses.
    pub fn lend_host<'a>(
        self: &Arc<Self>,
        element_type: ElementType,
        dims: &[i64],
        bytes: &'a mut [u8],
    ) -> Result<Option<HostTarget<'a>>, Error> {
        let shape = Shape::sized(element_type, dims, bytes.len())?;
        let memory = NonNull::from(bytes).cast::<u8>();
        let address = memory.addr().get();
        let aligned = address.is_multiple_of(self.view_alignment());
        if !self.shares_host_memory() || !aligned || shape.bytes() == 0 {
            return Ok(None);
        }
        let semantics = PJRT_HostBufferSemantics_kMutableZeroCopy;
        // SAFETY: the bytes hold the array and are borrowed, exclusively, for as long as the target
        // lives. Its end waits until the device touches them no more: the buffer's handle is gone
        // then, and an execution that took the target has destroyed the output there.
        let (buffer, returned) = unsafe { self.buffer_from_host(shape, memory, semantics) }?;
        let buffer = buffer.borrowing_until(returned);
        Ok(Some(HostTarget { buffer, address, memory: PhantomData }))
    }
}

impl HostTarget<'_> {
    pub(crate) fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    pub(crate) fn address(&self) -> usize {
        self.address
    }
}
