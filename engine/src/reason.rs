//! Why requests are refused, counted by metrics.

use crate::{Refusal, Resource};

/// Why a request was refused, in a word, for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Its tensors, flags or ids are not as they have to be.
    Malformed,
    /// A token id that the model does not have, or is not served with.
    Token,
    /// It belongs to no sequence, or to one that is not held.
    NoSequence,
    /// It has no tokens and ends nothing.
    NoTokens,
    /// The sequence would be longer than the largest context.
    Context,
    /// Too few KV pages are free.
    Pages,
    /// Too few ring pages are free.
    RingPages,
    /// No state slot is free.
    StateSlots,
    /// No entry is large enough.
    NoEntry,
    /// An execution failed.
    Execution,
    /// The pools are gone after an execution that failed.
    Pools,
    /// Results could not be copied to the host.
    Copy,
}

impl Reason {
    /// Each of them, in their order.
    pub const ALL: [Reason; 12] = [
        Reason::Malformed,
        Reason::Token,
        Reason::NoSequence,
        Reason::NoTokens,
        Reason::Context,
        Reason::Pages,
        Reason::RingPages,
        Reason::StateSlots,
        Reason::NoEntry,
        Reason::Execution,
        Reason::Pools,
        Reason::Copy,
    ];

    /// Its name as a label's value.
    pub fn label(self) -> &'static str {
        match self {
            Reason::Malformed => "malformed",
            Reason::Token => "token",
            Reason::NoSequence => "no_sequence",
            Reason::NoTokens => "no_tokens",
            Reason::Context => "context",
            Reason::Pages => "pages",
            Reason::RingPages => "ring_pages",
            Reason::StateSlots => "state_slots",
            Reason::NoEntry => "no_entry",
            Reason::Execution => "execution",
            Reason::Pools => "pools",
            Reason::Copy => "copy",
        }
    }
}

impl Refusal {
    /// Why, in a word.
    pub fn reason(&self) -> Reason {
        match self {
            Refusal::Malformed(_) => Reason::Malformed,
            Refusal::OutsideVocabulary { .. } | Refusal::RefusedToken { .. } => Reason::Token,
            Refusal::NoSequence | Refusal::NoState { .. } => Reason::NoSequence,
            Refusal::NoTokens { .. } => Reason::NoTokens,
            Refusal::ContextExceeded { .. } => Reason::Context,
            Refusal::Exhausted(exhausted) => match exhausted.resource {
                Resource::Pages => Reason::Pages,
                Resource::RingPages => Reason::RingPages,
                Resource::StateSlots => Reason::StateSlots,
            },
            Refusal::NoEntry { .. } => Reason::NoEntry,
            // What it gave is of no use.
            Refusal::ExecutionFailed { .. } | Refusal::NoToken { .. } => Reason::Execution,
            Refusal::PoolsLost { .. } | Refusal::PoolsGone { .. } => Reason::Pools,
            Refusal::CopyFailed { .. } => Reason::Copy,
            Refusal::AfterEarlierCall { cause } | Refusal::StateAdvanced { cause } => {
                cause.reason()
            }
        }
    }
}
