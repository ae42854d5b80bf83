//! How an instance is run.

use crate::Amounts;

/// How an instance is run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The instance's name, for messages.
    pub instance: String,
    /// Requests that may wait for admission; at least one.
    pub max_queue_size: usize,
    /// Requests that may run at once; at least one.
    pub max_running: usize,
    /// Token columns, padding included, of the prefill calls between two decodes of a running
    /// request. The oldest prompt gets a call anyway, of the fewest columns that there are.
    pub max_prefill_tokens_per_step: usize,
    /// What a request reserves when it is admitted.
    pub policy: Policy,
    /// Room in host memory for preempted requests. Without any, they are computed again.
    pub swap_pages: Amounts,
    /// Drafts from a request's own history; none without. Not for linear attention, whose state
    /// cannot be rolled back.
    pub lookup: Option<PromptLookup>,
}

/// What a request reserves when it is admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// All that it may come to need: it is never preempted for want of pages.
    GuaranteedNoEvict,
    /// What its tokens need and a page more. It grows page by page, and the newest request of the
    /// lowest priority is preempted when pages are short.
    MaxUtilization,
}

/// How drafts are looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PromptLookup {
    /// Most drafts of a call.
    pub max_drafts: usize,
    /// Fewest newest tokens that must occur earlier in the history; at least one.
    pub min_ngram: usize,
    /// Most newest tokens that are compared; at least `min_ngram`.
    pub max_ngram: usize,
}
