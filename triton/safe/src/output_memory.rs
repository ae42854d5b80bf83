use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::NonNull;

use crate::response::Response;

/// Memory of a response that was begun before its request is answered; see
/// [`Request::output_memory`](crate::Request::output_memory).
#[derive(Debug)]
pub struct OutputMemory<'a> {
    base: NonNull<u8>,
    byte_size: usize,
    alone: bool,
    request: PhantomData<&'a mut [u8]>,
}

impl OutputMemory<'_> {
    /// # Safety
    /// The memory must be `byte_size` writable bytes of the host's that live for `'a`, in use by
    /// nobody else but inputs and outputs that `alone` tells of.
    pub(crate) unsafe fn new(base: NonNull<u8>, byte_size: usize, alone: bool) -> Self {
        OutputMemory { base, byte_size, alone, request: PhantomData }
    }

    /// The memory, to be written to while the inputs are read; none where the client wants the
    /// output over an input, or over another output.
    pub fn alone(&mut self) -> Option<&mut [u8]> {
        // SAFETY: the memory is as `new` was promised, and nothing else of the request is there. Its
        // bytes may not have been written before, which is harmless: they are of a type without
        // invalid values, in memory from outside of Rust.
        self.alone
            .then(|| unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), self.byte_size) })
    }

    /// Copies the output's bytes, when the inputs are needed no more. Bytes that are too many or too
    /// few are not copied: false.
    #[must_use]
    pub fn write(&mut self, bytes: &[u8]) -> bool {
        let fits = bytes.len() == self.byte_size;
        if fits {
            // SAFETY: the memory is as `new` was promised; `copy` allows for any overlap.
            unsafe { self.base.as_ptr().copy_from(bytes.as_ptr(), bytes.len()) };
        }
        fits
    }
}

/// Addresses of some bytes.
pub(crate) fn addresses(bytes: &[u8]) -> Range<usize> {
    let start = bytes.as_ptr().addr();
    start..start + bytes.len()
}

pub(crate) fn overlap(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start < b.end && b.start < a.end
}

/// A response that was begun, and where the outputs are that were added to it.
#[derive(Debug)]
pub(crate) struct Begun {
    pub(crate) response: Response<'static>,
    pub(crate) given: Vec<Range<usize>>,
}
