//! When a batch starts, and which requests are in it (sequence mode §8).

use std::collections::{HashMap, HashSet, VecDeque};

use crate::work::Work;
use crate::{Nanos, SequenceId};

/// How long a batch may be held back for requests that are likely to come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waits {
    /// For the next request of sequences that decoded in the last batch.
    pub cohort: Nanos,
    /// For more prompts after the first.
    pub prompt: Nanos,
}

/// What the queue asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ready {
    /// Nothing is pending.
    Empty,
    /// More may come until then.
    Until(Nanos),
    /// A batch starts. `waited` is how long it was held for sequences that did not come.
    Start { waited: Option<Nanos> },
}

/// Requests that no batch has taken yet, in order of arrival.
#[derive(Debug)]
pub(crate) struct Queue {
    waits: Option<Waits>,
    pending: VecDeque<Work>,
    /// How many pending requests each sequence has.
    waiting: HashMap<SequenceId, usize>,
    /// Arrival of the first pending prompt.
    first_prompt: Option<Nanos>,
    /// Sequences of the last batch whose next request has not come: the cohort's absent part.
    absent: HashSet<SequenceId>,
    last_batch_end: Nanos,
}

impl Queue {
    /// Without `waits` every batch starts at once.
    pub fn new(waits: Option<Waits>) -> Queue {
        Queue {
            waits,
            pending: VecDeque::new(),
            waiting: HashMap::new(),
            first_prompt: None,
            absent: HashSet::new(),
            last_batch_end: 0,
        }
    }

    pub fn push(&mut self, work: Work) {
        if let Some(id) = &work.id {
            self.absent.remove(id);
            *self.waiting.entry(id.clone()).or_default() += 1;
        }
        if self.first_prompt.is_none() && work.is_prompt() {
            self.first_prompt = Some(work.at);
        }
        self.pending.push_back(work);
    }

    /// How many requests are pending.
    pub fn len(&self) -> usize {
        self.pending.len()
    }

    /// Sequences of the last batch are waited for.
    pub fn is_cohort_absent(&self) -> bool {
        !self.absent.is_empty()
    }

    /// As [`Queue::push`], before everything that is pending: the next step of a generation.
    pub fn push_front(&mut self, work: Work) {
        if let Some(id) = &work.id {
            self.absent.remove(id);
            *self.waiting.entry(id.clone()).or_default() += 1;
        }
        self.pending.push_front(work);
    }

    /// A request of this sequence is pending.
    fn has(&self, id: &SequenceId) -> bool {
        self.waiting.contains_key(id)
    }

    /// Whether a batch starts now.
    pub fn ready(&self, now: Nanos) -> Ready {
        let Some(first) = self.pending.front() else { return Ready::Empty };
        let Some(waits) = self.waits else { return Ready::Start { waited: None } };
        let mut until = None;
        let mut waited = None;
        if !self.absent.is_empty() {
            // From when the batch could first have run, so that waiting never adds up.
            let since = first.at.max(self.last_batch_end);
            let deadline = since.saturating_add(waits.cohort);
            if now < deadline {
                until = Some(deadline);
            } else {
                waited = Some(now.saturating_sub(since));
            }
        }
        if let Some(arrival) = self.first_prompt {
            let deadline = arrival.saturating_add(waits.prompt);
            if now < deadline {
                until = Some(until.map_or(deadline, |until: Nanos| until.min(deadline)));
            }
        }
        until.map_or(Ready::Start { waited }, Ready::Until)
    }

    /// Moves the first pending request of every sequence to `batch`, and the sequences' ids to
    /// `ids`. Requests without a sequence all go. The rest stays in its order.
    pub fn take(&mut self, batch: &mut Vec<Work>, ids: &mut HashSet<SequenceId>) {
        self.first_prompt = None;
        for _ in 0..self.pending.len() {
            let Some(work) = self.pending.pop_front() else { break };
            match &work.id {
                Some(id) if !ids.insert(id.clone()) => {
                    if self.first_prompt.is_none() && work.is_prompt() {
                        self.first_prompt = Some(work.at);
                    }
                    self.pending.push_back(work);
                    continue;
                }
                Some(id) => self.taken(id),
                None => {}
            }
            batch.push(work);
        }
    }

    fn taken(&mut self, id: &SequenceId) {
        if let Some(count) = self.waiting.get_mut(id) {
            *count -= 1;
            if *count == 0 {
                self.waiting.remove(id);
            }
        }
    }

    /// The sequences that the next batch waits for, ascending.
    pub fn absent(&self) -> Vec<SequenceId> {
        let mut absent: Vec<_> = self.absent.iter().cloned().collect();
        absent.sort_unstable();
        absent
    }

    /// Waits for no one any more.
    pub fn forget_cohort(&mut self) {
        self.absent.clear();
    }

    /// The next batch waits for this sequence, unless its request is pending already.
    pub fn expect(&mut self, id: &SequenceId) {
        if self.waits.is_some() && !self.has(id) {
            self.absent.insert(id.clone());
        }
    }

    /// A batch ended.
    pub fn batch_ended(&mut self, now: Nanos) {
        self.last_batch_end = now;
    }
}
