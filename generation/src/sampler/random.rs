//! The random stream of a request.

use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

/// Uniform numbers by (seed, index): the number of an index does not depend on which others were
/// asked for, so a request draws the same tokens alone, in a crowd and after a preemption.
#[derive(Debug)]
pub(super) struct RandomStream(ChaCha8Rng);

/// Words of 32 bits that one number takes.
const WORDS: u128 = 2;

impl RandomStream {
    pub(super) fn new(seed: u64) -> RandomStream {
        RandomStream(ChaCha8Rng::seed_from_u64(seed))
    }

    /// The number in [0, 1) of a position, a multiple of 2^-53.
    pub(super) fn uniform(&mut self, index: u64) -> f64 {
        self.0.set_word_pos(u128::from(index) * WORDS);
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}
