//! Random schedules of an instance: clients that pause, die, resend, start and end at will, overflow
//! and send nonsense; pages run out, executions fail with and without taking the pools, and the
//! server stops in the middle of it all. After every step the engine is compared with a model that
//! is kept here and knows nothing of it.
//!
//! A schedule follows from its seed. A failure prints the seed; `TLALOC_SIM_SEED=<seed> cargo test
//! -p tlaloc-engine --test simulate -- --nocapture` runs that one again and tells every action.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash, Hasher};

use support::{Device, MS, Packed, US, check, check_resources, entries, number, text};
use tlaloc_engine::{
    Amounts, Arrival, Batching, CallFailure, Engine, Event, Geometry, Nanos, Outcome, Refusal,
    Reply, SequenceId, Settings, Step, Ticket,
};

const SCHEDULES: u64 = 20_000;

/// How many different things happen in schedules: all that [`World::saw`] is told but "no entry",
/// as the models here have an entry for every call.
const EVERYTHING: usize = 24;

/// A fault put between the engine and the checks, to show that they see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sabotage {
    None,
    /// A reply is dropped.
    DropReply,
    /// A reply comes twice.
    RepeatReply,
    /// A block table names the padding page.
    PaddingPage,
    /// A token goes to the slot after its own.
    NextSlot,
    /// A padding row has length 0.
    ZeroLength,
    /// The device forgets what it holds.
    ForgetfulDevice,
    /// The engine believes that a failed execution worked.
    HiddenFailure,
    /// A reclaimed sequence is thought alive.
    HiddenReclaim,
    /// Lost pools are thought to have kept their sequences.
    HiddenRestore,
    /// The engine is told a later time than it is.
    FastClock,
}

const SABOTAGES: [Sabotage; 10] = [
    Sabotage::DropReply,
    Sabotage::RepeatReply,
    Sabotage::PaddingPage,
    Sabotage::NextSlot,
    Sabotage::ZeroLength,
    Sabotage::ForgetfulDevice,
    Sabotage::HiddenFailure,
    Sabotage::HiddenReclaim,
    Sabotage::HiddenRestore,
    Sabotage::FastClock,
];

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}

/// What the model knows of a live sequence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Shadow {
    tokens: Vec<i32>,
    pages: usize,
    last_active: Nanos,
}

/// A request that is not answered yet.
#[derive(Clone, Debug)]
struct Sent {
    id: Option<SequenceId>,
    start: bool,
    end: bool,
    tokens: Result<Vec<i32>, Refusal>,
    at: Nanos,
    /// Tokens that calls have appended.
    done: usize,
    /// Its last call failed.
    failed: bool,
}

impl Sent {
    fn is_prompt(&self) -> bool {
        self.tokens.as_ref().is_ok_and(|tokens| tokens.len() > 1)
    }
}

struct World {
    random: Random,
    tell: bool,
    sabotage: Sabotage,
    /// The sabotage took place.
    sabotaged: bool,
    trace: DefaultHasher,
    /// What happened, to show that schedules reach everything.
    seen: BTreeMap<&'static str, u64>,

    engine: Engine,
    device: Device,
    now: Nanos,
    batching: Batching,
    max_sequence_idle: Nanos,
    clients: Vec<Option<SequenceId>>,
    trouble: usize,
    next_ticket: u64,
    stopping: bool,

    // The model.
    live: BTreeMap<SequenceId, Shadow>,
    sent: BTreeMap<u64, Sent>,
    /// Tickets that no batch has taken.
    pending: Vec<u64>,
    /// Tickets of the current batch.
    batch: Vec<u64>,
    batch_ids: BTreeSet<SequenceId>,
    in_batch: bool,
    /// A batch starts as soon as the pools are replaced; it waits for nothing any more.
    starting: bool,
    batch_start: Nanos,
    last_batch_end: Nanos,
    answered: bool,
    /// Since they were lost, replacing the pools was tried.
    tried: bool,
    cohort: BTreeSet<SequenceId>,
    pools_lost: bool,
    answers: Vec<Vec<Vec<i32>>>,
}

impl World {
    fn new(seed: u64, sabotage: Sabotage, tell: bool) -> World {
        let mut random = Random(seed);
        let block_size = random.pick(&[1, 2, 3, 4]);
        let contexts: &[usize] = random.pick(&[&[2, 4][..], &[4, 8, 16], &[16]]);
        let contexts: Vec<_> = contexts.iter().map(|context| context * block_size).collect();
        let decode: &[usize] = random.pick(&[&[1][..], &[1, 2], &[1, 2, 4], &[3, 1]]);
        let prefill: &[usize] = random.pick(&[&[][..], &[1], &[1, 2], &[2, 4]]);
        let chunks: &[usize] = random.pick(&[&[0][..], &[3], &[5, 2], &[0, 2]]);
        let shapes = entries(block_size, &contexts, decode, prefill, chunks);
        let blocks = random.pick(&[2, 5, 8, 20, 70]);
        let geometry = Geometry::new(20, blocks, block_size, vec![(7, "hole".into())], shapes);
        let batching = if random.chance(20) {
            Batching::Host
        } else {
            Batching::Engine {
                cohort_wait: random.pick(&[0, MS, 20 * MS]),
                prompt_wait: random.pick(&[0, 500 * US, 2 * MS]),
            }
        };
        let max_sequence_idle = random.pick(&[MS, 10 * MS, 1_000 * MS]);
        let settings = Settings {
            batching,
            max_sequence_idle,
            max_batch_size: random.below(5),
            instance: "i".into(),
        };
        let ids = [number(1), text("1"), number(2), number(3), text("a"), number(4), number(5)];
        let mut clients: Vec<_> = ids[..1 + random.below(7)].iter().cloned().map(Some).collect();
        if random.chance(10) {
            clients.push(None);
        }
        World {
            tell,
            sabotage,
            sabotaged: false,
            trace: DefaultHasher::new(),
            seen: BTreeMap::new(),
            device: Device::new(&geometry),
            engine: Engine::new(geometry, settings),
            now: MS,
            batching,
            max_sequence_idle,
            clients,
            trouble: random.pick(&[0, 0, 5, 20]),
            random,
            next_ticket: 0,
            stopping: false,
            live: BTreeMap::new(),
            sent: BTreeMap::new(),
            pending: Vec::new(),
            batch: Vec::new(),
            batch_ids: BTreeSet::new(),
            in_batch: false,
            starting: false,
            batch_start: 0,
            last_batch_end: 0,
            answered: false,
            tried: false,
            cohort: BTreeSet::new(),
            pools_lost: false,
            answers: Vec::new(),
        }
    }

    fn note(&mut self, what: impl Debug) {
        if self.tell {
            println!("{:>12} {what:?}", self.now);
        }
        format_args!("{what:?}").to_string().hash(&mut self.trace);
    }

    fn saw(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    /// The fault happens now, or not at all.
    fn sabotages(&mut self, sabotage: Sabotage) -> bool {
        let now = self.sabotage == sabotage && !self.sabotaged && self.random.chance(30);
        self.sabotaged |= now;
        now
    }

    fn run(&mut self) -> Result<(), String> {
        for _ in 0..self.random.pick(&[10, 40, 120]) {
            if self.random.chance(40) {
                self.client_acts();
            }
            if self.random.chance(30) {
                let pauses = [10 * US, MS, 3 * MS, 30 * MS];
                self.now += self.random.pick(&pauses);
            }
            self.step()?;
        }
        let stops = self.random.chance(50);
        if stops {
            self.stop();
        }
        // Everything comes to rest, however long it takes.
        for _ in 0..10_000 {
            match self.step()? {
                Step::WaitUntil(time) => self.now = time,
                Step::Idle => self.stop(),
                Step::Stopped => {
                    check(self.sent.is_empty(), || format!("unanswered: {:?}", self.sent))?;
                    self.note("end");
                    return Ok(());
                }
                _ => {}
            }
        }
        Err("does not come to rest".into())
    }

    fn stop(&mut self) {
        self.note("stop");
        self.saw(match (self.in_batch, self.pending.is_empty()) {
            (true, _) => "stop in a batch",
            (false, false) => "stop with requests pending",
            (false, true) => "stop at rest",
        });
        self.engine.stop();
        self.stopping = true;
    }

    fn client_acts(&mut self) {
        let index = self.random.below(self.clients.len());
        let id = self.clients[index].clone();
        let waits = self.sent.values().any(|sent| sent.id == id);
        // The server hands a sequence's next request over only after the one before is released.
        if waits && id.is_some() && !self.random.chance(5) {
            return;
        }
        let live = id.as_ref().is_some_and(|id| self.live.contains_key(id));
        let start = if live { self.random.chance(10) } else { self.random.chance(80) };
        let end = self.random.chance(15);
        let room = self.engine.geometry().max_context();
        let count = match self.random.below(10) {
            0 => 0,
            1 => self.random.below(2 * room + 2),
            2..=4 => 1 + self.random.below(room),
            _ => 1,
        };
        let mut tokens: Vec<i32> = (0..count).map(|_| self.random.pick(&[1, 2, 3, 11])).collect();
        if self.random.chance(5) && !tokens.is_empty() {
            let at = self.random.below(tokens.len());
            tokens[at] = self.random.pick(&[7, 20, -1, i32::MAX, i32::MIN]);
        }
        let checked = self.engine.geometry().check_tokens(&tokens, start, end);
        let tokens = match checked {
            _ if self.random.chance(2) => Err(Refusal::Malformed("rank 3".into())),
            Ok(()) => Ok(tokens),
            Err(refusal) => Err(refusal),
        };
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let sent =
            Sent { id: id.clone(), start, end, tokens, at: self.now, done: 0, failed: false };
        self.note((ticket, &sent));
        self.engine.push(Arrival {
            ticket: Ticket(ticket),
            sequence: id,
            start,
            end,
            tokens: sent.tokens.clone(),
            at: self.now,
        });
        self.sent.insert(ticket, sent);
        self.pending.push(ticket);
    }

    fn step(&mut self) -> Result<Step, String> {
        let expected = self.expected_wait();
        let late = if self.sabotage == Sabotage::FastClock { 10_000 * MS } else { 0 };
        let step = self.engine.next(self.now + late);
        self.note(step);
        self.check_step(step, expected)?;
        let batch_starts = matches!(step, Step::Run | Step::Reply) && !self.in_batch;
        if batch_starts {
            self.start_batch();
        }
        self.take_events()?;
        self.saw(match step {
            Step::WaitUntil(_) => "wait",
            Step::RestorePools if self.answered => "restore after a batch",
            Step::RestorePools => "restore before a batch",
            _ => "step",
        });
        match step {
            Step::Run => self.execute()?,
            Step::Reply => self.take_replies()?,
            Step::RestorePools => self.restore()?,
            Step::WaitUntil(_) | Step::Idle | Step::Stopped => {}
        }
        check_resources(&self.engine)?;
        if !self.in_batch {
            self.compare_sequences()?;
        }
        Ok(step)
    }

    /// Until when the batch of what is pending is held back (sequence mode §8 item 4).
    fn expected_wait(&self) -> Option<Nanos> {
        let first = &self.sent[self.pending.first()?];
        let Batching::Engine { cohort_wait, prompt_wait } = self.batching else { return None };
        if self.stopping || self.starting {
            return None;
        }
        // Asked after the replies were taken, the batch ends now.
        let last_batch_end = if self.answered { self.now } else { self.last_batch_end };
        let here = |id: &SequenceId| {
            self.pending.iter().any(|ticket| self.sent[ticket].id.as_ref() == Some(id))
        };
        let absent = self.cohort.iter().any(|id| !here(id) && self.live.contains_key(id));
        let cohort = absent.then(|| first.at.max(last_batch_end) + cohort_wait);
        let prompt = self.pending.iter().map(|ticket| &self.sent[ticket]).find(|s| s.is_prompt());
        let prompt = prompt.map(|sent| sent.at + prompt_wait);
        [cohort, prompt].into_iter().flatten().filter(|&deadline| self.now < deadline).min()
    }

    fn check_step(&mut self, step: Step, expected: Option<Nanos>) -> Result<(), String> {
        if self.answered && (step != Step::RestorePools || self.tried) {
            self.last_batch_end = self.now;
            self.answered = false;
        }
        match step {
            Step::WaitUntil(time) => {
                check(Some(time) == expected, || format!("waits, expected {expected:?}"))
            }
            Step::Idle | Step::Stopped => {
                check(self.pending.is_empty(), || format!("rests with {:?}", self.pending))?;
                check(!self.in_batch, || "rests in a batch".into())?;
                check((step == Step::Stopped) == self.stopping, || format!("{step:?}"))
            }
            Step::RestorePools => {
                self.starting = !self.answered;
                check(self.pools_lost, || "the pools are there".into())
            }
            Step::Run | Step::Reply if !self.in_batch => {
                check(expected.is_none(), || format!("runs, expected to wait for {expected:?}"))?;
                check(!self.pending.is_empty(), || "runs nothing".into())
            }
            Step::Run | Step::Reply => Ok(()),
        }
    }

    fn start_batch(&mut self) {
        self.in_batch = true;
        self.starting = false;
        self.batch_start = self.now;
        self.answers.clear();
        let ids = &mut self.batch_ids;
        ids.clear();
        let sent = &self.sent;
        let (batch, rest) = self
            .pending
            .iter()
            .partition(|ticket| sent[ticket].id.as_ref().is_none_or(|id| ids.insert(id.clone())));
        (self.batch, self.pending) = (batch, rest);
    }

    fn take_events(&mut self) -> Result<(), String> {
        let events: Vec<_> = self.engine.events().collect();
        for event in events {
            self.note(&event);
            if let Event::RanWithout { .. } = event {
                self.saw("ran without");
            }
            let Event::Reclaimed { sequence, idle, limit, held: Amounts { pages, .. }, .. } = event
            else {
                continue;
            };
            self.saw("reclaim");
            check(!self.batch_ids.contains(&sequence), || format!("reclaimed busy {sequence}"))?;
            let shadow = self.live.get(&sequence).ok_or(format!("reclaimed dead {sequence}"))?;
            let (expected, held) = (self.batch_start - shadow.last_active, shadow.pages);
            check(idle == expected, || format!("{sequence} is idle {expected}, not {idle}"))?;
            check(pages == held, || format!("{sequence} holds {held}, not {pages}"))?;
            check(idle > limit && limit >= 2 * self.max_sequence_idle, || format!("{limit}"))?;
            let older = |(id, other): (&SequenceId, &Shadow)| {
                !self.batch_ids.contains(id) && other.last_active < shadow.last_active
            };
            check(!self.live.iter().any(older), || format!("{sequence} is not the oldest"))?;
            if !self.sabotages(Sabotage::HiddenReclaim) {
                self.live.remove(&sequence);
            }
        }
        Ok(())
    }

    /// Tokens that a request's sequence has before it.
    fn base(&self, sent: &Sent) -> Vec<i32> {
        match &sent.id {
            Some(id) if !sent.start => {
                self.live.get(id).map(|shadow| shadow.tokens.clone()).unwrap_or_default()
            }
            _ => Vec::new(),
        }
    }

    fn execute(&mut self) -> Result<(), String> {
        check(!self.pools_lost, || "runs without pools".into())?;
        let mut packed = Packed::of(&self.engine);
        let call = self.engine.call();
        let shape = self.engine.geometry().entries()[call.entry].clone();
        check(call.ordinal == self.answers.len(), || format!("call {}", call.ordinal))?;
        let mut rows = Vec::new();
        let mut expected = Vec::new();
        for row in call.rows() {
            let ticket = row.ticket.0;
            check(self.batch.contains(&ticket), || format!("{ticket} is not in the batch"))?;
            check(!rows.iter().any(|(other, _)| *other == ticket), || format!("{ticket} twice"))?;
            let sent = &self.sent[&ticket];
            check(!sent.failed, || format!("{ticket} runs on after it failed"))?;
            let tokens = sent.tokens.as_ref().map_err(|refusal| format!("{ticket}: {refusal}"))?;
            let mut history = self.base(sent);
            check(row.position == history.len() + sent.done, || {
                format!("{ticket} runs at {}", row.position)
            })?;
            let done = sent.done + row.tokens.len();
            check(tokens.get(sent.done..done) == Some(row.tokens), || {
                format!("{ticket}'s tokens")
            })?;
            check(row.last == (done == tokens.len()), || format!("{ticket}'s last call"))?;
            check(Some(row.sequence) == sent.id.as_ref(), || format!("{ticket}'s sequence"))?;
            history.extend(&tokens[..done]);
            expected.push(history);
            rows.push((ticket, row.tokens.len()));
        }
        check(!rows.is_empty() && rows.len() <= shape.batch, || format!("{} rows", rows.len()))?;
        self.note((&shape.id, &rows));
        let used = expected.len();
        expected.resize(shape.batch, Vec::new());

        let mut failure = None;
        if self.random.chance(self.trouble) {
            let message = "boom".to_owned();
            failure = Some(match self.random.below(4) {
                0 => CallFailure::Execution { message, pools_lost: true },
                1 => CallFailure::Copy { message },
                _ => CallFailure::Execution { message, pools_lost: false },
            });
            self.note(&failure);
        }
        match &failure {
            Some(CallFailure::Execution { pools_lost, .. }) => {
                if *pools_lost {
                    self.device.zero();
                    self.pools_lost = true;
                    self.tried = false;
                }
                self.answers.push(Vec::new());
            }
            None | Some(CallFailure::Copy { .. }) => {
                self.spoil(&mut packed, used);
                let remembers = rows.iter().zip(&expected).any(|(row, all)| all.len() > row.1);
                if remembers && self.sabotages(Sabotage::ForgetfulDevice) {
                    self.device.zero();
                }
                let read = self.device.execute(&shape, &packed)?;
                check(read == expected, || format!("rows read {read:?}, not {expected:?}"))?;
                self.answers.push(read);
            }
        }
        for (ticket, count) in rows {
            let sent = self.sent.get_mut(&ticket).ok_or("unknown ticket")?;
            match failure {
                Some(_) => sent.failed = true,
                None => sent.done += count,
            }
        }
        let hidden = failure.is_some() && self.sabotages(Sabotage::HiddenFailure);
        let result = match failure {
            Some(failure) if !hidden => Err(failure),
            _ => Ok(()),
        };
        if self.random.chance(20) {
            self.client_acts();
        }
        if self.random.chance(1) {
            self.stop();
        }
        let compute_start = self.now;
        self.now += 100 * US;
        self.engine.complete(Outcome { compute_start, compute_end: self.now, result });
        Ok(())
    }

    fn spoil(&mut self, packed: &mut Packed, used: usize) {
        if self.sabotages(Sabotage::PaddingPage) {
            packed.block_tables[0] = 0;
        }
        if self.sabotages(Sabotage::NextSlot)
            && let Some(slot) = packed.slot_mapping.iter_mut().find(|slot| **slot >= 0)
        {
            *slot += 1;
        }
        if self.sabotage == Sabotage::ZeroLength
            && let Some(length) = packed.seq_lens.get_mut(used)
        {
            *length = 0;
            self.sabotaged = true;
        }
    }

    fn take_replies(&mut self) -> Result<(), String> {
        let replies = self.engine.replies();
        let (report, replies): (_, Vec<Reply>) = (replies.report, replies.collect());
        check(report.requests == replies.len(), || format!("{report:?}"))?;
        check(report.start == self.batch_start, || format!("{report:?}"))?;
        let mut tickets: Vec<_> = replies.iter().map(|reply| reply.ticket.0).collect();
        if self.sabotages(Sabotage::DropReply) {
            tickets.pop();
        }
        if self.sabotages(Sabotage::RepeatReply) {
            tickets.push(tickets[0]);
        }
        check(tickets == self.batch, || format!("answers {tickets:?}, not {:?}", self.batch))?;
        self.cohort.clear();
        for reply in &replies {
            self.note(reply);
            self.check_reply(reply)?;
            let sent = self.sent.remove(&reply.ticket.0).ok_or("answered twice")?;
            self.apply(&sent, reply);
            self.saw(kind(reply));
        }
        self.batch.clear();
        self.in_batch = false;
        self.answered = true;
        Ok(())
    }

    /// Whether the answer is one that the model allows.
    fn check_reply(&self, reply: &Reply) -> Result<(), String> {
        let ticket = reply.ticket.0;
        let sent = self.sent.get(&ticket).ok_or(format!("{ticket} is answered twice"))?;
        let wrong = || format!("{ticket} is answered {:?}", reply.result);
        let tokens = match (&sent.tokens, &reply.result) {
            (Err(refusal), Err(answer)) => return check(refusal == answer, wrong),
            (Err(_), Ok(_)) => return Err(wrong()),
            (Ok(tokens), _) => tokens,
        };
        let shadow = sent.id.as_ref().and_then(|id| self.live.get(id));
        let known = sent.start || shadow.is_some();
        let base = self.base(sent);
        let held = if sent.start { 0 } else { shadow.map_or(0, |shadow| shadow.pages) };
        let target = base.len() + tokens.len();
        let geometry = self.engine.geometry();
        let blocks = target.div_ceil(geometry.block_size());
        let fits = target <= geometry.max_context();
        let admissible = known && fits && (!tokens.is_empty() || sent.end);
        let failed = sent.failed || self.pools_lost;
        let right = match &reply.result {
            Ok(Some(row)) => {
                let read = self.answers.get(row.call).and_then(|rows| rows.get(row.row));
                let expected = [&base[..], tokens].concat();
                admissible && !sent.failed && read == Some(&expected)
            }
            Ok(None) => tokens.is_empty() && sent.end && sent.id.is_some(),
            Err(Refusal::NoSequence) => sent.id.is_none(),
            Err(Refusal::NoState { .. }) => !(known || tokens.is_empty() && sent.end),
            Err(Refusal::NoTokens { .. }) => known && tokens.is_empty() && !sent.end,
            Err(Refusal::ContextExceeded { length, sent: count, max_context, .. }) => {
                known
                    && !fits
                    && (*length, *count) == (base.len(), tokens.len())
                    && *max_context == geometry.max_context()
            }
            Err(Refusal::Exhausted(exhausted)) => {
                let limit = exhausted.reclaim_limit;
                let reclaimable = |(id, shadow): (&SequenceId, &Shadow)| {
                    !self.batch_ids.contains(id)
                        && self.batch_start.saturating_sub(shadow.last_active) > limit
                };
                admissible
                    && exhausted.held == held
                    && exhausted.held + exhausted.needed == blocks
                    && exhausted.needed > exhausted.free
                    && (exhausted.length, exhausted.target) == (base.len(), target)
                    && !self.live.iter().any(reclaimable)
            }
            Err(
                Refusal::ExecutionFailed { .. }
                | Refusal::PoolsLost { .. }
                | Refusal::CopyFailed { .. },
            ) => admissible && sent.failed && sent.done == 0,
            Err(Refusal::PoolsGone { .. }) => admissible && self.pools_lost && sent.done == 0,
            Err(Refusal::AfterEarlierCall { .. }) => admissible && failed && sent.done > 0,
            Err(_) => false,
        };
        check(right, wrong)?;
        if admitted(reply) && sent.id.is_some() && known {
            let pages = held.max(blocks);
            check(reply.held.pages == pages, || format!("{ticket} holds {}", reply.held.pages))?;
        }
        check(reply.times.start == sent.at.min(self.batch_start), || format!("{:?}", reply.times))
    }

    /// What the answer means for the model.
    fn apply(&mut self, sent: &Sent, reply: &Reply) {
        let Some(id) = sent.id.clone() else { return };
        let mut shadow = self.live.remove(&id);
        if sent.start {
            shadow = admitted(reply).then(Shadow::default);
        }
        let Some(mut shadow) = shadow else { return };
        if sent.end || matches!(reply.result, Err(Refusal::AfterEarlierCall { .. })) {
            return;
        }
        if let Ok(tokens) = &sent.tokens {
            if admitted(reply) {
                let target = shadow.tokens.len() + tokens.len();
                let blocks = target.div_ceil(self.engine.geometry().block_size());
                shadow.pages = shadow.pages.max(blocks);
            }
            if reply.result.is_ok() {
                shadow.tokens.extend(tokens);
                if tokens.len() == 1 {
                    self.cohort.insert(id.clone());
                }
            }
        }
        shadow.last_active = self.now;
        self.live.insert(id, shadow);
    }

    fn restore(&mut self) -> Result<(), String> {
        let result = if self.random.chance(30) { Err("no memory".to_owned()) } else { Ok(()) };
        self.note(&result);
        self.tried = true;
        if result.is_ok() {
            self.device.zero();
            self.pools_lost = false;
        }
        self.engine.restored(result);
        if !(self.live.len() > 1 && self.sabotages(Sabotage::HiddenRestore)) {
            self.live.clear();
        }
        self.take_events()
    }

    fn compare_sequences(&self) -> Result<(), String> {
        // After the replies of a batch that lost the pools the sequences are still to be freed.
        let seen: BTreeMap<_, _> = self
            .engine
            .sequences()
            .map(|live| (live.id.clone(), (live.length, live.pages.len())))
            .collect();
        let expected: BTreeMap<_, _> = self
            .live
            .iter()
            .map(|(id, shadow)| (id.clone(), (shadow.tokens.len(), shadow.pages)))
            .collect();
        check(seen == expected, || format!("holds {seen:?}, not {expected:?}"))
    }
}

fn kind(reply: &Reply) -> &'static str {
    match &reply.result {
        Ok(Some(_)) => "answer",
        Ok(None) => "empty answer",
        Err(Refusal::Malformed(_)) => "malformed",
        Err(Refusal::OutsideVocabulary { .. }) => "outside the vocabulary",
        Err(Refusal::RefusedToken { .. }) => "refused token",
        Err(Refusal::NoSequence) => "no sequence",
        Err(Refusal::NoState { .. }) => "no state",
        Err(Refusal::NoTokens { .. }) => "no tokens",
        Err(Refusal::ContextExceeded { .. }) => "context exceeded",
        Err(Refusal::Exhausted(_)) => "pages exhausted",
        Err(Refusal::NoEntry { .. }) => "no entry",
        Err(Refusal::ExecutionFailed { .. }) => "execution failed",
        Err(Refusal::PoolsLost { .. }) => "pools lost",
        Err(Refusal::PoolsGone { .. }) => "pools gone",
        Err(Refusal::CopyFailed { .. }) => "copy failed",
        Err(Refusal::AfterEarlierCall { .. }) => "after an earlier call",
        Err(Refusal::StateAdvanced { .. }) => "state advanced",
    }
}

/// The request passed admission, whatever became of it.
fn admitted(reply: &Reply) -> bool {
    matches!(
        reply.result,
        Ok(_)
            | Err(Refusal::ExecutionFailed { .. }
                | Refusal::CopyFailed { .. }
                | Refusal::PoolsLost { .. }
                | Refusal::PoolsGone { .. }
                | Refusal::AfterEarlierCall { .. })
    )
}

fn simulate(seed: u64, sabotage: Sabotage, tell: bool) -> (World, Result<(), String>) {
    let mut world = World::new(seed, sabotage, tell);
    let result = world.run();
    (world, result)
}

#[test]
fn schedules_keep_every_invariant() {
    if let Ok(seed) = std::env::var("TLALOC_SIM_SEED") {
        let seed = seed.parse().expect("TLALOC_SIM_SEED is a number");
        let (_, result) = simulate(seed, Sabotage::None, true);
        result.unwrap();
        return;
    }
    let mut seen: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in 0..SCHEDULES {
        let (world, result) = simulate(seed, Sabotage::None, false);
        if let Err(message) = result {
            panic!("seed {seed}: {message}\nreplay with TLALOC_SIM_SEED={seed} and --nocapture");
        }
        if seed % 16 == 0 {
            let (again, _) = simulate(seed, Sabotage::None, false);
            assert_eq!(world.trace.finish(), again.trace.finish(), "seed {seed} is not repeatable");
        }
        for (what, times) in world.seen {
            *seen.entry(what).or_default() += times;
        }
    }
    println!("{SCHEDULES} schedules: {seen:?}");
    let reached: Vec<_> = seen.iter().filter(|(_, times)| **times >= 100).collect();
    assert_eq!(reached.len(), EVERYTHING, "{seen:?}");
}

#[test]
fn the_checks_see_every_sabotage() {
    for sabotage in SABOTAGES {
        let mut caught = 0;
        for seed in 0..2_000 {
            let (world, result) = simulate(seed, sabotage, false);
            caught += usize::from(result.is_err());
            if world.sabotaged {
                assert!(result.is_err(), "{sabotage:?} of seed {seed} is not seen");
            }
        }
        assert!(caught > 20, "{sabotage:?} is seen {caught} times");
    }
}
