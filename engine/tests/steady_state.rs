//! A decode step in the steady state allocates nothing.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use support::{
    BATCHING, Given, MS, Packed, entries, number, settings, step_all, text, verifying, with_verify,
};
use tlaloc_engine::generation::{self, Policy, PromptLookup, Scheduler, Submission, Verdicts};
use tlaloc_engine::{
    Amounts, Arrival, Batching, Drafts, Engine, Geometry, Nanos, Outcome, SequenceId, Ticket,
    WindowedPools,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Model {
    Full,
    Windowed,
    Linear,
    Drafts,
}

const MODELS: [Model; 3] = [Model::Full, Model::Windowed, Model::Linear];

/// Room for `rows` sequences of 1024 tokens.
fn geometry(model: Model, rows: usize) -> Geometry {
    let context = 1024;
    let shapes = entries(16, &[context], &[1, rows], &[1], &[0]);
    let shapes = with_verify(shapes, 16, &[context], &[rows], 5);
    let blocks = 1 + rows * context / 16;
    let geometry = Geometry::new(100, blocks, 16, vec![], shapes);
    match model {
        Model::Full => geometry,
        Model::Windowed => {
            let (ring_pages, num_blocks) = (5, 1 + rows * 5);
            geometry.with_windowed_pools(WindowedPools { window: 64, ring_pages, num_blocks })
        }
        Model::Linear => geometry.with_state_slots(rows),
        Model::Drafts => {
            let drafts = Drafts { tokens: 3, chained: true };
            let shapes = entries(16, &[context], &[1, rows], &[1], &[0]);
            Geometry::new(100, blocks, 16, vec![], verifying(shapes, drafts.tokens))
                .with_state_slots(rows * (drafts.tokens + 2))
                .with_drafts(drafts)
        }
    }
}

/// Clients that step together, with everything that they hand over made beforehand.
struct Clients {
    engine: Engine,
    packed: Packed,
    given: Given,
    arrivals: Vec<Arrival>,
    now: Nanos,
    executions: usize,
}

impl Clients {
    fn new(model: Model, batching: Batching, ids: Vec<SequenceId>, prompt: usize) -> Clients {
        let geometry = geometry(model, ids.len());
        let arrivals = ids.into_iter().enumerate().map(|(index, id)| Arrival {
            ticket: Ticket(index as u64),
            sequence: Some(id),
            start: true,
            end: false,
            tokens: Ok(vec![1; prompt]),
            at: 0,
            generation: None,
        });
        Clients {
            engine: Engine::new(geometry, settings(batching)),
            packed: Packed::default(),
            given: Given::default(),
            arrivals: arrivals.collect(),
            now: MS,
            executions: 0,
        }
    }

    fn step(&mut self) {
        let Clients { engine, packed, given, now, arrivals, .. } = self;
        let round = step_all(engine, packed, given, now, arrivals);
        assert!(round.all_ran);
        self.executions += round.executions;
    }

    fn allocations(&mut self, steps: usize) -> u64 {
        let counted = allocation_counter::measure(|| {
            for _ in 0..steps {
                self.step();
                assert_eq!(self.engine.events().count(), 0);
            }
        });
        counted.count_total
    }
}

fn ids(count: u64) -> Vec<SequenceId> {
    (0..count).map(|id| if id % 3 == 0 { text(&id.to_string()) } else { number(id) }).collect()
}

#[test]
fn decode_steps_allocate_nothing() {
    for model in [&MODELS[..], &[Model::Drafts]].concat() {
        for batching in [BATCHING, Batching::Host] {
            for count in [1, 4, 64] {
                let mut clients = Clients::new(model, batching, ids(count), 5);
                // The prompt and a few steps bring every buffer to its size.
                let warming = clients.allocations(4);
                assert!(warming > 0, "control: the counter counts");
                let before = clients.executions;
                // 900 steps fill 56 pages a sequence.
                let allocations = clients.allocations(900);
                assert_eq!(allocations, 0, "{count} sequences, {batching:?}, {model:?}");
                assert_eq!(clients.executions - before, 900);
            }
        }
    }
}

/// Requests that generate together; one in four tokens is none that stood four tokens before.
struct Streams {
    scheduler: Scheduler,
    packed: Packed,
    verdicts: Verdicts,
    tokens: Vec<i32>,
    now: Nanos,
}

impl Streams {
    fn new(model: Model, policy: Policy, lookup: bool, count: usize) -> Streams {
        let geometry = geometry(model, count);
        let settings = generation::Settings {
            instance: "model_0_0".to_owned(),
            max_queue_size: count,
            max_running: count,
            max_prefill_tokens_per_step: 1024 * count,
            policy,
            swap_pages: Amounts::default(),
            lookup: lookup.then_some(PromptLookup { max_drafts: 4, min_ngram: 1, max_ngram: 3 }),
        };
        let packed = Packed::reserved(&geometry);
        let mut scheduler = Scheduler::new(geometry, settings);
        for ticket in 0..count as u64 {
            let submission = Submission {
                ticket: Ticket(ticket),
                prompt: vec![1, 2, 3, 4, 5],
                max_tokens: 1_000,
                priority: 0,
                deadline: Some(Nanos::MAX),
                at: 0,
            };
            scheduler.submit(submission).unwrap();
        }
        let (verdicts, tokens) = (Verdicts::new(), Vec::with_capacity(8));
        Streams { scheduler, packed, verdicts, tokens, now: MS }
    }

    fn step(&mut self) {
        assert_eq!(self.scheduler.next(self.now), generation::Step::Run);
        self.packed.fill(&self.scheduler, 0);
        self.verdicts.clear();
        for row in self.scheduler.call().rows() {
            if !row.samples {
                self.verdicts.push_none();
                continue;
            }
            self.tokens.clear();
            let drafts = &row.tokens[row.tokens.len() - row.drafts..];
            for column in 0..=row.drafts {
                let position = row.position + row.tokens.len() - row.drafts + column;
                let token = if position % 4 == 0 { position as i32 % 90 } else { 3 };
                self.tokens.push(token);
                if drafts.get(column) != Some(&token) {
                    break;
                }
            }
            self.verdicts.push_tokens(&self.tokens, false);
            // Right where the next token is 3.
            let proposals = [3; 3];
            let own = self.scheduler.geometry().draft_tokens();
            self.verdicts.propose(&proposals[..own]);
        }
        let compute_start = self.now;
        self.now += MS;
        let outcome = Outcome { compute_start, compute_end: self.now, result: Ok(()) };
        self.scheduler.complete(outcome, &self.verdicts);
    }

    fn allocations(&mut self, steps: usize) -> u64 {
        allocation_counter::measure(|| (0..steps).for_each(|_| self.step())).count_total
    }
}

#[test]
fn steps_of_generation_allocate_nothing() {
    for model in [Model::Full, Model::Windowed, Model::Linear, Model::Drafts] {
        for policy in [Policy::GuaranteedNoEvict, Policy::MaxUtilization] {
            for lookup in [false, true] {
                for count in [1, 4, 64] {
                    let mut streams = Streams::new(model, policy, lookup, count);
                    // The prompts, and steps that bring every buffer to its size.
                    let warming = streams.allocations(count + 12);
                    assert!(warming > 0, "control: the counter counts");
                    // Up to five tokens a step: not to the end.
                    let allocations = streams.allocations(150);
                    let case = format!("{count} requests, {policy:?}, {lookup}, {model:?}");
                    assert_eq!(allocations, 0, "{case}");
                    let counts = streams.scheduler.counts();
                    let drafts = model == Model::Drafts || lookup && model != Model::Linear;
                    assert_eq!(counts.drafts_accepted > 0, drafts, "{counts:?}");
                    assert_eq!(counts.running, count);
                }
            }
        }
    }
}

#[test]
#[ignore = "a measurement: run with --release --ignored --nocapture"]
fn time_of_a_step() {
    for model in MODELS {
        for count in [1, 4, 64, 256] {
            let mut clients = Clients::new(model, BATCHING, ids(count), 5);
            clients.allocations(4);
            print_times(&format!("{model:?}, {count} rows"), 900, || clients.step());
        }
    }
}

#[test]
#[ignore = "a measurement: run with --release --ignored --nocapture"]
fn time_of_a_step_of_generation() {
    for lookup in [false, true] {
        for count in [1, 4, 64, 256] {
            let mut streams = Streams::new(Model::Full, Policy::MaxUtilization, lookup, count);
            streams.allocations(count + 12);
            let name = format!("{count} requests, drafts {lookup}");
            print_times(&name, 150, || streams.step());
        }
    }
}

fn print_times(name: &str, steps: usize, mut step: impl FnMut()) {
    let mut times: Vec<_> = (0..steps)
        .map(|_| {
            let start = std::time::Instant::now();
            step();
            start.elapsed()
        })
        .collect();
    times.sort();
    println!("{name}: median {:?}, p99 {:?}", times[steps / 2], times[steps * 99 / 100]);
}
