//! Host memory of an executor's own that the device writes outputs to.

use std::ops::{Deref, DerefMut};

use tlaloc_pjrt::zeroed;

/// Aligned bytes, reused for outputs of one size.
#[derive(Debug)]
pub struct Block {
    memory: Vec<u8>,
    start: usize,
    byte_size: usize,
}

impl Block {
    /// Zeros at an address that is a multiple of `alignment`, a power of two.
    ///
    /// # Errors
    /// The host has no memory for them.
    pub fn new(byte_size: usize, alignment: usize) -> Result<Self, tlaloc_pjrt::Error> {
        let memory = zeroed(byte_size.saturating_add(alignment))?;
        let start = memory.as_ptr().align_offset(alignment).min(alignment);
        Ok(Block { memory, start, byte_size })
    }
}

impl Deref for Block {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.memory.get(self.start..self.start + self.byte_size).unwrap_or_default()
    }
}

impl DerefMut for Block {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.memory.get_mut(self.start..self.start + self.byte_size).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_there_is_is_an_error() {
        for byte_size in [1 << 52, usize::MAX] {
            assert!(Block::new(byte_size, 64).is_err());
        }
    }

    #[test]
    fn blocks_are_aligned() {
        for byte_size in [0, 1, 100, 4096] {
            let mut block = Block::new(byte_size, 64).unwrap();
            assert_eq!(block.len(), byte_size);
            assert!(block.as_ptr().addr().is_multiple_of(64) || byte_size == 0);
            block.fill(7);
            assert!(block.iter().all(|byte| *byte == 7));
        }
    }
}
