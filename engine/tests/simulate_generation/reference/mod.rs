//! The rules of generation mode once more, slowly: every choice is made by looking at everything.

mod calls;
mod outcomes;
mod pages;

use std::collections::BTreeSet;

use tlaloc_engine::generation::{
    Counts, End, Event, Failure, MoveKind, Preemption, Rejection, Settings, Stage, Step, Submission,
};
use tlaloc_engine::{Amounts, EntryKind, Geometry, Nanos, Resource, Ticket};

use crate::mutation::Mutation;

pub use outcomes::Sampled;

/// Pages, ring pages, state slots.
pub type Classes<T> = [T; 3];

/// Numbers of each class, in the order in which a request uses them.
pub type Stock = Classes<Vec<usize>>;

#[derive(Clone, Debug)]
pub struct Request {
    pub ticket: u64,
    pub priority: u64,
    pub deadline: Option<Nanos>,
    pub cancelled: bool,
    pub prompt: usize,
    /// The prompt and what was generated.
    pub tokens: Vec<i32>,
    /// Of the current call, or of the next one if the model has a draft head.
    pub drafts: Vec<i32>,
    pub max_tokens: usize,
    pub stage: Stage,
    /// It is being moved.
    pub moves: bool,
    pub computed: usize,
    pub finite: usize,
    pub held: Stock,
    pub host: Stock,
}

impl Request {
    pub fn left(&self) -> usize {
        self.tokens.len() - self.computed
    }

    pub fn remaining(&self) -> usize {
        self.prompt + self.max_tokens - self.tokens.len()
    }

    pub fn decodes(&self) -> bool {
        self.left() == 1 && self.tokens.len() > self.prompt
    }

    pub fn runs(&self) -> bool {
        self.stage == Stage::Running && !self.moves
    }

    pub fn is_preempted(&self) -> bool {
        matches!(self.stage, Stage::Preempted(_)) && !self.moves
    }
}

#[derive(Clone, Debug, Default)]
pub struct Call {
    pub entry: usize,
    /// Ticket and tokens, drafts included.
    pub rows: Vec<(u64, usize)>,
}

#[derive(Clone, Debug)]
pub struct Move {
    pub kind: MoveKind,
    pub tickets: Vec<u64>,
    pub device: Stock,
    pub host: Stock,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pools {
    Intact,
    Lost,
    Missing,
}

/// What is left of a round.
#[derive(Debug, Default)]
struct Round {
    /// Longest last.
    decodes: Vec<u64>,
    verify: Option<usize>,
    spent: usize,
    prefills: usize,
}

pub struct Reference {
    geometry: Geometry,
    settings: Settings,
    rule: Option<Mutation>,
    /// In order of submission.
    pub requests: Vec<Request>,
    free: Classes<BTreeSet<usize>>,
    host_free: Classes<BTreeSet<usize>>,
    dirty: Stock,
    pools: Pools,
    stopping: bool,
    pub call: Option<Call>,
    pub moving: Option<Move>,
    restoring: bool,
    round: Option<Round>,
    ended: Vec<(u64, End)>,
    events: Vec<Event>,
    totals: Counts,
    /// Time and number of moved rows, of prefilled tokens.
    moved: (u64, u64),
    prefilled: (u64, u64),
}

impl Reference {
    pub fn new(geometry: &Geometry, settings: &Settings, rule: Option<Mutation>) -> Reference {
        let pages = geometry.num_blocks();
        let ring = geometry.windowed().map_or(1, |pools| pools.num_blocks);
        let slots = geometry.num_state_slots().unwrap_or(0);
        let host = settings.swap_pages;
        Reference {
            free: [(1..pages).collect(), (1..ring).collect(), (0..slots).collect()],
            host_free: [host.pages, host.ring_pages, host.state_slots].map(|n| (0..n).collect()),
            geometry: geometry.clone(),
            settings: settings.clone(),
            rule,
            requests: Vec::new(),
            dirty: Stock::default(),
            pools: Pools::Intact,
            stopping: false,
            call: None,
            moving: None,
            restoring: false,
            round: None,
            ended: Vec::new(),
            events: Vec::new(),
            totals: Counts::default(),
            moved: (0, 0),
            prefilled: (0, 0),
        }
    }

    fn wrong(&self, rule: Mutation) -> bool {
        self.rule == Some(rule)
    }

    pub fn get(&self, ticket: u64) -> Option<&Request> {
        self.requests.iter().find(|request| request.ticket == ticket)
    }

    fn index(&self, ticket: u64) -> usize {
        self.requests.iter().position(|request| request.ticket == ticket).expect("it is inside")
    }

    pub fn submit(&mut self, submission: &Submission) -> Result<(), Rejection> {
        let (prompt, max_tokens) = (submission.prompt.len(), submission.max_tokens);
        let max_context = self.max_length();
        let instance = self.settings.instance.clone();
        if prompt == 0 {
            return Err(Rejection::EmptyPrompt);
        }
        if max_tokens == 0 {
            return Err(Rejection::NoTokens);
        }
        if prompt > max_context {
            return Err(Rejection::PromptTooLong { prompt, max_context });
        }
        let positions =
            prompt + max_tokens - 1 + usize::from(self.wrong(Mutation::LastTokenReserved));
        if positions > max_context {
            return Err(Rejection::ContextExceeded { prompt, max_tokens, max_context });
        }
        let needs = self.needs(positions);
        for (class, resource) in
            [(1, Resource::RingPages), (0, Resource::Pages), (2, Resource::StateSlots)]
        {
            let total = amount(self.total(), class);
            if needs[class] > total {
                let needed = needs[class];
                return Err(Rejection::NeverFits {
                    resource,
                    needed,
                    total,
                    prompt,
                    max_tokens,
                    instance,
                });
            }
        }
        if self.stopping {
            return Err(Rejection::Stopping { instance });
        }
        let limit = self.settings.max_queue_size;
        let counts = |request: &&Request| {
            request.stage == Stage::Waiting
                || (self.rule == Some(Mutation::QueueCountsRunning) && request.runs())
        };
        if self.requests.iter().filter(counts).count() >= limit {
            return Err(Rejection::QueueFull { limit, instance });
        }
        self.requests.push(Request {
            ticket: submission.ticket.0,
            priority: match submission.priority {
                0 if self.wrong(Mutation::ZeroIsHighest) => 0,
                0 => u64::MAX,
                priority => priority,
            },
            deadline: submission.deadline,
            cancelled: false,
            prompt,
            tokens: submission.prompt.clone(),
            drafts: Vec::new(),
            max_tokens,
            stage: Stage::Waiting,
            moves: false,
            computed: 0,
            finite: 0,
            held: Stock::default(),
            host: Stock::default(),
        });
        Ok(())
    }

    /// The most tokens that can all be taken in. A draft head writes more positions than that, and
    /// any number of tokens may come to be prefilled.
    fn max_length(&self) -> usize {
        let drafts = self.geometry.draft_tokens();
        let reaches = |kind, beyond: usize, length: usize| {
            let mut entries = self.geometry.entries().iter();
            entries.any(|entry| {
                entry.kind == kind && entry.logits_columns == 1 && entry.context >= length + beyond
            })
        };
        let most = self.geometry.max_context();
        let lengths = (1..=most).rev();
        let mut fit = lengths.filter(|length| {
            drafts == 0
                || (reaches(EntryKind::Decode, 2 * drafts - 1, *length)
                    && reaches(EntryKind::Prefill, drafts - 1, *length))
        });
        fit.next().unwrap_or(0)
    }

    pub fn cancel(&mut self, ticket: u64) {
        self.requests
            .iter_mut()
            .filter(|request| request.ticket == ticket)
            .for_each(|request| request.cancelled = true);
    }

    pub fn stop(&mut self) {
        self.stopping = true;
        if self.wrong(Mutation::StopEndsWaiting) {
            let waiting = |request: &&Request| request.stage == Stage::Waiting;
            let tickets: Vec<_> =
                self.requests.iter().filter(waiting).map(|request| request.ticket).collect();
            tickets.into_iter().for_each(|ticket| self.end(ticket, End::Cancelled));
        }
    }

    pub fn next(&mut self, now: Nanos) -> Step {
        if self.call.is_some() {
            return Step::Run;
        }
        if self.moving.is_some() {
            return Step::Move;
        }
        if self.restoring {
            return Step::RestorePools;
        }
        self.sweep(now);
        loop {
            if !self.ended.is_empty() {
                return Step::Ended;
            }
            let again = self.pools == Pools::Missing && !self.requests.is_empty();
            if self.pools == Pools::Lost || again {
                self.restoring = true;
                return Step::RestorePools;
            }
            if self.dirty.iter().any(|numbers| !numbers.is_empty()) {
                let (device, host) = (self.dirty.clone(), Stock::default());
                let tickets = Vec::new();
                self.moving = Some(Move { kind: MoveKind::Scrub, tickets, device, host });
                return Step::Move;
            }
            if self.round.is_none() {
                self.moving = self.make_room();
                if self.moving.is_some() {
                    return Step::Move;
                }
                if self.dirty.iter().any(|numbers| !numbers.is_empty()) {
                    continue;
                }
                self.grow();
                self.moving = self.admit();
                if self.moving.is_some() {
                    return Step::Move;
                }
                if !self.requests.iter().any(Request::runs) {
                    return if self.stopping { Step::Stopped } else { Step::Idle };
                }
                self.totals.rounds += 1;
                self.plan();
            }
            self.call = self.next_call();
            if self.call.is_some() {
                return Step::Run;
            }
            self.round = None;
        }
    }

    fn sweep(&mut self, now: Nanos) {
        let late = self.wrong(Mutation::CancelledNextRound) && self.round.is_some();
        let ends: Vec<_> = self
            .requests
            .iter()
            .filter_map(|request| {
                let waits = request.stage == Stage::Waiting;
                let slack = Nanos::from(self.rule == Some(Mutation::DeadlineIsLate));
                let over = request.deadline.is_some_and(|deadline| deadline + slack <= now)
                    && (waits || self.rule != Some(Mutation::DeadlineOfWaiting));
                let end = match request.cancelled && !late {
                    true => End::Cancelled,
                    false if over => End::TimedOut,
                    false => return None,
                };
                Some((request.ticket, end))
            })
            .collect();
        ends.into_iter().for_each(|(ticket, end)| self.end(ticket, end));
    }

    /// A request ends, and its owner is told.
    fn end(&mut self, ticket: u64, end: End) {
        let suspect = matches!(end, End::Failed(_));
        self.remove(ticket, suspect);
        self.ended.push((ticket, end));
    }

    fn fail_all(&mut self, failure: &Failure, which: impl Fn(&Request) -> bool) -> usize {
        let tickets: Vec<_> = self
            .requests
            .iter()
            .filter(|request| which(request))
            .map(|request| request.ticket)
            .collect();
        for ticket in &tickets {
            self.end(*ticket, End::Failed(failure.clone()));
        }
        tickets.len()
    }

    pub fn ended(&mut self) -> Vec<(u64, End)> {
        std::mem::take(&mut self.ended)
    }

    pub fn events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    fn tell(&mut self, ticket: u64, event: impl FnOnce(Ticket) -> Event) {
        self.events.push(event(Ticket(ticket)));
    }

    pub fn counts(&self) -> Counts {
        let count = |holds: fn(&Request) -> bool| {
            self.requests.iter().filter(|request| holds(request)).count()
        };
        let host = self.settings.swap_pages;
        Counts {
            waiting: count(|request| request.stage == Stage::Waiting),
            running: count(Request::runs),
            preempted: count(|request| {
                request.is_preempted() && request.stage == Stage::Preempted(Preemption::Recompute)
            }),
            swapped: count(|request| {
                request.is_preempted() && request.stage == Stage::Preempted(Preemption::Swap)
            }),
            free: amounts(self.free.each_ref().map(BTreeSet::len)),
            dirty: amounts(self.dirty.each_ref().map(Vec::len)),
            total: self.total(),
            host_free: amounts(self.host_free.each_ref().map(BTreeSet::len)),
            host_total: host,
            ..self.totals
        }
    }

    fn total(&self) -> Amounts {
        Amounts {
            pages: self.geometry.num_blocks() - 1,
            ring_pages: self.geometry.windowed().map_or(0, |pools| pools.num_blocks - 1),
            state_slots: self.geometry.num_state_slots().unwrap_or(0),
        }
    }
}

pub fn amounts([pages, ring_pages, state_slots]: Classes<usize>) -> Amounts {
    Amounts { pages, ring_pages, state_slots }
}

fn amount(amounts: Amounts, class: usize) -> usize {
    [amounts.pages, amounts.ring_pages, amounts.state_slots][class]
}
