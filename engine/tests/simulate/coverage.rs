//! What happens in schedules, to show that they reach everything.

use tlaloc_engine::{Refusal, Reply, Resource};

/// What a reply is.
pub fn kind(reply: &Reply) -> &'static str {
    match &reply.result {
        Ok(Some(_)) => "answer",
        Ok(None) => "empty answer",
        Err(Refusal::Malformed(_)) => "malformed",
        Err(Refusal::OutsideVocabulary { .. }) => "outside the vocabulary",
        Err(Refusal::RefusedToken { .. }) => "refused token",
        Err(Refusal::NoSequence) => "no sequence",
        Err(Refusal::NoState { .. }) => "no state",
        Err(Refusal::NoTokens { .. }) => "no tokens",
        Err(Refusal::ContextExceeded { .. }) => "context exceeded",
        Err(Refusal::Exhausted(exhausted)) => match exhausted.resource {
            Resource::Pages => "pages exhausted",
            Resource::RingPages => "ring pages exhausted",
            Resource::StateSlots => "state slots exhausted",
        },
        Err(Refusal::NoEntry { .. }) => "no entry",
        Err(Refusal::ExecutionFailed { .. }) => "execution failed",
        Err(Refusal::PoolsLost { .. }) => "pools lost",
        Err(Refusal::PoolsGone { .. }) => "pools gone",
        Err(Refusal::NoToken { .. }) => "no token",
        Err(Refusal::CopyFailed { .. }) => "copy failed",
        Err(Refusal::AfterEarlierCall { .. }) => "after an earlier call",
        Err(Refusal::StateAdvanced { .. }) => "state advanced",
    }
}

/// All that [`kind`] and the world tell apart.
pub const EVERYTHING: [&str; 34] = [
    "answer",
    "empty answer",
    "malformed",
    "outside the vocabulary",
    "refused token",
    "no sequence",
    "no state",
    "no tokens",
    "context exceeded",
    "pages exhausted",
    "ring pages exhausted",
    "state slots exhausted",
    "no entry",
    "execution failed",
    "pools lost",
    "pools gone",
    "copy failed",
    "after an earlier call",
    "state advanced",
    "no token",
    "verify",
    "progress",
    "chained",
    "chained in vain",
    "wait",
    "call",
    "ran without",
    "reclaim",
    "pools restored",
    "pools missing",
    "stop in a batch",
    "stop with requests pending",
    "stop at rest",
    "calm",
];
