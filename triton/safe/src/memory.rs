use std::fmt;

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

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Memory::Cpu => "CPU",
            Memory::CpuPinned => "CPU_PINNED",
            Memory::Gpu => "GPU",
        })
    }
}
