//! Rounds: who is in which call.

use tlaloc_engine::Geometry;
use tlaloc_engine::generation::Settings;

use crate::support::{Generator, entries};
use crate::{VOCABULARY, alone, model, prompt, settings};

#[test]
fn a_prompt_runs_in_chunks_and_then_token_by_token() {
    let mut owner = Generator::new(model(100), settings());
    let prompt: Vec<i32> = (1..=11).collect();
    owner.submit(1, &prompt, 4);
    owner.run();
    assert_eq!(
        owner.log(),
        [
            "prefill_b1_c16_t8: 1@0+8",
            "prefill_b1_c16_t8: 1@8+3",
            "decode_b1_c16: 1@11+1",
            "decode_b1_c16: 1@12+1",
            "decode_b1_c16: 1@13+1",
        ]
    );
    assert_eq!(owner.streams[&1], alone(&prompt, 4));
    assert_eq!(owner.ends[&1], "finished");
    let counts = owner.counts();
    assert_eq!(counts.free, counts.total);
    assert_eq!((counts.prefilled_tokens, counts.generated_tokens), (11, 4));
    assert_eq!((counts.calls, counts.rounds), (5, 5));
}

#[test]
fn a_new_prompt_joins_at_the_next_step_and_decoding_goes_on_between_its_chunks() {
    let mut owner = Generator::new(model(100), settings());
    owner.submit(1, &[1, 2], 20);
    owner.step();
    owner.step();
    owner.log();
    let prompt: Vec<i32> = (1..=20).collect();
    owner.submit(2, &prompt, 2);
    for _ in 0..7 {
        owner.step();
    }
    assert_eq!(
        owner.log(),
        [
            "decode_b1_c16: 1@3+1",
            "prefill_b1_c16_t8: 2@0+8",
            "decode_b1_c16: 1@4+1",
            "prefill_b1_c16_t8: 2@8+8",
            "decode_b1_c16: 1@5+1",
            "prefill_b1_c64_t8: 2@16+4",
            "decode_b2_c64: 2@20+1 1@6+1",
        ]
    );
    owner.run();
    assert_eq!(owner.streams[&1], alone(&[1, 2], 20));
    assert_eq!(owner.streams[&2], alone(&prompt, 2));
}

#[test]
fn requests_of_like_length_share_decode_calls() {
    let mut owner = Generator::new(model(100), settings());
    // Five requests, of which one is beyond the small context: calls take four rows.
    for (request, length) in [(1, 3), (2, 20), (3, 2), (4, 5), (5, 4)] {
        owner.submit(request, &prompt(request as usize, length), 30);
    }
    while owner.counts().prefilled_tokens < 34 {
        owner.step();
    }
    owner.log();
    owner.step();
    owner.step();
    // The longest go together, so that the call of the others attends over less.
    assert_eq!(owner.log(), ["decode_b4_c64: 2@23+1 1@9+1 4@6+1 3@4+1", "decode_b1_c16: 5@4+1"]);
    owner.run();
    for (request, length) in [(1, 3), (2, 20), (3, 2), (4, 5), (5, 4)] {
        let alone = alone(&prompt(request as usize, length), 30);
        assert_eq!(owner.streams[&request], alone, "request {request}");
    }
}

#[test]
fn the_prefill_calls_of_a_step_keep_to_the_budget_with_their_padding() {
    // Two prompts of 5 tokens in calls of 8 columns: one call a step, or two.
    for (budget, calls) in [(8, 1), (15, 1), (16, 2), (1_000, 2)] {
        let settings = Settings { max_prefill_tokens_per_step: budget, ..settings() };
        let mut owner = Generator::new(model(100), settings);
        owner.submit(1, &prompt(1, 5), 9);
        owner.submit(2, &prompt(2, 5), 9);
        while owner.counts().rounds < 2 {
            owner.step();
        }
        let log = owner.log();
        let prefills = log.iter().filter(|line| line.starts_with("prefill")).count();
        assert_eq!(prefills, calls, "budget {budget}: {log:?}");
    }
}

#[test]
fn a_chunk_fills_its_columns_and_the_budget_chooses_among_entries() {
    let run = |budget, chunks: &[usize]| {
        let shapes = entries(4, &[64], &[1], &[1], chunks);
        let settings = Settings { max_prefill_tokens_per_step: budget, ..settings() };
        let geometry = Geometry::new(VOCABULARY, 101, 4, vec![], shapes);
        let mut owner = Generator::new(geometry, settings);
        owner.submit(1, &prompt(1, 40), 1);
        owner.run();
        assert_eq!(owner.streams[&1], alone(&prompt(1, 40), 1));
        owner.log()
    };
    // Columns that are padding cost as much as those of tokens.
    assert_eq!(run(8, &[0]), ["prefill_b1_c64: 1@0+40"]);
    assert_eq!(
        run(31, &[32, 16]),
        ["prefill_b1_c64_t16: 1@0+16", "prefill_b1_c64_t16: 1@16+16", "prefill_b1_c64_t16: 1@32+8"]
    );
    assert_eq!(run(8, &[32, 16]), run(31, &[32, 16]));
    assert_eq!(run(32, &[32, 16]), ["prefill_b1_c64_t32: 1@0+32", "prefill_b1_c64_t16: 1@32+8"]);
}

#[test]
fn prompts_share_a_call_where_that_costs_no_more() {
    let shapes = entries(4, &[64], &[1, 2, 4], &[1, 2, 4], &[8]);
    let model = || Geometry::new(VOCABULARY, 101, 4, vec![], shapes.clone());
    let calls = |requests: usize, budget| {
        let settings = Settings { max_prefill_tokens_per_step: budget, ..settings() };
        let mut owner = Generator::new(model(), settings);
        for request in 1..=requests {
            owner.submit(request as u64, &prompt(request, 5), 1);
        }
        owner.run();
        owner.log()
    };
    assert_eq!(calls(2, 100), ["prefill_b2_c64_t8: 1@0+5 2@0+5"]);
    // Three in a call of four rows would cost more than a call of two and one of one.
    assert_eq!(calls(3, 100), ["prefill_b2_c64_t8: 1@0+5 2@0+5", "prefill_b1_c64_t8: 3@0+5"]);
    assert_eq!(calls(4, 100), ["prefill_b4_c64_t8: 1@0+5 2@0+5 3@0+5 4@0+5"]);
    assert_eq!(calls(2, 8), ["prefill_b1_c64_t8: 1@0+5", "prefill_b1_c64_t8: 2@0+5"]);
}

#[test]
fn without_prefill_entries_prompts_share_the_decode_calls() {
    let shapes = entries(4, &[16], &[1, 2], &[], &[]);
    let mut owner = Generator::new(Geometry::new(VOCABULARY, 101, 4, vec![], shapes), settings());
    owner.submit(1, &[5, 6, 7], 2);
    owner.submit(2, &[8], 2);
    owner.run();
    assert_eq!(
        owner.log(),
        [
            "decode_b2_c16: 1@0+1 2@0+1",
            "decode_b2_c16: 1@1+1 2@1+1",
            "decode_b1_c16: 1@2+1",
            "decode_b1_c16: 1@3+1",
        ]
    );
    assert_eq!(owner.streams[&1], alone(&[5, 6, 7], 2));
}

#[test]
fn a_prompt_goes_on_in_shorter_chunks_where_only_those_are_compiled() {
    // Of the large context there are only chunks of 3.
    let mut shapes = entries(4, &[16, 64], &[1], &[1], &[0, 3]);
    shapes.retain(|shape| shape.id != "prefill_b1_c64");
    let settings = Settings { max_prefill_tokens_per_step: 100, ..settings() };
    let mut owner = Generator::new(Geometry::new(VOCABULARY, 101, 4, vec![], shapes), settings);
    let prompt = prompt(1, 24);
    owner.submit(1, &prompt, 1);
    owner.run();
    assert_eq!(
        owner.log(),
        [
            "prefill_b1_c16: 1@0+16",
            "prefill_b1_c64_t3: 1@16+3",
            "prefill_b1_c64_t3: 1@19+3",
            "prefill_b1_c64_t3: 1@22+2",
        ]
    );
    assert_eq!(owner.streams[&1], alone(&prompt, 1));
}
