//! What a schedule is about: a model, an instance, its clients, and how much goes wrong.

use tlaloc_engine::{Batching, Drafts, Geometry, Nanos, SequenceId, Settings, WindowedPools};

use crate::client::{Client, Temper};
use crate::support::{MS, Random, US, entries, number, text, verifying};

/// Token ids are below this: so many that two sequences do not happen to have the same.
pub const VOCABULARY: usize = 10_000;
/// The model's placeholder.
pub const PLACEHOLDER: i32 = 7;

pub struct Scenario {
    pub geometry: Geometry,
    pub settings: Settings,
    pub clients: Vec<Client>,
    /// Percentage of calls that fail.
    pub trouble: usize,
    /// How long calls may take.
    pub executions: &'static [Nanos],
    /// Requests until the clients are done.
    pub requests: usize,
    /// Percentage of steps after which the server stops.
    pub stops: usize,
}

impl Scenario {
    pub fn new(random: &mut Random) -> Scenario {
        let geometry = geometry(random);
        let batching = if random.chance(15) {
            Batching::Host
        } else {
            Batching::Engine {
                cohort_wait: random.pick(&[0, MS, 20 * MS]),
                prompt_wait: random.pick(&[0, 500 * US, 2 * MS]),
            }
        };
        let settings = Settings {
            batching,
            max_sequence_idle: random.pick(&[MS, 10 * MS, 1_000 * MS]),
            max_batch_size: random.below(5),
            instance: "model_0_0".to_owned(),
            chain: random.chance(70),
        };
        let ids = [number(1), text("1"), number(2), number(3), text("a"), number(4), number(5)];
        let temper = Temper::new(random);
        let count = 1 + random.below(ids.len());
        let mut clients: Vec<_> = ids[..count]
            .iter()
            .map(|id| Client::new(Some(id.clone()), temper, random.next() % (2 * MS)))
            .collect();
        let mut others: Vec<Option<SequenceId>> = Vec::new();
        if random.chance(10) {
            others.push(None);
        }
        // Two clients that each believe that the sequence is theirs.
        if random.chance(10) {
            others.push(Some(number(1)));
        }
        for id in others {
            clients.push(Client::new(id, Temper::new(random), random.next() % (2 * MS)));
        }
        Scenario {
            geometry,
            settings,
            clients,
            trouble: random.pick(&[0, 0, 5, 20]),
            executions: random.pick(&[&[MS][..], &[0, 100 * US, 3 * MS], &[MS, 40 * MS]]),
            requests: random.pick(&[8, 20, 20, 60]),
            stops: random.pick(&[0, 0, 1]),
        }
    }
}

fn geometry(random: &mut Random) -> Geometry {
    let block_size = random.pick(&[1, 2, 3, 4]);
    let contexts: &[usize] = random.pick(&[&[2, 4][..], &[4, 8, 16], &[16]]);
    let contexts: Vec<_> = contexts.iter().map(|context| context * block_size).collect();
    let decode: &[usize] = random.pick(&[&[1][..], &[1, 2], &[1, 2, 4], &[3, 1]]);
    let prefill: &[usize] = random.pick(&[&[][..], &[1], &[1, 2], &[2, 4]]);
    let chunks: &[usize] = random.pick(&[&[0][..], &[3], &[5, 2], &[0, 2]]);
    let mut shapes = entries(block_size, &contexts, decode, prefill, chunks);
    if random.chance(10) && shapes.len() > 1 {
        // A call may find no entry.
        let hole = 1 + random.below(shapes.len() - 1);
        shapes.remove(hole);
    }
    let blocks = random.pick(&[2, 5, 8, 20, 20, 70, 70]);
    let placeholder = vec![(PLACEHOLDER, "hole".to_owned())];
    let mut geometry = Geometry::new(VOCABULARY, blocks, block_size, placeholder, shapes);
    let class = random.below(10);
    if class >= 8 {
        return with_drafts(random, geometry);
    }
    if matches!(class, 0..=2 | 6) {
        let window = random.pick(&[1, 2, 5, 8, 16]);
        // As a manifest must have it: a decode step reads nothing that is written over.
        let least = window.min(geometry.max_context()).div_ceil(block_size);
        let ring_pages = least + random.below(3);
        let num_blocks = 1 + random.pick(&[1, 2, 3, 6]) * ring_pages;
        geometry = geometry.with_windowed_pools(WindowedPools { window, ring_pages, num_blocks });
    }
    if matches!(class, 3 | 4 | 6) {
        geometry = geometry.with_state_slots(random.pick(&[1, 2, 3, 8]));
    }
    geometry
}

/// Gives a model a draft head, and linear attention, as such models have.
fn with_drafts(random: &mut Random, geometry: Geometry) -> Geometry {
    let drafts = Drafts { tokens: random.pick(&[1, 2, 3]), chained: random.chance(70) };
    let (blocks, block_size) = (geometry.num_blocks(), geometry.block_size());
    let shapes = verifying(geometry.entries().to_vec(), drafts.tokens);
    let placeholder = vec![(PLACEHOLDER, "hole".to_owned())];
    let slots = random.pick(&[1, 2, 3, 8]) * (drafts.tokens + 2) + random.below(2);
    Geometry::new(VOCABULARY, blocks, block_size, placeholder, shapes)
        .with_state_slots(slots)
        .with_drafts(drafts)
}
