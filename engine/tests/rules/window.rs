//! Windowed pools: rings, call splitting, exhaustion (artifact format §8, sequence mode §10).

use tlaloc_engine::{Amounts, Code, Geometry, WindowedPools};

use crate::support::{BATCHING, MS, Owner, copy_failed, entries, failed, number, settings, window};

fn owner() -> Owner {
    Owner::new(window(), settings(BATCHING))
}

/// The window model with prefill chunks of 6 tokens: a ring of 4 pages.
fn chunked() -> Geometry {
    let shapes = entries(4, &[16, 32, 64], &[1, 2], &[1, 2], &[6]);
    let pools = WindowedPools { window: 8, ring_pages: 4, num_blocks: 17 };
    Geometry::new(64, 65, 4, vec![], shapes).with_windowed_pools(pools)
}

fn tokens(count: usize) -> Vec<i32> {
    (0..count as i32).map(|index| index * 7 % 60).collect()
}

#[test]
fn a_conversation_holds_the_pages_and_the_ring_that_the_formula_says() {
    // Verification W2, W5 and the format's split examples. What each row reads through its pages,
    // its ring and its window is checked by the device.
    let schedule = [vec![13], vec![1; 11], vec![9], vec![1; 27]].concat();
    for (geometry, ring, splits) in
        [(window(), 3, [&[12, 1][..], &[5, 4]]), (chunked(), 4, [&[6, 6, 1], &[6, 3]])]
    {
        let mut owner = Owner::new(geometry, settings(BATCHING));
        let mut sent = Vec::new();
        for (index, &count) in schedule.iter().enumerate() {
            let flags = match index {
                0 => "S",
                _ if index + 1 == schedule.len() => "E",
                _ => "",
            };
            let new = tokens(60)[sent.len()..sent.len() + count].to_vec();
            let start = owner.calls.len();
            let reply = owner.ask(1, flags, &new);
            sent.extend(new);
            let pages = sent.len().div_ceil(4);
            let held = Amounts { pages, ring_pages: pages.min(ring), state_slots: 0 };
            assert_eq!(reply.held, held, "at {}", sent.len());
            let ticket = reply.ticket.0;
            assert_eq!(owner.answers[&ticket], sent);
            let calls: Vec<_> = owner.calls[start..].iter().map(|c| c.rows[0].2.len()).collect();
            match count {
                13 => assert_eq!(calls, splits[0]),
                9 => assert_eq!(calls, splits[1]),
                _ => assert_eq!(calls, [1]),
            }
        }
        assert_eq!(sent.len(), 60);
        assert_eq!(owner.engine.free(), owner.engine.total());
    }
}

#[test]
fn a_call_that_the_formula_does_not_split_would_read_what_it_wrote_over() {
    // Control of the above: the device sees a ring that is too short for its calls.
    let shapes = entries(4, &[64], &[1], &[1], &[0]);
    let too_short = WindowedPools { window: 6, ring_pages: 3, num_blocks: 13 };
    let told = Geometry::new(64, 65, 4, vec![], shapes.clone()).with_windowed_pools(too_short);
    let truly = WindowedPools { window: 8, ..too_short };
    let truly = Geometry::new(64, 65, 4, vec![], shapes).with_windowed_pools(truly);
    let run = |told: &Geometry| {
        let mut owner = Owner::new(told.clone(), settings(BATCHING));
        owner.device = crate::support::Device::new(&truly);
        owner.told(1, "S", &tokens(24));
        owner.told(1, "", &tokens(9))
    };
    assert_eq!(run(&truly), [tokens(24), tokens(9)].concat());
    let failed = std::panic::catch_unwind(|| run(&told)).unwrap_err();
    let message = failed.downcast_ref::<String>().unwrap();
    assert!(message.contains("reads None of 5 at 12"), "{message}");
}

#[test]
fn rings_run_out_before_pages_and_say_so() {
    // Verification W9.
    let mut owner = owner();
    for id in 1..=4 {
        owner.told(id, "S", &tokens(12));
    }
    assert_eq!(owner.engine.free(), Amounts { pages: 52, ring_pages: 0, state_slots: 0 });
    owner.now += 30 * MS;
    let refusal = owner.ask(5, "S", &tokens(5)).result.clone().unwrap_err();
    assert_eq!(refusal.code(), Code::Unavailable);
    assert_eq!(
        refusal.to_string(),
        "windowed KV page pool exhausted: sequence 5 needs 2 more windowed page(s) of 4 tokens to \
         go from 0 to 5 tokens, and 0 of 12 windowed pages are free; 4 other sequence(s) hold \
         windowed pages: 1 (3 windowed pages, 12 tokens, idle 41 ms), 2 (3 windowed pages, 12 \
         tokens, idle 38 ms), 3 (3 windowed pages, 12 tokens, idle 35 ms), 4 (3 windowed pages, 12 \
         tokens, idle 32 ms); a sequence idle for more than 2002 ms is reclaimed when windowed \
         pages are short, a live one is not preempted; sequence 5 is refused at START and holds \
         nothing: send it again when windowed pages are free; to hold more, export the artifact \
         with more windowed pages (windowedKv.numBlocks)"
    );
    assert_eq!(owner.length_of(5), None);
    // A full ring is enough for ever.
    assert_eq!(owner.told(1, "", &tokens(40)).len(), 52);
    owner.told(2, "E", &[]);
    assert_eq!(owner.told(5, "S", &tokens(5)), tokens(5));
}

#[test]
fn a_growing_ring_that_finds_no_page_leaves_the_sequence_as_it_was() {
    let mut owner = owner();
    for id in 1..=3 {
        owner.told(id, "S", &tokens(12));
    }
    owner.told(4, "S", &tokens(4));
    owner.told(5, "S", &tokens(8));
    let before = owner.engine.free();
    assert_eq!(before, Amounts { pages: 52, ring_pages: 0, state_slots: 0 });
    let text = owner.complaint(4, "", &[1]);
    assert!(text.contains("needs 1 more windowed page(s) of 4 tokens to go from 4 to 5 tokens"));
    assert!(
        text.contains("sequence 4 keeps its 1 windowed pages and the KV of its 4 tokens: send")
    );
    assert_eq!((owner.length_of(4), owner.engine.free()), (Some(4), before));
    // Those that lack no ring page go on, and so does this one when there is one.
    assert_eq!(owner.told(1, "", &[1]).len(), 13);
    owner.told(5, "E", &[]);
    assert_eq!(owner.told(4, "", &[1]), [tokens(4), vec![1]].concat());
}

#[test]
fn a_shortage_of_both_is_told_of_the_ring() {
    let shapes = entries(4, &[16], &[1], &[1], &[0]);
    let pools = WindowedPools { window: 8, ring_pages: 3, num_blocks: 4 };
    let run = |blocks, num_blocks| {
        let pools = WindowedPools { num_blocks, ..pools };
        let geometry =
            Geometry::new(64, blocks, 4, vec![], shapes.clone()).with_windowed_pools(pools);
        let mut owner = Owner::new(geometry, settings(BATCHING));
        owner.told(1, "S", &tokens(12));
        owner.complaint(2, "S", &[1])
    };
    assert!(run(4, 4).starts_with("windowed KV page pool exhausted"));
    assert!(run(9, 4).starts_with("windowed KV page pool exhausted"));
    assert!(run(4, 9).starts_with("KV page pool exhausted"));
}

#[test]
fn the_lowest_free_ring_pages_are_given_first() {
    let mut owner = owner();
    for id in 1..=3 {
        owner.told(id, "S", &tokens(5));
    }
    let ring = |owner: &Owner, id| {
        let mut sequences = owner.engine.sequences();
        sequences.find(|sequence| *sequence.id == number(id)).unwrap().ring.to_vec()
    };
    assert_eq!([1, 2, 3].map(|id| ring(&owner, id)), [[1, 2], [3, 4], [5, 6]]);
    owner.told(1, "E", &[]);
    owner.told(3, "", &tokens(10));
    owner.told(4, "S", &tokens(8));
    assert_eq!([3, 4].map(|id| ring(&owner, id)), [vec![5, 6, 1], vec![2, 7]]);
}

#[test]
fn a_failed_call_leaves_the_window_as_it_was() {
    // A call writes over nothing that the call at its place reads, however often it is repeated.
    for outcome in [failed("boom"), copy_failed("boom")] {
        for (first, retry) in [(5, 5), (5, 1), (1, 5)] {
            let mut owner = owner();
            owner.told(1, "S", &tokens(24));
            owner.outcomes.push_back(outcome.clone());
            owner.complaint(1, "", &tokens(first));
            let expected = [tokens(24), tokens(retry)].concat();
            assert_eq!(owner.told(1, "", &tokens(retry)), expected);
        }
    }
}

#[test]
fn prompts_of_windowed_models_share_rounds() {
    let mut owner = owner();
    for (id, count) in [(1, 13), (2, 5), (3, 21)] {
        owner.push(Some(number(id)), "S", &tokens(count));
    }
    owner.settle();
    assert_eq!(
        owner.briefs(),
        [
            "prefill_b2_c16: 1@0+12 2@0+5",
            "prefill_b1_c16: 3@0+12",
            "prefill_b1_c32: 3@12+5",
            "decode_b1_c16: 1@12+1",
            "prefill_b1_c32: 3@17+4",
        ]
    );
}
