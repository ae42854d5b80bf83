//! When a batch starts and what is in it (sequence mode §8).

use tlaloc_engine::{Batching, Event, Level, Step};

use crate::support::{BATCHING, MS, Owner, US, chat, copy_failed, number, settings, text};

fn owner() -> Owner {
    Owner::new(chat(), settings(BATCHING))
}

/// Sequences `1..=count` that all decoded in the last batch.
fn stepping(count: u64) -> Owner {
    let mut owner = owner();
    for id in 1..=count {
        owner.push(Some(number(id)), "S", &[1]);
    }
    owner.settle();
    assert_eq!(owner.batches.len(), 1);
    owner.now += 100 * US;
    owner
}

fn send(owner: &mut Owner, id: u64) -> u64 {
    owner.push(Some(number(id)), "", &[2])
}

#[test]
fn a_lone_sequence_is_never_held_back() {
    let mut owner = stepping(1);
    for _ in 0..20 {
        owner.now += 3 * MS;
        send(&mut owner, 1);
        let before = owner.now;
        assert_eq!(owner.run(), Step::Idle);
        assert_eq!(owner.batches.last().unwrap().start, before);
        assert_eq!(owner.now, before + owner.execution);
    }
    assert_eq!(owner.engine.counts().cohort_waits, 0);
}

#[test]
fn a_batch_waits_for_the_rest_of_its_cohort() {
    let mut owner = stepping(3);
    let arrival = owner.now;
    send(&mut owner, 1);
    assert_eq!(owner.run(), Step::WaitUntil(arrival + 20 * MS));
    owner.now += 5 * MS;
    send(&mut owner, 2);
    assert_eq!(owner.run(), Step::WaitUntil(arrival + 20 * MS));
    owner.now += 5 * MS;
    send(&mut owner, 3);
    assert_eq!(owner.run(), Step::Idle);
    assert_eq!(owner.batches.last().unwrap().requests, 3);
    assert_eq!(owner.batches.last().unwrap().start, arrival + 10 * MS);
    assert_eq!(owner.engine.counts().cohort_waits, 1);
    assert!(!owner.events.iter().any(|event| matches!(event, Event::RanWithout { .. })));
}

#[test]
fn any_request_of_an_absent_sequence_ends_the_wait_for_it() {
    for (flags, tokens) in [("", vec![1000]), ("E", vec![]), ("S", vec![3])] {
        let mut owner = stepping(2);
        send(&mut owner, 1);
        owner.push(Some(number(2)), flags, &tokens);
        assert_eq!(owner.run(), Step::Idle, "{flags} {tokens:?}");
    }
    // Control: another sequence's request does not.
    let mut owner = stepping(2);
    send(&mut owner, 1);
    owner.push(Some(text("2")), "S", &[3]);
    assert!(matches!(owner.run(), Step::WaitUntil(_)));
}

#[test]
fn the_wait_counts_from_the_end_of_the_last_batch_if_the_request_was_there_before() {
    let mut owner = stepping(2);
    send(&mut owner, 1);
    send(&mut owner, 2);
    assert_eq!(owner.step(), Step::Run);
    // Pushed while the batch runs: it could not have started before the batch ends.
    owner.push(Some(number(3)), "S", &[1]);
    let arrival = owner.now;
    assert_eq!(owner.step(), Step::Reply);
    owner.now += 7 * MS;
    assert_eq!(owner.run(), Step::WaitUntil(arrival + 27 * MS));
}

#[test]
fn a_batch_runs_without_those_who_do_not_come_and_says_so() {
    let mut owner = stepping(9);
    let arrival = owner.now;
    send(&mut owner, 1);
    owner.now = arrival + 20 * MS - 1;
    assert_eq!(owner.run(), Step::WaitUntil(arrival + 20 * MS));
    owner.events.clear();
    owner.now = arrival + 20 * MS;
    assert_eq!(owner.run(), Step::Idle);
    assert_eq!(owner.batches.last().unwrap().requests, 1);
    assert_eq!(
        owner.lines(),
        ["a batch of 1 request(s) ran without sequence(s) 2 3 4 5 6 7 ... of the previous batch \
             after waiting 20000 us (1 of 2 batches so far)"]
    );
    // They are not waited for again.
    send(&mut owner, 1);
    assert_eq!(owner.run(), Step::Idle);
    assert_eq!(owner.lines(), Vec::<String>::new());
}

#[test]
fn only_the_first_ten_incomplete_batches_are_told_to_operators() {
    let mut owner = stepping(2);
    for round in 1..=12 {
        send(&mut owner, 1);
        owner.settle();
        let event = owner.events.pop().unwrap();
        let Event::RanWithout { times, .. } = &event else { panic!("{event}") };
        assert_eq!(*times, round);
        assert_eq!(event.level(), if round <= 10 { Level::Info } else { Level::Verbose });
        send(&mut owner, 1);
        send(&mut owner, 2);
        owner.settle();
    }
}

#[test]
fn the_cohort_is_those_that_decoded_and_go_on() {
    // (flags, tokens of sequence 2's request, whether it is waited for)
    let cases: [(&str, &[i32], bool); 6] = [
        ("", &[3], true),
        ("S", &[3], true),
        ("E", &[3], false),
        ("", &[3, 4], false),
        ("", &[1000], false),
        ("E", &[], false),
    ];
    for (flags, tokens, waited_for) in cases {
        let mut owner = stepping(2);
        send(&mut owner, 1);
        owner.push(Some(number(2)), flags, tokens);
        owner.settle();
        send(&mut owner, 1);
        let waits = matches!(owner.run(), Step::WaitUntil(_));
        assert_eq!(waits, waited_for, "{flags} {tokens:?}");
    }
}

#[test]
fn a_step_that_failed_is_not_waited_for() {
    let mut owner = stepping(2);
    send(&mut owner, 1);
    send(&mut owner, 2);
    owner.outcomes.push_back(copy_failed("lost"));
    owner.settle();
    send(&mut owner, 1);
    assert_eq!(owner.run(), Step::Idle);
}

#[test]
fn the_first_prompt_sets_the_prompt_wait() {
    let mut owner = owner();
    let arrival = owner.now;
    owner.push(Some(number(1)), "S", &[1, 2]);
    assert_eq!(owner.run(), Step::WaitUntil(arrival + 2 * MS));
    owner.now += MS;
    owner.push(Some(number(2)), "S", &[1, 2, 3]);
    assert_eq!(owner.run(), Step::WaitUntil(arrival + 2 * MS));
    owner.now = arrival + 2 * MS;
    assert_eq!(owner.run(), Step::Idle);
    assert_eq!(owner.batches.len(), 1);
    assert_eq!(owner.briefs(), ["prefill_b2_c64: 1@0+2 2@0+3"]);
}

#[test]
fn only_good_requests_of_several_tokens_are_prompts_to_wait_for() {
    for tokens in [&[1][..], &[1, 1000], &[]] {
        let mut owner = owner();
        owner.push(Some(number(1)), "SE", tokens);
        assert_eq!(owner.run(), Step::Idle, "{tokens:?}");
    }
    // A bad prompt does not set the wait of a good one behind it either.
    let mut owner = owner();
    owner.push(Some(number(1)), "S", &[1, 1000]);
    owner.now += MS;
    owner.push(Some(number(2)), "S", &[1, 2]);
    assert_eq!(owner.run(), Step::WaitUntil(owner.now + 2 * MS));
}

#[test]
fn the_earlier_of_both_waits_is_asked_for_but_both_must_pass() {
    let mut owner = stepping(2);
    let arrival = owner.now;
    send(&mut owner, 1);
    owner.push(Some(number(3)), "S", &[1, 2]);
    assert_eq!(owner.run(), Step::WaitUntil(arrival + 2 * MS));
    owner.now = arrival + 2 * MS;
    assert_eq!(owner.run(), Step::WaitUntil(arrival + 20 * MS));
    owner.now = arrival + 19 * MS;
    owner.push(Some(number(4)), "S", &[1, 2]);
    // The wait is that of the oldest prompt, which is over.
    assert_eq!(owner.run(), Step::WaitUntil(arrival + 20 * MS));
    owner.now = arrival + 20 * MS;
    assert_eq!(owner.run(), Step::Idle);
    assert_eq!(owner.batches.last().unwrap().requests, 3);
}

#[test]
fn one_request_of_a_sequence_is_in_a_batch() {
    let mut owner = owner();
    let first = owner.push(Some(number(1)), "S", &[1]);
    let second = owner.push(Some(number(1)), "", &[2]);
    let third = owner.push(Some(number(1)), "", &[3, 4]);
    let other = owner.push(Some(text("1")), "S", &[5]);
    let nobody = [owner.push(None, "S", &[1]), owner.push(None, "S", &[1])];
    owner.settle();
    assert_eq!(owner.order, [first, other, nobody[0], nobody[1], second, third]);
    let sizes: Vec<_> = owner.batches.iter().map(|batch| batch.requests).collect();
    assert_eq!(sizes, [4, 1, 1]);
    assert_eq!(owner.answers[&third], [1, 2, 3, 4]);
    assert_eq!(owner.answers[&other], [5]);
}

#[test]
fn a_batch_has_no_largest_size() {
    let mut owner = owner();
    for id in 1..=60 {
        owner.push(Some(number(id)), "S", &[1]);
    }
    owner.settle();
    assert_eq!(owner.batches.len(), 1);
    assert_eq!(owner.calls.len(), 15);
}

#[test]
fn stopping_waits_for_no_one_and_runs_everything() {
    let mut owner = stepping(3);
    send(&mut owner, 1);
    owner.push(Some(number(4)), "S", &[1, 2]);
    assert!(matches!(owner.run(), Step::WaitUntil(_)));
    owner.engine.stop();
    owner.events.clear();
    assert_eq!(owner.run(), Step::Stopped);
    assert_eq!(owner.replies.len(), 5);
    assert_eq!(owner.lines(), Vec::<String>::new());
    // What comes later still is answered.
    let late = send(&mut owner, 2);
    assert_eq!(owner.run(), Step::Stopped);
    assert_eq!(owner.answers[&late], [1, 2]);
}

#[test]
fn stopping_in_the_middle_of_a_batch_ends_it() {
    let mut owner = stepping(2);
    send(&mut owner, 1);
    send(&mut owner, 2);
    assert_eq!(owner.step(), Step::Run);
    owner.engine.stop();
    let late = owner.push(Some(number(3)), "S", &[1, 2]);
    assert_eq!(owner.run(), Step::Stopped);
    assert_eq!(owner.answers[&late], [1, 2]);
}

#[test]
fn the_hosts_batches_run_as_they_come() {
    let mut owner = Owner::new(chat(), settings(Batching::Host));
    for id in 1..=2 {
        owner.push(Some(number(id)), "S", &[1]);
    }
    assert_eq!(owner.run(), Step::Idle);
    send(&mut owner, 1);
    owner.push(Some(number(3)), "S", &[1, 2]);
    assert_eq!(owner.run(), Step::Idle);
    let sizes: Vec<_> = owner.batches.iter().map(|batch| batch.requests).collect();
    assert_eq!(sizes, [2, 2]);
}

#[test]
fn jittering_clients_stay_together() {
    // Verification L13: 4 sequences, 15 steps each, 0 to 5 ms apart: at most 17 batches.
    let mut owner = owner();
    for id in 1..=4 {
        owner.push(Some(number(id)), "S", &[1, 2, 3]);
    }
    owner.settle();
    let jittered = |owner: &mut Owner| {
        let before = owner.batches.len();
        let mut seed = 1_u64;
        let mut due: Vec<(u64, u64, u32)> = (1..=4).map(|id| (owner.now, id, 15)).collect();
        let mut sent: Vec<(u64, u64, u32)> = Vec::new();
        while !due.is_empty() || !sent.is_empty() {
            due.sort();
            let wake = match owner.run() {
                Step::WaitUntil(time) => time,
                _ => u64::MAX,
            };
            for (ticket, id, left) in std::mem::take(&mut sent) {
                if !owner.replies.contains_key(&ticket) {
                    sent.push((ticket, id, left));
                } else if left > 0 {
                    seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    due.push((owner.now + (seed >> 33) % (5 * MS), id, left));
                }
            }
            due.sort();
            match due.first().copied() {
                Some((time, id, left)) if time <= wake => {
                    due.remove(0);
                    owner.now = owner.now.max(time);
                    sent.push((send(owner, id), id, left - 1));
                }
                _ if wake != u64::MAX => owner.now = wake,
                _ => {}
            }
        }
        owner.batches.len() - before
    };
    let together = jittered(&mut owner);
    assert!((15..=17).contains(&together), "{together} batches");

    let mut owner = Owner::new(chat(), settings(Batching::Host));
    for id in 1..=4 {
        owner.push(Some(number(id)), "S", &[1, 2, 3]);
    }
    owner.settle();
    let control = jittered(&mut owner);
    assert!(control > 17, "{control} batches");
}

#[test]
fn totals_are_told_every_thousand_batches() {
    let mut owner = stepping(1);
    for _ in 0..999 {
        owner.push(Some(number(1)), "S", &[2]);
        owner.settle();
    }
    let mut summaries = owner.events.iter().filter(|event| matches!(event, Event::Summary { .. }));
    let summary = summaries.next().unwrap();
    assert_eq!(
        summary.to_string(),
        "1000 batches ran 1000 requests in 1000 calls; 0 batches ran without a sequence that they \
         waited for; 1 sequence(s) are live"
    );
    assert_eq!(summary.level(), Level::Verbose);
    assert!(summaries.next().is_none());
}
