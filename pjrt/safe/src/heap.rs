//! The host's allocator, which plugins on the CPU take everything from.

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
