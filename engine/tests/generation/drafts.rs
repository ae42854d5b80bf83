//! Prompt lookup: drafts that are verified, and streams that do not change for it.

use tlaloc_engine::Geometry;
use tlaloc_engine::generation::{PromptLookup, Settings};

use crate::support::{Generator, entries, with_verify};
use crate::{VOCABULARY, settings};

const LOOKUP: PromptLookup = PromptLookup { max_drafts: 8, min_ngram: 1, max_ngram: 3 };

/// Verify entries of 1 + 4 tokens for up to `batch` rows.
fn model(pages: usize, batch: usize) -> Geometry {
    let shapes = entries(4, &[16, 64], &[1, 2, 4], &[1], &[8]);
    let shapes = with_verify(shapes, 4, &[16, 64], &[batch], 5);
    Geometry::new(VOCABULARY, 1 + pages, 4, vec![], shapes)
}

/// A model that repeats what stood five tokens before.
fn copying(history: &[i32], _: usize) -> i32 {
    history[history.len() - 5]
}

fn owner(geometry: Geometry, lookup: Option<PromptLookup>) -> Generator {
    let mut owner = Generator::new(geometry, Settings { lookup, ..settings() });
    owner.model = copying;
    owner
}

#[test]
fn a_copied_text_takes_a_fraction_of_the_calls_and_is_the_same() {
    let run = |lookup| {
        let mut owner = owner(model(100, 1), lookup);
        owner.submit(1, &[1, 2, 3, 4, 5, 1, 2, 3], 21);
        owner.run();
        let counts = owner.counts();
        assert_eq!(counts.free, counts.total);
        (owner.streams.remove(&1).unwrap(), counts, owner.log())
    };
    let (plain, without, _) = run(None);
    let (speculative, with, log) = run(Some(LOOKUP));
    assert_eq!(plain, speculative);
    assert_eq!(plain[..6], [4, 5, 1, 2, 3, 4]);
    assert_eq!(without.calls, 21);
    // The prompt and its token, then five tokens a call.
    assert_eq!(with.calls, 5);
    assert_eq!((with.drafts_proposed, with.drafts_accepted), (16, 16));
    assert_eq!(log[1], "verify_b1_c16_t5: 1@8+5");
}

#[test]
fn a_wrong_draft_costs_nothing_but_itself() {
    let mut owner = owner(model(100, 1), Some(LOOKUP));
    // After 9 stood 8, but five tokens back is 2.
    owner.submit(1, &[9, 8, 1, 2, 3, 9], 2);
    owner.run();
    assert_eq!(owner.streams[&1], [8, 1]);
    owner.submit(2, &[4, 6, 7, 7, 5, 6, 4], 4);
    owner.run();
    assert_eq!(owner.streams[&2], [7, 7, 5, 6]);
    let counts = owner.counts();
    assert!(counts.drafts_accepted < counts.drafts_proposed, "{counts:?}");
}

#[test]
fn drafts_end_with_the_tokens_that_were_asked_for() {
    let mut owner = owner(model(100, 1), Some(LOOKUP));
    owner.submit(1, &[1, 2, 3, 4, 5, 1, 2, 3], 4);
    owner.run();
    assert_eq!(owner.streams[&1], [4, 5, 1, 2]);
    assert_eq!(owner.log()[1], "verify_b1_c16_t5: 1@8+3");
}

#[test]
fn all_rows_verify_in_one_call_or_none_does() {
    let copied = [1, 2, 3, 4, 5, 1, 2, 3];
    let fresh = |request: i32| [10 * request, 10 * request + 1, 10 * request + 2, 3, 4, 5];
    let calls = |batch, others: i32| {
        let settings = Settings { lookup: Some(LOOKUP), ..settings() };
        let settings = Settings { max_prefill_tokens_per_step: 100, ..settings };
        let mut owner = Generator::new(model(100, batch), settings);
        owner.model = copying;
        owner.submit(1, &copied, 6);
        // One token is left for them after the first: that leaves none to draft.
        (0..others).for_each(|other| owner.submit(2 + other as u64, &fresh(other + 2), 2));
        (0..2 + others).for_each(|_| {
            owner.step();
        });
        owner.log().pop().unwrap()
    };
    assert_eq!(calls(2, 1), "verify_b2_c16_t5: 1@8+5 2@6+1");
    // One of three has drafts: not worth five columns for each.
    assert_eq!(calls(4, 2), "decode_b4_c16: 1@8+1 2@6+1 3@6+1");
    // There is no call for two.
    assert_eq!(calls(1, 1), "decode_b2_c16: 1@8+1 2@6+1");
}

#[test]
fn nobody_is_preempted_for_drafts() {
    // Two requests of three pages, which is all there is.
    let mut settings = crate::growing(0);
    settings.lookup = Some(LOOKUP);
    let mut owner = Generator::new(model(6, 2), settings);
    owner.model = copying;
    owner.submit(1, &[1, 2, 3, 4, 5, 1, 2], 6);
    owner.submit(2, &[1, 2, 3, 4, 5, 1, 2], 6);
    owner.run();
    assert_eq!(owner.counts().preempted_recompute, 0);
    assert!(owner.counts().drafts_accepted > 0);
    assert_eq!(owner.streams[&1], [3, 4, 5, 1, 2, 3]);
    assert_eq!(owner.streams[&2], owner.streams[&1]);
}

#[test]
fn linear_attention_has_no_drafts_as_its_state_cannot_go_back() {
    let mut owner = owner(model(100, 1).with_state_slots(2), Some(LOOKUP));
    owner.submit(1, &[1, 2, 3, 4, 5, 1, 2, 3], 12);
    owner.run();
    assert_eq!(owner.streams[&1].len(), 12);
    assert_eq!(owner.counts().drafts_proposed, 0);
}

#[test]
fn verify_entries_run_neither_prompts_nor_single_tokens() {
    let mut owner = owner(model(100, 4), None);
    owner.submit(1, &[1, 2, 3, 4, 5, 1, 2, 3], 6);
    owner.run();
    let log = owner.log();
    assert!(log.iter().all(|line| !line.starts_with("verify")), "{log:?}");
    assert_eq!(owner.counts().calls, 6);
}
