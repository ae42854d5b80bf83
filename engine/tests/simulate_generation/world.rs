//! A schedule: requests, a device, a clock, and faults around a scheduler, next to the reference
//! that says what is right.

mod calls;
mod moves;

use std::collections::BTreeMap;
use std::fmt::Debug;

use tlaloc_engine::generation::{
    Counts, End, Event, LiveRequest, Preemption, Rejection, Scheduler, Step, Submission, Verdicts,
};
use tlaloc_engine::{Nanos, Ticket};

use crate::gaps::Gaps;
use crate::mutation::Mutation;
use crate::reference::Reference;
use crate::sabotage::Sabotage;
use crate::scenario::{LAST, POISON, Plan, Scenario, model};
use crate::support::{Device, MS, Packed, Random, Seen, US, check, check_holdings};

/// What is put wrong on purpose.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wrong {
    pub rule: Option<Mutation>,
    pub fault: Option<Sabotage>,
}

/// A request as its client knows it.
struct Client {
    prompt: Vec<i32>,
    max_tokens: usize,
    deadline: Option<Nanos>,
    cancelled: bool,
    /// What it got, and what it gets when it is alone.
    stream: Vec<i32>,
    alone: Vec<i32>,
    open: bool,
}

pub struct World {
    random: Random,
    scheduler: Scheduler,
    reference: Reference,
    device: Device,
    host: Device,
    now: Nanos,
    /// To come, the last first.
    plans: Vec<Plan>,
    clients: BTreeMap<u64, Client>,
    gaps: Gaps,
    tell: bool,
    fault: Option<Sabotage>,
    /// The fault took place.
    pub faulted: bool,
    /// How often what happened, to show that schedules reach everything.
    pub seen: Seen,
    scenario: Scenario,
    stopping: bool,
    next_ticket: u64,
    packed: Packed,
    verdicts: Verdicts,
}

/// Every request ends within so many steps: a hundred tokens, and what preemption and failures cost.
const MOST_STEPS: usize = 400;

/// All that a world tells apart.
pub const EVERYTHING: [&str; 35] = [
    "cancelled",
    "copy failed",
    "draft accepted",
    "draft rejected",
    "empty prompt",
    "execution failed",
    "failed row",
    "finished early",
    "finished",
    "joint prefill",
    "move failed",
    "no tokens",
    "never fits",
    "own draft accepted",
    "own draft rejected",
    "own drafts swapped",
    "pools lost",
    "pools missing",
    "pools restored",
    "preempted by recompute",
    "preempted by swap",
    "preempted unseen",
    "prefill of one token",
    "prompt too long",
    "queue full",
    "context exceeded",
    "resumed after recompute",
    "resumed after swap",
    "scrub",
    "scrub failed",
    "step of a prompt",
    "stop with requests",
    "stopping",
    "swap lost with pools",
    "timed out",
];

impl World {
    pub fn new(seed: u64, wrong: Wrong, tell: bool) -> World {
        let mut random = Random(seed);
        let mut scenario = Scenario::new(&mut random);
        let (geometry, settings) = (scenario.geometry.clone(), scenario.settings.clone());
        if tell {
            println!("{geometry:#?}\n{settings:#?}");
        }
        let mut plans = std::mem::take(&mut scenario.plans);
        plans.reverse();
        World {
            reference: Reference::new(&geometry, &settings, wrong.rule),
            device: Device::new(&geometry).poisoned_by(POISON),
            host: Device::host(&geometry, settings.swap_pages),
            packed: Packed::reserved(&geometry),
            scheduler: Scheduler::new(geometry, settings),
            random,
            now: MS,
            plans,
            clients: BTreeMap::new(),
            gaps: Gaps::default(),
            tell,
            fault: wrong.fault,
            faulted: false,
            seen: Seen::new(),
            scenario,
            stopping: false,
            next_ticket: 0,
            verdicts: Verdicts::new(),
        }
    }

    fn note(&self, what: impl Debug) {
        if self.tell {
            println!("{:>12} {what:?}", self.now);
        }
    }

    fn saw(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    /// The fault happens now, or not at all.
    fn faults(&mut self, fault: Sabotage) -> bool {
        let now = self.fault == Some(fault) && !self.faulted && self.random.chance(50);
        self.faulted |= now;
        now
    }

    pub fn run(&mut self) -> Result<(), String> {
        for _ in 0..MOST_STEPS {
            self.deliver()?;
            if !self.stopping && self.random.chance(self.scenario.stops) {
                self.stop();
            }
            match self.step()? {
                Step::Idle => match self.plans.last() {
                    Some(plan) => self.now = self.now.max(plan.at),
                    None => self.stop(),
                },
                Step::Stopped => {
                    self.plans.clear();
                    return self.check_rest();
                }
                // The owner is slow at times.
                _ if self.random.chance(10) => self.now += self.random.pick(&[10 * US, MS]),
                _ => {}
            }
        }
        Err("does not come to rest".into())
    }

    fn stop(&mut self) {
        self.note("stop");
        if self.scheduler.requests().next().is_some() {
            self.saw("stop with requests");
        }
        self.scheduler.stop();
        self.reference.stop();
        self.stopping = true;
    }

    /// Everyone is answered, and everything is free.
    fn check_rest(&self) -> Result<(), String> {
        let open = self.clients.iter().find(|(_, client)| client.open);
        check(open.is_none(), || format!("request {} has no end", open.map_or(&0, |open| open.0)))?;
        let Counts { free, total, host_free, host_total, .. } = self.scheduler.counts();
        let all = free == total && host_free == host_total;
        check(all, || format!("at rest, {free:?} of {total:?}, {host_free:?} of {host_total:?}"))
    }

    /// Hands over what has arrived, and cancels.
    fn deliver(&mut self) -> Result<(), String> {
        while let Some(plan) = self.plans.pop_if(|plan| plan.at <= self.now) {
            self.submit(plan)?;
        }
        if self.random.chance(self.scenario.cancels) && self.next_ticket > 0 {
            let ticket = self.random.next() % self.next_ticket;
            self.note(("cancel", ticket));
            self.scheduler.cancel(Ticket(ticket));
            self.reference.cancel(ticket);
            if let Some(client) = self.clients.get_mut(&ticket) {
                client.cancelled = true;
            }
        }
        Ok(())
    }

    fn submit(&mut self, plan: Plan) -> Result<(), String> {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let Plan { at, prompt, max_tokens, priority, timeout } = plan;
        let deadline = timeout.map(|timeout| at + timeout);
        let submission = Submission {
            ticket: Ticket(ticket),
            prompt: prompt.clone(),
            max_tokens,
            priority,
            deadline,
            at,
        };
        self.note(&submission);
        let expected = self.reference.submit(&submission);
        let result = self.scheduler.submit(submission);
        check(result == expected, || format!("{ticket}: {result:?}, not {expected:?}"))?;
        let what = match result {
            Ok(()) => {
                let client = Client {
                    alone: alone(&prompt, max_tokens),
                    prompt,
                    max_tokens,
                    deadline,
                    cancelled: false,
                    stream: Vec::new(),
                    open: true,
                };
                self.clients.insert(ticket, client);
                return Ok(());
            }
            Err(Rejection::EmptyPrompt) => "empty prompt",
            Err(Rejection::NoTokens) => "no tokens",
            Err(Rejection::PromptTooLong { .. }) => "prompt too long",
            Err(Rejection::ContextExceeded { .. }) => "context exceeded",
            Err(Rejection::NeverFits { .. }) => "never fits",
            Err(Rejection::QueueFull { .. }) => "queue full",
            Err(Rejection::Stopping { .. }) => "stopping",
        };
        self.saw(what);
        Ok(())
    }

    /// One step of the owner's loop.
    fn step(&mut self) -> Result<Step, String> {
        let expected = self.reference.next(self.now);
        let late = if self.fault == Some(Sabotage::FastClock) { 100 * MS } else { 0 };
        let step = self.scheduler.next(self.now + late);
        self.note(step);
        check(step == expected, || format!("does {step:?}, not {expected:?}"))?;
        if self.random.chance(3) {
            let again = self.scheduler.next(self.now);
            check(again == step, || format!("asked again, does {again:?}, not {step:?}"))?;
        }
        self.compare_events()?;
        match step {
            Step::Run => self.execute()?,
            Step::Move => self.carry_out()?,
            Step::RestorePools => self.restore()?,
            Step::Ended => self.take_ends()?,
            Step::Idle | Step::Stopped => {}
        }
        check_holdings(&self.scheduler)?;
        self.compare_requests()?;
        Ok(step)
    }

    fn compare_events(&mut self) -> Result<(), String> {
        let expected = self.reference.events();
        for event in &expected {
            self.note(event);
            match event {
                Event::Preempted { ticket, by, .. } => {
                    self.gaps.stops(ticket.0);
                    self.saw(match by {
                        Preemption::Recompute => "preempted by recompute",
                        Preemption::Swap => "preempted by swap",
                    });
                    let own_drafts = self.scheduler.geometry().drafts().is_some();
                    if own_drafts && *by == Preemption::Swap {
                        self.saw("own drafts swapped");
                    }
                    let client = self.clients.get(&ticket.0);
                    if client.is_some_and(|client| client.stream.is_empty()) {
                        self.saw("preempted unseen");
                    }
                }
                Event::Resumed { from: Preemption::Recompute, .. } => {
                    self.saw("resumed after recompute");
                }
                Event::Resumed { from: Preemption::Swap, .. } => self.saw("resumed after swap"),
                Event::SwapFailed { .. } => self.saw("move failed"),
                Event::ScrubFailed { .. } => {
                    self.gaps = Gaps::default();
                    self.saw("scrub failed");
                }
                Event::PoolsRestored { .. } => self.saw("pools restored"),
                Event::PoolsMissing { .. } => self.saw("pools missing"),
            }
        }
        let equal = self.scheduler.events().eq(expected.iter().cloned());
        check(equal, || format!("does not tell of {expected:?}"))
    }

    fn compare_requests(&self) -> Result<(), String> {
        let (counts, expected) = (self.scheduler.counts(), self.reference.counts());
        check(counts == expected, || format!("counts {counts:?}, not {expected:?}"))?;
        let mut count = 0;
        for live in self.scheduler.requests() {
            count += 1;
            let expected = self.reference.get(live.ticket.0);
            let same = expected.is_some_and(|expected| {
                let LiveRequest { stage, tokens, computed, pages, ring, state_slots, .. } = live;
                let held = [pages, ring, state_slots];
                (stage, tokens, computed)
                    == (expected.stage, &expected.tokens[..], expected.computed)
                    && (0..3).all(|class| held[class] == expected.held[class])
            });
            check(same, || format!("has {live:?}, not {expected:?}"))?;
        }
        let all = self.reference.requests.len();
        check(count == all, || format!("has {count} requests, not {all}"))
    }

    fn take_ends(&mut self) -> Result<(), String> {
        let mut ended: Vec<_> =
            self.scheduler.ended().map(|ended| (ended.ticket.0, ended.end)).collect();
        let expected = self.reference.ended();
        check(ended == expected, || format!("ends {ended:?}, not {expected:?}"))?;
        self.note(&ended);
        if self.faults(Sabotage::DropEnd) {
            ended.pop();
        }
        for (ticket, end) in ended {
            self.gaps.stops(ticket);
            let client = self.clients.get_mut(&ticket).ok_or("ends nobody's request")?;
            check(client.open, || format!("request {ticket} ends twice"))?;
            client.open = false;
            let due = match &end {
                End::Cancelled => client.cancelled,
                End::TimedOut => client.deadline.is_some_and(|deadline| deadline <= self.now),
                End::Failed(_) => self.scenario.trouble + self.scenario.move_trouble > 0,
            };
            check(due, || format!("request {ticket} ends as {end:?}"))?;
            match end {
                End::Cancelled => self.saw("cancelled"),
                End::TimedOut => self.saw("timed out"),
                End::Failed(_) => {}
            }
        }
        // Whoever should be gone is gone: the scheduler has looked.
        let over = |live: &LiveRequest<'_>| {
            let client = &self.clients[&live.ticket.0];
            client.cancelled || client.deadline.is_some_and(|deadline| deadline <= self.now)
        };
        let late = self.scheduler.requests().find(over);
        check(late.is_none(), || format!("{late:?} is still there"))
    }
}

/// What a request generates when it is alone.
fn alone(prompt: &[i32], max_tokens: usize) -> Vec<i32> {
    let mut history = prompt.to_vec();
    while history.len() < prompt.len() + max_tokens {
        let token = model(&history);
        history.push(token);
        if token == LAST {
            break;
        }
    }
    history.split_off(prompt.len())
}
