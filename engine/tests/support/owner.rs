//! A scripted owner of an engine.

use std::collections::{HashMap, VecDeque};

use tlaloc_engine::{
    Arrival, BatchReport, CallFailure, Engine, Event, Geometry, Nanos, Outcome, Refusal, Reply,
    SequenceId, Settings, Step, Ticket,
};

use super::{Device, MS, Packed, check_resources, number};

/// A call that was run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    pub entry: String,
    /// Sequence, first position, tokens, whether it was the request's last call.
    pub rows: Vec<(String, usize, Vec<i32>, bool)>,
}

impl Ran {
    /// `entry: id@position+count …`
    pub fn brief(&self) -> String {
        let rows =
            self.rows.iter().map(|(id, at, tokens, _)| format!("{id}@{at}+{}", tokens.len()));
        format!("{}: {}", self.entry, rows.collect::<Vec<_>>().join(" "))
    }
}

/// Owns an engine as the backend does, with a clock that only it moves and a device that fails on
/// demand.
pub struct Owner {
    pub engine: Engine,
    pub device: Device,
    pub now: Nanos,
    /// How long an execution takes.
    pub execution: Nanos,
    /// Results of the next executions, success when there are none.
    pub outcomes: VecDeque<Result<(), CallFailure>>,
    /// Results of the next replacements of the pools, success when there are none.
    pub restorations: VecDeque<Result<(), String>>,
    pub restored: usize,
    pub calls: Vec<Ran>,
    pub replies: HashMap<u64, Reply>,
    /// Tickets in the order of their replies.
    pub order: Vec<u64>,
    /// What the rows of replies read on the device.
    pub answers: HashMap<u64, Vec<i32>>,
    pub batches: Vec<BatchReport>,
    pub events: Vec<Event>,
    next_ticket: u64,
}

impl Owner {
    pub fn new(geometry: Geometry, settings: Settings) -> Owner {
        Owner {
            device: Device::new(&geometry),
            engine: Engine::new(geometry, settings),
            now: 1_000 * MS,
            execution: MS,
            outcomes: VecDeque::new(),
            restorations: VecDeque::new(),
            restored: 0,
            calls: Vec::new(),
            replies: HashMap::new(),
            order: Vec::new(),
            answers: HashMap::new(),
            batches: Vec::new(),
            events: Vec::new(),
            next_ticket: 1,
        }
    }

    /// Pushes a request that arrives now. Flags: `S` START, `E` END.
    pub fn push(&mut self, id: Option<SequenceId>, flags: &str, tokens: &[i32]) -> u64 {
        let (start, end) = (flags.contains('S'), flags.contains('E'));
        let checked = self.engine.geometry().check_tokens(tokens, start, end);
        self.arrive(id, flags, checked.map(|()| tokens.to_vec()))
    }

    pub fn arrive(
        &mut self,
        id: Option<SequenceId>,
        flags: &str,
        tokens: Result<Vec<i32>, Refusal>,
    ) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.engine.push(Arrival {
            ticket: Ticket(ticket),
            sequence: id,
            start: flags.contains('S'),
            end: flags.contains('E'),
            tokens,
            at: self.now,
            generation: None,
        });
        ticket
    }

    /// One step of the owner's loop.
    pub fn step(&mut self) -> Step {
        let step = self.engine.next(self.now);
        assert_eq!(self.engine.next(self.now), step, "asked again");
        match step {
            Step::Run => self.execute(),
            Step::Reply => self.take_replies(),
            Step::RestorePools => {
                let result = self.restorations.pop_front().unwrap_or(Ok(()));
                if result.is_ok() {
                    self.device.zero();
                    self.restored += 1;
                }
                self.engine.restored(result);
            }
            Step::WaitUntil(time) => assert!(time > self.now, "waits for the past"),
            Step::Idle | Step::Stopped => {}
        }
        self.events.extend(self.engine.events());
        check_resources(&self.engine).unwrap();
        step
    }

    /// Runs until there is nothing to do now.
    pub fn run(&mut self) -> Step {
        loop {
            let step = self.step();
            if matches!(step, Step::WaitUntil(_) | Step::Idle | Step::Stopped) {
                return step;
            }
        }
    }

    /// Runs until nothing is pending, waiting whenever the engine waits.
    pub fn settle(&mut self) {
        while let Step::WaitUntil(time) = self.run() {
            self.now = time;
        }
    }

    /// Pushes a request of a numbered sequence, settles, and returns its reply.
    pub fn ask(&mut self, id: u64, flags: &str, tokens: &[i32]) -> &Reply {
        let ticket = self.push(Some(number(id)), flags, tokens);
        self.settle();
        &self.replies[&ticket]
    }

    /// As [`Owner::ask`], for a request that succeeds: what its row read on the device.
    pub fn told(&mut self, id: u64, flags: &str, tokens: &[i32]) -> Vec<i32> {
        let ticket = self.push(Some(number(id)), flags, tokens);
        self.settle();
        assert_eq!(self.refused(ticket), None);
        self.answers.get(&ticket).cloned().unwrap_or_default()
    }

    /// As [`Owner::ask`], for a request that is refused: the refusal's text.
    pub fn complaint(&mut self, id: u64, flags: &str, tokens: &[i32]) -> String {
        let ticket = self.push(Some(number(id)), flags, tokens);
        self.settle();
        self.refused(ticket).expect("a refusal")
    }

    pub fn refused(&self, ticket: u64) -> Option<String> {
        self.replies[&ticket].result.as_ref().err().map(Refusal::to_string)
    }

    pub fn length_of(&self, id: u64) -> Option<usize> {
        let mut sequences = self.engine.sequences();
        sequences.find(|sequence| *sequence.id == number(id)).map(|sequence| sequence.length)
    }

    pub fn briefs(&mut self) -> Vec<String> {
        self.calls.drain(..).map(|ran| ran.brief()).collect()
    }

    pub fn lines(&mut self) -> Vec<String> {
        self.events.drain(..).map(|event| event.to_string()).collect()
    }

    /// Sequences that were reclaimed, in order.
    pub fn reclaimed(&mut self) -> Vec<String> {
        let reclaimed = |event| match event {
            Event::Reclaimed { sequence, .. } => Some(sequence.to_string()),
            _ => None,
        };
        self.events.drain(..).filter_map(reclaimed).collect()
    }

    fn execute(&mut self) {
        let packed = Packed::of(&self.engine);
        let call = self.engine.call();
        let shape = self.engine.geometry().entries()[call.entry].clone();
        let rows: Vec<_> = call.rows().collect();
        let describe = |row: &tlaloc_engine::Row<'_>| {
            (row.sequence.to_string(), row.position, row.tokens.to_vec(), row.last)
        };
        let ran = rows.iter().map(describe).collect();
        self.calls.push(Ran { entry: shape.id.clone(), rows: ran });
        let result = self.outcomes.pop_front().unwrap_or(Ok(()));
        let executed = matches!(result, Ok(()) | Err(CallFailure::Copy { .. }));
        if executed {
            let answers = self.device.execute(&shape, &packed).unwrap();
            if result.is_ok() {
                for (row, answer) in rows.iter().zip(answers) {
                    self.answers.insert(row.ticket.0, answer);
                }
            }
        }
        let compute_start = self.now;
        self.now += self.execution;
        self.engine.complete(Outcome { compute_start, compute_end: self.now, result });
    }

    fn take_replies(&mut self) {
        let replies = self.engine.replies();
        self.batches.push(replies.report);
        assert_eq!(replies.report.requests, replies.len());
        for reply in replies {
            self.order.push(reply.ticket.0);
            let twice = self.replies.insert(reply.ticket.0, reply);
            assert!(twice.is_none(), "answered twice: {twice:?}");
        }
    }
}
