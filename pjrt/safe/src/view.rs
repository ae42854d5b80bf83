//! Memory of others that a device reads in place.

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::buffer::Buffer;
use crate::client::Client;
use crate::error::Error;
use crate::shape::{ElementType, Shape};

/// An array that lies in borrowed memory, the host's or a device's, to be passed to executions
/// ([`crate::Argument::Borrowed`]).
#[derive(Debug)]
pub struct View<'a> {
    pub(crate) buffer: Buffer,
    memory: PhantomData<&'a [u8]>,
}

impl View<'_> {
    /// Of a buffer over memory that lives as long as the view.
    pub(crate) fn new(buffer: Buffer) -> Self {
        View { buffer, memory: PhantomData }
    }
}

impl Client {
    /// Lays an array over host memory; none where the device does not read it in place, because it
    /// has memory of its own, the bytes are not aligned to [`Client::view_alignment`], or there are
    /// none.
    ///
    /// # Errors
    /// [`Error::Shape`] and [`Error::Size`] for arguments that do not fit together, [`Error::Call`]
    /// where the plugin refuses.
    pub fn view_host<'a>(
        self: &Arc<Self>,
        element_type: ElementType,
        dims: &[i64],
        bytes: &'a [u8],
    ) -> Result<Option<View<'a>>, Error> {
        let shape = Shape::sized(element_type, dims, bytes.len())?;
        let aligned = bytes.as_ptr().addr().is_multiple_of(self.view_alignment());
        if !self.shares_host_memory() || !aligned || bytes.is_empty() {
            return Ok(None);
        }
        // SAFETY: the bytes hold the array and are borrowed, shared, for as long as the view lives.
        // Executions that take it are awaited before the borrow of the view can end
        // (`Executable::execute`), and only read it: it is never donated.
        let buffer = unsafe { self.view(shape, NonNull::from(bytes).cast()) }?;
        Ok(Some(View::new(buffer)))
    }
}
