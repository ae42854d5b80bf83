//! How fast the machine reads memory: the ceiling of every program that reads weights.

use std::fmt;
use std::num::NonZeroUsize;
use std::time::Instant;

use serde::Serialize;

use crate::summary::Summary;

/// What to read.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Threads that read at once [default: one, then as many as there are cores].
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,

    /// Size of the array in MiB; it should be many times the last cache.
    #[arg(long, value_name = "MIB", default_value = "1024")]
    size: NonZeroUsize,

    /// How often to read it.
    #[arg(long, value_name = "N", default_value = "9")]
    repeats: NonZeroUsize,

    /// Print one line of JSON.
    #[arg(long)]
    pub json: bool,
}

/// Read bandwidths of one machine.
#[derive(Debug, Serialize)]
pub struct Report(Vec<Reading>);

#[derive(Debug, Serialize)]
struct Reading {
    threads: usize,
    /// GB/s (10^9 bytes).
    gigabytes_per_s: Summary,
}

/// Reads an array over and over.
pub fn run(options: &Options) -> Report {
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let counts = match options.threads {
        Some(threads) => vec![threads.get()],
        None if cores == 1 => vec![1],
        None => vec![1, cores],
    };
    let words = (options.size.get() << 20) / size_of::<u64>();
    // Written, not just reserved: untouched pages all lie in one page of zeros.
    let array: Vec<u64> = (0..words as u64).collect();
    let reading = |threads| {
        let rates = (0..options.repeats.get()).map(|_| read(&array, threads) / 1e9);
        Reading { threads, gigabytes_per_s: Summary::of(rates) }
    };
    Report(counts.into_iter().map(reading).collect())
}

/// Bytes per second of one pass.
fn read(array: &[u64], threads: usize) -> f64 {
    let started = Instant::now();
    std::thread::scope(|scope| {
        for part in array.chunks(array.len().div_ceil(threads).max(1)) {
            scope.spawn(|| std::hint::black_box(sum(part)));
        }
    });
    size_of_val(array) as f64 / started.elapsed().as_secs_f64()
}

/// In as many independent sums as a few vector registers hold, so that additions do not wait for
/// each other.
fn sum(part: &[u64]) -> u64 {
    let mut sums = [0_u64; 32];
    let (chunks, rest) = part.as_chunks::<32>();
    for chunk in chunks {
        for (sum, value) in sums.iter_mut().zip(chunk) {
            *sum = sum.wrapping_add(*value);
        }
    }
    sums.iter().chain(rest).fold(0, |total, value| total.wrapping_add(*value))
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Reading { threads, gigabytes_per_s: rate } in &self.0 {
            writeln!(
                f,
                "{threads} thread(s): {:.1} GB/s median, {:.1} best, {:.1} worst",
                rate.median, rate.max, rate.min
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_read_once() {
        for words in [0, 1, 31, 32, 100] {
            let array: Vec<u64> = (1..=words).collect();
            assert_eq!(sum(&array), words * (words + 1) / 2);
        }
    }
}
