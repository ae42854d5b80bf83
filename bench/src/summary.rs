//! What repeated measurements of one thing say.

use serde::Serialize;

/// Order statistics and mean of a set of measurements, in the measurements' unit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// The smallest.
    pub min: f64,
    /// The one in the middle, or the mean of the two there.
    pub median: f64,
    /// The smallest that at least 90 % do not exceed.
    pub p90: f64,
    /// The largest.
    pub max: f64,
    /// The arithmetic mean.
    pub mean: f64,
}

impl Summary {
    /// Of any number of measurements; all zero of none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Summary {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let at = |index: usize| sorted.get(index).copied().unwrap_or_default();
        let last = sorted.len().saturating_sub(1);
        Summary {
            min: at(0),
            median: at(last / 2).midpoint(at(last.div_ceil(2))),
            p90: at((sorted.len() * 9).div_ceil(10).saturating_sub(1)),
            max: at(last),
            mean: sorted.iter().sum::<f64>() / sorted.len().max(1) as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_statistics_are_the_textbook_ones() {
        // Nearest rank: the 9th of ten, the 3rd of three.
        let ten = Summary::of([10.0, 1.0, 9.0, 2.0, 8.0, 3.0, 7.0, 4.0, 6.0, 5.0]);
        assert_eq!(ten, Summary { min: 1.0, median: 5.5, p90: 9.0, max: 10.0, mean: 5.5 });
        let three = Summary::of([5.0, -1.0, 2.0]);
        assert_eq!(three, Summary { min: -1.0, median: 2.0, p90: 5.0, max: 5.0, mean: 2.0 });
        let one = Summary::of([4.0]);
        assert_eq!(one, Summary { min: 4.0, median: 4.0, p90: 4.0, max: 4.0, mean: 4.0 });
        assert_eq!(Summary::of([]).median, 0.0);
    }
}
