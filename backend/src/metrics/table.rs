//! Every metric in one table: what the server shows and `docs/metrics.md` come from it.

use std::fmt::Write as _;

/// How a metric's values behave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Only grows; back at 0 after a load.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts values up to these bounds.
    Histogram(&'static [f64]),
}

/// One metric.
#[derive(Debug)]
pub struct Description {
    /// Its name.
    pub name: &'static str,
    /// How its values behave.
    pub kind: Kind,
    /// What tells its values apart, beside `model` and `version`.
    pub labels: &'static [Label],
    /// What it shows.
    pub help: &'static str,
}

/// A label, with the values that it can have where they are known.
#[derive(Debug)]
pub struct Label {
    /// Its name.
    pub name: &'static str,
    /// Its values; empty where they come from the model.
    pub values: &'static [&'static str],
}

const INSTANCE: Label = Label { name: "instance", values: &[] };
const ENTRY: Label = Label { name: "entry", values: &[] };

const fn metric(
    name: &'static str,
    kind: Kind,
    labels: &'static [Label],
    help: &'static str,
) -> Description {
    Description { name, kind, labels, help }
}

/// KV pages.
pub const KV_PAGES: Description = metric(
    "nv_tlaloc_kv_cache_block_metrics",
    Kind::Gauge,
    &[
        INSTANCE,
        Label {
            name: "kv_cache_block_type",
            values: &["used", "free", "max", "tokens_per", "fraction"],
        },
    ],
    "KV pages that sequences hold (used), that are free, and of both (max); tokens of a page \
     (tokens_per); used/max (fraction)",
);
/// Ring pages.
pub const RING_PAGES: Description = metric(
    "nv_tlaloc_ring_page_metrics",
    Kind::Gauge,
    &[INSTANCE, Label { name: "ring_page_type", values: &["used", "free", "max"] }],
    "pages of the windowed KV pools, as nv_tlaloc_kv_cache_block_metrics; only of models with \
     sliding layers",
);
/// State slots.
pub const STATE_SLOTS: Description = metric(
    "nv_tlaloc_state_slot_metrics",
    Kind::Gauge,
    &[INSTANCE, Label { name: "state_slot_type", values: &["used", "free", "max"] }],
    "state slots, as nv_tlaloc_kv_cache_block_metrics; only of models with linear attention",
);
/// Requests in the instance.
pub const REQUESTS: Description = metric(
    "nv_tlaloc_request_metrics",
    Kind::Gauge,
    &[
        INSTANCE,
        Label { name: "request_type", values: &["running", "waiting", "preempted", "swapped"] },
    ],
    "requests in the instance: of the batch that runs (running), or for a later one (waiting); \
     generation mode alone has preempted ones, whose KV pages are gone (preempted) or in host \
     memory (swapped)",
);
/// Live sequences.
pub const SEQUENCES: Description = metric(
    "nv_tlaloc_live_sequences",
    Kind::Gauge,
    &[INSTANCE],
    "sequences that hold KV state (sequence mode)",
);
/// Memory of an instance.
pub const MEMORY: Description = metric(
    "nv_tlaloc_runtime_memory_metrics",
    Kind::Gauge,
    &[
        INSTANCE,
        Label { name: "memory_type", values: &["weights", "pools", "step_inputs", "temporary"] },
    ],
    "bytes on the instance's device: weights, which its other instances of the model there share; \
     KV pools; step inputs; the most temporary memory of one execution",
);
/// Rows of executions.
pub const BATCH_SIZE: Description = metric(
    "nv_tlaloc_batch_size",
    Kind::Histogram(&[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0]),
    &[INSTANCE, Label { name: "kind", values: &["prefill", "decode", "other"] }],
    "sequences (or rows of requests) of an execution; other: outside of language models",
);
/// Prompt tokens.
pub const PREFILL_TOKENS: Description = metric(
    "nv_tlaloc_prefill_tokens_total",
    Kind::Counter,
    &[INSTANCE],
    "tokens that prefill executions took in",
);
/// Decoded tokens.
pub const DECODE_TOKENS: Description = metric(
    "nv_tlaloc_decode_tokens_total",
    Kind::Counter,
    &[INSTANCE],
    "tokens that decode executions took in",
);
/// Batches held back.
pub const COHORT_WAITS: Description = metric(
    "nv_tlaloc_cohort_waits_total",
    Kind::Counter,
    &[INSTANCE],
    "batches that were held back for sequences of the one before (cohort_wait_microseconds)",
);
/// Batches held back in vain.
pub const COHORT_TIMEOUTS: Description = metric(
    "nv_tlaloc_cohort_timeouts_total",
    Kind::Counter,
    &[INSTANCE],
    "batches that ran without a sequence that they were held back for",
);
/// Reclaimed sequences.
pub const RECLAIMS: Description = metric(
    "nv_tlaloc_reclaims_total",
    Kind::Counter,
    &[INSTANCE],
    "idle sequences that were freed for others that were short of what they held",
);
/// Refused requests.
pub const REFUSALS: Description = metric(
    "nv_tlaloc_refusals_total",
    Kind::Counter,
    &[
        INSTANCE,
        Label {
            name: "reason",
            values: &[
                "malformed",
                "token",
                "no_sequence",
                "no_tokens",
                "context",
                "pages",
                "ring_pages",
                "state_slots",
                "no_entry",
                "execution",
                "pools",
                "copy",
                "queue_full",
                "stopping",
            ],
        },
    ],
    "requests of language models that were answered with an error, by what was wrong or missing",
);
/// Executions.
pub const EXECUTIONS: Description = metric(
    "nv_tlaloc_executions_total",
    Kind::Counter,
    &[INSTANCE, ENTRY],
    "executions that ran, by entry (in tensor mode: by artifact)",
);
/// Time of executions.
pub const EXECUTION_SECONDS: Description = metric(
    "nv_tlaloc_execution_seconds_total",
    Kind::Counter,
    &[INSTANCE, ENTRY],
    "seconds that those took, from writing their inputs until their outputs are there",
);
/// Failed executions.
pub const EXECUTION_FAILURES: Description = metric(
    "nv_tlaloc_execution_failures_total",
    Kind::Counter,
    &[INSTANCE, ENTRY],
    "executions that failed",
);
/// Programs from the compile cache.
pub const CACHE_HITS: Description = metric(
    "nv_tlaloc_compile_cache_hits_total",
    Kind::Counter,
    &[],
    "programs that the load took from the compile cache",
);
/// Compiled programs.
pub const CACHE_MISSES: Description = metric(
    "nv_tlaloc_compile_cache_misses_total",
    Kind::Counter,
    &[],
    "programs that the load compiled",
);
/// Time to the first token.
pub const FIRST_TOKEN: Description = metric(
    "nv_tlaloc_time_to_first_token_seconds",
    Kind::Histogram(&[
        0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96,
    ]),
    &[INSTANCE],
    "from a request's arrival to its first token (generation mode)",
);
/// Time between tokens.
pub const NEXT_TOKEN: Description = metric(
    "nv_tlaloc_inter_token_latency_seconds",
    Kind::Histogram(&[
        0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048,
    ]),
    &[INSTANCE],
    "between two tokens of a request (generation mode); of tokens that come together, the time \
     is shared",
);
/// Preemptions.
pub const PREEMPTIONS: Description = metric(
    "nv_tlaloc_preemptions_total",
    Kind::Counter,
    &[INSTANCE, Label { name: "preemption_type", values: &["recompute", "swap"] }],
    "requests whose KV pages were given to others for a while (generation mode)",
);
/// Finished requests.
pub const FINISHED: Description = metric(
    "nv_tlaloc_requests_finished_total",
    Kind::Counter,
    &[
        INSTANCE,
        Label {
            name: "finish_reason",
            values: &["stop", "length", "cancelled", "timeout", "error"],
        },
    ],
    "requests that ended, by why (generation mode)",
);
/// Drafts.
pub const DRAFTS: Description = metric(
    "nv_tlaloc_draft_tokens_total",
    Kind::Counter,
    &[INSTANCE, Label { name: "draft_type", values: &["proposed", "accepted"] }],
    "draft tokens that verify calls saw, and those that turned out right (generation mode)",
);

/// Every metric, in the order of the docs.
pub const TABLE: &[&Description] = &[
    &KV_PAGES,
    &RING_PAGES,
    &STATE_SLOTS,
    &REQUESTS,
    &SEQUENCES,
    &MEMORY,
    &BATCH_SIZE,
    &PREFILL_TOKENS,
    &DECODE_TOKENS,
    &COHORT_WAITS,
    &COHORT_TIMEOUTS,
    &RECLAIMS,
    &REFUSALS,
    &EXECUTIONS,
    &EXECUTION_SECONDS,
    &EXECUTION_FAILURES,
    &CACHE_HITS,
    &CACHE_MISSES,
    &FIRST_TOKEN,
    &NEXT_TOKEN,
    &PREEMPTIONS,
    &FINISHED,
    &DRAFTS,
];

/// The table as Markdown, for `docs/metrics.md`.
pub fn markdown() -> String {
    let mut text = String::from("| metric | kind | labels | shows |\n|---|---|---|---|\n");
    for Description { name, kind, labels, help } in TABLE {
        let kind = match kind {
            Kind::Counter => "counter".to_owned(),
            Kind::Gauge => "gauge".to_owned(),
            Kind::Histogram(bounds) => {
                let bounds: Vec<_> = bounds.iter().map(f64::to_string).collect();
                format!("histogram: {}", bounds.join(", "))
            }
        };
        let labels: Vec<_> = labels
            .iter()
            .map(|label| match label.values {
                [] => format!("`{}`", label.name),
                values => format!("`{}`: {}", label.name, values.join(", ")),
            })
            .collect();
        let _ = writeln!(text, "| `{name}` | {kind} | {} | {help} |", labels.join("; "));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn doc(file: &str) -> String {
        std::fs::read_to_string(format!("../docs/{file}")).unwrap()
    }

    /// Names of ours in a text, histograms without the ending that a query adds.
    fn names(text: &str) -> BTreeSet<String> {
        let histograms: BTreeSet<_> = TABLE
            .iter()
            .filter(|metric| matches!(metric.kind, Kind::Histogram(_)))
            .map(|metric| metric.name)
            .collect();
        text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .filter(|word| word.starts_with("nv_tlaloc_"))
            .map(|word| {
                let base = ["_bucket", "_sum", "_count"]
                    .iter()
                    .find_map(|ending| word.strip_suffix(ending))
                    .filter(|base| histograms.contains(base));
                base.unwrap_or(word).to_owned()
            })
            .collect()
    }

    fn known() -> BTreeSet<String> {
        TABLE.iter().map(|metric| metric.name.to_owned()).collect()
    }

    #[test]
    fn the_docs_hold_this_table() {
        let text = doc("metrics.md");
        assert!(text.contains(&markdown()), "docs/metrics.md should hold:\n{}", markdown());
    }

    #[test]
    fn the_dashboard_shows_every_metric_and_no_other() {
        let dashboard = doc("grafana-dashboard.json");
        let json: serde_json::Value = serde_json::from_str(&dashboard).unwrap();
        assert!(json["panels"].as_array().is_some_and(|panels| !panels.is_empty()));
        assert_eq!(names(&dashboard), known());
        // The control.
        let other = dashboard.replace("nv_tlaloc_reclaims_total", "nv_tlaloc_reclaimed_total");
        assert_ne!(names(&other), known());
    }

    #[test]
    fn alerts_are_on_metrics_that_there_are() {
        let alerts = names(&doc("alerts.yml"));
        assert!(!alerts.is_empty());
        assert_eq!(alerts.difference(&known()).collect::<Vec<_>>(), Vec::<&String>::new());
    }

    #[test]
    fn every_reason_of_the_engine_is_a_label() {
        let values = REFUSALS.labels[1].values;
        for reason in tlaloc_engine::Reason::ALL {
            assert!(values.contains(&reason.label()), "{reason:?}");
        }
    }
}
