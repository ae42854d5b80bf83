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
    /// The engine sends what it was given back itself, until then.
    pub generation: Option<Generation>,
}

/// How long a request goes on by itself (sequence mode §16).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generation {
    /// It ends with the step that gives the last of so many tokens, or one of those after; at
    /// least 1.
    pub max_tokens: usize,
    /// It ends with the step that gives one of these.
    pub end_tokens: Vec<i32>,
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
    /// The request's token vector, to be used again: as sent, then as given.
    pub tokens: Vec<i32>,
    /// How many of them were sent.
    pub sent: usize,
    /// Where those start that the last step gave.
    pub step: usize,
}

impl Reply {
    /// All tokens that a model with a draft head gave.
    pub fn emitted(&self) -> &[i32] {
        self.tokens.get(self.sent..).unwrap_or_default()
    }

    /// Those of its last step.
    pub fn step(&self) -> &[i32] {
        self.tokens.get(self.step..).unwrap_or_default()
    }
}

/// What a generation that goes on was given in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress<'a> {
    /// The request.
    pub ticket: Ticket,
    /// The tokens, at least one.
    pub tokens: &'a [i32],
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
    /// It was launched with the call before ([`Engine::launched_next`](crate::Engine::launched_next)):
    /// its results are on their way.
    pub chained: bool,
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
                tokens: &work.to_run()[work.done..work.done + row.count],
                drafts: if row.verify { &sequence.drafts } else { &[] },
                last: work.done + row.count == work.count,
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
    /// Proposals for the tokens after it, in a verify step of a model with a draft head.
    pub drafts: &'a [i32],
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
    /// Tokens that the call appends, without drafts.
    pub count: usize,
    /// The sequence's drafts follow, to be verified.
    pub verify: bool,
}

/// A request of the engine.
#[derive(Debug)]
pub(crate) struct Work {
    pub ticket: Ticket,
    pub id: Option<SequenceId>,
    pub start: bool,
    pub end: bool,
    /// When it came, and when it came first.
    pub at: Nanos,
    arrived: Nanos,
    /// As sent, then as given.
    pub tokens: Vec<i32>,
    sent: usize,
    /// Where in `tokens` those start that its batch runs, and how many they are.
    first: usize,
    pub count: usize,
    /// How many of them calls have appended.
    pub done: usize,
    /// Where in `tokens` those start that the batch gives.
    step: usize,
    generation: Option<Generation>,
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
        let sent = tokens.len();
        Work {
            ticket: arrival.ticket,
            id: arrival.sequence,
            start: arrival.start,
            end: arrival.end,
            at: arrival.at,
            arrived: arrival.at,
            tokens,
            sent,
            first: 0,
            count: sent,
            done: 0,
            step: sent,
            generation: arrival.generation.filter(|generation| generation.max_tokens > 0),
            refusal,
            row: None,
            compute: None,
            held: Amounts::default(),
        }
    }

    /// Tokens that are still to run.
    pub fn left(&self) -> usize {
        if self.refusal.is_some() { 0 } else { self.count - self.done }
    }

    /// The tokens that its batch runs.
    pub fn to_run(&self) -> &[i32] {
        &self.tokens[self.first..self.first + self.count]
    }

    /// Takes what its last call gave.
    pub fn give(&mut self, tokens: &[i32]) {
        self.tokens.truncate(self.step);
        self.tokens.extend_from_slice(tokens);
    }

    /// It is a generation, whose steps need the positions of the next one.
    pub fn generates(&self) -> bool {
        self.generation.is_some()
    }

    /// It runs again after a batch that gave these tokens.
    pub fn goes_on(&self) -> bool {
        let (Some(generation), None) = (&self.generation, &self.refusal) else { return false };
        let step = &self.tokens[self.step..];
        let ended = step.iter().any(|token| generation.end_tokens.contains(token));
        !step.is_empty() && !ended && self.tokens.len() - self.sent < generation.max_tokens
    }

    /// It runs again after a call that gives at most `most` tokens, whatever they are.
    pub fn goes_on_after(&self, most: usize) -> bool {
        let given = self.step - self.sent;
        self.generation.as_ref().is_some_and(|generation| {
            generation.end_tokens.is_empty() && given + most < generation.max_tokens
        })
    }

    /// What a generation that goes on was given.
    pub fn progress(&self) -> Progress<'_> {
        Progress { ticket: self.ticket, tokens: &self.tokens[self.step..] }
    }

    /// A generation's next step, at the end of this one: the token that it was given last.
    pub fn again(mut self, now: Nanos) -> Work {
        self.start = false;
        self.at = now;
        self.first = self.tokens.len().saturating_sub(1);
        self.count = self.tokens.len() - self.first;
        self.done = 0;
        self.step = self.tokens.len();
        self.row = None;
        self.held = Amounts::default();
        self
    }

    /// Not refused, and of several tokens: its batch waits for others like it.
    pub fn is_prompt(&self) -> bool {
        self.refusal.is_none() && self.count > 1
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
            times: Times { start: self.arrived.min(batch_start), compute_start, compute_end },
            tokens: self.tokens,
            sent: self.sent,
            step: self.step,
        }
    }
}
