//! What is known of a request.

use std::ops::{Index, IndexMut};

use slab::Slab;

use super::lookup::Lookup;
use super::{Preemption, Submission};
use crate::resources::Held;
use crate::{Nanos, Ticket};

/// Where a request stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It was never admitted.
    Waiting,
    /// It takes part in rounds.
    Running,
    /// It gave up what it held.
    Preempted(Preemption),
}

/// A request inside, to look at.
#[derive(Clone, Copy, Debug)]
pub struct LiveRequest<'a> {
    /// The owner's name for it.
    pub ticket: Ticket,
    /// Where it stands.
    pub stage: Stage,
    /// Its prompt and what it has generated.
    pub tokens: &'a [i32],
    /// How many of the tokens are in the KV.
    pub computed: usize,
    /// Its KV pages, in the order of its positions.
    pub pages: &'a [usize],
    /// Its ring pages, in ring order; none without windowed pools.
    pub ring: &'a [usize],
    /// Its state slots; none without linear attention.
    pub state_slots: &'a [usize],
}

/// A request inside.
#[derive(Debug)]
pub(super) struct Request {
    pub ticket: Ticket,
    /// Requests are served by priority, then by order of submission.
    pub rank: Rank,
    pub deadline: Option<Nanos>,
    pub cancelled: bool,
    pub stage: Stage,
    /// The prompt, what was generated, and drafts: those of the current call, or with a draft head
    /// those of the next one.
    pub tokens: Vec<i32>,
    /// How many of the last tokens are drafts.
    pub drafts: usize,
    pub prompt: usize,
    pub max_tokens: usize,
    /// Positions whose KV is there: `0..computed`.
    pub computed: usize,
    /// Positions whose KV is known to be finite: logits that depend on them were.
    pub finite: usize,
    pub held: Held,
    /// Rows of host memory that hold what it gave up.
    pub host: Held,
    pub lookup: Lookup,
}

/// Ascending: the one served first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    /// Ascending: 0 of a submission is below all others.
    pub priority: u64,
    /// Of submission.
    pub order: u64,
}

impl Request {
    pub fn new(submission: Submission, order: u64) -> Request {
        let Submission { ticket, prompt, max_tokens, priority, deadline, at: _ } = submission;
        Request {
            ticket,
            rank: Rank { priority: priority.checked_sub(1).unwrap_or(u64::MAX), order },
            deadline,
            cancelled: false,
            stage: Stage::Waiting,
            prompt: prompt.len(),
            tokens: prompt,
            drafts: 0,
            max_tokens,
            computed: 0,
            finite: 0,
            held: Held::default(),
            host: Held::default(),
            lookup: Lookup::default(),
        }
    }

    /// Tokens of the prompt and generated ones.
    pub fn length(&self) -> usize {
        self.tokens.len() - self.drafts
    }

    pub fn generated(&self) -> usize {
        self.length() - self.prompt
    }

    /// Tokens that it may still generate.
    pub fn remaining(&self) -> usize {
        self.max_tokens - self.generated()
    }

    /// Tokens that calls have not taken in, drafts left out.
    pub fn left(&self) -> usize {
        self.length() - self.computed
    }

    /// Its newest token is all that is left to take in.
    pub fn decodes(&self) -> bool {
        self.left() == 1 && self.generated() > 0
    }

    /// Positions that it comes to need: its last token is never taken in.
    pub fn capacity(&self) -> usize {
        self.prompt + self.max_tokens - 1
    }

    /// All its positions are known to be finite.
    pub fn is_finite(&self) -> bool {
        self.finite == self.computed
    }

    /// The model's own drafts after its tokens, which the next call verifies.
    pub fn propose(&mut self, drafts: impl ExactSizeIterator<Item = i32>) {
        self.drafts = drafts.len();
        self.tokens.extend(drafts);
    }

    pub fn forget_drafts(&mut self) {
        self.tokens.truncate(self.length());
        self.drafts = 0;
    }

    /// It is computed from its tokens again.
    pub fn rewind(&mut self) {
        self.forget_drafts();
        self.computed = 0;
        self.finite = 0;
    }

    pub fn look(&self) -> LiveRequest<'_> {
        LiveRequest {
            ticket: self.ticket,
            stage: self.stage,
            tokens: &self.tokens[..self.length()],
            computed: self.computed,
            pages: &self.held.pages,
            ring: &self.held.ring,
            state_slots: &self.held.state_slots,
        }
    }
}

/// Names a request for as long as it is inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RequestKey(usize);

/// The requests of an instance.
#[derive(Debug, Default)]
pub(super) struct Requests(Slab<Request>);

impl Requests {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn insert(&mut self, request: Request) -> RequestKey {
        RequestKey(self.0.insert(request))
    }

    pub fn remove(&mut self, key: RequestKey) -> Option<Request> {
        self.0.try_remove(key.0)
    }

    /// In no order that means anything.
    pub fn iter(&self) -> impl Iterator<Item = (RequestKey, &Request)> {
        self.0.iter().map(|(key, request)| (RequestKey(key), request))
    }

    pub fn find(&mut self, ticket: Ticket) -> Option<&mut Request> {
        self.0.iter_mut().map(|(_, request)| request).find(|request| request.ticket == ticket)
    }
}

impl Index<RequestKey> for Requests {
    type Output = Request;

    fn index(&self, key: RequestKey) -> &Request {
        &self.0[key.0]
    }
}

impl IndexMut<RequestKey> for Requests {
    fn index_mut(&mut self, key: RequestKey) -> &mut Request {
        &mut self.0[key.0]
    }
}
