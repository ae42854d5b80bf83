//! A request as it is handed in, and why it may be refused.

use crate::{Code, Nanos, Resource, Ticket};

/// A request.
#[derive(Clone, Debug)]
pub struct Submission {
    /// The owner's name for it; no two requests of a scheduler have the same.
    pub ticket: Ticket,
    /// Its tokens, checked by [`Geometry::check_tokens`](crate::Geometry::check_tokens).
    pub prompt: Vec<i32>,
    /// Most tokens to generate, at least one.
    pub max_tokens: usize,
    /// 1 is the highest, larger is lower. 0 is below all others.
    pub priority: u64,
    /// When it ends, wherever it is then.
    pub deadline: Option<Nanos>,
    /// When it arrived.
    pub at: Nanos,
}

/// Why a request is refused at once. The text has no model name in front.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// There is nothing to go on from. Remedy: send a prompt.
    #[error("the prompt is empty: send at least one token")]
    EmptyPrompt,
    /// There is nothing to do. Remedy: ask for a token.
    #[error("max_tokens is 0, expected at least 1")]
    NoTokens,
    /// The prompt alone is beyond the model. Remedy: shorten it, or export larger contexts.
    #[error(
        "the prompt has {prompt} tokens, but the largest context this model was compiled for is \
         {max_context}: send at most {max_context} tokens"
    )]
    PromptTooLong {
        /// Tokens of the prompt.
        prompt: usize,
        /// The most positions that a request can have.
        max_context: usize,
    },
    /// The request would outgrow the model's entries. Remedy: as the message says.
    #[error(
        "max_tokens is {max_tokens}, but after a prompt of {prompt} token(s) the largest context \
         this model was compiled for, {max_context}, leaves room for max_tokens in [1, {}]: send \
         less, or export larger contexts",
        (max_context + 1).saturating_sub(*prompt)
    )]
    ContextExceeded {
        /// Tokens of the prompt.
        prompt: usize,
        /// Tokens asked for.
        max_tokens: usize,
        /// The most positions that a request can have.
        max_context: usize,
    },
    /// The instance has too little of a resource, even with nothing else in it. Remedy: send less,
    /// or export more of it.
    #[error(
        "a prompt of {prompt} token(s) with max_tokens {max_tokens} needs {needed} {}, but instance \
         '{instance}' has {total} in all: send less, or export the artifact with more",
        countable(*resource)
    )]
    NeverFits {
        /// What there is too little of.
        resource: Resource,
        /// How much of it the request comes to need.
        needed: usize,
        /// How much there is.
        total: usize,
        /// Tokens of the prompt.
        prompt: usize,
        /// Tokens asked for.
        max_tokens: usize,
        /// The instance.
        instance: String,
    },
    /// Too many requests wait. Remedy: send it again later.
    #[error(
        "the queue of instance '{instance}' is full: {limit} request(s) wait (max_queue_size): \
         send the request again later"
    )]
    QueueFull {
        /// Requests that may wait.
        limit: usize,
        /// The instance.
        instance: String,
    },
    /// The model is being unloaded. Remedy: send it elsewhere.
    #[error("instance '{instance}' is stopping and takes no new requests")]
    Stopping {
        /// The instance.
        instance: String,
    },
}

impl Rejection {
    /// Its kind.
    pub fn code(&self) -> Code {
        match self {
            Rejection::EmptyPrompt
            | Rejection::NoTokens
            | Rejection::PromptTooLong { .. }
            | Rejection::ContextExceeded { .. }
            | Rejection::NeverFits { .. } => Code::InvalidArgument,
            Rejection::QueueFull { .. } | Rejection::Stopping { .. } => Code::Unavailable,
        }
    }
}

fn countable(resource: Resource) -> &'static str {
    match resource {
        Resource::Pages => "KV page(s)",
        Resource::RingPages => "windowed KV page(s)",
        Resource::StateSlots => "state slot(s)",
    }
}
