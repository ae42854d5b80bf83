//! How an instance is run.

use crate::Nanos;

/// How an instance is run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Who forms batches.
    pub batching: Batching,
    /// After how long the server drops an idle sequence.
    pub max_sequence_idle: Nanos,
    /// `max_batch_size` of the model's configuration.
    pub max_batch_size: usize,
    /// The instance's name, for messages.
    pub instance: String,
    /// Whether a generation's next step may start before this one is read (sequence mode §17).
    pub chain: bool,
}

/// Who forms batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Batching {
    /// The engine, which may hold a batch back for requests that are likely to come.
    Engine {
        /// Wait for the next request of sequences that decoded in the last batch.
        cohort_wait: Nanos,
        /// Wait for more prompts after the first.
        prompt_wait: Nanos,
    },
    /// The host: what is pushed before [`Engine::next`] is one batch.
    Host,
}
