//! Devices whose memory is the host's.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

use super::{DeviceRuntime, Direction, MAPPED_ALIGNMENT, Mapped, RuntimeError};

/// Memory by the allocator, copies by the processor.
#[derive(Debug)]
pub(crate) struct HostRuntime;

fn layout(byte_size: usize) -> Option<Layout> {
    Layout::from_size_align(byte_size.max(1), MAPPED_ALIGNMENT).ok()
}

// SAFETY: the memory has that layout and comes from the allocator, zeroed.
unsafe impl DeviceRuntime for HostRuntime {
    fn is_host(&self) -> bool {
        true
    }

    fn set_device(&self, _ordinal: i32) -> Result<(), RuntimeError> {
        Ok(())
    }

    unsafe fn copy(
        &self,
        _direction: Direction,
        to: *mut u8,
        from: *const u8,
        byte_size: usize,
    ) -> Result<(), RuntimeError> {
        // SAFETY: the caller's promise.
        unsafe { to.copy_from(from, byte_size) };
        Ok(())
    }

    fn synchronize(&self) -> Result<(), RuntimeError> {
        Ok(())
    }

    fn allocate_mapped(&self, byte_size: usize) -> Result<Mapped, RuntimeError> {
        // SAFETY: not of size zero.
        let memory =
            layout(byte_size).and_then(|layout| NonNull::new(unsafe { alloc_zeroed(layout) }));
        let memory = memory.ok_or_else(|| RuntimeError {
            function: "allocating host memory",
            message: format!("there are no {byte_size} bytes"),
        })?;
        Ok(Mapped { host: memory, device: memory, byte_size })
    }

    unsafe fn free_mapped(&self, memory: Mapped) {
        if let Some(layout) = layout(memory.byte_size) {
            // SAFETY: allocated with this layout, and in nobody's use.
            unsafe { dealloc(memory.host.as_ptr(), layout) };
        }
    }
}
