//! Memory of others on a device: clients keep tensors there.

use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use crate::buffer::Buffer;
use crate::client::Client;
use crate::error::Error;
use crate::runtime::{DeviceRuntime, Direction};
use crate::shape::{ElementType, Shape};
use crate::view::View;

/// Bytes in the memory of a device that somebody else owns.
#[derive(Debug)]
pub struct DeviceBytes<'a> {
    address: *mut u8,
    byte_size: usize,
    ordinal: i32,
    owner: PhantomData<&'a mut [u8]>,
}

impl<'a> DeviceBytes<'a> {
    /// # Safety
    /// `address` must be that of `byte_size` bytes on the device `ordinal` that live for `'a`, and,
    /// where they are written to, are in nobody else's use.
    pub unsafe fn new(address: usize, byte_size: usize, ordinal: i32) -> Self {
        let address = ptr::with_exposed_provenance_mut(address);
        DeviceBytes { address, byte_size, ordinal, owner: PhantomData }
    }

    /// How many.
    pub fn byte_size(&self) -> usize {
        self.byte_size
    }
}

impl Client {
    /// Copies memory of a device, this client's or another, to the host.
    ///
    /// # Errors
    /// [`Error::NoRuntime`], [`Error::Runtime`], [`Error::Lengths`] for unequal sizes.
    pub fn copy_to_host(&self, from: &DeviceBytes<'_>, to: &mut [u8]) -> Result<(), Error> {
        let runtime = self.runtime_for(from.byte_size, to.len())?;
        // SAFETY: both have this size; the copy has ended when this returns.
        unsafe { runtime.copy(Direction::ToHost, to.as_mut_ptr(), from.address, to.len()) }?;
        Ok(())
    }

    /// Copies host memory to a device's, this client's or another.
    ///
    /// # Errors
    /// As [`Client::copy_to_host`].
    pub fn copy_to_device(&self, from: &[u8], to: &mut DeviceBytes<'_>) -> Result<(), Error> {
        let runtime = self.runtime_for(to.byte_size, from.len())?;
        // SAFETY: both have this size. Small copies may still be on their way to the device when they
        // return, which is waited for before anybody else hears of them.
        unsafe { runtime.copy(Direction::ToDevice, to.address, from.as_ptr(), from.len()) }?;
        Ok(runtime.synchronize()?)
    }

    /// Lays an array over memory of this client's device; none where the plugin has no views, the
    /// memory is another device's or not aligned to [`Client::view_alignment`], or there is none.
    ///
    /// # Errors
    /// As [`Client::view_host`].
    pub fn view_device<'a>(
        self: &Arc<Self>,
        element_type: ElementType,
        dims: &[i64],
        memory: &DeviceBytes<'a>,
    ) -> Result<Option<View<'a>>, Error> {
        let shape = Shape::sized(element_type, dims, memory.byte_size)?;
        let aligned = memory.address.addr().is_multiple_of(self.view_alignment());
        let here = self.reaches_device_memory() && memory.ordinal == self.ordinal();
        let address = NonNull::new(memory.address).filter(|_| memory.byte_size > 0);
        let (Some(address), true) = (address, self.supports_views() && here && aligned) else {
            return Ok(None);
        };
        // SAFETY: the memory holds the array and lives as long as the view. Executions that take it
        // have ended before that (`Executable::execute`), and only read it: it is never donated.
        let buffer = unsafe { self.view(shape, address) }?;
        Ok(Some(View::new(buffer)))
    }

    /// The runtime, for a copy between places of these sizes, with its device set.
    fn runtime_for(&self, needed: usize, found: usize) -> Result<&dyn DeviceRuntime, Error> {
        let runtime = self
            .runtime()
            .ok_or_else(|| Error::NoRuntime { platform: self.platform_name().to_owned() })?;
        if needed != found {
            return Err(Error::Lengths { needed, found });
        }
        runtime.set_device(self.ordinal())?;
        Ok(&**runtime)
    }
}

impl Buffer {
    /// Copies the array to memory of its device and waits for the end of the copy. False, and nothing
    /// copied, where the device stores it otherwise than dense. The execution that computes the array
    /// must have been awaited.
    ///
    /// # Errors
    /// As [`Client::copy_to_host`]; [`Error::Call`] for a deleted buffer.
    pub fn copy_on_device(&self, to: &mut DeviceBytes<'_>) -> Result<bool, Error> {
        if !self.is_dense()? {
            return Ok(false);
        }
        let runtime = self.client().runtime_for(to.byte_size, self.bytes())?;
        let hold = self.hold()?;
        // SAFETY: both have this size and live until the copy has ended, which is waited for.
        unsafe {
            let copied =
                runtime.copy(Direction::OnDevice, to.address, hold.address(), self.bytes());
            let ended = runtime.synchronize();
            copied.and(ended)
        }?;
        Ok(true)
    }
}
