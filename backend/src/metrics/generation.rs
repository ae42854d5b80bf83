//! What language models show in generation mode.

use tlaloc_engine::generation::{Counts, End, Rejection};
use tlaloc_engine::{Geometry, Nanos, Reason, Resource};
use triton_backend::{Code, Counter, Gauge, Histogram};

use super::table::{DRAFTS, FINISHED, PREEMPTIONS, REFUSALS, REQUESTS};
use super::{CallMetrics, FAMILIES, Memory, Owner, PoolMetrics, number, seconds};

/// An instance in generation mode. Threads that only refuse requests share it.
pub struct GenerationMetrics {
    /// Its calls.
    pub calls: CallMetrics,
    pools: PoolMetrics,
    /// Each in the order of the table's values.
    requests: Vec<Gauge>,
    preemptions: Vec<Counter>,
    drafts: Vec<Counter>,
    finished: Vec<(&'static str, Counter)>,
    refusals: Vec<(&'static str, Counter)>,
    first_token: Histogram,
    next_token: Histogram,
}

/// Why a request ended without a finish reason of its own.
const ERROR: &str = "error";

impl GenerationMetrics {
    /// Of an instance.
    pub fn new(owner: &Owner, geometry: &Geometry, memory: &Memory) -> Self {
        let labels = owner.labels(&[]);
        // The last label of each is the one with the values.
        let counters = |family: &triton_backend::MetricFamily<Counter>,
                        of: &super::table::Description| {
            let label = of.labels.last();
            let values = label.map_or(&[][..], |label| label.values).iter();
            let name = label.map_or("", |label| label.name);
            values
                .map(|value| (*value, family.with(&owner.labels(&[(name, value)]))))
                .collect::<Vec<_>>()
        };
        let unnamed = |named: Vec<(&str, Counter)>| named.into_iter().map(|(_, it)| it).collect();
        let requests = REQUESTS.labels.last().map_or(&[][..], |label| label.values).iter();
        GenerationMetrics {
            calls: CallMetrics::new(owner, geometry),
            pools: PoolMetrics::new(owner, geometry, memory),
            requests: requests
                .map(|kind| FAMILIES.requests.with(&owner.labels(&[("request_type", kind)])))
                .collect(),
            preemptions: unnamed(counters(&FAMILIES.preemptions, &PREEMPTIONS)),
            drafts: unnamed(counters(&FAMILIES.drafts, &DRAFTS)),
            finished: counters(&FAMILIES.finished, &FINISHED),
            refusals: counters(&FAMILIES.refusals, &REFUSALS),
            first_token: FAMILIES.first_token.with(&labels),
            next_token: FAMILIES.next_token.with(&labels),
        }
    }

    /// Shows what the scheduler counts; `counted` is what was shown of it before, and `inbox` more
    /// requests wait to get there.
    pub fn show(&self, counts: Counts, counted: &mut Counts, inbox: usize) {
        self.pools.show(counts.free, counts.total);
        let Counts { running, waiting, preempted, swapped, .. } = counts;
        for (gauge, value) in
            self.requests.iter().zip([running, waiting + inbox, preempted, swapped])
        {
            gauge.set(number(value));
        }
        let grown = |counters: &[Counter], now: [u64; 2], before: [u64; 2]| {
            for ((counter, now), before) in counters.iter().zip(now).zip(before) {
                if now > before {
                    counter.add((now - before) as f64);
                }
            }
        };
        let preempted = |of: &Counts| [of.preempted_recompute, of.preempted_swap];
        grown(&self.preemptions, preempted(&counts), preempted(counted));
        let drafts = |of: &Counts| [of.drafts_proposed, of.drafts_accepted];
        grown(&self.drafts, drafts(&counts), drafts(counted));
        *counted = counts;
    }

    /// Counts tokens of a request that came at `now`; `previous` is when its last one did, 0 for none.
    pub fn tokens(&self, arrival: Nanos, previous: Nanos, now: Nanos, tokens: usize) {
        let mut rest = tokens;
        if previous == 0 && tokens > 0 {
            self.first_token.observe(seconds(now.saturating_sub(arrival)));
            rest -= 1;
        }
        let since = if previous == 0 { 0 } else { now.saturating_sub(previous) };
        for _ in 0..rest {
            self.next_token.observe(seconds(since) / number(tokens));
        }
    }

    /// Counts a request that ended: with a finish reason, or none for an error.
    pub fn finished(&self, reason: Option<&str>) {
        let reason = reason.unwrap_or(ERROR);
        let known = self.finished.iter().find(|(name, _)| *name == reason);
        if let Some((_, counter)) = known.or(self.finished.last()) {
            counter.add(1.0);
        }
    }

    /// Counts a request that ended without a verdict.
    pub fn ended(&self, end: &End) {
        self.finished(match end {
            End::Cancelled => Some("cancelled"),
            End::TimedOut => Some("timeout"),
            End::Failed(_) => None,
        });
    }

    /// Counts a request that the scheduler does not take.
    pub fn rejected(&self, rejection: &Rejection) {
        self.refused(match rejection {
            Rejection::EmptyPrompt | Rejection::NoTokens => Reason::Malformed.label(),
            Rejection::PromptTooLong { .. } | Rejection::ContextExceeded { .. } => {
                Reason::Context.label()
            }
            Rejection::NeverFits { resource, .. } => match resource {
                Resource::Pages => Reason::Pages.label(),
                Resource::RingPages => Reason::RingPages.label(),
                Resource::StateSlots => Reason::StateSlots.label(),
            },
            Rejection::QueueFull { .. } => "queue_full",
            Rejection::Stopping { .. } => "stopping",
        });
    }

    /// Counts a request that is refused before the scheduler sees it.
    pub fn refused_with(&self, code: Code) {
        match code {
            Code::InvalidArgument => self.refused(Reason::Malformed.label()),
            Code::Unavailable => self.refused("queue_full"),
            _ => {}
        }
    }

    fn refused(&self, reason: &str) {
        if let Some((_, counter)) = self.refusals.iter().find(|(name, _)| *name == reason) {
            counter.add(1.0);
        }
    }
}
