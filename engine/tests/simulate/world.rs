//! One schedule: an engine, its owner, its clients, and the reference that says what is right.

mod calm;

use std::fmt::Debug;

use tlaloc_engine::{
    Arrival, Batching, CallFailure, Engine, EntryKind, EntryShape, Event, Nanos, Outcome, Refusal,
    Reply, Step, Ticket,
};

use crate::client::Client;
use crate::coverage::kind;
use crate::invariants::{Ledger, Sent, Sequences, check_aftermath, sequences};
use crate::mutation::Mutation;
use crate::reference::Reference;
use crate::sabotage::Sabotage;
use crate::scenario::Scenario;
use crate::support::{
    Device, Given, MS, NO_TOKEN, Packed, Random, Seen, US, check, check_resources,
};

/// What is put wrong on purpose.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wrong {
    pub rule: Option<Mutation>,
    pub fault: Option<Sabotage>,
}

/// A call that the device runs before its turn.
struct Ahead {
    entry: usize,
    inputs: Packed,
    read: Rows,
    given: Given,
}

/// What an engine answers.
type Rows = Vec<Vec<i32>>;

pub struct World {
    pub random: Random,
    pub engine: Engine,
    pub now: Nanos,
    reference: Reference,
    device: Device,
    clients: Vec<Client>,
    ledger: Ledger,
    tell: bool,
    fault: Option<Sabotage>,
    /// The fault took place.
    pub faulted: bool,
    /// How often what happened, to show that schedules reach everything.
    pub seen: Seen,

    trouble: usize,
    executions: &'static [Nanos],
    requests: usize,
    stops: usize,
    /// The engine forms batches, without which there are no generations.
    batches: bool,
    stopping: bool,
    next_ticket: u64,

    packed: Packed,
    given: Given,
    /// A verify step that was launched before the one before it was read.
    ahead: Option<Ahead>,
    in_batch: bool,
    /// What was held when the batch started.
    before: Sequences,
    /// What the rows of the batch's calls read.
    answers: Vec<Rows>,
}

/// More steps than any schedule has.
const MOST_STEPS: usize = 5_000;

impl World {
    pub fn new(seed: u64, wrong: Wrong, tell: bool) -> World {
        let mut random = Random(seed);
        let scenario = Scenario::new(&mut random);
        let Scenario { geometry, settings, .. } = &scenario;
        let batches = settings.batching != Batching::Host;
        if tell {
            println!("{geometry:#?}\n{settings:#?}");
        }
        World {
            reference: Reference::new(geometry, settings.clone(), wrong.rule),
            device: Device::new(geometry),
            packed: Packed::reserved(geometry),
            engine: Engine::new(scenario.geometry, scenario.settings),
            random,
            now: MS,
            clients: scenario.clients,
            ledger: Ledger::default(),
            tell,
            fault: wrong.fault,
            faulted: false,
            seen: Seen::new(),
            trouble: scenario.trouble,
            executions: scenario.executions,
            requests: scenario.requests,
            stops: scenario.stops,
            batches,
            stopping: false,
            next_ticket: 0,
            given: Given::default(),
            ahead: None,
            in_batch: false,
            before: Sequences::new(),
            answers: Vec::new(),
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
        let now = self.fault == Some(fault) && !self.faulted && self.random.chance(30);
        self.faulted |= now;
        now
    }

    pub fn run(&mut self) -> Result<(), String> {
        for _ in 0..MOST_STEPS {
            self.deliver(self.now);
            if !self.stopping && self.random.chance(self.stops) {
                self.stop();
            }
            match self.step()? {
                Step::WaitUntil(time) => {
                    self.sleep(Some(time));
                }
                Step::Idle if self.sleep(None) => {}
                Step::Idle => {
                    if self.random.chance(20) {
                        self.calm_down()?;
                        return self.ledger.check_empty();
                    }
                    self.stop();
                }
                Step::Stopped => return self.ledger.check_empty(),
                // The owner is slow at times.
                _ if self.random.chance(10) => self.now += self.random.pick(&[10 * US, MS]),
                _ => {}
            }
        }
        Err("does not come to rest".into())
    }

    fn stop(&mut self) {
        self.note("stop");
        self.saw(match (self.in_batch, self.reference.rests()) {
            (true, _) => "stop in a batch",
            (false, false) => "stop with requests pending",
            (false, true) => "stop at rest",
        });
        self.engine.stop();
        self.reference.stop();
        self.stopping = true;
        // Few requests come after that.
        for client in &mut self.clients {
            client.due = client.due.filter(|_| self.random.chance(20));
        }
    }

    /// Sleeps until a time or a request; false if nothing would ever end the sleep. Wakes early and
    /// late at times.
    fn sleep(&mut self, until: Option<Nanos>) -> bool {
        let due = self.clients.iter().filter_map(|client| client.due).min();
        let Some(wake) = due.into_iter().chain(until).min() else { return false };
        let wake = wake.max(self.now);
        self.now = match self.random.below(20) {
            0 => self.now + self.random.next() % (wake - self.now + 1),
            1 => wake + self.random.pick(&[1, 100 * US, 2 * MS]),
            _ => wake,
        };
        true
    }

    /// Hands over what clients send until a time, in its order.
    fn deliver(&mut self, until: Nanos) {
        let due = |client: &Client| client.due.filter(|due| *due <= until);
        while let Some((at, index)) =
            self.clients.iter().enumerate().filter_map(|(i, c)| Some((due(c)?, i))).min()
        {
            self.send(index, at);
        }
    }

    fn send(&mut self, index: usize, at: Nanos) {
        if self.requests == 0 {
            self.clients[index].due = None;
            return;
        }
        self.requests -= 1;
        let room = self.engine.geometry().max_context();
        let generates = self.engine.geometry().drafts().is_some() && self.batches;
        let client = &mut self.clients[index];
        let message = client.speak(&mut self.random, room, generates);
        let (start, end) = (message.start, message.end);
        let checked = self.engine.geometry().check_tokens(&message.tokens, start, end);
        let generation = message.generation;
        let tokens = match checked {
            _ if message.malformed => Err(Refusal::Malformed("rank 3".into())),
            Ok(()) => Ok(message.tokens),
            Err(refusal) => Err(refusal),
        };
        let sequence = client.id.clone();
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.ledger.open(ticket, Sent { id: sequence.clone(), start, end, client: index });
        let arrival =
            Arrival { ticket: Ticket(ticket), sequence, start, end, tokens, at, generation };
        self.note(&arrival);
        self.reference.push(arrival.clone());
        self.engine.push(arrival);
    }

    /// One step of the owner's loop.
    fn step(&mut self) -> Result<Step, String> {
        let expected = self.reference.next(self.now);
        if matches!(expected, Step::Run | Step::Reply) && !self.in_batch {
            self.in_batch = true;
            self.before = sequences(&self.engine);
            self.answers.clear();
        }
        let late = if self.fault == Some(Sabotage::FastClock) { 10_000 * MS } else { 0 };
        let step = self.engine.next(self.now + late);
        self.note(step);
        check(step == expected, || format!("does {step:?}, not {expected:?}"))?;
        if self.random.chance(3) {
            let again = self.engine.next(self.now);
            check(again == step, || format!("asked again, does {again:?}, not {step:?}"))?;
        }
        self.compare_events()?;
        match step {
            Step::Run => self.execute()?,
            Step::Reply => self.take_replies()?,
            Step::RestorePools => self.restore()?,
            Step::WaitUntil(_) => self.saw("wait"),
            Step::Idle | Step::Stopped => {}
        }
        check_resources(&self.engine)?;
        self.compare_sequences()?;
        Ok(step)
    }

    fn compare_events(&mut self) -> Result<(), String> {
        let expected = self.reference.events();
        for event in &expected {
            self.note(event);
            match event {
                Event::RanWithout { .. } => self.saw("ran without"),
                Event::Reclaimed { .. } => self.saw("reclaim"),
                _ => {}
            }
        }
        let equal = self.engine.events().eq(expected.iter().cloned());
        check(equal, || format!("does not tell of {expected:?}"))
    }

    fn compare_sequences(&self) -> Result<(), String> {
        let live = &self.reference.live;
        let mut count = 0;
        for held in self.engine.sequences() {
            count += 1;
            let same = live.get(held.id).is_some_and(|expected| {
                expected.tokens.len() == held.length
                    && expected.pages == held.pages
                    && expected.ring == held.ring
                    && expected.state_slots == held.state_slots
                    && expected.pending == held.pending
                    && expected.drafts == held.drafts
            });
            check(same, || format!("holds {held:?}, not {:?}", live.get(held.id)))?;
        }
        check(count == live.len(), || format!("holds {count} sequences, not {live:?}"))
    }

    fn execute(&mut self) -> Result<(), String> {
        self.packed.fill(&self.engine, i32::MIN);
        let call = self.engine.call();
        let (entry, chained) = (call.entry, call.chained);
        let planned = self.reference.call().cloned().ok_or("runs an unknown call")?;
        let shape = self.engine.geometry().entries()[entry].clone();
        let plan = || format!("runs {call:?}, not {planned:?}");
        check((call.entry, call.ordinal) == (planned.entry, planned.ordinal), plan)?;
        check(call.rows().len() == planned.rows.len(), plan)?;
        let mut expected = Vec::new();
        for (row, &(work, done, count)) in call.rows().zip(&planned.rows) {
            let (arrival, before, drafts) = self.reference.request(work);
            let tokens = arrival.tokens.as_deref().unwrap_or(&[]);
            let same = row.ticket == arrival.ticket
                && Some(row.sequence) == arrival.sequence.as_ref()
                && row.position == before.len() + done
                && row.tokens == &tokens[done..done + count]
                && row.drafts == drafts
                && row.last == (done + count == tokens.len());
            check(same, || format!("runs {row:?}, not {done} + {count} of {arrival:?}"))?;
            expected.push([before, &tokens[..done + count], drafts].concat());
        }
        self.note((&shape.id, &planned.rows));
        let rows = expected.len();
        expected.resize(shape.batch, Vec::new());

        let ahead = self.ahead.take();
        if ahead.is_some() {
            self.saw(if chained { "chained" } else { "chained in vain" });
        }
        let ahead = ahead.filter(|_| chained);
        check(ahead.is_some() == chained, || "takes a step that nobody launched".into())?;
        let chains = self.engine.chains() && self.random.chance(80);
        let result = self.outcome(chained || chains);
        self.note(&result);
        if matches!(result, Ok(()) | Err(CallFailure::Copy { .. })) {
            let read = match ahead {
                Some(ahead) => {
                    let same = ahead.entry == entry && ahead.inputs.agrees(&self.packed);
                    check(same, || format!("would run {:?}, not {:?}", self.packed, ahead.inputs))?;
                    self.given = ahead.given;
                    ahead.read
                }
                None => self.run_device(&shape, &planned.rows, rows, chains, &expected)?,
            };
            check(read == expected, || format!("rows read {read:?}, not {expected:?}"))?;
            self.answers.push(read);
            if chains {
                self.launch_next(entry, &shape)?;
            }
        } else {
            self.answers.push(Rows::new());
        }
        let compute_start = self.now;
        let compute_end = self.now + self.random.pick(self.executions);
        if self.random.chance(50) {
            // What comes meanwhile is handed over before the call ends, or after it.
            self.deliver(compute_end);
        }
        self.now = compute_end;
        if !chains && self.random.chance(self.trouble) {
            self.spoil_tokens(rows);
        }
        let outcome = Outcome { compute_start, compute_end, result };
        let ahead = self.ahead.is_some();
        self.reference.complete(outcome.clone(), self.given.clone(), ahead);
        let hidden = outcome.result.is_err() && self.faults(Sabotage::HiddenFailure);
        let result = if hidden { Ok(()) } else { outcome.result };
        let drafts = self.engine.geometry().drafts().is_some();
        let results = drafts.then(|| self.given.results());
        self.engine.complete_with(Outcome { result, ..outcome }, results);
        if drafts && shape.kind == EntryKind::Decode {
            self.saw("verify");
        }
        self.saw("call");
        Ok(())
    }

    /// Runs the call that is packed.
    fn run_device(
        &mut self,
        shape: &EntryShape,
        planned: &[(usize, usize, usize)],
        rows: usize,
        chains: bool,
        expected: &Rows,
    ) -> Result<Rows, String> {
        let spoils = !chains && !self.faulted;
        if let Some(fault) = self.fault.filter(|_| spoils && self.random.chance(30)) {
            let (packed, random) = (&mut self.packed, &mut self.random);
            self.faulted = fault.spoil(packed, rows, shape.columns, random);
        }
        // Tokens of earlier calls are read.
        let remembers = planned.iter().zip(expected).any(|(row, all)| all.len() > row.2);
        if remembers && self.faults(Sabotage::ForgetfulDevice) {
            self.device.zero();
        }
        let read = self.device.execute(shape, &self.packed)?;
        if self.engine.geometry().drafts().is_some() {
            self.given = Given::of(shape, &self.packed, &read, self.engine.geometry());
        }
        Ok(read)
    }

    /// Runs the step after the call, whatever that is taken for.
    fn launch_next(&mut self, entry: usize, shape: &EntryShape) -> Result<(), String> {
        let inputs = self.packed.next(shape, &self.given, self.engine.geometry());
        let read = self.device.execute(shape, &inputs)?;
        let given = Given::of(shape, &inputs, &read, self.engine.geometry());
        self.ahead = Some(Ahead { entry, inputs, read, given });
        self.engine.launched_next();
        Ok(())
    }

    /// The logits of a row are not numbers.
    fn spoil_tokens(&mut self, rows: usize) {
        let k = self.engine.geometry().draft_tokens();
        if k == 0 {
            return;
        }
        let first = self.random.below(rows) * (k + 1);
        if let Some(token) = self.given.next_tokens.get_mut(first) {
            *token = NO_TOKEN;
        }
    }

    /// How the next call goes.
    /// With a step that was launched before its turn all that fails takes the pools.
    fn outcome(&mut self, ahead: bool) -> Result<(), CallFailure> {
        if !self.random.chance(self.trouble) {
            return Ok(());
        }
        let message = "boom".to_owned();
        Err(match self.random.below(4) {
            0 => {
                self.device.zero();
                CallFailure::Execution { message, pools_lost: true }
            }
            1 => CallFailure::Copy { message },
            _ if ahead => {
                self.device.zero();
                CallFailure::Execution { message, pools_lost: true }
            }
            _ => CallFailure::Execution { message, pools_lost: false },
        })
    }

    fn take_replies(&mut self) -> Result<(), String> {
        let progress: Vec<_> =
            self.engine.progress().map(|p| (p.ticket.0, p.tokens.to_vec())).collect();
        let going_on: Vec<_> =
            self.reference.going_on().map(|(ticket, tokens)| (ticket, tokens.to_vec())).collect();
        check(progress == going_on, || format!("tells of {progress:?}, not {going_on:?}"))?;
        for (ticket, _) in &progress {
            self.ledger.started(*ticket);
            self.saw("progress");
        }
        let replies = self.engine.replies();
        let report = replies.report;
        let mut replies: Vec<Reply> = replies.collect();
        let expected = self.reference.replies();
        let requests = expected.len() + progress.len();
        check(report.requests == requests, || format!("{report:?}"))?;
        if !replies.is_empty() && self.faults(Sabotage::DropReply) {
            replies.pop();
        }
        check(replies.len() == expected.len(), || format!("answers {replies:?}, {expected:?}"))?;
        let after = sequences(&self.engine);
        for (reply, expected) in replies.iter().zip(expected) {
            self.note(reply);
            let same = reply.ticket.0 == expected.ticket
                && reply.result == expected.result
                && reply.held == expected.held
                && reply.times == expected.times
                && reply.emitted() == expected.emitted
                && (reply.step() == expected.step || reply.result.is_err());
            check(same, || format!("answers {reply:?}, not {expected:?}"))?;
            let sent = self.ledger.close(reply.ticket.0)?;
            if self.faults(Sabotage::RepeatReply) {
                self.ledger.close(reply.ticket.0)?;
            }
            check_aftermath(&sent, reply, &self.before, &after)?;
            if let Ok(Some(row)) = reply.result {
                let read = self.answers.get(row.call).and_then(|rows| rows.get(row.row));
                // With drafts a call reads them, too.
                let drafts = self.engine.geometry().drafts().is_some();
                let ends = read.is_some_and(|read| drafts || read.ends_with(&reply.tokens));
                check(ends, || format!("answers {reply:?} with {read:?}"))?;
            }
            let known = sent.id.as_ref().is_some_and(|id| after.contains_key(id));
            let client = &mut self.clients[sent.client];
            let given = reply.emitted();
            client.hear(reply.result.is_err(), known, given, self.now, &mut self.random);
            self.saw(kind(reply));
        }
        self.in_batch = false;
        Ok(())
    }

    fn restore(&mut self) -> Result<(), String> {
        let result = if self.random.chance(30) { Err("no memory".to_owned()) } else { Ok(()) };
        self.note(&result);
        self.saw(if result.is_ok() { "pools restored" } else { "pools missing" });
        if result.is_ok() {
            self.device.zero();
        }
        self.engine.restored(result.clone());
        self.reference.restored(result);
        self.compare_events()
    }
}
