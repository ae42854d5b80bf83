//! Measurements of several contestants, taken in rounds, side by side.
//!
//! A shared machine falls into slow phases that outlast a measurement. Contestants therefore take
//! turns, and what is compared is their ratio within a round; the median over the rounds is the
//! result.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use serde::Deserialize;

use crate::error::Error;
use crate::summary::Summary;

/// One figure of one contestant in one round.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Measurement {
    round: u32,
    series: String,
    value: f64,
}

/// What is to be reached.
struct Goal {
    /// The series judged.
    of: &'static str,
    figure: Figure,
    at_most: f64,
}

enum Figure {
    /// Milliseconds.
    Itself,
    /// Milliseconds more than another series.
    More(&'static str),
    /// Divided by another series.
    Times(&'static str),
}

const GOALS: [Goal; 9] = {
    use Figure::{Itself, More, Times};
    const fn goal(of: &'static str, figure: Figure, at_most: f64) -> Goal {
        Goal { of, figure, at_most }
    }
    [
        goal("server compute decode b1, mean", Times("replay decode b1, mean"), 1.05),
        goal("server compute decode b4, mean", Times("replay decode b4, mean"), 1.05),
        goal("server queue and input decode b1, mean", Itself, 0.3),
        goal("client decode b1", More("replay decode b1"), 1.0),
        goal("client decode b4", More("replay decode b4"), 1.0),
        goal("replay decode b1", Times("jax decode b1"), 1.0),
        goal("replay decode b4", Times("jax decode b4"), 0.88),
        goal("replay prefill 512", Times("jax prefill 512"), 1.05),
        goal("replay decode b1", Times("llama.cpp decode b1"), 1.2),
    ]
};

/// The rounds of a run: each series' value in each of them.
#[derive(Debug, Default)]
pub struct Rounds(BTreeMap<String, BTreeMap<u32, f64>>);

/// The tables of a run, as Markdown.
pub struct Report<'a>(&'a Rounds);

impl Rounds {
    /// Reads one measurement a line.
    ///
    /// # Errors
    /// [`Error::Unreadable`], and [`Error::Measurement`] for the first line at fault.
    pub fn read(file: &Path) -> Result<Rounds, Error> {
        let text = std::fs::read_to_string(file)
            .map_err(|source| Error::Unreadable { file: file.to_owned(), source })?;
        let mut rounds = Rounds::default();
        for (index, line) in text.lines().enumerate() {
            rounds.add(line).map_err(|reason| Error::Measurement {
                file: file.to_owned(),
                line: index + 1,
                reason,
            })?;
        }
        Ok(rounds)
    }

    fn add(&mut self, line: &str) -> Result<(), String> {
        let measurement = serde_json::from_str(line)
            .map_err(|error| format!("{error}; a measurement has round, series and value"))?;
        let Measurement { round, series, value } = measurement;
        if value <= 0.0 {
            return Err(format!("the value of '{series}' is {value}, which nothing measures"));
        }
        match self.0.entry(series.clone()).or_default().insert(round, value) {
            None => Ok(()),
            Some(_) => Err(format!("'{series}' was measured in round {round} before")),
        }
    }

    /// The tables.
    pub fn report(&self) -> Report<'_> {
        Report(self)
    }

    /// A figure in each round that has all it needs.
    fn figure(&self, goal: &Goal) -> Vec<f64> {
        let values = |series: &str| self.0.get(series).into_iter().flatten();
        let in_round = |series: &str, round: &u32| self.0.get(series)?.get(round).copied();
        values(goal.of)
            .filter_map(|(round, value)| match goal.figure {
                Figure::Itself => Some(*value),
                Figure::More(other) => Some(value - in_round(other, round)?),
                Figure::Times(other) => Some(value / in_round(other, round)?),
            })
            .collect()
    }
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| goal | median of rounds | range | at most | |\n|---|---|---|---|---|")?;
        for goal in &GOALS {
            let values = self.0.figure(goal);
            let (title, unit) = match goal.figure {
                Figure::Itself => (goal.of.to_owned(), " ms"),
                Figure::More(other) => (format!("{} - {other}", goal.of), " ms"),
                Figure::Times(other) => (format!("{} / {other}", goal.of), ""),
            };
            if values.is_empty() {
                writeln!(f, "| {title} | not measured | | {}{unit} | |", goal.at_most)?;
                continue;
            }
            let Summary { min, median, max, .. } = Summary::of(values);
            let verdict = if median <= goal.at_most { "reached" } else { "**missed**" };
            writeln!(
                f,
                "| {title} | {median:.3}{unit} | {min:.3} to {max:.3} | {}{unit} | {verdict} |",
                goal.at_most
            )?;
        }
        writeln!(f, "\n| series | median | min | max | rounds |\n|---|---|---|---|---|")?;
        for (series, rounds) in &self.0.0 {
            let Summary { min, median, max, .. } = Summary::of(rounds.values().copied());
            writeln!(f, "| {series} | {median:.2} | {min:.2} | {max:.2} | {} |", rounds.len())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds(measurements: &[(u32, &str, f64)]) -> Rounds {
        let mut rounds = Rounds::default();
        for (round, series, value) in measurements {
            let line = serde_json::json!({ "round": round, "series": series, "value": value });
            rounds.add(&line.to_string()).unwrap();
        }
        rounds
    }

    #[test]
    fn the_result_is_the_median_of_ratios_within_rounds() {
        // The second round is twice as slow for both, the third only for one.
        let rounds = rounds(&[
            (1, "replay decode b1", 20.0),
            (2, "replay decode b1", 40.0),
            (3, "replay decode b1", 20.0),
            (1, "jax decode b1", 25.0),
            (2, "jax decode b1", 50.0),
            (3, "jax decode b1", 40.0),
            (4, "jax decode b1", 1.0),
        ]);
        let text = rounds.report().to_string();
        let row = "| replay decode b1 / jax decode b1 | 0.800 | 0.500 to 0.800 | 1 | reached |";
        assert!(text.contains(row), "{text}");
        // The ratio of the medians would be 20 / 32.5.
        assert!(text.contains("| jax decode b1 | 32.50 | 1.00 | 50.00 | 4 |"), "{text}");
        assert!(
            text.contains("| replay decode b1 / llama.cpp decode b1 | not measured |"),
            "{text}"
        );
    }

    #[test]
    fn a_missed_goal_is_called_so() {
        let text = rounds(&[
            (1, "client decode b1", 21.5),
            (1, "replay decode b1", 20.0),
            (1, "server queue and input decode b1, mean", 0.3),
        ])
        .report()
        .to_string();
        let missed = "| client decode b1 - replay decode b1 | 1.500 ms | 1.500 to 1.500 | 1 ms | **missed** |";
        assert!(text.contains(missed), "{text}");
        let reached = "| server queue and input decode b1, mean | 0.300 ms | 0.300 to 0.300 | 0.3 ms | reached |";
        assert!(text.contains(reached), "{text}");
    }

    #[test]
    fn lines_that_are_no_measurements_are_refused() {
        let refused = |line: &str| {
            let mut rounds = rounds(&[(1, "a", 1.0)]);
            rounds.add(line).unwrap_err()
        };
        assert!(refused("").contains("a measurement has round, series and value"));
        assert!(refused(r#"{"round": 1, "series": "b"}"#).contains("missing field `value`"));
        assert!(refused(r#"{"round": 1, "series": "b", "value": 0}"#).contains("'b' is 0"));
        assert!(
            refused(r#"{"round": 1, "series": "a", "value": 2}"#).contains("in round 1 before")
        );
    }
}
