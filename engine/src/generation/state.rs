//! The requests of an instance, and what is left for others.

use super::costs::Rate;
use super::counts::Counts;
use super::line::{Line, Running};
use super::request::{RequestKey, Requests, Stage};
use super::{End, Ended, Event, Failure, Preemption, PromptLookup, Settings};
use crate::resources::{Held, Resources};
use crate::{Amounts, Geometry, Nanos};

/// What lives from round to round.
#[derive(Debug)]
pub(super) struct State {
    pub geometry: Geometry,
    pub settings: Settings,
    /// As in the settings, if the model can verify drafts.
    pub lookup: Option<PromptLookup>,
    pub requests: Requests,
    /// Never admitted.
    pub waiting: Line,
    /// Preempted, and not on the way in or out.
    pub preempted: Line,
    pub running: Running,
    pub resources: Resources,
    pub host: Resources,
    /// Held by no request, but not to be handed out before it is zeroed.
    pub dirty: Held,
    pub move_cost: Rate,
    pub prefill_cost: Rate,
    pub events: Vec<Event>,
    pub ended: Vec<Ended>,
    /// Those that only ever grow.
    pub totals: Counts,
    /// Requests whose cancellation has not been seen.
    pub cancelled: usize,
    /// No deadline is earlier.
    pub earliest_deadline: Option<Nanos>,
}

impl State {
    pub fn new(geometry: Geometry, settings: Settings) -> State {
        let verify = geometry.max_verify().filter(|_| geometry.num_state_slots().is_none());
        let lookup = settings.lookup.zip(verify).map(|(lookup, (_, tokens))| {
            let min_ngram = lookup.min_ngram.max(1);
            PromptLookup {
                max_drafts: lookup.max_drafts.min(tokens - 1),
                min_ngram,
                max_ngram: lookup.max_ngram.max(min_ngram),
            }
        });
        State {
            lookup,
            requests: Requests::default(),
            waiting: Line::default(),
            preempted: Line::default(),
            running: Running::default(),
            resources: Resources::new(&geometry),
            host: Resources::of_host(settings.swap_pages),
            dirty: Held::default(),
            move_cost: Rate::default(),
            prefill_cost: Rate::default(),
            events: Vec::new(),
            ended: Vec::new(),
            totals: Counts::default(),
            cancelled: 0,
            earliest_deadline: None,
            geometry,
            settings,
        }
    }

    /// What a request that holds `held` lacks for a decode call that makes it `length` tokens long,
    /// and so for any call before it.
    pub fn lacking(&self, held: &Held, length: usize) -> Amounts {
        Amounts::lacking(length + self.geometry.beyond_decode(), held, &self.geometry)
    }

    /// A request ends, and its owner is told.
    pub fn end(&mut self, key: RequestKey, end: End) {
        // What a call that failed wrote is not known.
        let suspect = matches!(end, End::Failed(_));
        if let Some(ticket) = self.remove(key, suspect) {
            self.ended.push(Ended { ticket, end });
        }
    }

    /// Takes a request out of everything. What it held goes to others, once zeroed if it is
    /// `suspect` or not known to be finite.
    pub fn remove(&mut self, key: RequestKey, suspect: bool) -> Option<crate::Ticket> {
        let request = self.requests.remove(key)?;
        let finite = request.is_finite();
        self.waiting.remove(request.rank);
        self.preempted.remove(request.rank);
        self.running.remove(request.rank);
        if request.cancelled {
            self.cancelled -= 1;
        }
        self.release(request.held, !suspect && finite);
        self.host.give_back(request.host);
        Some(request.ticket)
    }

    /// Takes back what a request held on the device; what is not known to be `finite` is to be
    /// zeroed first.
    pub fn release(&mut self, held: Held, finite: bool) {
        if finite {
            self.resources.give_back(held);
        } else {
            self.dirty.extend(&held, held.amounts());
        }
    }

    /// What was to be zeroed is zeroed.
    pub fn clean(&mut self) {
        self.resources.give_back(std::mem::take(&mut self.dirty));
    }

    /// A request that does not run is to be computed again.
    pub fn recompute(&mut self, key: RequestKey) {
        let request = &mut self.requests[key];
        self.host.give_back(std::mem::take(&mut request.host));
        self.resources.give_back(std::mem::take(&mut request.held));
        request.rewind();
        request.stage = Stage::Preempted(Preemption::Recompute);
        self.preempted.insert(request.rank, key);
    }

    /// What a request held is in host memory now.
    pub fn swapped_out(&mut self, key: RequestKey) {
        self.totals.preempted_swap += 1;
        let request = &mut self.requests[key];
        self.resources.give_back(std::mem::take(&mut request.held));
        self.preempted.insert(request.rank, key);
    }

    /// What a request held is on the device again.
    pub fn swapped_in(&mut self, key: RequestKey) {
        let request = &mut self.requests[key];
        self.host.give_back(std::mem::take(&mut request.host));
        request.stage = Stage::Running;
        self.running.insert(request.rank, key);
        let (ticket, from) = (request.ticket, Preemption::Swap);
        self.events.push(Event::Resumed { ticket, from });
    }

    /// The pools are lost: what runs is computed again, and nothing is left to be zeroed.
    pub fn lose_pools(&mut self) {
        self.clean();
        while let Some(key) = self.running.pop() {
            self.totals.preempted_recompute += 1;
            self.recompute(key);
        }
    }

    /// Every request ends.
    pub fn fail_all(&mut self, failure: &Failure) -> usize {
        let mut requests: Vec<_> =
            self.requests.iter().map(|(key, request)| (request.rank.order, key)).collect();
        requests.sort_unstable_by_key(|(order, _)| *order);
        for (_, key) in &requests {
            self.end(*key, End::Failed(failure.clone()));
        }
        self.clean();
        requests.len()
    }

    /// Ends what is cancelled or past its deadline.
    pub fn sweep(&mut self, now: Nanos, gone: &mut Vec<RequestKey>) {
        if self.cancelled == 0 && self.earliest_deadline.is_none_or(|deadline| now < deadline) {
            return;
        }
        self.earliest_deadline = None;
        let mut ends: Vec<(u64, RequestKey, End)> = Vec::new();
        for (key, request) in self.requests.iter() {
            if request.cancelled {
                ends.push((request.rank.order, key, End::Cancelled));
            } else if let Some(deadline) = request.deadline {
                if deadline <= now {
                    ends.push((request.rank.order, key, End::TimedOut));
                } else {
                    let earliest = self.earliest_deadline.map_or(deadline, |at| at.min(deadline));
                    self.earliest_deadline = Some(earliest);
                }
            }
        }
        ends.sort_unstable_by_key(|(order, ..)| *order);
        for (_, key, end) in ends {
            gone.push(key);
            self.end(key, end);
        }
    }

    pub fn counts(&self) -> Counts {
        let swapped =
            |key: &RequestKey| self.requests[*key].stage == Stage::Preempted(Preemption::Swap);
        let swapped = self.preempted.iter().filter(swapped).count();
        Counts {
            waiting: self.waiting.len(),
            running: self.running.len(),
            preempted: self.preempted.len() - swapped,
            swapped,
            free: self.resources.free(),
            dirty: self.dirty.amounts(),
            total: self.resources.total(),
            host_free: self.host.free(),
            host_total: self.host.total(),
            ..self.totals
        }
    }
}
