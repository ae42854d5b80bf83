//! What plugins leave to the platform's own runtime: memory that others own on a device, and host
//! memory that a device reads in place.

mod cuda;
mod host;

use std::fmt;
use std::ptr::NonNull;

pub(crate) use cuda::CudaRuntime;
pub(crate) use host::HostRuntime;

/// A function of the platform's runtime failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{function} failed: {message}")]
pub struct RuntimeError {
    /// The runtime's name of the function.
    pub function: &'static str,
    /// Its words.
    pub message: String,
}

/// From where to where a copy goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From a device to the host.
    ToHost,
    /// From the host to a device.
    ToDevice,
    /// From one place of a device to another.
    OnDevice,
}

/// Host memory that a device reads where it lies, under an address of its own.
#[derive(Debug, Clone, Copy)]
pub struct Mapped {
    /// Where the host sees it.
    pub host: NonNull<u8>,
    /// Where the device sees it.
    pub device: NonNull<u8>,
    /// Its size.
    pub byte_size: usize,
}

/// What mapped memory is aligned to, for host and device: more than any platform asks of buffers.
pub const MAPPED_ALIGNMENT: usize = 256;

/// A platform's runtime. Every call but [`set_device`](Self::set_device) is for the device that the
/// calling thread has set last.
///
/// # Safety
/// Mapped memory has the size asked for and the alignment [`MAPPED_ALIGNMENT`], is zero, and is
/// nobody else's until it is freed. What does not fail does what it says.
pub unsafe trait DeviceRuntime: fmt::Debug + Send + Sync {
    /// Whether the device's memory is the host's, so that nothing has to be copied between them.
    fn is_host(&self) -> bool;

    /// Makes the device of this ordinal the calling thread's.
    ///
    /// # Errors
    /// There is no such device.
    fn set_device(&self, ordinal: i32) -> Result<(), RuntimeError>;

    /// Copies bytes. A copy [on the device](Direction::OnDevice) need not have ended when this
    /// returns: [`synchronize`](Self::synchronize) waits for it.
    ///
    /// # Errors
    /// As the runtime has them.
    ///
    /// # Safety
    /// `to` and `from` must be what the direction says, of at least this size, and stay alive, `from`
    /// unchanged and `to` in nobody else's use, until the copy has ended.
    unsafe fn copy(
        &self,
        direction: Direction,
        to: *mut u8,
        from: *const u8,
        byte_size: usize,
    ) -> Result<(), RuntimeError>;

    /// Waits for the copies that the calling thread has begun.
    ///
    /// # Errors
    /// One of them failed.
    fn synchronize(&self) -> Result<(), RuntimeError>;

    /// Page-locked host memory that the device reads in place, zeroed.
    ///
    /// # Errors
    /// There is not enough.
    fn allocate_mapped(&self, byte_size: usize) -> Result<Mapped, RuntimeError>;

    /// Gives mapped memory back.
    ///
    /// # Safety
    /// It must be of this runtime's, given back once, and in nobody's use.
    unsafe fn free_mapped(&self, memory: Mapped);
}
