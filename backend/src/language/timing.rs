//! Host time of executions, by part.

use tlaloc_engine::Nanos;
use tracing::{debug, info};

const RUNS: usize = 100;

/// Collects the parts of an entry's runs and tells their medians after every 100 (sequence mode
/// §12.2).
#[derive(Debug, Default)]
pub struct Medians {
    parts: [Vec<Nanos>; 4],
    told: bool,
}

impl Medians {
    /// Adds one run: inputs, launch, until the logits are there, the rest; ns.
    pub fn add(&mut self, id: &str, run: [Nanos; 4]) {
        for (part, time) in self.parts.iter_mut().zip(run) {
            part.push(time);
        }
        if self.parts[0].len() < RUNS {
            return;
        }
        let [inputs, launch, logits, after] = self.parts.each_mut().map(|part| {
            let micros = median(part) / 1000;
            part.clear();
            micros
        });
        let line = format!(
            "{id} host time per run, median of {RUNS} runs: inputs {inputs} us, launch {launch} us, \
             until the logits are on the host {logits} us, after {after} us",
        );
        if self.told {
            debug!("{line}");
        } else {
            info!("{line}");
        }
        self.told = true;
    }
}

fn median(values: &mut [Nanos]) -> Nanos {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_value() {
        assert_eq!(median(&mut [9, 1, 5]), 5);
        assert_eq!(median(&mut []), 0);
    }
}
