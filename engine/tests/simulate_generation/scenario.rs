//! What a schedule is about: a model, an instance, its requests, and how much goes wrong.

use tlaloc_engine::generation::{Policy, PromptLookup, Settings};
use tlaloc_engine::{Amounts, Drafts, Geometry, Nanos, WindowedPools};

use crate::support::{MS, Random, US, entries, verifying, with_verify};

/// Token ids are below this.
pub const VOCABULARY: usize = 1_000;
/// A token whose keys, values and logits are not finite.
pub const POISON: i32 = 999;
/// A token that ends a text.
pub const LAST: i32 = 998;

/// A request to be.
#[derive(Clone, Debug)]
pub struct Plan {
    pub at: Nanos,
    pub prompt: Vec<i32>,
    pub max_tokens: usize,
    pub priority: u64,
    /// From its arrival.
    pub timeout: Option<Nanos>,
}

pub struct Scenario {
    pub geometry: Geometry,
    pub settings: Settings,
    /// Ascending by arrival.
    pub plans: Vec<Plan>,
    /// Percentages: of calls that fail, of moves that fail, of rows that cannot be sampled, of steps
    /// after which a request is cancelled, of steps after which the server stops.
    pub trouble: usize,
    pub move_trouble: usize,
    pub bad_rows: usize,
    pub cancels: usize,
    pub stops: usize,
    /// How long calls may take, and how long a moved row.
    pub executions: &'static [Nanos],
    pub move_row: Nanos,
}

/// What comes after `history`: mostly what stood three tokens before, so that drafts are right at
/// times.
pub fn model(history: &[i32]) -> i32 {
    let hash = history.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &token| {
        (hash ^ u64::from(token as u32)).wrapping_mul(0x0100_0000_01b3)
    });
    let hash = (hash >> 24) as usize;
    match hash % 64 {
        0 => LAST,
        1 if (hash / 64).is_multiple_of(4) => POISON,
        choice => match history.len().checked_sub(3) {
            Some(place) if choice < 52 => history[place].min(LAST - 1),
            _ => 1 + (hash / 64 % 900) as i32,
        },
    }
}

/// What a draft head takes for that: it is wrong at times, and proposes no token that is not finite.
fn head(history: &[i32]) -> i32 {
    let token = model(history);
    let wrong = history.iter().sum::<i32>() % 5 == 0 || token == POISON;
    if wrong { 1 + token % 900 } else { token }
}

/// Its proposals for the `count` tokens after `history`.
pub fn proposals(history: &[i32], count: usize) -> Vec<i32> {
    let mut ahead = history.to_vec();
    for _ in 0..count {
        ahead.push(head(&ahead));
    }
    ahead.split_off(history.len())
}

impl Scenario {
    pub fn new(random: &mut Random) -> Scenario {
        let block_size = random.pick(&[1, 2, 3, 4]);
        let geometry = geometry(random, block_size);
        let swaps = random.chance(70);
        let mut room = |most: &[usize]| if swaps { random.pick(most) } else { 0 };
        let swap_pages = Amounts {
            pages: room(&[2, 5, 20]),
            ring_pages: room(&[3, 20]),
            state_slots: room(&[1, 4]),
        };
        let lookup = random.chance(70).then(|| {
            let min_ngram = 1 + random.below(2);
            let max_ngram = min_ngram + random.below(3);
            PromptLookup { max_drafts: 1 + random.below(4), min_ngram, max_ngram }
        });
        let settings = Settings {
            instance: "model_0_0".to_owned(),
            max_queue_size: random.pick(&[1, 3, 10, 10, 10, 10]),
            max_running: random.pick(&[1, 3, 4, 8, 8]),
            max_prefill_tokens_per_step: random.pick(&[1, 3, 6, 10, 30]),
            policy: random.pick(&[
                Policy::GuaranteedNoEvict,
                Policy::MaxUtilization,
                Policy::MaxUtilization,
            ]),
            swap_pages,
            lookup,
        };
        // Some ask for what a draft head leaves no room for.
        let beyond = if random.chance(90) { (2 * geometry.draft_tokens()).max(1) - 1 } else { 0 };
        let plans = plans(random, geometry.max_context().saturating_sub(beyond).max(1));
        Scenario {
            geometry,
            settings,
            plans,
            trouble: random.pick(&[0, 0, 1, 4]),
            move_trouble: random.pick(&[0, 0, 40]),
            bad_rows: random.pick(&[0, 0, 2]),
            cancels: random.pick(&[0, 0, 2, 6]),
            stops: random.pick(&[0, 0, 1]),
            executions: random.pick(&[&[MS][..], &[0, 100 * US, 3 * MS], &[MS, 5 * MS]]),
            move_row: random.pick(&[US, 100 * US, MS]),
        }
    }
}

fn plans(random: &mut Random, max_context: usize) -> Vec<Plan> {
    let count = random.pick(&[3, 5, 8]);
    let spread = random.pick(&[1, 5 * MS, 5 * MS, 20 * MS]);
    let priorities: &[u64] = random.pick(&[&[0][..], &[0, 1, 2]]);
    let timeouts = random.pick(&[0, 0, 20]);
    let poisons = random.pick(&[0, 10]);
    let longest = random.pick(&[4, 4, 8, 16]).min(max_context);
    let mut plans: Vec<Plan> = (0..count)
        .map(|_| {
            let length = 1 + random.below(longest);
            let few = random.chance(40);
            let most = random.pick(&[2, 8, 20, 30]).min(max_context + 1 - length);
            let mut prompt: Vec<i32> =
                (0..length).map(|_| 1 + random.below(if few { 3 } else { 900 }) as i32).collect();
            if random.chance(poisons) {
                prompt[random.below(length)] = POISON;
            }
            Plan {
                // On the beat of the clock, so that things fall together.
                at: MS + random.next() % spread / (100 * US) * (100 * US),
                prompt,
                max_tokens: 1 + random.below(most),
                priority: random.pick(priorities),
                timeout: random.chance(timeouts).then(|| random.next() % 100 * (100 * US)),
            }
        })
        .collect();
    if random.chance(10) {
        // Some can never run.
        let plan = random.below(plans.len());
        match random.below(3) {
            0 => plans[plan].prompt.clear(),
            1 => plans[plan].prompt = vec![5; max_context + 1],
            _ => plans[plan].max_tokens = random.pick(&[0, max_context + 1]),
        }
    }
    plans.sort_by_key(|plan| plan.at);
    plans
}

fn geometry(random: &mut Random, block_size: usize) -> Geometry {
    let contexts: &[usize] = random.pick(&[&[2, 4][..], &[4, 8], &[8, 16], &[12]]);
    let contexts: Vec<_> = contexts.iter().map(|context| context * block_size).collect();
    let decode: &[usize] = random.pick(&[&[1][..], &[1, 2], &[1, 2, 4], &[3, 1]]);
    let prefill: &[usize] = random.pick(&[&[][..], &[1], &[1, 2], &[2, 4]]);
    let chunks: &[usize] = random.pick(&[&[0][..], &[3], &[5, 2], &[0, 2]]);
    let mut shapes = entries(block_size, &contexts, decode, prefill, chunks);
    if random.chance(60) {
        let batches: &[usize] = random.pick(&[&[1][..], &[1, 4], &[2]]);
        let tokens = random.pick(&[2, 3, 5]);
        shapes = with_verify(shapes, block_size, &contexts, batches, tokens);
    }
    if random.chance(10) && shapes.len() > 1 {
        // Some entry is missing.
        let hole = 1 + random.below(shapes.len() - 1);
        shapes.remove(hole);
    }
    let most = contexts.iter().max().unwrap_or(&1).div_ceil(block_size);
    let blocks = 1 + random.pick(&[most - 1, most, most, most, most + 1, most + 2, 2 * most, 40]);
    let mut geometry = Geometry::new(VOCABULARY, blocks, block_size, vec![], shapes);
    let class = random.below(8);
    if class == 7 {
        return with_drafts(random, geometry);
    }
    if matches!(class, 0..=2 | 6) {
        let window = random.pick(&[1, 2, 5, 8]);
        let least = window.min(geometry.max_context()).div_ceil(block_size);
        let ring_pages = least + random.below(3);
        let num_blocks = 1 + random.pick(&[1, 2, 3, 6]) * ring_pages;
        geometry = geometry.with_windowed_pools(WindowedPools { window, ring_pages, num_blocks });
    }
    if matches!(class, 3 | 6) {
        geometry = geometry.with_state_slots(random.pick(&[1, 2, 3, 8]));
    }
    geometry
}

/// Gives a model a draft head, and linear attention, as such models have.
fn with_drafts(random: &mut Random, geometry: Geometry) -> Geometry {
    let drafts = Drafts { tokens: random.pick(&[1, 2, 3]), chained: random.chance(50) };
    let (blocks, block_size) = (geometry.num_blocks(), geometry.block_size());
    let shapes = verifying(geometry.entries().to_vec(), drafts.tokens);
    let slots = random.pick(&[1, 2, 3, 8]) * (drafts.tokens + 2) + random.below(2);
    Geometry::new(VOCABULARY, blocks, block_size, vec![], shapes)
        .with_state_slots(slots)
        .with_drafts(drafts)
}
