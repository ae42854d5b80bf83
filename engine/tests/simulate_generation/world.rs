//! A schedule: requests, a device, a clock, and faults around a scheduler, next to the reference
//! that says what is right.

use std::collections::BTreeMap;
use std::fmt::Debug;

use tlaloc_engine::generation::{
    Counts, End, Event, LiveRequest, MoveKind, Preemption, Rejection, Row, Scheduler, Step,
    Submission, Verdicts,
};
use tlaloc_engine::{CallFailure, Nanos, Outcome, Resource, Ticket};

use crate::gaps::Gaps;
use crate::mutation::Mutation;
use crate::reference::{Reference, Sampled};
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
pub const EVERYTHING: [&str; 31] = [
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
    "pools lost",
    "pools missing",
    "pools restored",
    "preempted by recompute",
    "preempted by swap",
    "preempted unseen",
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

    fn execute(&mut self) -> Result<(), String> {
        self.packed.fill(&self.scheduler, i32::MIN);
        let planned = self.reference.call.clone().ok_or("runs an unknown call")?;
        let call = self.scheduler.call();
        let shape = self.scheduler.geometry().entries()[call.entry].clone();
        let rows: Vec<Row<'_>> = call.rows().collect();
        let plan = || format!("runs {rows:?} on {}, not {planned:?}", shape.id);
        check(call.entry == planned.entry && rows.len() == planned.rows.len(), plan)?;
        let mut expected = Vec::new();
        for (row, (ticket, count)) in rows.iter().zip(&planned.rows) {
            let request = self.reference.get(*ticket).ok_or("runs an unknown request")?;
            let history = [&request.tokens[..], &request.drafts].concat();
            let end = request.computed + count;
            let same = row.ticket.0 == *ticket
                && row.position == request.computed
                && row.tokens == &history[request.computed..end]
                && row.drafts == request.drafts.len()
                && row.samples == (end == history.len())
                && row.remaining == request.remaining();
            check(same, || format!("runs {row:?}, not {count} of {request:?}"))?;
            expected.push((*ticket, row.drafts, row.samples, history[..end].to_vec()));
        }
        self.note((&shape.id, &planned.rows));
        let step_of_prompt = rows.iter().any(|row| shape.tokens == 1 && !row.samples);
        let tickets: Vec<_> = planned.rows.iter().map(|row| row.0).collect();
        let budget = self.scenario.settings.max_prefill_tokens_per_step;
        self.gaps.call(&shape, &tickets, budget)?;
        if step_of_prompt {
            self.saw("step of a prompt");
        }
        if shape.tokens > 1 && !shape.verifies() && tickets.len() > 1 {
            self.saw("joint prefill");
        }

        let result = self.outcome();
        self.note(&result);
        let mut sampled = Vec::new();
        if matches!(result, Ok(()) | Err(CallFailure::Copy { .. })) {
            let remembers =
                planned.rows.iter().zip(&expected).any(|(row, all)| all.3.len() > row.1);
            if remembers && self.faults(Sabotage::ForgetfulDevice) {
                self.device.zero();
            }
            let read = self.device.execute(&shape, &self.packed)?;
            for (read, (ticket, _, _, history)) in read.iter().zip(&expected) {
                check(read == history, || format!("{ticket} reads {read:?}, not {history:?}"))?;
            }
            check(read[expected.len()..].iter().all(Vec::is_empty), || "padding reads".into())?;
        }
        if result.is_ok() {
            for (ticket, drafts, samples, history) in expected {
                sampled.push(self.sample(ticket, drafts, samples, &history)?);
            }
        } else {
            tickets.iter().for_each(|ticket| self.gaps.stops(*ticket));
        }
        let compute_start = self.now;
        let nanos = self.random.pick(self.scenario.executions);
        if self.random.chance(30) {
            self.now += nanos / 2;
            self.deliver()?;
        }
        self.now = compute_start + nanos;
        self.reference.complete(nanos, result.clone(), &sampled);
        let hidden = result.is_err() && self.faults(Sabotage::HiddenFailure);
        self.verdicts.clear();
        for sampled in &sampled {
            match sampled {
                Sampled::Nothing => self.verdicts.push_none(),
                Sampled::Tokens(tokens, finished) => self.verdicts.push_tokens(tokens, *finished),
                Sampled::Failed => self.verdicts.push_failed(),
            }
        }
        let result = if hidden { Ok(()) } else { result };
        let outcome = Outcome { compute_start, compute_end: self.now, result };
        self.scheduler.complete(outcome, &self.verdicts);
        Ok(())
    }

    /// How the next call goes.
    fn outcome(&mut self) -> Result<(), CallFailure> {
        // Requests in host memory are rare, and must survive.
        let more = if self.scheduler.counts().swapped > 0 { 4 } else { 1 };
        if !self.random.chance(more * self.scenario.trouble) {
            return Ok(());
        }
        let message = "boom".to_owned();
        Err(match self.random.below(4) {
            0 => {
                self.device.zero();
                self.lost_pools();
                CallFailure::Execution { message, pools_lost: true }
            }
            1 => {
                self.saw("copy failed");
                CallFailure::Copy { message }
            }
            _ => {
                self.saw("execution failed");
                CallFailure::Execution { message, pools_lost: false }
            }
        })
    }

    fn lost_pools(&mut self) {
        self.saw("pools lost");
        self.gaps = Gaps::default();
        if self.scheduler.counts().swapped > 0 {
            self.saw("swap lost with pools");
        }
    }

    /// What the owner makes of a row whose call took `history` in, the last tokens of it drafts.
    fn sample(
        &mut self,
        ticket: u64,
        drafts: usize,
        samples: bool,
        history: &[i32],
    ) -> Result<Sampled, String> {
        if !samples {
            return Ok(Sampled::Nothing);
        }
        let bad = history.contains(&POISON) || self.random.chance(self.scenario.bad_rows);
        let wrong_draft = self.fault == Some(Sabotage::WrongDraft);
        let known = self.clients.get_mut(&ticket).ok_or("samples for nobody")?;
        let stream = [&known.prompt[..], &known.stream].concat();
        let mine = history[..history.len() - drafts] == stream[..];
        check(mine, || format!("request {ticket} goes on from {history:?}, not {stream:?}"))?;
        if bad {
            known.open = false;
            self.gaps.stops(ticket);
            self.saw("failed row");
            return Ok(Sampled::Failed);
        }
        let mut tokens = Vec::new();
        for column in history.len() - drafts..=history.len() {
            let token = model(&history[..column]);
            let draft = history.get(column);
            if draft.is_some_and(|draft| *draft != token) && wrong_draft && !self.faulted {
                self.faulted = true;
                tokens.extend(draft);
                continue;
            }
            tokens.push(token);
            if token == LAST || draft != Some(&token) {
                break;
            }
        }
        known.stream.extend(&tokens);
        let (stream, alone) = (&known.stream, &known.alone);
        check(alone.starts_with(stream), || format!("{ticket} is {stream:?}, not {alone:?}"))?;
        let last = tokens.last() == Some(&LAST);
        let full = stream.len() >= known.max_tokens;
        // Which the scheduler ends by itself.
        let finished = last || (full && self.random.chance(50));
        if last || full {
            let whole = stream == alone;
            check(whole, || format!("{ticket} ends as {stream:?}, not {alone:?}"))?;
            known.open = false;
            self.gaps.stops(ticket);
            self.saw(if full { "finished" } else { "finished early" });
        } else {
            self.gaps.token(ticket);
        }
        if tokens.len() > 1 {
            self.saw("draft accepted");
        }
        if tokens.len() < 1 + drafts {
            self.saw("draft rejected");
        }
        Ok(Sampled::Tokens(tokens, finished))
    }

    fn carry_out(&mut self) -> Result<(), String> {
        let planned = self.reference.moving.clone().ok_or("makes an unknown move")?;
        let moves = self.scheduler.moves();
        let classes = [Resource::Pages, Resource::RingPages, Resource::StateSlots];
        let same = moves.kind == planned.kind
            && classes.iter().enumerate().all(|(class, resource)| {
                let rows = moves.rows(*resource);
                rows.device == planned.device[class] && rows.host == planned.host[class]
            });
        check(same, || format!("moves {moves:?}, not {planned:?}"))?;
        self.note(&planned);
        let rows: usize = planned.device.iter().map(Vec::len).sum();
        let failed = self.random.chance(self.scenario.move_trouble);
        let lost = failed && self.random.chance(30);
        let result = match failed {
            true => Err(CallFailure::Execution { message: "boom".to_owned(), pools_lost: lost }),
            false => Ok(()),
        };
        if !failed {
            let scrub = planned.kind == MoveKind::Scrub;
            // Only a page that is given away again shows it.
            let skipped = scrub && self.fault == Some(Sabotage::NoScrub);
            if planned.kind == MoveKind::In && planned.device[0].len() > 1 {
                let moved = self.faults(Sabotage::OtherPage);
                self.device.apply(&self.scheduler.moves(), &mut self.host);
                if moved {
                    let pages = &planned.device[0];
                    self.device.exchange(pages[0], pages[1]);
                }
            } else if !skipped {
                self.device.apply(&self.scheduler.moves(), &mut self.host);
            }
            if scrub {
                self.saw("scrub");
            }
        }
        if lost {
            self.device.zero();
            self.lost_pools();
        }
        let nanos = self.scenario.move_row * rows as Nanos;
        self.now += nanos;
        self.deliver()?;
        self.reference.moved(nanos, result.clone());
        self.scheduler.moved(result, nanos);
        Ok(())
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

    fn restore(&mut self) -> Result<(), String> {
        let result = if self.random.chance(20) { Err("no memory".to_owned()) } else { Ok(()) };
        self.note(&result);
        if result.is_ok() {
            self.device.zero();
        }
        self.scheduler.restored(result.clone());
        self.reference.restored(result);
        self.compare_events()
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
