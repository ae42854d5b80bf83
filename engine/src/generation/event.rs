//! What happened, for logs.

use std::fmt;

use crate::{Amounts, Level, Ticket};

/// How a request gives up what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preemption {
    /// Its tokens are taken in again.
    Recompute,
    /// Its pages wait in host memory.
    Swap,
}

/// Something that happened in the scheduler. The text is that of a log line, without instance name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Pages were short, and a request gave up its own.
    Preempted {
        /// The request.
        ticket: Ticket,
        /// How.
        by: Preemption,
        /// What it held.
        held: Amounts,
        /// Its positions whose KV was computed.
        computed: usize,
    },
    /// A preempted request runs again.
    Resumed {
        /// The request.
        ticket: Ticket,
        /// How it was preempted.
        from: Preemption,
    },
    /// Rows of the pools could not be copied to or from host memory; the requests are computed
    /// again.
    SwapFailed {
        /// Requests.
        requests: usize,
        /// Why.
        message: String,
    },
    /// Rows of the pools could not be zeroed, so all of the pools are replaced.
    ScrubFailed {
        /// Why.
        message: String,
    },
    /// The pools that were lost are replaced.
    PoolsRestored {
        /// Requests that are computed again.
        requests: usize,
    },
    /// The pools that were lost could not be replaced; the next request tries again.
    PoolsMissing {
        /// Requests that ended.
        requests: usize,
        /// Why.
        message: String,
    },
}

impl Event {
    /// How much it matters.
    pub fn level(&self) -> Level {
        match self {
            Event::Preempted { .. } => Level::Info,
            Event::Resumed { .. } => Level::Verbose,
            Event::SwapFailed { .. }
            | Event::ScrubFailed { .. }
            | Event::PoolsRestored { .. }
            | Event::PoolsMissing { .. } => Level::Error,
        }
    }
}

impl fmt::Display for Preemption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Preemption::Recompute => "recompute",
            Preemption::Swap => "swap",
        })
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Preempted { ticket: Ticket(ticket), by, held, computed } => write!(
                f,
                "request {ticket} is preempted by {by}: {held}, {computed} token(s) in the KV"
            ),
            Event::Resumed { ticket: Ticket(ticket), from } => {
                write!(f, "request {ticket} runs again after preemption by {from}")
            }
            Event::SwapFailed { requests, message } => write!(
                f,
                "swapping the pages of {requests} request(s) failed, they are computed again: \
                 {message}"
            ),
            Event::ScrubFailed { message } => write!(
                f,
                "zeroing pages with values that are not finite failed, so all KV pools are \
                 replaced: {message}"
            ),
            Event::PoolsRestored { requests } => write!(
                f,
                "the KV pools were lost: they are zeroed anew, and {requests} request(s) are \
                 computed again"
            ),
            Event::PoolsMissing { requests, message } => write!(
                f,
                "the KV pools were lost, and zeroing new ones failed: {requests} request(s) ended; \
                 the next request tries again: {message}"
            ),
        }
    }
}
