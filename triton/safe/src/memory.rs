use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;

use triton_backend_sys as sys;

/// Kinds of memory that Triton tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Memory {
    /// Host memory.
    Cpu = sys::TRITONSERVER_MEMORY_CPU,
    /// Page-locked host memory.
    CpuPinned = sys::TRITONSERVER_MEMORY_CPU_PINNED,
    /// A GPU's memory.
    Gpu = sys::TRITONSERVER_MEMORY_GPU,
}

impl Memory {
    /// What is not known to be host memory is taken for a device's, so that it is not touched.
    pub(crate) fn from_raw(raw: sys::TRITONSERVER_MemoryType) -> Self {
        match raw {
            sys::TRITONSERVER_MEMORY_CPU => Memory::Cpu,
            sys::TRITONSERVER_MEMORY_CPU_PINNED => Memory::CpuPinned,
            _ => Memory::Gpu,
        }
    }

    /// Whether the processor can read and write it.
    pub(crate) fn is_host(self) -> bool {
        self != Memory::Gpu
    }
}

/// Bytes of a request or a response that are on a GPU, where the processor cannot reach them.
#[derive(Clone, Copy, Debug)]
pub struct GpuMemory<'a> {
    address: usize,
    byte_size: usize,
    device: i64,
    owner: PhantomData<&'a [u8]>,
}

impl<'a> GpuMemory<'a> {
    /// # Safety
    /// The address must be that of so many bytes on the device that live for `'a`.
    pub(crate) unsafe fn new(base: *const c_void, byte_size: usize, device: i64) -> Self {
        let address = base.expose_provenance();
        GpuMemory { address, byte_size, device, owner: PhantomData }
    }

    /// Where they are, to be handed to a runtime that knows the device.
    pub fn address(&self) -> usize {
        self.address
    }

    /// How many.
    pub fn byte_size(&self) -> usize {
        self.byte_size
    }

    /// Of which GPU.
    pub fn device(&self) -> i64 {
        self.device
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Memory::Cpu => "CPU",
            Memory::CpuPinned => "CPU_PINNED",
            Memory::Gpu => "GPU",
        })
    }
}
