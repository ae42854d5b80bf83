//! Why a request is refused (sequence mode §21), in the words that clients read.

use std::fmt;

use crate::{Nanos, Resource, SequenceId};

/// What a refused request leaves of its sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aftermath {
    /// It had START: there is no sequence.
    NotStarted,
    /// It had END: the sequence is freed all the same.
    Ended,
    /// The sequence is as before.
    Unchanged,
}

impl Aftermath {
    /// Of a request with these flags.
    pub fn of(start: bool, end: bool) -> Aftermath {
        match (start, end) {
            (true, _) => Aftermath::NotStarted,
            (false, true) => Aftermath::Ended,
            (false, false) => Aftermath::Unchanged,
        }
    }
}

impl fmt::Display for Aftermath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Aftermath::NotStarted => "the sequence is not started and holds nothing",
            Aftermath::Ended => "the sequence is ended",
            Aftermath::Unchanged => "the sequence is unchanged",
        })
    }
}

/// Kind of an error, as Triton knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// The request can never work as it is.
    InvalidArgument,
    /// The same request may work later.
    Unavailable,
    /// The instance failed.
    Internal,
}

/// Why a request is refused. The text has no model name in front.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The request is malformed, in intake's words. Remedy: as the message says.
    #[error("{0}")]
    Malformed(String),
    /// A token id that the model does not have. Remedy: use the model's own tokenizer.
    #[error(
        "token {index} of the request is {token}, outside the vocabulary [0, {vocab_size}); \
         {aftermath}"
    )]
    OutsideVocabulary {
        /// Place of the token in the request, from 0.
        index: usize,
        /// The token id.
        token: i32,
        /// Token ids are below this.
        vocab_size: usize,
        /// What is left of the sequence.
        aftermath: Aftermath,
    },
    /// A token id that stands for something that this server cannot embed. Remedy: leave it out.
    #[error(
        "token {index} of the request is {token}, the model's {config_key} placeholder, which \
         stands for input that this model is not served with; {aftermath}"
    )]
    RefusedToken {
        /// Place of the token in the request, from 0.
        index: usize,
        /// The token id.
        token: i32,
        /// The checkpoint's config key that names it.
        config_key: String,
        /// What is left of the sequence.
        aftermath: Aftermath,
    },
    /// The request belongs to no sequence. Remedy: send a correlation id.
    #[error(
        "the request has no correlation id, and KV state is kept by sequence: set a correlation \
         id other than 0, and START on the sequence's first request"
    )]
    NoSequence,
    /// The sequence is not held: never started, ended, idle for too long, or lost in a failed
    /// execution. Remedy: start it again.
    #[error(
        "sequence {sequence} has no KV state in instance '{instance}': it was not started there, \
         or it ended, was idle too long or was freed after an error; start it again with START \
         and all of its tokens"
    )]
    NoState {
        /// The sequence.
        sequence: SequenceId,
        /// The instance.
        instance: String,
    },
    /// Nothing to run and nothing to end. Remedy: send tokens, or END.
    #[error(
        "a request without tokens only ends a sequence: sequence {sequence} got one without END; \
         send tokens, or set END"
    )]
    NoTokens {
        /// The sequence.
        sequence: SequenceId,
    },
    /// The sequence would outgrow the model's entries. Remedy: send fewer tokens, or export larger
    /// contexts.
    #[error(
        "{sent} token(s) would take sequence {sequence} from {length} to {} positions{}, but the \
         largest context this model was compiled for is {max_context}; {aftermath}: send at most {} \
         token(s)",
        length.saturating_add(*sent).saturating_add(*extra),
        if *extra > 0 { format!(", {extra} of them for drafts") } else { String::new() },
        max_context
            .saturating_sub(if *aftermath == Aftermath::Unchanged { *length } else { 0 })
            .saturating_sub(*extra)
    )]
    ContextExceeded {
        /// The sequence.
        sequence: SequenceId,
        /// Tokens that it holds.
        length: usize,
        /// Tokens of the request.
        sent: usize,
        /// Positions that drafts take beyond them.
        extra: usize,
        /// The most that a sequence can hold.
        max_context: usize,
        /// What is left of the sequence.
        aftermath: Aftermath,
    },
    /// Too little of a resource is free. Remedy: end sequences, wait, or export more of it.
    #[error("{0}")]
    Exhausted(Box<Exhausted>),
    /// No entry is large enough for a call. Remedy: export one.
    #[error(
        "no {kind} entry of the artifact covers {rows} sequence(s) of {tokens} token(s) at \
         context {context}; export one, or send fewer tokens at once"
    )]
    NoEntry {
        /// `decode` or `prefill`.
        kind: &'static str,
        /// Rows of the call.
        rows: usize,
        /// Most tokens of a row.
        tokens: usize,
        /// Positions to attend over.
        context: usize,
    },
    /// An execution failed and left the pools as they were. Remedy: send the request again.
    #[error("execution of {entry} failed and appended nothing: {message}")]
    ExecutionFailed {
        /// The entry.
        entry: String,
        /// The plugin's message.
        message: String,
    },
    /// An execution failed after it consumed the pools. Remedy: start the sequences again.
    #[error(
        "execution of {entry} failed and took the KV pools with it, so every sequence of instance \
         '{instance}' loses its KV state and has to start again: {message}"
    )]
    PoolsLost {
        /// The entry.
        entry: String,
        /// The instance.
        instance: String,
        /// The plugin's message.
        message: String,
    },
    /// The pools are gone since an earlier execution. Remedy: start the sequence again.
    #[error(
        "not executed: an earlier execution that failed took the KV pools, so every sequence of \
         instance '{instance}' loses its KV state and has to start again"
    )]
    PoolsGone {
        /// The instance.
        instance: String,
    },
    /// An execution ran but its results are lost. Remedy: send the request again.
    #[error("{entry} ran, but its results could not be copied to the host: {message}")]
    CopyFailed {
        /// The entry.
        entry: String,
        /// The plugin's message.
        message: String,
    },
    /// A model with a draft head gave no token, because its logits are not numbers. Remedy: start the
    /// sequence again; if it happens again, look for values out of range in the checkpoint.
    #[error(
        "{entry} gave sequence {sequence} no next token: its logits are not finite; the sequence \
         is freed: start it again"
    )]
    NoToken {
        /// The entry.
        entry: String,
        /// The sequence.
        sequence: SequenceId,
    },
    /// A request of several calls failed after the first of them. Remedy: start the sequence
    /// again.
    #[error(
        "{cause}; an earlier call of the same request had run, so the sequence is freed: start it \
         again"
    )]
    AfterEarlierCall {
        /// What failed.
        cause: Box<Refusal>,
    },
    /// A call ran but its results are lost, and the sequence's recurrent state cannot go back.
    /// Remedy: start the sequence again.
    #[error(
        "{cause}; the sequence's linear-attention state has taken these tokens in and cannot go \
         back, so the sequence is freed: start it again"
    )]
    StateAdvanced {
        /// What failed.
        cause: Box<Refusal>,
    },
}

impl Refusal {
    /// Its kind.
    pub fn code(&self) -> Code {
        match self {
            Refusal::Malformed(_)
            | Refusal::OutsideVocabulary { .. }
            | Refusal::RefusedToken { .. }
            | Refusal::NoSequence
            | Refusal::NoState { .. }
            | Refusal::NoTokens { .. }
            | Refusal::ContextExceeded { .. }
            | Refusal::NoEntry { .. } => Code::InvalidArgument,
            Refusal::Exhausted(_) => Code::Unavailable,
            Refusal::ExecutionFailed { .. }
            | Refusal::PoolsLost { .. }
            | Refusal::PoolsGone { .. }
            | Refusal::NoToken { .. }
            | Refusal::CopyFailed { .. } => Code::Internal,
            Refusal::AfterEarlierCall { cause } | Refusal::StateAdvanced { cause } => cause.code(),
        }
    }

    /// The sequence holds less or more than its client thinks, and is freed.
    pub(crate) fn loses_sequence(&self) -> bool {
        matches!(
            self,
            Refusal::AfterEarlierCall { .. }
                | Refusal::StateAdvanced { .. }
                | Refusal::NoToken { .. }
        )
    }
}

/// What a request lacked, and who holds it (sequence mode §10.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exhausted {
    /// What there is too little of.
    pub resource: Resource,
    /// The requesting sequence.
    pub sequence: SequenceId,
    /// What is left of it.
    pub aftermath: Aftermath,
    /// How much of the resource it needs beyond what it holds.
    pub needed: usize,
    /// How much it holds.
    pub held: usize,
    /// How much is free.
    pub free: usize,
    /// How much sequences can hold, free or not.
    pub total: usize,
    /// Tokens of a page.
    pub block_size: usize,
    /// Tokens that the sequence holds.
    pub length: usize,
    /// Tokens that it would hold.
    pub target: usize,
    /// The other sequences that hold the most of it.
    pub holders: Vec<Holder>,
    /// How many other sequences hold any of it.
    pub holder_count: usize,
    /// A sequence is reclaimed when idle for longer.
    pub reclaim_limit: Nanos,
}

/// A sequence that holds some of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The sequence.
    pub sequence: SequenceId,
    /// How much it holds.
    pub held: usize,
    /// Its tokens.
    pub tokens: usize,
    /// Time since its last batch ended; none while it is in its first.
    pub idle: Option<Nanos>,
}

/// How many holders a message lists.
pub(crate) const HOLDERS_LISTED: usize = 6;

const NANOS_PER_MILLI: Nanos = 1_000_000;

/// How a message speaks of a resource.
struct Wording {
    exhausted: &'static str,
    /// Several of it, and one or several.
    plural: &'static str,
    countable: &'static str,
    /// What an export with more of it has more of.
    remedy: &'static str,
}

impl Wording {
    fn of(resource: Resource) -> Wording {
        match resource {
            Resource::Pages => Wording {
                exhausted: "KV page pool exhausted",
                plural: "pages",
                countable: "page(s)",
                remedy: "more pages (numBlocks)",
            },
            Resource::RingPages => Wording {
                exhausted: "windowed KV page pool exhausted",
                plural: "windowed pages",
                countable: "windowed page(s)",
                remedy: "more windowed pages (windowedKv.numBlocks)",
            },
            Resource::StateSlots => Wording {
                exhausted: "linear-attention state slots exhausted",
                plural: "state slots",
                countable: "state slot(s)",
                remedy: "more state slots (numSlots)",
            },
        }
    }
}

impl fmt::Display for Exhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Exhausted { sequence, needed, held, free, total, block_size, length, target, .. } =
            self;
        let Wording { exhausted, plural, countable, remedy } = Wording::of(self.resource);
        write!(f, "{exhausted}: sequence {sequence} needs {needed} more {countable} ")?;
        if self.resource != Resource::StateSlots {
            write!(f, "of {block_size} tokens ")?;
        }
        write!(
            f,
            "to go from {length} to {target} tokens, and {free} of {total} {plural} are free; {} \
             other sequence(s) hold {plural}",
            self.holder_count
        )?;
        for (index, holder) in self.holders.iter().enumerate() {
            let Holder { sequence, held, tokens, idle } = holder;
            let before = if index == 0 { ": " } else { ", " };
            write!(f, "{before}{sequence} ({held} {plural}, {tokens} tokens, ")?;
            match idle {
                Some(idle) => write!(f, "idle {} ms)", idle / NANOS_PER_MILLI)?,
                None => write!(f, "in this batch)")?,
            }
        }
        if self.holder_count > self.holders.len() {
            write!(f, ", ...")?;
        }
        write!(
            f,
            "; a sequence idle for more than {} ms is reclaimed when {plural} are short, a live \
             one is not preempted; ",
            self.reclaim_limit / NANOS_PER_MILLI
        )?;
        match self.aftermath {
            Aftermath::NotStarted => write!(
                f,
                "sequence {sequence} is refused at START and holds nothing: send it again when \
                 {plural} are free"
            )?,
            Aftermath::Ended => write!(
                f,
                "sequence {sequence} keeps its {held} {plural} and the KV of its {length} tokens \
                 only until its END, which frees them now"
            )?,
            Aftermath::Unchanged => write!(
                f,
                "sequence {sequence} keeps its {held} {plural} and the KV of its {length} tokens: \
                 send the request again when {plural} are free, or end the sequence"
            )?,
        }
        write!(f, "; to hold more, export the artifact with {remedy}")
    }
}
