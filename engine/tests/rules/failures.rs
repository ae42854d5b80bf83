//! Executions that fail (sequence mode §11.2, §12, §14).

use tlaloc_engine::{Code, Event, Geometry, Level, Step};

use crate::support::{
    BATCHING, MS, Owner, chat, copy_failed, entries, failed, number, settings, took_the_pools,
};

fn owner() -> Owner {
    Owner::new(chat(), settings(BATCHING))
}

/// Prompts run in chunks of 4.
fn chunked() -> Owner {
    let shapes = entries(4, &[16], &[1, 2], &[1, 2], &[4]);
    Owner::new(Geometry::new(100, 64, 4, vec![], shapes), settings(BATCHING))
}

fn code(owner: &Owner, ticket: u64) -> Code {
    owner.replies[&ticket].result.as_ref().unwrap_err().code()
}

#[test]
fn a_failed_step_leaves_the_sequence_as_it_was() {
    for (outcome, text) in [
        (failed("boom"), "execution of decode_b2_c64 failed and appended nothing: boom"),
        (
            copy_failed("boom"),
            "decode_b2_c64 ran, but its results could not be copied to the host: boom",
        ),
    ] {
        let mut owner = owner();
        owner.told(1, "S", &[1, 2]);
        owner.told(2, "S", &[3, 4]);
        let tickets = [1, 2].map(|id| owner.push(Some(number(id)), "", &[5]));
        owner.outcomes.push_back(outcome);
        owner.settle();
        for ticket in tickets {
            assert_eq!(owner.refused(ticket).unwrap(), text);
            assert_eq!(code(&owner, ticket), Code::Internal);
        }
        assert_eq!((owner.length_of(1), owner.length_of(2)), (Some(2), Some(2)));
        assert_eq!(owner.told(1, "", &[6]), [1, 2, 6]);
        assert_eq!(owner.told(2, "", &[7]), [3, 4, 7]);
        assert_eq!(owner.restored, 0);
    }
}

#[test]
fn a_failed_start_of_one_call_is_a_sequence_of_no_tokens() {
    let mut owner = owner();
    owner.outcomes.push_back(failed("boom"));
    owner.complaint(1, "S", &[1, 2]);
    assert_eq!(owner.length_of(1), Some(0));
    assert_eq!(owner.told(1, "", &[3, 4]), [3, 4]);
}

#[test]
fn a_request_that_fails_after_its_first_call_loses_its_sequence() {
    let mut owner = chunked();
    let long = owner.push(Some(number(1)), "S", &[1; 9]);
    let short = owner.push(Some(number(2)), "S", &[2; 3]);
    owner.outcomes.extend([Ok(()), failed("boom")]);
    owner.settle();
    assert_eq!(owner.briefs(), ["prefill_b2_c16_t4: 1@0+4 2@0+3", "prefill_b1_c16_t4: 1@4+4"]);
    assert_eq!(
        owner.refused(long).unwrap(),
        "execution of prefill_b1_c16_t4 failed and appended nothing: boom; an earlier call of the \
         same request had run, so the sequence is freed: start it again"
    );
    assert_eq!(code(&owner, long), Code::Internal);
    assert_eq!(owner.length_of(1), None);
    assert!(owner.complaint(1, "", &[1]).contains("has no KV state"));
    // Control: the request of one call in the same batch is as good as ever.
    assert_eq!(owner.refused(short), None);
    assert_eq!(owner.told(2, "", &[4]), [2, 2, 2, 4]);
}

#[test]
fn a_request_that_fails_in_its_first_call_of_several_keeps_its_sequence() {
    let mut owner = chunked();
    owner.told(1, "S", &[1]);
    owner.outcomes.push_back(failed("boom"));
    assert!(!owner.complaint(1, "", &[2; 9]).contains("earlier call"));
    assert_eq!(owner.length_of(1), Some(1));
    assert_eq!(owner.told(1, "", &[3; 9]), [vec![1], vec![3; 9]].concat());
}

#[test]
fn stepwise_prompts_stop_at_their_first_error() {
    let shapes = entries(4, &[16], &[1], &[], &[]);
    let mut owner = Owner::new(Geometry::new(100, 64, 4, vec![], shapes), settings(BATCHING));
    let tickets = [1, 2].map(|id| owner.push(Some(number(id)), "S", &[5; 3]));
    owner.outcomes.extend([Ok(()), failed("boom")]);
    owner.settle();
    assert_eq!(
        owner.briefs(),
        [
            "decode_b1_c16: 1@0+1",
            "decode_b1_c16: 1@1+1",
            "decode_b1_c16: 2@0+1",
            "decode_b1_c16: 2@1+1",
            "decode_b1_c16: 2@2+1"
        ]
    );
    assert!(owner.refused(tickets[0]).unwrap().contains("an earlier call of the same request"));
    assert_eq!((owner.length_of(1), owner.length_of(2)), (None, Some(3)));
}

#[test]
fn end_frees_though_the_request_failed() {
    let mut owner = owner();
    owner.told(1, "S", &[1, 2]);
    owner.outcomes.push_back(failed("boom"));
    owner.complaint(1, "E", &[3]);
    assert_eq!(owner.length_of(1), None);
    assert_eq!(owner.engine.free().pages, 63);
}

#[test]
fn lost_pools_end_every_sequence_after_the_batch_is_answered() {
    let mut owner = owner();
    for id in 1..=8 {
        owner.told(id, "S", &[1, 2]);
    }
    owner.events.clear();
    let tickets: Vec<_> = (1..=6).map(|id| owner.push(Some(number(id)), "", &[3])).collect();
    owner.outcomes.push_back(took_the_pools("out of memory"));
    // Requests that came meanwhile find no state.
    assert_eq!(owner.step(), Step::Run);
    let late = owner.push(Some(number(7)), "", &[3]);
    assert_eq!(owner.step(), Step::Reply);
    assert_eq!(owner.engine.sequences().count(), 8);
    assert_eq!(owner.step(), Step::RestorePools);
    assert_eq!(owner.engine.sequences().count(), 0);
    assert_eq!(owner.run(), Step::Idle);

    // One execution took the pools, the second group never ran.
    assert_eq!(owner.calls.len(), 8 + 1);
    for &ticket in &tickets[..4] {
        assert_eq!(
            owner.refused(ticket).unwrap(),
            "execution of decode_b4_c64 failed and took the KV pools with it, so every sequence of \
             instance 'model_0_0' loses its KV state and has to start again: out of memory"
        );
    }
    for &ticket in &tickets[4..] {
        assert!(owner.refused(ticket).unwrap().contains("an earlier execution that failed took"));
        assert_eq!(code(&owner, ticket), Code::Internal);
    }
    assert!(owner.refused(late).unwrap().contains("has no KV state"));
    let [event] = &owner.events[..] else { panic!("{:?}", owner.events) };
    assert_eq!(event.level(), Level::Error);
    assert_eq!(
        event.to_string(),
        "a failed execution took the KV pools: freed 8 sequence(s); the pools are zeroed anew"
    );
    // The instance serves on, and waits for none of the freed.
    owner.now += 100 * MS;
    assert_eq!(owner.told(9, "S", &[1, 2]), [1, 2]);
}

#[test]
fn pools_that_cannot_be_replaced_are_tried_again_by_the_next_batch() {
    let mut owner = owner();
    owner.told(1, "S", &[1, 2]);
    owner.outcomes.push_back(took_the_pools("boom"));
    owner.restorations.extend([Err("no memory".to_owned()), Err("still none".to_owned())]);
    owner.complaint(1, "", &[3]);
    assert_eq!(owner.restorations.len(), 1, "it is not tried in a loop");
    assert_eq!(owner.run(), Step::Idle);

    // The next batch tries, in vain: nothing can run.
    let calls = owner.calls.len();
    assert_eq!(owner.complaint(2, "S", &[1, 2]), {
        "not executed: an earlier execution that failed took the KV pools, so every sequence of \
         instance 'model_0_0' loses its KV state and has to start again"
    });
    assert_eq!((owner.calls.len(), owner.restorations.len(), owner.restored), (calls, 0, 0));

    // The one after that succeeds, before it runs.
    assert_eq!(owner.told(3, "S", &[4, 5]), [4, 5]);
    assert_eq!(owner.restored, 1);
    assert!(owner.complaint(2, "", &[3]).contains("has no KV state"));
    let messages: Vec<_> = owner
        .events
        .iter()
        .filter(|event| matches!(event, Event::PoolsMissing { .. } | Event::PoolsRestored { .. }))
        .map(|event| (event.level(), event.to_string()))
        .collect();
    let line =
        |text: &str| (Level::Error, format!("a failed execution took the KV pools: freed {text}"));
    let failing = "zeroing the pools failed, the next batch tries again";
    assert_eq!(
        messages,
        [
            line(&format!("1 sequence(s); {failing}: no memory")),
            line(&format!("0 sequence(s); {failing}: still none")),
            line("1 sequence(s); the pools are zeroed anew"),
        ]
    );
}

#[test]
fn a_prompt_whose_later_call_takes_the_pools_says_both() {
    let mut owner = chunked();
    owner.outcomes.extend([Ok(()), took_the_pools("boom")]);
    let text = owner.complaint(1, "S", &[1; 9]);
    assert!(
        text.contains("took the KV pools with it") && text.contains("earlier call of the same")
    );
    assert_eq!(owner.restored, 1);
}

#[test]
fn stopping_with_lost_pools_answers_everything() {
    let mut owner = owner();
    owner.outcomes.push_back(took_the_pools("boom"));
    owner.restorations.push_back(Err("no memory".to_owned()));
    let tickets = [1, 2, 3].map(|id| owner.push(Some(number(id)), "S", &[1, 2]));
    owner.engine.stop();
    assert_eq!(owner.run(), Step::Stopped);
    assert_eq!(owner.order, tickets);
}
