//! A device that the machine does not have: host memory that plays its part, and a record of what was
//! asked of it.
#![allow(clippy::unwrap_used)] // helpers of tests
#![allow(dead_code)] // each test file uses its part

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

use tlaloc_pjrt::{DeviceRuntime, Direction, MAPPED_ALIGNMENT, Mapped, RuntimeError};

/// What was asked, with the device that the thread had set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    SetDevice(i32),
    Copy(Direction, usize),
    Synchronize,
    Allocate(usize),
    Free(usize),
}

/// The double. Copies within the device wait until somebody synchronizes, as late as a device may make
/// them: who does not wait sees old bytes.
#[derive(Debug, Default)]
pub struct Recording {
    asked: Mutex<Vec<Asked>>,
    queued: Mutex<Vec<(usize, usize, usize)>>,
    refused: Mutex<Option<Direction>>,
}

thread_local! {
    static DEVICE: Cell<i32> = const { Cell::new(-1) };
}

fn layout(byte_size: usize) -> Layout {
    Layout::from_size_align(byte_size.max(1), MAPPED_ALIGNMENT).unwrap()
}

impl Recording {
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// What was asked since the last time, in order.
    pub fn take(&self) -> Vec<Asked> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }

    /// Copies in this direction fail from now on.
    pub fn refuse(&self, direction: Option<Direction>) {
        *self.refused.lock().unwrap() = direction;
    }

    fn note(&self, asked: Asked) {
        self.asked.lock().unwrap().push(asked);
    }
}

// SAFETY: mapped memory has that layout and comes from the allocator, zeroed.
unsafe impl DeviceRuntime for Recording {
    fn is_host(&self) -> bool {
        false
    }

    fn set_device(&self, ordinal: i32) -> Result<(), RuntimeError> {
        self.note(Asked::SetDevice(ordinal));
        DEVICE.set(ordinal);
        Ok(())
    }

    unsafe fn copy(
        &self,
        direction: Direction,
        to: *mut u8,
        from: *const u8,
        byte_size: usize,
    ) -> Result<(), RuntimeError> {
        assert!(DEVICE.get() >= 0, "this thread has set no device");
        self.note(Asked::Copy(direction, byte_size));
        if *self.refused.lock().unwrap() == Some(direction) {
            return Err(RuntimeError { function: "copy", message: "refused".to_owned() });
        }
        match direction {
            Direction::OnDevice => {
                let (to, from) = (to.expose_provenance(), from.expose_provenance());
                self.queued.lock().unwrap().push((to, from, byte_size));
            }
            // SAFETY: the caller's promise.
            Direction::ToHost | Direction::ToDevice => unsafe { to.copy_from(from, byte_size) },
        }
        Ok(())
    }

    fn synchronize(&self) -> Result<(), RuntimeError> {
        self.note(Asked::Synchronize);
        for (to, from, byte_size) in self.queued.lock().unwrap().drain(..) {
            let to = std::ptr::with_exposed_provenance_mut::<u8>(to);
            // SAFETY: whoever asked for the copy has promised.
            unsafe { to.copy_from(std::ptr::with_exposed_provenance(from), byte_size) };
        }
        Ok(())
    }

    fn allocate_mapped(&self, byte_size: usize) -> Result<Mapped, RuntimeError> {
        assert!(DEVICE.get() >= 0, "this thread has set no device");
        self.note(Asked::Allocate(byte_size));
        // SAFETY: not of size zero.
        let memory = NonNull::new(unsafe { alloc_zeroed(layout(byte_size)) }).unwrap();
        Ok(Mapped { host: memory, device: memory, byte_size })
    }

    unsafe fn free_mapped(&self, memory: Mapped) {
        self.note(Asked::Free(memory.byte_size));
        // SAFETY: allocated with this layout.
        unsafe { dealloc(memory.host.as_ptr(), layout(memory.byte_size)) };
    }
}

/// Memory of the device for a test's tensors.
pub struct DeviceTensor {
    memory: NonNull<u8>,
    byte_size: usize,
}

impl DeviceTensor {
    pub fn new(bytes: &[u8]) -> Self {
        // SAFETY: not of size zero, and of this size.
        unsafe {
            let memory = NonNull::new(alloc_zeroed(layout(bytes.len()))).unwrap();
            memory.as_ptr().copy_from(bytes.as_ptr(), bytes.len());
            DeviceTensor { memory, byte_size: bytes.len() }
        }
    }

    pub fn address(&self) -> usize {
        self.memory.as_ptr().expose_provenance()
    }

    pub fn bytes(&self) -> Vec<u8> {
        // SAFETY: of this size; tests look when nobody writes.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr(), self.byte_size) }.to_vec()
    }
}

impl Drop for DeviceTensor {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.memory.as_ptr(), layout(self.byte_size)) };
    }
}
