//! The host's allocator, which plugins on the CPU take everything from.

use std::alloc::{Layout, alloc_zeroed};

use crate::error::Error;

/// Zeros, which take no memory before they are touched. Where `vec!` ends the process, this tells.
///
/// # Errors
/// [`Error::HostMemory`].
pub fn zeroed(byte_size: usize) -> Result<Vec<u8>, Error> {
    if byte_size == 0 {
        return Ok(Vec::new());
    }
    let layout = Layout::array::<u8>(byte_size).map_err(|_| Error::HostMemory { byte_size })?;
    // SAFETY: the layout has a size.
    let memory = unsafe { alloc_zeroed(layout) };
    if memory.is_null() {
        return Err(Error::HostMemory { byte_size });
    }
    // SAFETY: from the allocator of vectors, with the layout of one of this capacity, all zeros.
    Ok(unsafe { Vec::from_raw_parts(memory, byte_size, byte_size) })
}

/// Gives memory that is free, but kept by the allocator for later, back to the system. Compiling
/// leaves more of it than most models take to serve, and so do buffers that threads have dropped which
/// are gone. Takes milliseconds; it is for when a model was loaded or dropped. Does nothing where the
/// allocator is not glibc's.
pub fn release_free_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: takes no pointer and moves no allocation; any thread may call it at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}
