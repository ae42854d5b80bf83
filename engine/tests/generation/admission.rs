//! Who is taken, who waits, and who is told to go.

use tlaloc_engine::Code;
use tlaloc_engine::generation::{Settings, Step};

use crate::support::{Generator, MS, window};
use crate::{alone, growing, model, prompt, settings};

fn refused(owner: &mut Generator, prompt: &[i32], max_tokens: usize) -> (Code, String) {
    let rejection = owner.try_submit(99, prompt, max_tokens, 0, None).unwrap_err();
    (rejection.code(), rejection.to_string())
}

#[test]
fn what_can_never_run_is_refused_at_once_and_named() {
    let mut owner = Generator::new(model(10), settings());
    let invalid = |message: &str| (Code::InvalidArgument, message.to_owned());
    assert_eq!(
        refused(&mut owner, &[], 1),
        invalid("the prompt is empty: send at least one token")
    );
    assert_eq!(refused(&mut owner, &[1], 0), invalid("max_tokens is 0, expected at least 1"));
    assert_eq!(
        refused(&mut owner, &prompt(1, 65), 1),
        invalid(
            "the prompt has 65 tokens, but the largest context this model was compiled for is 64: \
             send at most 64 tokens"
        )
    );
    assert_eq!(
        refused(&mut owner, &prompt(1, 60), 6),
        invalid(
            "max_tokens is 6, but after a prompt of 60 token(s) the largest context this model \
             was compiled for, 64, leaves room for max_tokens in [1, 5]: send less, or export \
             larger contexts"
        )
    );
    // The context would do, but there are 10 pages of 4 tokens.
    assert_eq!(
        refused(&mut owner, &prompt(1, 40), 2),
        invalid(
            "a prompt of 40 token(s) with max_tokens 2 needs 11 KV page(s), but instance \
             'model_0_0' has 10 in all: send less, or export the artifact with more"
        )
    );
    assert_eq!(owner.step(), Step::Idle);
}

#[test]
fn a_prompt_of_the_whole_context_gets_its_one_token() {
    let mut owner = Generator::new(model(16), settings());
    let longest = prompt(1, 64);
    owner.submit(1, &longest, 1);
    owner.run();
    assert_eq!(owner.streams[&1], alone(&longest, 1));
    // Its last token takes no position: as many as fit, and no more.
    owner.submit(2, &longest[..60], 5);
    owner.run();
    assert_eq!(owner.streams[&2], alone(&longest[..60], 5));
}

#[test]
fn a_full_queue_refuses_by_its_limit_and_has_room_again() {
    let settings = Settings { max_queue_size: 2, max_running: 1, ..settings() };
    let mut owner = Generator::new(model(100), settings);
    owner.submit(1, &[1], 3);
    owner.step();
    owner.submit(2, &[1], 1);
    owner.submit(3, &[1], 1);
    assert_eq!(
        refused(&mut owner, &[1], 1),
        (
            Code::Unavailable,
            "the queue of instance 'model_0_0' is full: 2 request(s) wait (max_queue_size): send \
             the request again later"
                .to_owned()
        )
    );
    owner.run();
    owner.submit(4, &[1], 1);
    owner.run();
    assert_eq!(owner.ends.len(), 4);
}

#[test]
fn priorities_go_first_and_then_the_order_of_arrival() {
    let settings = Settings { max_running: 1, ..settings() };
    let mut owner = Generator::new(model(100), settings);
    for (ticket, priority) in [(1, 0), (2, 2), (3, 1), (4, 2), (5, 1), (6, 0)] {
        owner.try_submit(ticket, &[ticket as i32], 1, priority, None).unwrap();
    }
    owner.run();
    let order: Vec<_> = owner.log().iter().map(|line| line[15..16].to_owned()).collect();
    assert_eq!(order, ["3", "5", "2", "4", "1", "6"]);
}

#[test]
fn whoever_waits_for_pages_is_not_passed_by_smaller_ones() {
    let mut owner = Generator::new(model(6), settings());
    owner.submit(1, &prompt(1, 8), 9); // 4 pages
    owner.submit(2, &prompt(2, 8), 9); // 4 pages
    owner.submit(3, &prompt(3, 2), 1); // 1 page
    owner.step();
    let counts = owner.counts();
    assert_eq!((counts.running, counts.waiting, counts.free.pages), (1, 2, 2));
    owner.run();
    assert_eq!(owner.ends.len(), 3);
}

#[test]
fn guaranteed_requests_reserve_all_and_growing_ones_a_page_more() {
    for (settings, pages) in [(settings(), 8), (growing(0), 3)] {
        let mut owner = Generator::new(model(100), settings);
        owner.submit(1, &prompt(1, 8), 25);
        owner.step();
        let counts = owner.counts();
        assert_eq!(counts.total.pages - counts.free.pages, pages);
        owner.run();
        assert_eq!(owner.streams[&1], alone(&prompt(1, 8), 25));
    }
}

#[test]
fn cancelling_frees_everything_at_the_next_step() {
    let mut owner = Generator::new(model(100), settings());
    owner.submit(1, &prompt(1, 3), 30);
    owner.submit(2, &prompt(2, 3), 5);
    for _ in 0..4 {
        owner.step();
    }
    owner.scheduler.cancel(tlaloc_engine::Ticket(1));
    // Twice, and one that is not there.
    owner.scheduler.cancel(tlaloc_engine::Ticket(1));
    owner.scheduler.cancel(tlaloc_engine::Ticket(7));
    assert_eq!(owner.step(), Step::Ended);
    assert_eq!(owner.ends[&1], "Cancelled");
    let counts = owner.counts();
    assert_eq!((counts.running, counts.total.pages - counts.free.pages), (1, 2));
    owner.run();
    assert_eq!(owner.streams[&2], alone(&prompt(2, 3), 5));
}

#[test]
fn a_deadline_holds_while_waiting_and_while_running() {
    let settings = Settings { max_running: 1, ..settings() };
    let mut owner = Generator::new(model(100), settings);
    let now = owner.now;
    owner.try_submit(1, &[1], 50, 0, Some(now + 10 * MS)).unwrap();
    owner.try_submit(2, &[2], 5, 0, Some(now + 5 * MS)).unwrap();
    owner.try_submit(3, &[3], 5, 0, Some(now + 15 * MS)).unwrap();
    owner.run();
    assert_eq!(owner.ends[&1], "TimedOut");
    assert_eq!(owner.streams[&1], alone(&[1], 10));
    assert_eq!(owner.ends[&2], "TimedOut");
    assert!(!owner.streams.contains_key(&2));
    // The last one has five calls of a millisecond from 10 ms on, which is just enough.
    assert_eq!(owner.ends[&3], "finished");
}

#[test]
fn stopping_runs_to_the_end_and_takes_no_more() {
    let settings = Settings { max_running: 1, ..settings() };
    let mut owner = Generator::new(model(100), settings);
    owner.submit(1, &[1], 3);
    owner.submit(2, &[2], 3);
    owner.step();
    owner.scheduler.stop();
    assert_eq!(
        refused(&mut owner, &[1], 1),
        (
            Code::Unavailable,
            "instance 'model_0_0' is stopping and takes no new requests".to_owned()
        )
    );
    assert_eq!(owner.run(), Step::Stopped);
    assert_eq!((owner.streams[&1].len(), owner.streams[&2].len()), (3, 3));
}

#[test]
fn rings_are_taken_as_they_grow_and_bound_chunks() {
    // Window 8, pages of 4 tokens, rings of 3 pages out of 12: four requests at a time.
    let settings = Settings { max_prefill_tokens_per_step: 100, ..settings() };
    let mut owner = Generator::new(window(), settings);
    for request in 1..=5 {
        owner.submit(request, &prompt(request as usize % 5, 13)[..13], 10);
    }
    owner.step();
    assert_eq!((owner.counts().running, owner.counts().free.ring_pages), (4, 0));
    owner.run();
    assert_eq!(owner.ends.len(), 5);
}
