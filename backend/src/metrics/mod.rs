//! The backend's metrics on the server's metrics port.
//!
//! `table` describes them; this file makes their families and what all modes count, `language` what
//! language models add, `generation` what generation mode does. Values are set once per execution or batch, and setting one allocates nothing.

mod generation;
mod language;
pub mod table;

use std::sync::LazyLock;

use triton_backend::{Counter, Gauge, Histogram, InstanceContext, MetricFamily, ModelContext};

pub use generation::GenerationMetrics;
pub use language::{CallMetrics, Memory, PoolMetrics, SequenceMetrics};
use table::{Description, Kind};

/// The families of the process. A name has one for as long as the process: Triton takes a metric
/// away with the last user of the family that made it (server_8663).
static FAMILIES: LazyLock<Families> = LazyLock::new(Families::new);

struct Families {
    kv_pages: MetricFamily<Gauge>,
    ring_pages: MetricFamily<Gauge>,
    state_slots: MetricFamily<Gauge>,
    requests: MetricFamily<Gauge>,
    sequences: MetricFamily<Gauge>,
    memory: MetricFamily<Gauge>,
    batch_size: MetricFamily<Histogram>,
    prefill_tokens: MetricFamily<Counter>,
    decode_tokens: MetricFamily<Counter>,
    cohort_waits: MetricFamily<Counter>,
    cohort_timeouts: MetricFamily<Counter>,
    reclaims: MetricFamily<Counter>,
    refusals: MetricFamily<Counter>,
    executions: MetricFamily<Counter>,
    execution_seconds: MetricFamily<Counter>,
    execution_failures: MetricFamily<Counter>,
    cache_hits: MetricFamily<Counter>,
    cache_misses: MetricFamily<Counter>,
    first_token: MetricFamily<Histogram>,
    next_token: MetricFamily<Histogram>,
    preemptions: MetricFamily<Counter>,
    finished: MetricFamily<Counter>,
    drafts: MetricFamily<Counter>,
}

impl Families {
    fn new() -> Self {
        let counters = |of: &Description| MetricFamily::counters(of.name, of.help);
        let gauges = |of: &Description| MetricFamily::gauges(of.name, of.help);
        let histograms = |of: &Description| {
            let Kind::Histogram(bounds) = of.kind else { return histograms_of(of, &[]) };
            histograms_of(of, bounds)
        };
        Families {
            kv_pages: gauges(&table::KV_PAGES),
            ring_pages: gauges(&table::RING_PAGES),
            state_slots: gauges(&table::STATE_SLOTS),
            requests: gauges(&table::REQUESTS),
            sequences: gauges(&table::SEQUENCES),
            memory: gauges(&table::MEMORY),
            batch_size: histograms(&table::BATCH_SIZE),
            prefill_tokens: counters(&table::PREFILL_TOKENS),
            decode_tokens: counters(&table::DECODE_TOKENS),
            cohort_waits: counters(&table::COHORT_WAITS),
            cohort_timeouts: counters(&table::COHORT_TIMEOUTS),
            reclaims: counters(&table::RECLAIMS),
            refusals: counters(&table::REFUSALS),
            executions: counters(&table::EXECUTIONS),
            execution_seconds: counters(&table::EXECUTION_SECONDS),
            execution_failures: counters(&table::EXECUTION_FAILURES),
            cache_hits: counters(&table::CACHE_HITS),
            cache_misses: counters(&table::CACHE_MISSES),
            first_token: histograms(&table::FIRST_TOKEN),
            next_token: histograms(&table::NEXT_TOKEN),
            preemptions: counters(&table::PREEMPTIONS),
            finished: counters(&table::FINISHED),
            drafts: counters(&table::DRAFTS),
        }
    }
}

fn histograms_of(of: &Description, bounds: &'static [f64]) -> MetricFamily<Histogram> {
    MetricFamily::histograms(of.name, of.help, bounds)
}

/// Whose values they are: a model's version, and its instance where there is one.
#[derive(Clone, Debug)]
pub struct Owner {
    model: String,
    version: String,
    instance: Option<String>,
}

impl Owner {
    /// A model.
    pub fn model(context: &ModelContext) -> Self {
        Owner {
            model: context.name().to_owned(),
            version: context.version().to_string(),
            instance: None,
        }
    }

    /// An instance of it.
    pub fn instance(&self, context: &InstanceContext) -> Self {
        Owner { instance: Some(context.name().to_owned()), ..self.clone() }
    }

    /// Its labels, and these.
    fn labels<'a>(&'a self, more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
        let instance = self.instance.as_deref().map(|name| ("instance", name));
        [("model", self.model.as_str()), ("version", self.version.as_str())]
            .into_iter()
            .chain(instance)
            .chain(more.iter().copied())
            .collect()
    }
}

/// How the programs of a load were come by.
pub struct CacheMetrics {
    /// Taken from the compile cache.
    pub hits: Counter,
    /// Compiled.
    pub misses: Counter,
}

impl CacheMetrics {
    /// Of a model.
    pub fn new(owner: &Owner) -> Self {
        let labels = owner.labels(&[]);
        CacheMetrics {
            hits: FAMILIES.cache_hits.with(&labels),
            misses: FAMILIES.cache_misses.with(&labels),
        }
    }
}

/// The executions of an instance.
pub struct ExecutionMetrics {
    entries: Vec<EntryMetrics>,
}

struct EntryMetrics {
    executions: Counter,
    seconds: Counter,
    failures: Counter,
    rows: Histogram,
}

/// One execution.
#[derive(Clone, Copy, Debug)]
pub struct Execution {
    /// Index of its entry.
    pub entry: usize,
    /// Its rows, without those of padding.
    pub rows: usize,
    /// How long it took.
    pub nanos: u64,
    /// Whether its results are there.
    pub succeeded: bool,
}

impl ExecutionMetrics {
    /// Of an instance with these entries, each with its kind.
    pub fn new<'a>(owner: &Owner, entries: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let entries = entries.into_iter().map(|(entry, kind)| {
            let labels = owner.labels(&[("entry", entry)]);
            EntryMetrics {
                executions: FAMILIES.executions.with(&labels),
                seconds: FAMILIES.execution_seconds.with(&labels),
                failures: FAMILIES.execution_failures.with(&labels),
                rows: FAMILIES.batch_size.with(&owner.labels(&[("kind", kind)])),
            }
        });
        ExecutionMetrics { entries: entries.collect() }
    }

    /// Counts one.
    pub fn add(&self, ran: Execution) {
        let Some(entry) = self.entries.get(ran.entry) else { return };
        if ran.succeeded {
            entry.executions.add(1.0);
            entry.seconds.add(seconds(ran.nanos));
            entry.rows.observe(number(ran.rows));
        } else {
            entry.failures.add(1.0);
        }
    }
}

/// The kind of entries outside of language models.
pub const OTHER: &str = "other";

/// A count as metrics have it.
fn number(count: usize) -> f64 {
    count as f64
}

fn seconds(nanos: u64) -> f64 {
    nanos as f64 * 1e-9
}
