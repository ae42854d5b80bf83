//! Metrics: families outlive metrics, and a metric its other users.

#![allow(clippy::unwrap_used)] // helpers of tests

use triton_backend::MetricFamily;
use triton_backend_sys as sys;
use triton_mock_host::{MetricSample, live_errors, metrics};

/// The metrics of this name.
fn of(name: &str) -> Vec<MetricSample> {
    metrics().into_iter().filter(|metric| metric.name == name).collect()
}

#[test]
fn counters_and_gauges_are_told_apart_by_labels() {
    let tokens = MetricFamily::counters("nv_test_tokens_total", "Tokens.");
    let pages = MetricFamily::gauges("nv_test_pages", "Pages.");
    assert!(of("nv_test_tokens_total").is_empty(), "a family alone shows nothing");
    let first = tokens.with(&[("model", "a"), ("version", "1")]);
    let second = tokens.with(&[("model", "b"), ("version", "1")]);
    first.add(2.0);
    first.add(3.0);
    second.add(1.0);
    let free = pages.with(&[("model", "a")]);
    free.set(7.0);
    free.set(4.0);
    let values: Vec<_> = of("nv_test_tokens_total")
        .iter()
        .map(|metric| (metric.labels["model"].clone(), metric.value))
        .collect();
    assert_eq!(values, [("a".to_owned(), 5.0), ("b".to_owned(), 1.0)]);
    let [free] = &of("nv_test_pages")[..] else { panic!("one gauge") };
    assert_eq!((free.value, free.kind), (4.0, sys::TRITONSERVER_METRIC_KIND_GAUGE));
    assert_eq!(free.help, "Pages.");
}

#[test]
fn histograms_count_values_up_to_their_bounds() {
    let sizes = MetricFamily::histograms("nv_test_batch_size", "Sizes.", &[1.0, 2.0, 4.0]);
    let sizes = sizes.with(&[("model", "a")]);
    for size in [1.0, 2.0, 3.0, 4.0, 9.0] {
        sizes.observe(size);
    }
    let [found] = &of("nv_test_batch_size")[..] else { panic!("one histogram") };
    assert_eq!(found.buckets, [(1.0, 1), (2.0, 2), (4.0, 4)]);
    assert_eq!((found.count, found.value), (5, 19.0));
}

/// The family is kept by its metrics, and a metric by its last user: with a new model loaded before
/// the old one goes, counting goes on.
#[test]
fn server_8663_a_reload_takes_no_metric_from_others() {
    let family = MetricFamily::counters("nv_test_reloads_total", "Reloads.");
    let labels = [("model", "a")];
    let old = family.with(&labels);
    old.add(1.0);
    let new = family.with(&labels);
    drop(old);
    new.add(1.0);
    assert_eq!(of("nv_test_reloads_total")[0].value, 2.0);
    drop(family);
    new.add(1.0);
    assert_eq!(of("nv_test_reloads_total")[0].value, 3.0);
    drop(new);
    assert!(of("nv_test_reloads_total").is_empty());

    // The control: a family of its own for each load, as the reported backend had.
    let load = || MetricFamily::counters("nv_test_careless_total", "Reloads.").with(&labels);
    let (old, new) = (load(), load());
    drop(old);
    new.add(1.0);
    assert!(of("nv_test_careless_total").is_empty(), "the second one's metric is gone");
}

#[test]
fn what_triton_refuses_goes_nowhere() {
    let errors = live_errors();
    let family = MetricFamily::counters("nv_test\0_total", "With a zero byte.");
    family.with(&[("model", "a")]).add(1.0);
    let family = MetricFamily::counters("nv_test_refused_total", "Labels with a zero byte.");
    family.with(&[("model", "a\0")]).add(1.0);
    let counter = family.with(&[]);
    counter.add(-1.0);
    assert_eq!(of("nv_test_refused_total")[0].value, 0.0);
    assert_eq!(live_errors(), errors);
}
