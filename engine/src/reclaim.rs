//! Which idle sequences may be freed when a request lacks something (sequence mode §10.2).
//!
//! The server drops a sequence that is idle too long without telling the backend.

use crate::sequence::Sequences;
use crate::{Nanos, SequenceId};

/// A sequence is reclaimed when idle for longer than this.
///
/// The server's clock starts again at every arrival, so twice its timeout; and a request may wait
/// for the batches that it takes to serve everyone before it.
pub(crate) fn limit(
    max_sequence_idle: Nanos,
    live_sequences: usize,
    max_batch_size: usize,
    longest_batch: Nanos,
) -> Nanos {
    let batches = live_sequences.div_ceil(max_batch_size.max(1)) as u64;
    max_sequence_idle.saturating_mul(2).saturating_add(batches.saturating_mul(longest_batch))
}

/// Sequences that are idle for longer than `limit` and not `busy`, least recently active first,
/// with how long they are idle.
pub(crate) fn candidates(
    sequences: &Sequences,
    now: Nanos,
    limit: Nanos,
    busy: impl Fn(&SequenceId) -> bool,
) -> Vec<(SequenceId, Nanos)> {
    let mut idle: Vec<_> = sequences
        .iter()
        .filter_map(|sequence| Some((sequence.last_active?, &sequence.id)))
        .filter(|(active, id)| now.saturating_sub(active.at) > limit && !busy(id))
        .collect();
    idle.sort_unstable();
    idle.into_iter().map(|(active, id)| (id.clone(), now.saturating_sub(active.at))).collect()
}
