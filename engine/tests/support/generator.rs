//! A scripted owner of a scheduler, with a toy model: the next token is a hash of all before it.

use std::collections::{BTreeMap, VecDeque};

use tlaloc_engine::generation::{
    Counts, End, Event, LiveRequest, MoveKind, Rejection, Scheduler, Settings, Step, Submission,
    Verdicts,
};
use tlaloc_engine::{Amounts, CallFailure, Geometry, Nanos, Outcome, Ticket};

use super::{Device, MS, Packed, check, check_resource, everything};

/// The token that comes after `history`, in `1..vocabulary`.
pub fn toy(history: &[i32], vocabulary: usize) -> i32 {
    let hash = history.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &token| {
        (hash ^ u64::from(token as u32)).wrapping_mul(0x0100_0000_01b3)
    });
    1 + ((hash >> 20) % (vocabulary as u64 - 1)) as i32
}

/// Owns a scheduler as the backend does, with a clock that only it moves and a device that fails on
/// demand.
pub struct Generator {
    pub scheduler: Scheduler,
    pub device: Device,
    pub host: Device,
    pub now: Nanos,
    /// How long an execution takes, and how long a moved row.
    pub execution: Nanos,
    pub move_row: Nanos,
    /// Results of the next executions and moves, success when there are none.
    pub outcomes: VecDeque<Result<(), CallFailure>>,
    pub moves: VecDeque<Result<(), CallFailure>>,
    pub restorations: VecDeque<Result<(), String>>,
    /// Calls that were run, as `entry: ticket@position+count …`, and moves, as `out`, `in`, `scrub`.
    pub log: Vec<String>,
    /// What each request generated.
    pub streams: BTreeMap<u64, Vec<i32>>,
    /// How requests ended: `finished`, `failed row`, or what the scheduler told.
    pub ends: BTreeMap<u64, String>,
    pub events: Vec<Event>,
    /// The token whose logits are not finite.
    pub poison: Option<i32>,
    /// What comes next; by default [`toy`].
    pub model: fn(&[i32], usize) -> i32,
    /// What a draft head takes for that; by default it is always right.
    pub head: fn(&[i32], usize) -> i32,
    verdicts: Verdicts,
}

impl Generator {
    pub fn new(geometry: Geometry, settings: Settings) -> Generator {
        Generator {
            device: Device::new(&geometry),
            host: Device::host(&geometry, settings.swap_pages),
            scheduler: Scheduler::new(geometry, settings),
            now: 1_000 * MS,
            execution: MS,
            move_row: 0,
            outcomes: VecDeque::new(),
            moves: VecDeque::new(),
            restorations: VecDeque::new(),
            log: Vec::new(),
            streams: BTreeMap::new(),
            ends: BTreeMap::new(),
            events: Vec::new(),
            poison: None,
            model: toy,
            head: toy,
            verdicts: Verdicts::new(),
        }
    }

    /// A token whose keys, values and logits are not finite.
    pub fn poisoned_by(mut self, token: i32) -> Generator {
        self.device = self.device.poisoned_by(token);
        self.poison = Some(token);
        self
    }

    pub fn submit(&mut self, ticket: u64, prompt: &[i32], max_tokens: usize) {
        self.try_submit(ticket, prompt, max_tokens, 0, None).unwrap();
    }

    pub fn try_submit(
        &mut self,
        ticket: u64,
        prompt: &[i32],
        max_tokens: usize,
        priority: u64,
        deadline: Option<Nanos>,
    ) -> Result<(), Rejection> {
        self.scheduler.submit(Submission {
            ticket: Ticket(ticket),
            prompt: prompt.to_vec(),
            max_tokens,
            priority,
            deadline,
            at: self.now,
        })
    }

    pub fn counts(&self) -> Counts {
        self.scheduler.counts()
    }

    pub fn step(&mut self) -> Step {
        let step = self.scheduler.next(self.now);
        assert_eq!(self.scheduler.next(self.now), step, "asked again");
        match step {
            Step::Run => self.execute(),
            Step::Move => self.carry_out(),
            Step::RestorePools => {
                let result = self.restorations.pop_front().unwrap_or(Ok(()));
                if result.is_ok() {
                    self.device.zero();
                }
                self.scheduler.restored(result);
            }
            Step::Ended => {
                for ended in self.scheduler.ended() {
                    let end = match ended.end {
                        End::Failed(failure) => failure.to_string(),
                        end => format!("{end:?}"),
                    };
                    let twice = self.ends.insert(ended.ticket.0, end);
                    assert_eq!(twice, None, "ended twice");
                }
            }
            Step::Idle | Step::Stopped => {}
        }
        self.events.extend(self.scheduler.events());
        check_holdings(&self.scheduler).unwrap();
        step
    }

    /// Runs until there is nothing to do.
    pub fn run(&mut self) -> Step {
        for _ in 0..100_000 {
            let step = self.step();
            if matches!(step, Step::Idle | Step::Stopped) {
                return step;
            }
        }
        panic!("does not come to rest");
    }

    pub fn log(&mut self) -> Vec<String> {
        self.log.drain(..).collect()
    }

    /// Events as log lines.
    pub fn lines(&mut self) -> Vec<String> {
        self.events.drain(..).map(|event| event.to_string()).collect()
    }

    fn execute(&mut self) {
        let packed = Packed::of(&self.scheduler);
        let vocabulary = self.scheduler.geometry().vocab_size();
        let call = self.scheduler.call();
        let shape = self.scheduler.geometry().entries()[call.entry].clone();
        let row = |row: tlaloc_engine::generation::Row<'_>| {
            format!("{}@{}+{}", row.ticket.0, row.position, row.tokens.len())
        };
        let rows: Vec<_> = call.rows().map(row).collect();
        self.log.push(format!("{}: {}", shape.id, rows.join(" ")));
        let result = self.outcomes.pop_front().unwrap_or(Ok(()));
        self.verdicts.clear();
        if matches!(result, Ok(()) | Err(CallFailure::Copy { .. })) {
            let answers = self.device.execute(&shape, &packed).unwrap();
            for (row, answer) in call.rows().zip(answers) {
                if !row.samples {
                    self.verdicts.push_none();
                    continue;
                }
                if result.is_err() {
                    continue;
                }
                if self.poison.is_some_and(|poison| answer.contains(&poison)) {
                    self.verdicts.push_failed();
                    self.ends.insert(row.ticket.0, "failed row".to_owned());
                    continue;
                }
                let own = self.scheduler.geometry().draft_tokens();
                let looked_up = row.drafts < shape.logits_columns && row.drafts < row.remaining;
                assert!(looked_up || row.drafts == own);
                let mut tokens = Vec::new();
                for column in answer.len() - row.drafts..=answer.len() {
                    let token = (self.model)(&answer[..column], vocabulary);
                    tokens.push(token);
                    if answer.get(column) != Some(&token) {
                        break;
                    }
                }
                // What the device accepts beyond the end is the scheduler's to leave out.
                self.verdicts.push_tokens(&tokens, false);
                let mut ahead = [&answer[..answer.len() - row.drafts], &tokens].concat();
                for _ in 0..own {
                    ahead.push((self.head)(&ahead, vocabulary));
                }
                self.verdicts.propose(&ahead[ahead.len() - own..]);
                tokens.truncate(row.remaining);
                let finished = tokens.len() == row.remaining;
                self.streams.entry(row.ticket.0).or_default().extend(tokens);
                if finished {
                    self.ends.insert(row.ticket.0, "finished".to_owned());
                }
            }
        }
        let compute_start = self.now;
        self.now += self.execution;
        let outcome = Outcome { compute_start, compute_end: self.now, result };
        self.scheduler.complete(outcome, &self.verdicts);
    }

    fn carry_out(&mut self) {
        let result = self.moves.pop_front().unwrap_or(Ok(()));
        let moves = self.scheduler.moves();
        let kind = match moves.kind {
            MoveKind::Out => "out",
            MoveKind::In => "in",
            MoveKind::Scrub => "scrub",
        };
        let rows: usize = tlaloc_engine::Resource::ALL
            .into_iter()
            .map(|resource| moves.rows(resource).device.len())
            .sum();
        self.log.push(format!("{kind} {rows}"));
        if result.is_ok() {
            self.device.apply(&moves, &mut self.host);
        }
        self.now += self.move_row * rows as Nanos;
        self.scheduler.moved(result, self.move_row * rows as Nanos);
    }
}

/// Resource invariants, with `dirty` rows that are on their way to be zeroed.
pub fn check_holdings(scheduler: &Scheduler) -> Result<(), String> {
    let geometry = scheduler.geometry();
    let ring_end = geometry.windowed().map_or(1, |pools| pools.num_blocks);
    let slots_end = geometry.num_state_slots().unwrap_or(0);
    let counts = scheduler.counts();
    let held = |of: fn(LiveRequest<'_>) -> &[usize]| scheduler.requests().map(of);
    let dirty = counts.dirty;
    let free = Amounts {
        pages: counts.free.pages + dirty.pages,
        ring_pages: counts.free.ring_pages + dirty.ring_pages,
        state_slots: counts.free.state_slots + dirty.state_slots,
    };
    check_resource(1..geometry.num_blocks(), held(|live| live.pages), free.pages)?;
    check_resource(1..ring_end, held(|live| live.ring), free.ring_pages)?;
    check_resource(0..slots_end, held(|live| live.state_slots), free.state_slots)?;
    let all = everything(geometry);
    check(counts.total == all, || format!("{:?} of {all:?}", counts.total))
}
