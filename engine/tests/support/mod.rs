//! What the tests share: a device that keeps tokens instead of KV, a scripted owner of an engine
//! with a clock of its own, and sizes of models.

#![allow(dead_code)] // Each test binary uses a part.

use std::collections::{HashMap, HashSet, VecDeque};

use tlaloc_engine::{
    Arrival, BatchReport, Batching, CallFailure, Engine, EntryKind, EntryShape, Event, Geometry,
    Nanos, Outcome, Refusal, Reply, SequenceId, Settings, Step, StepInputs, Ticket,
};

pub const US: Nanos = 1_000;
pub const MS: Nanos = 1_000_000;

/// Entries as an exporter writes them: decode for every batch and context, then prefill for every
/// batch, context and chunk (0 for the whole context).
pub fn entries(
    block_size: usize,
    contexts: &[usize],
    decode: &[usize],
    prefill: &[usize],
    chunks: &[usize],
) -> Vec<EntryShape> {
    let shape = |kind, batch, context: usize, tokens| {
        let id = match kind {
            EntryKind::Decode => format!("decode_b{batch}_c{context}"),
            EntryKind::Prefill if tokens < context => {
                format!("prefill_b{batch}_c{context}_t{tokens}")
            }
            EntryKind::Prefill => format!("prefill_b{batch}_c{context}"),
        };
        EntryShape { id, kind, batch, context, tokens, columns: context / block_size }
    };
    let mut entries = Vec::new();
    for &batch in decode {
        entries.extend(contexts.iter().map(|&c| shape(EntryKind::Decode, batch, c, 1)));
    }
    for &chunk in chunks {
        for &batch in prefill {
            for &context in contexts {
                let tokens = if chunk == 0 { context } else { chunk.min(context) };
                entries.push(shape(EntryKind::Prefill, batch, context, tokens));
            }
        }
    }
    entries
}

/// The reference decode artifact: 11 token ids, 5 pages of 2 tokens, no prefill.
pub fn reference() -> Geometry {
    Geometry::new(11, 6, 2, vec![], entries(2, &[2, 4], &[1, 2, 4], &[], &[]))
}

/// A model of the size of verification §9: 63 pages of 16 tokens, one context of 64.
pub fn chat() -> Geometry {
    Geometry::new(100, 64, 16, vec![], entries(16, &[64], &[1, 2, 4], &[1, 2, 4], &[0]))
}

pub fn number(id: u64) -> SequenceId {
    SequenceId::Number(id)
}

pub fn text(id: &str) -> SequenceId {
    SequenceId::Text(id.into())
}

pub const BATCHING: Batching = Batching::Engine { cohort_wait: 20 * MS, prompt_wait: 2 * MS };

pub fn settings(batching: Batching) -> Settings {
    Settings {
        batching,
        max_sequence_idle: 1_000 * MS,
        max_batch_size: 4,
        instance: "model_0_0".to_owned(),
    }
}

/// The integer inputs of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packed {
    pub token_ids: Vec<i32>,
    pub positions: Vec<i32>,
    pub block_tables: Vec<i32>,
    pub seq_lens: Vec<i32>,
    pub slot_mapping: Vec<i32>,
}

impl Packed {
    /// What the engine packs for its current call. Elements that it leaves out are seen.
    pub fn of(engine: &Engine) -> Packed {
        let shape = &engine.geometry().entries()[engine.call().entry];
        let fresh = |size| vec![i32::MIN; size];
        let mut packed = Packed {
            token_ids: fresh(shape.batch * shape.tokens),
            positions: fresh(shape.batch * shape.tokens),
            block_tables: fresh(shape.batch * shape.columns),
            seq_lens: fresh(shape.batch),
            slot_mapping: fresh(shape.batch * shape.tokens),
        };
        engine.pack(StepInputs {
            token_ids: &mut packed.token_ids,
            positions: &mut packed.positions,
            block_tables: &mut packed.block_tables,
            seq_lens: &mut packed.seq_lens,
            slot_mapping: &mut packed.slot_mapping,
        });
        packed
    }
}

/// A pool that keeps the token itself where a real one keeps its keys and values.
#[derive(Clone, Debug)]
pub struct Device {
    slots: Vec<Option<i32>>,
    block_size: usize,
}

impl Device {
    pub fn new(geometry: &Geometry) -> Device {
        let slots = vec![None; geometry.num_blocks() * geometry.block_size()];
        Device { slots, block_size: geometry.block_size() }
    }

    pub fn zero(&mut self) {
        self.slots.fill(None);
    }

    /// Runs an entry as artifact format §7.5 says a program reads its inputs: every token is
    /// written to its slot, then each live row reads its first `SEQ_LENS` positions through its
    /// block table. The answer is what each row reads, empty for a padding row.
    pub fn execute(
        &mut self,
        shape: &EntryShape,
        packed: &Packed,
    ) -> Result<Vec<Vec<i32>>, String> {
        let (width, columns) = (shape.tokens, shape.columns);
        for (index, &slot) in packed.slot_mapping.iter().enumerate() {
            if slot == -1 {
                let padding = (packed.token_ids[index], packed.positions[index]);
                check(padding == (0, 0), || format!("padding column {index} has {padding:?}"))?;
                continue;
            }
            let slot = usize::try_from(slot).map_err(|_| format!("slot {slot}"))?;
            check(slot >= self.block_size, || format!("slot {slot} is in the padding page"))?;
            *self.slots.get_mut(slot).ok_or(format!("slot {slot} is outside"))? =
                Some(packed.token_ids[index]);
        }
        let mut answers = Vec::new();
        for row in 0..shape.batch {
            let slots = &packed.slot_mapping[row * width..(row + 1) * width];
            let positions = &packed.positions[row * width..(row + 1) * width];
            let table = &packed.block_tables[row * columns..(row + 1) * columns];
            let length = packed.seq_lens[row];
            let pad = slots.iter().take_while(|&&slot| slot == -1).count();
            check(!slots[pad..].contains(&-1), || format!("row {row} is not right-aligned"))?;
            if pad == width {
                check(length == 1, || format!("padding row {row} has length {length}"))?;
                check(table.iter().all(|&page| page == 0), || format!("padding row {row}"))?;
                answers.push(Vec::new());
                continue;
            }
            let first = length - (width - pad) as i32;
            for (column, position) in (pad..width).zip(first..) {
                check(positions[column] == position, || format!("row {row}: {positions:?}"))?;
                let (block, offset) =
                    (position as usize / self.block_size, position as usize % self.block_size);
                let page = table.get(block).ok_or(format!("row {row}: {table:?}"))?;
                let expected = page * self.block_size as i32 + offset as i32;
                check(slots[column] == expected, || format!("row {row}: {slots:?}"))?;
            }
            let read = |position: usize| {
                let page = table.get(position / self.block_size).copied().unwrap_or(-1);
                let slot = page * self.block_size as i32 + (position % self.block_size) as i32;
                usize::try_from(slot).ok().and_then(|slot| *self.slots.get(slot)?)
            };
            let answer: Option<Vec<i32>> = (0..length as usize).map(read).collect();
            answers.push(answer.ok_or(format!("row {row} reads what was never written"))?);
        }
        Ok(answers)
    }
}

pub fn check(holds: bool, message: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(message()) }
}

/// Page invariants: free and held pages are all pages, page 0 is not held, no page is held twice.
pub fn check_pages(engine: &Engine) -> Result<(), String> {
    let mut seen = HashSet::new();
    for sequence in engine.sequences() {
        for &page in sequence.pages {
            check(page != 0, || format!("sequence {} holds page 0", sequence.id))?;
            check(page < engine.geometry().num_blocks(), || format!("page {page}"))?;
            check(seen.insert(page), || format!("page {page} is held twice"))?;
        }
    }
    let (free, total) = (engine.free_pages(), engine.total_pages());
    check(free + seen.len() == total, || format!("{free} + {} != {total}", seen.len()))
}

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
        check_pages(&self.engine).unwrap();
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

pub fn failed(message: &str) -> Result<(), CallFailure> {
    Err(CallFailure::Execution { message: message.to_owned(), pools_lost: false })
}

pub fn took_the_pools(message: &str) -> Result<(), CallFailure> {
    Err(CallFailure::Execution { message: message.to_owned(), pools_lost: true })
}

pub fn copy_failed(message: &str) -> Result<(), CallFailure> {
    Err(CallFailure::Copy { message: message.to_owned() })
}
