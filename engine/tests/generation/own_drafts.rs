//! Models with a draft head: their own drafts are verified in every step, and streams do not change
//! for it.

use tlaloc_engine::generation::{Rejection, Settings};
use tlaloc_engine::{Drafts, EntryKind, EntryShape, Geometry};

use crate::preemption::crowded;
use crate::support::{Generator, US, entries, toy, verifying};
use crate::{VOCABULARY, alone, growing, prompt, settings};

const K: usize = 3;
/// What a request cannot use of the longest context.
const BEYOND: usize = 2 * K - 1;

fn of(shapes: Vec<EntryShape>, pages: usize, slots: usize) -> Geometry {
    Geometry::new(VOCABULARY, 1 + pages, 4, vec![], shapes)
        .with_state_slots(slots)
        .with_drafts(Drafts { tokens: K, chained: true })
}

fn shapes() -> Vec<EntryShape> {
    verifying(entries(4, &[16, 64], &[1, 2, 4], &[1], &[8]), K)
}

/// As `model`, with a head of three drafts, and room for eight requests.
fn model(pages: usize) -> Geometry {
    of(shapes(), pages, 8 * (K + 2))
}

/// A head that is never right.
fn wrong(history: &[i32], vocabulary: usize) -> i32 {
    toy(history, vocabulary) % 900 + 1
}

/// A head that is right at times.
fn mixed(history: &[i32], vocabulary: usize) -> i32 {
    let token = toy(history, vocabulary);
    if token % 3 == 0 { wrong(history, vocabulary) } else { token }
}

/// A head that proposes what no token is.
fn illegal(_: &[i32], vocabulary: usize) -> i32 {
    vocabulary as i32
}

#[test]
fn right_drafts_make_a_step_several_tokens_and_wrong_ones_none() {
    let run = |head: fn(&[i32], usize) -> i32| {
        let mut owner = Generator::new(model(100), settings());
        owner.head = head;
        owner.submit(1, &prompt(1, 9), 21);
        owner.run();
        let counts = owner.counts();
        assert_eq!(counts.free, counts.total);
        assert_eq!(owner.streams[&1], alone(&prompt(1, 9), 21));
        (owner.log(), counts)
    };
    let (log, counts) = run(toy);
    // The prompt in two calls, the second of one token; then four tokens a call, on entries that
    // have room for six positions.
    let expected = [
        "prefill_b1_c16_t8: 1@0+8",
        "prefill_b1_c16_t8: 1@8+1",
        "decode_b1_c16: 1@9+4",
        "decode_b1_c64: 1@13+4",
        "decode_b1_c64: 1@17+4",
        "decode_b1_c64: 1@21+4",
        "decode_b1_c64: 1@25+4",
    ];
    assert_eq!(log, expected);
    assert_eq!((counts.drafts_proposed, counts.drafts_accepted), (15, 15));
    for head in [wrong, illegal] {
        let (log, counts) = run(head);
        assert_eq!(log.len(), 2 + 20);
        assert_eq!((counts.drafts_proposed, counts.drafts_accepted), (60, 0));
    }
    let (_, counts) = run(mixed);
    assert!(0 < counts.drafts_accepted && counts.drafts_accepted < counts.drafts_proposed);
}

#[test]
fn a_step_ends_with_the_tokens_that_were_asked_for() {
    for max_tokens in 1..=9 {
        let mut owner = Generator::new(model(100), settings());
        owner.submit(1, &prompt(1, 5), max_tokens);
        owner.run();
        assert_eq!(owner.streams[&1], alone(&prompt(1, 5), max_tokens));
        assert_eq!(owner.counts().generated_tokens, max_tokens as u64);
        // The prompt gives one, each step four.
        assert_eq!(owner.log().len(), 1 + (max_tokens - 1).div_ceil(K + 1));
    }
}

#[test]
fn drafts_and_states_survive_preemption_both_ways() {
    let crowd = |pages, settings: Settings| {
        let mut owner = Generator::new(model(pages), settings);
        owner.head = mixed;
        owner.move_row = US;
        let mut owner = crowded(owner);
        (owner.counts(), owner.log())
    };
    // 6 requests of 8 pages each, 14 pages.
    let (recomputed, _) = crowd(14, growing(0));
    assert!(recomputed.preempted_recompute > 2, "{recomputed:?}");
    assert_eq!(recomputed.preempted_swap, 0);
    let (swapped, log) = crowd(14, growing(100));
    assert!(swapped.preempted_swap > 2, "{swapped:?}");
    assert!(recomputed.prefilled_tokens > swapped.prefilled_tokens);
    // Control: with enough pages nobody gives up any.
    let (roomy, _) = crowd(48, growing(100));
    assert_eq!((roomy.preempted_recompute, roomy.preempted_swap), (0, 0));
    // Of its slots a request moves the one of its state: 7 to 15 tokens are 2 to 4 pages.
    let first = log.iter().find_map(|line| line.strip_prefix("out ")).unwrap();
    assert!((3..=5).contains(&first.parse::<usize>().unwrap()), "{first}");
}

#[test]
fn drafts_take_positions_of_the_longest_context() {
    let mut owner = Generator::new(model(100), settings());
    let max_context = 64 - BEYOND;
    assert_eq!(owner.scheduler.geometry().max_length(), max_context);
    let full: Vec<_> = (1..=max_context as i32).collect();
    owner.submit(1, &full, 1);
    owner.submit(2, &full[..9], max_context - 8);
    owner.run();
    assert_eq!(owner.streams[&1], alone(&full, 1));
    assert_eq!(owner.streams[&2], alone(&full[..9], max_context - 8));
    let longer: Vec<_> = (0..=max_context as i32).collect();
    let refused = owner.try_submit(3, &longer, 1, 0, None).unwrap_err();
    assert_eq!(refused, Rejection::PromptTooLong { prompt: max_context + 1, max_context });
    let refused = owner.try_submit(4, &full, 2, 0, None).unwrap_err();
    let expected = Rejection::ContextExceeded { prompt: max_context, max_tokens: 2, max_context };
    assert_eq!(refused, expected);
    // 9 + 2 - 1 tokens and five positions more are four pages.
    let mut tight = Generator::new(model(3), settings());
    let refused = tight.try_submit(1, &full[..9], 2, 0, None).unwrap_err();
    assert!(refused.to_string().contains("needs 4 KV page(s)"), "{refused}");
    // Three and two slots more.
    let mut tight = Generator::new(of(shapes(), 20, K + 1), settings());
    let refused = tight.try_submit(1, &full[..9], 2, 0, None).unwrap_err();
    assert!(refused.to_string().contains("needs 5 state slot(s)"), "{refused}");
}

#[test]
fn prompts_need_prefill_entries() {
    let without = |kind, context| {
        let missing =
            |shape: &EntryShape| shape.kind == kind && (context == 0 || shape.context == context);
        of(shapes().into_iter().filter(|shape| !missing(shape)).collect(), 100, 40).max_length()
    };
    assert_eq!(without(EntryKind::Prefill, 0), 0);
    // Any token may come to be prefilled again; such a call keeps two proposals.
    assert_eq!(without(EntryKind::Prefill, 64), 16 - (K - 1));
    assert_eq!(without(EntryKind::Decode, 64), 16 - BEYOND);
}

#[test]
fn without_proposals_the_next_token_is_taken_in_alone() {
    use crate::support::{MS, Packed};
    use tlaloc_engine::generation::{Scheduler, Step, Submission, Verdicts};
    use tlaloc_engine::{Outcome, Ticket};
    let mut scheduler = Scheduler::new(model(100), settings());
    let submission = Submission {
        ticket: Ticket(1),
        prompt: vec![5; 3],
        max_tokens: 9,
        priority: 0,
        deadline: None,
        at: 0,
    };
    scheduler.submit(submission).unwrap();
    let mut verdicts = Verdicts::new();
    let mut entries = Vec::new();
    for (token, proposed) in [(6, &[][..]), (7, &[8, 9][..]), (8, &[1, 2, 3]), (9, &[])] {
        assert_eq!(scheduler.next(MS), Step::Run);
        let entry = scheduler.call().entry;
        let packed = Packed::of(&scheduler);
        let writes = packed.state_write_slots.iter().filter(|&&slot| slot >= 0).count();
        entries.push((scheduler.geometry().entries()[entry].kind, writes));
        verdicts.clear();
        verdicts.push_tokens(&[token], false);
        verdicts.propose(proposed);
        let outcome = Outcome { compute_start: 0, compute_end: 1, result: Ok(()) };
        scheduler.complete(outcome, &verdicts);
    }
    let (prefill, verify) = ((EntryKind::Prefill, 0), (EntryKind::Decode, K + 1));
    assert_eq!(entries, [prefill, prefill, prefill, verify]);
}
