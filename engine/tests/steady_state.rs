//! A decode step in the steady state allocates nothing.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use support::{BATCHING, MS, Packed, entries, number, settings, step_all, text};
use tlaloc_engine::{
    Arrival, Batching, Engine, Geometry, Nanos, SequenceId, Ticket, WindowedPools,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Model {
    Full,
    Windowed,
    Linear,
}

const MODELS: [Model; 3] = [Model::Full, Model::Windowed, Model::Linear];

/// Clients that step together, with everything that they hand over made beforehand.
struct Clients {
    engine: Engine,
    packed: Packed,
    arrivals: Vec<Arrival>,
    now: Nanos,
    executions: usize,
}

impl Clients {
    fn new(model: Model, batching: Batching, ids: Vec<SequenceId>, prompt: usize) -> Clients {
        let (context, rows) = (1024, ids.len());
        let shapes = entries(16, &[context], &[1, rows], &[1], &[0]);
        let blocks = 1 + rows * context / 16;
        let mut geometry = Geometry::new(100, blocks, 16, vec![], shapes);
        if model == Model::Windowed {
            let (ring_pages, num_blocks) = (5, 1 + rows * 5);
            let pools = WindowedPools { window: 64, ring_pages, num_blocks };
            geometry = geometry.with_windowed_pools(pools);
        }
        if model == Model::Linear {
            geometry = geometry.with_state_slots(rows);
        }
        let arrivals = ids.into_iter().enumerate().map(|(index, id)| Arrival {
            ticket: Ticket(index as u64),
            sequence: Some(id),
            start: true,
            end: false,
            tokens: Ok(vec![1; prompt]),
            at: 0,
        });
        Clients {
            engine: Engine::new(geometry, settings(batching)),
            packed: Packed::default(),
            arrivals: arrivals.collect(),
            now: MS,
            executions: 0,
        }
    }

    fn step(&mut self) {
        let Clients { engine, packed, now, arrivals, .. } = self;
        let round = step_all(engine, packed, now, arrivals);
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
    for model in MODELS {
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

#[test]
#[ignore = "a measurement: run with --release --ignored --nocapture"]
fn time_of_a_step() {
    for model in MODELS {
        for count in [1, 4, 64, 256] {
            let mut clients = Clients::new(model, BATCHING, ids(count), 5);
            clients.allocations(4);
            let mut times: Vec<_> = (0..900)
                .map(|_| {
                    let start = std::time::Instant::now();
                    clients.step();
                    start.elapsed()
                })
                .collect();
            times.sort();
            println!("{model:?}, {count} rows: median {:?}, p99 {:?}", times[450], times[891]);
        }
    }
}
