//! What happened, for logs.

use std::fmt;

use crate::{Amounts, Nanos, SequenceId};

/// How much an event matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Of interest when looking for something.
    Verbose,
    /// Of interest to an operator.
    Info,
    /// Something failed.
    Error,
}

/// Why a sequence was freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreeCause {
    /// END.
    Ended,
    /// A new START of its id.
    StartedAgain,
    /// Its own START was refused.
    StartRefused,
    /// A request failed when its KV was past the sequence's length for good.
    Lost,
}

/// Something that happened in the engine. The text is that of a log line, without instance name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A sequence was idle too long and another one was short of what it held.
    Reclaimed {
        /// The sequence.
        sequence: SequenceId,
        /// How long it was idle.
        idle: Nanos,
        /// How long it may be.
        limit: Nanos,
        /// The sequence that was short of something.
        beneficiary: SequenceId,
        /// What the reclaimed sequence held.
        held: Amounts,
    },
    /// A batch did not wait any longer for sequences of the previous one.
    RanWithout {
        /// Requests of the batch.
        requests: usize,
        /// The sequences, ascending.
        absent: Vec<SequenceId>,
        /// How long it waited.
        waited: Nanos,
        /// Batches so far that ran without someone, this one included.
        times: u64,
        /// Batches so far, this one included.
        batches: u64,
    },
    /// A sequence was freed.
    Freed {
        /// The sequence.
        sequence: SequenceId,
        /// What it held.
        held: Amounts,
        /// Tokens that it held.
        tokens: usize,
        /// Why.
        cause: FreeCause,
    },
    /// The pools that a failed execution took were replaced.
    PoolsRestored {
        /// Sequences that were freed.
        sequences: usize,
    },
    /// The pools that a failed execution took could not be replaced; the next batch tries again.
    PoolsMissing {
        /// Sequences that were freed.
        sequences: usize,
        /// Why.
        message: String,
    },
    /// Totals, every 1000 batches.
    Summary {
        /// Batches.
        batches: u64,
        /// Requests.
        requests: u64,
        /// Calls.
        calls: u64,
        /// Batches that ran without someone that they waited for.
        ran_without: u64,
        /// Live sequences.
        sequences: usize,
    },
}

/// How many times running without a sequence is worth telling an operator.
const RAN_WITHOUT_TOLD: u64 = 10;

/// How many absent sequences a line lists.
const ABSENT_LISTED: usize = 6;

const NANOS_PER_MICRO: Nanos = 1_000;
const NANOS_PER_MILLI: Nanos = 1_000_000;

impl Event {
    /// How much it matters.
    pub fn level(&self) -> Level {
        match self {
            Event::PoolsRestored { .. } | Event::PoolsMissing { .. } => Level::Error,
            Event::Reclaimed { .. } => Level::Info,
            Event::RanWithout { times, .. } if *times <= RAN_WITHOUT_TOLD => Level::Info,
            Event::RanWithout { .. } | Event::Freed { .. } | Event::Summary { .. } => {
                Level::Verbose
            }
        }
    }
}

impl fmt::Display for FreeCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FreeCause::Ended => "ended",
            FreeCause::StartedAgain => "started again",
            FreeCause::StartRefused => "refused at START",
            FreeCause::Lost => "a request failed midway",
        })
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Reclaimed { sequence, idle, limit, beneficiary, held } => write!(
                f,
                "reclaimed sequence {sequence} (the least recently active, idle {} ms, limit {} \
                 ms) for sequence {beneficiary}: {held}",
                idle / NANOS_PER_MILLI,
                limit / NANOS_PER_MILLI
            ),
            Event::RanWithout { requests, absent, waited, times, batches } => {
                write!(f, "a batch of {requests} request(s) ran without sequence(s)")?;
                for sequence in absent.iter().take(ABSENT_LISTED) {
                    write!(f, " {sequence}")?;
                }
                if absent.len() > ABSENT_LISTED {
                    write!(f, " ...")?;
                }
                write!(
                    f,
                    " of the previous batch after waiting {} us ({times} of {batches} batches \
                     so far)",
                    waited / NANOS_PER_MICRO
                )
            }
            Event::Freed { sequence, held, tokens, cause } => {
                write!(f, "freed sequence {sequence} ({cause}): {held}, {tokens} token(s)")
            }
            Event::PoolsRestored { sequences } => write!(
                f,
                "a failed execution took the KV pools: freed {sequences} sequence(s); the pools \
                 are zeroed anew"
            ),
            Event::PoolsMissing { sequences, message } => write!(
                f,
                "a failed execution took the KV pools: freed {sequences} sequence(s); zeroing the \
                 pools failed, the next batch tries again: {message}"
            ),
            Event::Summary { batches, requests, calls, ran_without, sequences } => write!(
                f,
                "{batches} batches ran {requests} requests in {calls} calls; {ran_without} batches \
                 ran without a sequence that they waited for; {sequences} sequence(s) are live"
            ),
        }
    }
}
