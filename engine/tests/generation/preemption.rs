//! Pages that are short: who gives up, how, and that nobody sees it in a stream.

use tlaloc_engine::Geometry;
use tlaloc_engine::generation::Settings;

use crate::support::{Generator, MS, US, entries, window};
use crate::{VOCABULARY, alone, growing, model, prompt};

fn crowd(geometry: Geometry, settings: Settings, move_row: u64) -> Generator {
    let mut owner = Generator::new(geometry, settings);
    owner.move_row = move_row;
    crowded(owner)
}

/// Runs six requests of 7 + 20 tokens, each of which gets what it gets alone.
pub fn crowded(mut owner: Generator) -> Generator {
    for request in 1..=6 {
        owner.submit(request as u64, &prompt(request, 7), 20);
    }
    owner.run();
    for request in 1..=6 {
        let stream = &owner.streams[&(request as u64)];
        assert_eq!(*stream, alone(&prompt(request, 7), 20), "request {request}");
    }
    let counts = owner.counts();
    assert_eq!((counts.free, counts.host_free), (counts.total, counts.host_total));
    owner
}

#[test]
fn with_a_third_of_the_pages_all_streams_are_those_of_a_request_alone() {
    // 6 requests of 7 pages each, 14 pages.
    let recomputed = crowd(model(14), growing(0), US).counts();
    assert!(recomputed.preempted_recompute > 2, "{recomputed:?}");
    assert_eq!(recomputed.preempted_swap, 0);
    let swapped = crowd(model(14), growing(100), US).counts();
    assert!(swapped.preempted_swap > 2, "{swapped:?}");
    // Computed again, prompts are taken in again.
    assert!(recomputed.prefilled_tokens > swapped.prefilled_tokens);
    // Control: with enough pages nobody gives up any.
    let roomy = crowd(model(42), growing(100), US).counts();
    assert_eq!((roomy.preempted_recompute, roomy.preempted_swap), (0, 0));
}

#[test]
fn what_is_cheaper_is_chosen_once_it_is_known() {
    // A swap is tried; at 10 ms a row it is not tried again.
    let slow = crowd(model(14), growing(100), 10 * MS).counts();
    assert_eq!(slow.preempted_swap, 1, "{slow:?}");
    assert!(slow.preempted_recompute > 1, "{slow:?}");
}

#[test]
fn rings_and_states_are_swapped_with_the_pages() {
    let shapes = || entries(4, &[16, 64], &[1, 2, 4], &[1], &[8]);
    let linear = Geometry::new(VOCABULARY, 15, 4, vec![], shapes()).with_state_slots(6);
    assert!(crowd(linear, growing(100), US).counts().preempted_swap > 2);
    let pools = window().windowed().unwrap();
    let windowed = Geometry::new(VOCABULARY, 15, 4, vec![], shapes()).with_windowed_pools(pools);
    assert!(crowd(windowed, growing(100), US).counts().preempted_swap > 2);
}

#[test]
fn the_newest_of_the_lowest_priority_gives_up_but_never_the_oldest() {
    let mut owner = Generator::new(model(6), growing(100));
    // The oldest has the lowest priority; the third is the newest of those that may go.
    owner.try_submit(1, &prompt(1, 4), 20, 0, None).unwrap();
    owner.try_submit(2, &prompt(2, 4), 8, 2, None).unwrap();
    owner.try_submit(3, &prompt(3, 4), 8, 2, None).unwrap();
    owner.run();
    let preempted: Vec<_> =
        owner.lines().into_iter().filter(|line| line.contains("is preempted")).collect();
    assert!(preempted[0].starts_with("request 3 is preempted by swap: 2 page(s)"), "{preempted:?}");
    assert!(preempted.iter().all(|line| !line.starts_with("request 1 ")), "{preempted:?}");
    for (request, tokens) in [(1, 20), (2, 8), (3, 8)] {
        assert_eq!(owner.streams[&(request as u64)], alone(&prompt(request, 4), tokens));
    }
}

#[test]
fn preempted_requests_go_before_those_that_wait_whatever_their_priority() {
    let mut owner = Generator::new(model(6), growing(100));
    for request in 1..=3 {
        owner.submit(request as u64, &prompt(request, 4), 12);
    }
    while owner.counts().swapped == 0 {
        owner.step();
    }
    owner.try_submit(4, &prompt(4, 4), 1, 1, None).unwrap();
    while !owner.ends.contains_key(&4) {
        owner.step();
    }
    let resumed = owner.lines().iter().any(|line| line.starts_with("request 3 runs again"));
    assert!(resumed);
    owner.run();
    assert_eq!(owner.ends.len(), 4);
}

#[test]
fn failed_moves_cost_time_and_nothing_else() {
    let mut owner = Generator::new(model(14), growing(100));
    let failed = || crate::support::failed("boom");
    // The first way out fails, then the first way in.
    owner.moves.extend([failed(), Ok(()), failed()]);
    for request in 1..=6 {
        owner.submit(request as u64, &prompt(request, 7), 20);
    }
    owner.run();
    let lines = owner.lines();
    let told = "swapping the pages of 1 request(s) failed, they are computed again: boom";
    assert_eq!(lines.iter().filter(|line| *line == told).count(), 2, "{lines:?}");
    for request in 1..=6 {
        assert_eq!(owner.streams[&(request as u64)], alone(&prompt(request, 7), 20));
    }
}
