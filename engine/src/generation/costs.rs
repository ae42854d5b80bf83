//! What preemption costs, learnt from how long things took.

use crate::Nanos;

/// Units after which the past counts half, so that a rate follows what changes.
const REMEMBERED: u64 = 1 << 16;

/// How long one unit of something takes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rate {
    nanos: u64,
    units: u64,
}

impl Rate {
    pub fn learn(&mut self, nanos: Nanos, units: usize) {
        self.nanos = self.nanos.saturating_add(nanos);
        self.units = self.units.saturating_add(units as u64);
        while self.units > REMEMBERED {
            self.nanos /= 2;
            self.units /= 2;
        }
    }

    /// How long `units` take: nothing while that is not known, so that it is tried.
    pub fn cost(self, units: usize) -> u128 {
        u128::from(self.nanos) * units as u128 / u128::from(self.units.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_the_mean_and_follows_changes() {
        let mut rate = Rate::default();
        assert_eq!(rate.cost(1_000), 0);
        rate.learn(300, 3);
        rate.learn(100, 1);
        assert_eq!(rate.cost(7), 700);
        for _ in 0..100 {
            rate.learn(3_000_000, 10_000);
        }
        assert!((299_000..=301_000).contains(&rate.cost(1_000)), "{}", rate.cost(1_000));
    }
}
