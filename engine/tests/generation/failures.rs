//! Executions that fail, rows that are not finite, pools that are gone.

use tlaloc_engine::generation::Step;

use crate::support::{Generator, copy_failed, failed, took_the_pools};
use crate::{alone, growing, model, prompt, settings};

#[test]
fn a_failed_call_ends_its_rows_by_name_and_no_one_else() {
    for (result, message) in [
        (failed("boom"), "execution of prefill_b1_c16_t8 failed: boom"),
        (
            copy_failed("boom"),
            "prefill_b1_c16_t8 ran, but its results could not be copied to the host: boom",
        ),
    ] {
        let mut owner = Generator::new(model(100), settings());
        owner.submit(1, &prompt(1, 5), 9);
        owner.step();
        owner.submit(2, &prompt(2, 5), 9);
        // Request 1 decodes, then the prompt of request 2 fails.
        owner.outcomes.extend([Ok(()), result]);
        owner.run();
        assert_eq!(owner.ends[&2], message);
        assert_eq!(owner.streams[&1], alone(&prompt(1, 5), 9));
        assert_eq!(owner.log().iter().filter(|line| line.starts_with("scrub")).count(), 1);
        assert_eq!(owner.counts().free, owner.counts().total);
    }
}

#[test]
fn lost_pools_end_the_rows_of_the_call_and_the_others_are_computed_again() {
    let mut owner = Generator::new(model(100), settings());
    owner.submit(1, &prompt(1, 5), 9);
    owner.step();
    owner.submit(2, &prompt(2, 5), 9);
    owner.outcomes.extend([Ok(()), took_the_pools("boom")]);
    owner.run();
    assert_eq!(
        owner.ends[&2],
        "execution of prefill_b1_c16_t8 failed and took the KV pools of instance 'model_0_0' with \
         it: boom"
    );
    assert_eq!(owner.streams[&1], alone(&prompt(1, 5), 9));
    assert_eq!(owner.counts().preempted_recompute, 1);
    assert!(
        owner.lines().contains(
            &"the KV pools were lost: they are zeroed anew, and 1 request(s) are computed again"
                .to_owned()
        )
    );
}

#[test]
fn swapped_requests_survive_lost_pools_in_host_memory() {
    let mut owner = Generator::new(model(6), growing(100));
    for request in 1..=3 {
        owner.submit(request as u64, &prompt(request, 4), 12);
    }
    while owner.counts().swapped == 0 {
        owner.step();
    }
    let prefilled = owner.counts().prefilled_tokens;
    owner.outcomes.push_back(took_the_pools("boom"));
    owner.run();
    assert_eq!(owner.streams[&3], alone(&prompt(3, 4), 12));
    // Both others were in the call: nothing was taken in again.
    assert_eq!(owner.counts().prefilled_tokens, prefilled);
    assert!(owner.ends[&1].contains("took the KV pools") && owner.ends[&2] == owner.ends[&1]);
}

#[test]
fn pools_that_cannot_be_replaced_end_everything_and_the_next_request_tries_again() {
    let mut owner = Generator::new(model(100), settings());
    owner.submit(1, &prompt(1, 5), 9);
    owner.submit(2, &prompt(2, 5), 9);
    owner.outcomes.push_back(took_the_pools("boom"));
    owner.restorations.push_back(Err("no memory".to_owned()));
    assert_eq!(owner.run(), Step::Idle);
    assert_eq!(
        owner.ends[&2],
        "the KV pools of instance 'model_0_0' are gone since an execution that failed, and \
         replacing them failed: no memory"
    );
    owner.submit(3, &prompt(3, 5), 9);
    assert_eq!(owner.step(), Step::RestorePools);
    owner.run();
    assert_eq!(owner.streams[&3], alone(&prompt(3, 5), 9));
}

#[test]
fn a_row_that_is_not_finite_ends_alone_and_leaves_nothing_behind() {
    const NAN: i32 = 7;
    // The pages are just enough: whoever comes next gets those of the row that failed.
    for (poisoned, scrubs) in [(vec![1, 2, NAN, 4, 5], 1), (vec![1, 2, 3, 4, 5], 0)] {
        let mut owner = Generator::new(model(6), settings()).poisoned_by(NAN);
        owner.submit(1, &prompt(1, 5), 8);
        owner.submit(2, &poisoned, 8);
        owner.submit(3, &prompt(3, 5), 8);
        owner.submit(4, &prompt(4, 5), 8);
        owner.run();
        let zeroed = owner.log().iter().filter(|line| *line == "scrub 3").count();
        assert_eq!(zeroed, scrubs);
        assert_eq!(owner.ends[&2] == "failed row", scrubs == 1);
        for request in [1, 3, 4] {
            assert_eq!(owner.streams[&(request as u64)], alone(&prompt(request, 5), 8));
        }
    }
}

#[test]
fn a_prompt_that_is_cancelled_before_its_logits_were_seen_is_scrubbed_too() {
    const NAN: i32 = 7;
    let mut owner = Generator::new(model(6), settings()).poisoned_by(NAN);
    owner.submit(1, &[NAN; 12], 8);
    owner.step();
    owner.scheduler.cancel(tlaloc_engine::Ticket(1));
    owner.submit(2, &prompt(2, 12), 8);
    owner.run();
    assert_eq!(owner.log()[1], "scrub 5");
    assert_eq!(owner.streams[&2], alone(&prompt(2, 12), 8));
}

#[test]
fn a_scrub_that_fails_replaces_the_pools() {
    const NAN: i32 = 7;
    let mut owner = Generator::new(model(100), settings()).poisoned_by(NAN);
    owner.submit(1, &prompt(1, 5), 8);
    owner.submit(2, &[NAN], 8);
    owner.moves.push_back(failed("boom"));
    owner.run();
    assert_eq!(owner.streams[&1], alone(&prompt(1, 5), 8));
    assert_eq!(
        owner.lines()[0],
        "zeroing pages with values that are not finite failed, so all KV pools are replaced: boom"
    );
    assert_eq!(owner.counts().free, owner.counts().total);
}
