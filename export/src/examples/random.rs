//! Numbers that look random and are the same everywhere.

/// Knuth's MMIX generator, `s <- 6364136223846793005 s + 1442695040888963407 mod 2^64`.
pub(super) struct Random(u64);

impl Random {
    /// Starts from `seed`.
    pub(super) fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next number in `[-1, 1)`: `(s >> 40) / 2^23 - 1`, which f32 holds exactly.
    pub(super) fn next(&mut self) -> f32 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f32 / (1_u32 << 23) as f32 - 1.0
    }

    /// The next `count` numbers.
    pub(super) fn take(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.next()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_the_formula() {
        // 1442695040888963407 + 6364136223846793005 = 7806831264735756412, whose upper 24 bits are
        // 7100271: 7100271 / 2^23 - 1.
        assert_eq!(Random::new(1).next(), 7_100_271.0 / 8_388_608.0 - 1.0);
    }
}
