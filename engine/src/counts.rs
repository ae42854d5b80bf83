//! Numbers for metrics.

/// What is there now, and what has happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests that wait for a batch.
    pub waiting: usize,
    /// Requests of the batch that runs.
    pub running: usize,
    /// Live sequences.
    pub sequences: usize,
    /// Batches so far that were held back for sequences of the one before.
    pub cohort_waits: u64,
}
