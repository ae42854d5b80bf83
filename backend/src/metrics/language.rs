//! What language models show.

use tlaloc_engine::{Amounts, Counts, EntryKind, Event, Geometry, Outcome, Reason, Refusal};
use triton_backend::{Counter, Gauge};

use super::{Execution, ExecutionMetrics, FAMILIES, Owner, number};

/// The calls of an instance, whoever chooses them.
pub struct CallMetrics {
    executions: ExecutionMetrics,
    /// By entry.
    kinds: Vec<EntryKind>,
    prefill_tokens: Counter,
    decode_tokens: Counter,
}

impl CallMetrics {
    /// Of an instance.
    pub fn new(owner: &Owner, geometry: &Geometry) -> Self {
        let labels = owner.labels(&[]);
        let entries = geometry.entries();
        let named = entries.iter().map(|entry| (entry.id.as_str(), entry.kind.manifest_name()));
        CallMetrics {
            executions: ExecutionMetrics::new(owner, named),
            kinds: entries.iter().map(|entry| entry.kind).collect(),
            prefill_tokens: FAMILIES.prefill_tokens.with(&labels),
            decode_tokens: FAMILIES.decode_tokens.with(&labels),
        }
    }

    /// Counts a call of so many rows that took in so many tokens.
    pub fn add(&self, entry: usize, rows: usize, tokens: usize, outcome: &Outcome) {
        let succeeded = outcome.result.is_ok();
        let nanos = outcome.compute_end.saturating_sub(outcome.compute_start);
        self.executions.add(Execution { entry, rows, nanos, succeeded });
        if succeeded {
            match self.kinds.get(entry) {
                Some(EntryKind::Prefill) => self.prefill_tokens.add(number(tokens)),
                Some(EntryKind::Decode) => self.decode_tokens.add(number(tokens)),
                None => {}
            }
        }
    }
}

/// What an instance holds on its device, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// Weights, which other instances share.
    pub weights: usize,
    /// Pools.
    pub pools: usize,
    /// Step inputs.
    pub step_inputs: usize,
    /// The most temporary memory of one execution; none where the plugin does not tell.
    pub temporary: Option<usize>,
}

/// What can be held of an instance, and is.
pub struct PoolMetrics {
    pages: Held,
    fraction: Gauge,
    ring_pages: Option<Held>,
    state_slots: Option<Held>,
    /// Constant, shown for as long as this is there.
    _constant: Vec<Gauge>,
}

/// Gauges of one resource.
struct Held {
    used: Gauge,
    free: Gauge,
    max: Gauge,
}

impl Held {
    fn new(gauge: impl Fn(&str) -> Gauge) -> Self {
        Held { used: gauge("used"), free: gauge("free"), max: gauge("max") }
    }

    fn show(&self, free: usize, total: usize) {
        self.used.set(number(total.saturating_sub(free)));
        self.free.set(number(free));
        self.max.set(number(total));
    }
}

impl PoolMetrics {
    /// Of an instance.
    pub fn new(owner: &Owner, geometry: &Geometry, memory: &Memory) -> Self {
        let page =
            |kind: &str| FAMILIES.kv_pages.with(&owner.labels(&[("kv_cache_block_type", kind)]));
        let ring_page =
            |kind: &str| FAMILIES.ring_pages.with(&owner.labels(&[("ring_page_type", kind)]));
        let state_slot =
            |kind: &str| FAMILIES.state_slots.with(&owner.labels(&[("state_slot_type", kind)]));
        let tokens_per = page("tokens_per");
        tokens_per.set(number(geometry.block_size()));
        let mut constant = vec![tokens_per];
        let Memory { weights, pools, step_inputs, temporary } = *memory;
        for (kind, bytes) in [
            ("weights", Some(weights)),
            ("pools", Some(pools)),
            ("step_inputs", Some(step_inputs)),
            ("temporary", temporary),
        ] {
            let Some(bytes) = bytes else { continue };
            let gauge = FAMILIES.memory.with(&owner.labels(&[("memory_type", kind)]));
            gauge.set(number(bytes));
            constant.push(gauge);
        }
        PoolMetrics {
            pages: Held::new(page),
            fraction: page("fraction"),
            ring_pages: geometry.windowed().map(|_| Held::new(ring_page)),
            state_slots: geometry.num_state_slots().map(|_| Held::new(state_slot)),
            _constant: constant,
        }
    }

    /// Shows what is free of what there is.
    pub fn show(&self, free: Amounts, total: Amounts) {
        self.pages.show(free.pages, total.pages);
        let used = total.pages.saturating_sub(free.pages);
        self.fraction.set(number(used) / number(total.pages.max(1)));
        if let Some(ring_pages) = &self.ring_pages {
            ring_pages.show(free.ring_pages, total.ring_pages);
        }
        if let Some(state_slots) = &self.state_slots {
            state_slots.show(free.state_slots, total.state_slots);
        }
    }
}

/// An instance in sequence mode.
pub struct SequenceMetrics {
    /// Its calls.
    pub calls: CallMetrics,
    /// What its sequences hold.
    pub pools: PoolMetrics,
    running: Gauge,
    waiting: Gauge,
    sequences: Gauge,
    cohort_waits: Counter,
    cohort_timeouts: Counter,
    reclaims: Counter,
    /// In the order of [`Reason::ALL`].
    refusals: [Counter; Reason::ALL.len()],
    /// Waits that are counted already.
    counted_waits: u64,
}

impl SequenceMetrics {
    /// Of an instance.
    pub fn new(owner: &Owner, geometry: &Geometry, memory: &Memory) -> Self {
        let labels = owner.labels(&[]);
        let requests =
            |kind: &str| FAMILIES.requests.with(&owner.labels(&[("request_type", kind)]));
        SequenceMetrics {
            calls: CallMetrics::new(owner, geometry),
            pools: PoolMetrics::new(owner, geometry, memory),
            running: requests("running"),
            waiting: requests("waiting"),
            sequences: FAMILIES.sequences.with(&labels),
            cohort_waits: FAMILIES.cohort_waits.with(&labels),
            cohort_timeouts: FAMILIES.cohort_timeouts.with(&labels),
            reclaims: FAMILIES.reclaims.with(&labels),
            refusals: Reason::ALL
                .map(|reason| FAMILIES.refusals.with(&owner.labels(&[("reason", reason.label())]))),
            counted_waits: 0,
        }
    }

    /// Shows the requests of the engine; `inbox` more wait to get there.
    pub fn show_requests(&mut self, counts: Counts, inbox: usize) {
        self.running.set(number(counts.running));
        self.waiting.set(number(counts.waiting + inbox));
        self.sequences.set(number(counts.sequences));
        let waits = counts.cohort_waits.saturating_sub(self.counted_waits);
        if waits > 0 {
            self.cohort_waits.add(waits as f64);
            self.counted_waits = counts.cohort_waits;
        }
    }

    /// Counts what is to be counted of an event.
    pub fn event(&self, event: &Event) {
        match event {
            Event::Reclaimed { .. } => self.reclaims.add(1.0),
            Event::RanWithout { .. } => self.cohort_timeouts.add(1.0),
            _ => {}
        }
    }

    /// Counts a refused request.
    pub fn refused(&self, refusal: &Refusal) {
        if let Some(counter) = self.refusals.get(refusal.reason() as usize) {
            counter.add(1.0);
        }
    }
}
