//! Rounds: who is in which call.

use crate::support::Generator;
use crate::{alone, model, settings};

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
