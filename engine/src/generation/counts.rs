//! Numbers for metrics and statistics.

use crate::Amounts;

/// What is there now, and what has happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests that wait for admission.
    pub waiting: usize,
    /// Requests that run.
    pub running: usize,
    /// Preempted requests whose tokens will be taken in again.
    pub preempted: usize,
    /// Preempted requests whose pages are in host memory.
    pub swapped: usize,
    /// What no request holds.
    pub free: Amounts,
    /// What no request holds, but is to be zeroed before one gets it.
    pub dirty: Amounts,
    /// What requests can hold.
    pub total: Amounts,
    /// Room in host memory that is free.
    pub host_free: Amounts,
    /// Room in host memory in all.
    pub host_total: Amounts,
    /// Preemptions by recompute so far, those after lost pools included.
    pub preempted_recompute: u64,
    /// Preemptions by swap so far.
    pub preempted_swap: u64,
    /// Tokens of prompts, and of requests that are computed again, that were taken in so far.
    pub prefilled_tokens: u64,
    /// Tokens generated so far.
    pub generated_tokens: u64,
    /// Drafts verified so far.
    pub drafts_proposed: u64,
    /// Drafts that turned out right.
    pub drafts_accepted: u64,
    /// Calls run so far, failed ones included.
    pub calls: u64,
    /// Rounds begun so far.
    pub rounds: u64,
}
