//! When a batch starts and what is in it (sequence mode §8).

use tlaloc_engine::{Nanos, SequenceId};

use super::{Reference, Request};
use crate::mutation::Mutation;

impl Reference {
    /// Items 3 to 5: until when what is pending waits, or how long it has waited in vain for
    /// sequences of the last batch.
    pub(super) fn wait(&self, now: Nanos) -> Result<Option<Nanos>, Nanos> {
        let Some((cohort_wait, prompt_wait)) = self.waits() else { return Ok(None) };
        if self.stopping && !self.breaks(Mutation::StoppingWaits) {
            return Ok(None);
        }
        let mut until = Vec::new();
        let mut waited = None;

        if !self.absent().is_empty() {
            let first = &self.pending[0];
            let last = &self.pending[self.pending.len() - 1];
            let arrival = self.rule(first.at, Mutation::CohortWaitFromTheLatest, last.at);
            let since = arrival.max(self.last_batch_end);
            let since = self.rule(since, Mutation::CohortWaitFromTheArrival, arrival);
            if now < since + cohort_wait {
                until.push(since + cohort_wait);
            } else {
                waited = Some(now - since);
            }
        }

        let least = self.rule(2, Mutation::PromptWaitOfSteps, 1);
        let is_prompt =
            |arrival: &&Request| arrival.tokens.as_ref().is_ok_and(|tokens| tokens.len() >= least);
        let mut prompts = self.pending.iter().filter(is_prompt);
        let (first, last) = (prompts.clone().next(), prompts.next_back());
        let prompt = self.rule(first, Mutation::PromptWaitFromTheLatest, last);
        let timed_out = waited.is_some() && self.breaks(Mutation::TimeOutEndsTheOtherWait);
        if let Some(prompt) = prompt.filter(|_| !timed_out)
            && now < prompt.at + prompt_wait
        {
            until.push(prompt.at + prompt_wait);
        }

        let (earlier, later) = (until.iter().min(), until.iter().max());
        match self.rule(earlier, Mutation::LaterOfBothWaits, later) {
            Some(&until) => Err(until),
            None => Ok(waited.filter(|_| !self.stopping)),
        }
    }

    /// Sequences of the last batch that are held and have no request here.
    pub(super) fn absent(&self) -> Vec<SequenceId> {
        let here = |id: &SequenceId| {
            self.pending.iter().any(|request| request.sequence.as_ref() == Some(id))
        };
        let held =
            |id: &SequenceId| self.live.contains_key(id) || self.breaks(Mutation::CohortOfTheFreed);
        self.cohort.iter().filter(|id| held(id) && !here(id)).cloned().collect()
    }

    /// Item 6: the first request of each sequence leaves the queue.
    pub(super) fn split_pending(&mut self) -> Vec<Request> {
        let mut batch: Vec<Request> = Vec::new();
        let mut rest = Vec::new();
        for arrival in std::mem::take(&mut self.pending) {
            let again = batch.iter().any(|other| other.sequence == arrival.sequence);
            let named = arrival.sequence.is_some() || self.breaks(Mutation::NamelessAreOne);
            let again = self.rule(again && named, Mutation::NoDeduplication, false);
            let full = batch.len() >= self.settings.max_batch_size.max(1);
            if again || self.rule(false, Mutation::BatchOfMaxSize, full) {
                rest.push(arrival);
            } else {
                batch.push(arrival);
            }
        }
        self.pending = rest;
        batch
    }
}
