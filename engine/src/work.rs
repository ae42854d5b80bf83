//! A request inside the engine, and the types in which it comes and goes.

use std::vec;

use crate::resources::Held;
use crate::sequence::{SequenceKey, Sequences};
use crate::{Amounts, Nanos, Refusal, SequenceId};

/// The owner's name for a request, returned with its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// A request as intake hands it over.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// Comes back with the reply.
    pub ticket: Ticket,
    /// The sequence that it belongs to; none for correlation id 0 or an empty one.
    pub sequence: Option<SequenceId>,
    /// START: begins a new sequence of this id.
    pub start: bool,
    /// END: the sequence is freed after this request.
    pub end: bool,
    /// Tokens to append, checked by [`Geometry::check_tokens`](crate::Geometry::check_tokens), or
    /// why intake refused the request. A refused request still has effects: START frees an earlier
    /// sequence of its id, END frees the sequence.
    pub tokens: Result<Vec<i32>, Refusal>,
    /// When it arrived.
    pub at: Nanos,
}

/// Where the logits of a request are: a row of one of its batch's calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowRef {
    /// [`Call::ordinal`].
    pub call: usize,
    /// Row of that call.
    pub row: usize,
}

/// Times of a request for statistics (sequence mode §20). Its end is when it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// Arrival, or the batch's start if that was earlier.
    pub start: Nanos,
    /// Start of the last execution that it took part in; the batch's start if none.
    pub compute_start: Nanos,
    /// End of that execution; the batch's start if none.
    pub compute_end: Nanos,
}

/// The answer to a request.
#[derive(Debug)]
pub struct Reply {
    /// The request.
    pub ticket: Ticket,
    /// Its sequence.
    pub sequence: Option<SequenceId>,
    /// Where its logits are, none if nothing ran (it only ended a sequence); or why it is refused.
    pub result: Result<Option<RowRef>, Refusal>,
    /// What the sequence held after the request, before END freed it.
    pub held: Amounts,
    /// For statistics.
    pub times: Times,
    /// The request's token vector, to be used again.
    pub tokens: Vec<i32>,
}

/// A batch for statistics (sequence mode §20). Its end is when all of it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchReport {
    /// Requests of the batch.
    pub requests: usize,
    /// When it started.
    pub start: Nanos,
    /// Start of its first execution; its own start if none.
    pub compute_start: Nanos,
    /// End of its last execution; its own start if none.
    pub compute_end: Nanos,
}

/// The replies of a batch in batch order. Those not taken are dropped with it.
#[derive(Debug)]
pub struct Replies<'a> {
    /// The batch as a whole.
    pub report: BatchReport,
    pub(crate) works: vec::Drain<'a, Work>,
}

impl Iterator for Replies<'_> {
    type Item = Reply;

    fn next(&mut self) -> Option<Reply> {
        let start = self.report.start;
        self.works.next().map(|work| work.into_reply(start))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.works.size_hint()
    }
}

impl ExactSizeIterator for Replies<'_> {}

/// How a call went.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// When the execution was started.
    pub compute_start: Nanos,
    /// When its results were at hand.
    pub compute_end: Nanos,
    /// Whether it ran.
    pub result: Result<(), CallFailure>,
}

/// Why a call gave no results.
#[derive(Clone, Debug)]
pub enum CallFailure {
    /// The execution failed.
    Execution {
        /// The plugin's message.
        message: String,
        /// It consumed donated pools, so no KV is left.
        pools_lost: bool,
    },
    /// The execution ran and the pools are replaced by its outputs, but its results could not be
    /// copied to the host.
    Copy {
        /// The plugin's message.
        message: String,
    },
}

/// The execution to run now.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// Index into [`Geometry::entries`](crate::Geometry::entries).
    pub entry: usize,
    /// Which call of its batch it is, from 0.
    pub ordinal: usize,
    pub(crate) rows: &'a [CallRow],
    pub(crate) works: &'a [Work],
    pub(crate) sequences: &'a Sequences,
}

impl<'a> Call<'a> {
    /// Its rows, from row 0 without gaps. Rows of the entry beyond them are padding.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = Row<'a>> + use<'a> {
        let Call { rows, works, sequences, .. } = *self;
        rows.iter().map(move |row| {
            let work = &works[row.work];
            let sequence = &sequences[row.sequence];
            Row {
                ticket: work.ticket,
                sequence: &sequence.id,
                position: sequence.length,
                tokens: &work.tokens[work.done..work.done + row.count],
                last: work.done + row.count == work.tokens.len(),
                held: &sequence.held,
            }
        })
    }
}

/// One sequence's part of a call.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// The request.
    pub ticket: Ticket,
    /// Its sequence.
    pub sequence: &'a SequenceId,
    /// Position of the first token.
    pub position: usize,
    /// Tokens that the call appends.
    pub tokens: &'a [i32],
    /// This is the request's last call: the row's logits are its answer.
    pub last: bool,
    /// What the sequence holds.
    pub(crate) held: &'a Held,
}

/// A row of the current call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallRow {
    /// Index into the batch.
    pub work: usize,
    pub sequence: SequenceKey,
    /// Tokens that the call appends.
    pub count: usize,
}

/// A request of the engine.
#[derive(Debug)]
pub(crate) struct Work {
    pub ticket: Ticket,
    pub id: Option<SequenceId>,
    pub start: bool,
    pub end: bool,
    pub at: Nanos,
    pub tokens: Vec<i32>,
    /// Tokens that calls have appended.
    pub done: usize,
    pub refusal: Option<Refusal>,
    /// Logits of its last call.
    pub row: Option<RowRef>,
    /// Start and end of the last execution that it took part in.
    pub compute: Option<(Nanos, Nanos)>,
    pub held: Amounts,
}

impl Work {
    pub fn new(arrival: Arrival) -> Work {
        let (tokens, refusal) = match arrival.tokens {
            Ok(tokens) => (tokens, None),
            Err(refusal) => (Vec::new(), Some(refusal)),
        };
        Work {
            ticket: arrival.ticket,
            id: arrival.sequence,
            start: arrival.start,
            end: arrival.end,
            at: arrival.at,
            tokens,
            done: 0,
            refusal,
            row: None,
            compute: None,
            held: Amounts::default(),
        }
    }

    /// Tokens that are still to run.
    pub fn left(&self) -> usize {
        if self.refusal.is_some() { 0 } else { self.tokens.len() - self.done }
    }

    /// Not refused, and of several tokens: its batch waits for others like it.
    pub fn is_prompt(&self) -> bool {
        self.refusal.is_none() && self.tokens.len() > 1
    }

    /// Its failure leaves the sequence of no use.
    pub fn is_lost(&self) -> bool {
        self.refusal.as_ref().is_some_and(Refusal::loses_sequence)
    }

    /// Ends the request with an error of one of its calls.
    pub fn fail(&mut self, refusal: Refusal) {
        self.refusal = Some(if self.done > 0 && !refusal.loses_sequence() {
            Refusal::AfterEarlierCall { cause: Box::new(refusal) }
        } else {
            refusal
        });
    }

    pub fn into_reply(self, batch_start: Nanos) -> Reply {
        let (compute_start, compute_end) = self.compute.unwrap_or((batch_start, batch_start));
        Reply {
            ticket: self.ticket,
            sequence: self.id,
            result: self.refusal.map_or(Ok(self.row), Err),
            held: self.held,
            times: Times { start: self.at.min(batch_start), compute_start, compute_end },
            tokens: self.tokens,
        }
    }
}
