//! Pressure, and which idle sequences give way (sequence mode §10).

use tlaloc_engine::{Batching, Code, Event, Geometry, Level, Nanos, Refusal, Step};

use crate::support::{BATCHING, MS, Owner, chat, entries, number, settings, text, window};

/// 21 sequences of 3 pages: all 63 pages of the pool (verification L5, L8, L10). Sequence 1 has
/// 47 tokens, the others 47 as well; each started after the one before.
fn full() -> Owner {
    let mut owner = Owner::new(chat(), settings(BATCHING));
    for id in 1..=21 {
        owner.told(id, "S", &[id as i32; 47]);
    }
    assert_eq!(owner.engine.free().pages, 0);
    owner.events.clear();
    owner
}

#[test]
fn a_sequence_that_needs_a_page_too_many_keeps_what_it_has() {
    let mut owner = full();
    assert_eq!(owner.told(1, "", &[50]).len(), 48);
    owner.now += 30 * MS;
    let refusal = owner.ask(1, "", &[51]).result.clone().unwrap_err();
    assert_eq!(refusal.code(), Code::Unavailable);
    // longest batch: 1 ms of execution after no wait; limit = 2 × 1000 ms + ceil(21 / 4) × 1 ms
    let listed: Vec<_> = (2..=7)
        .map(|id: u64| {
            // Each START ended 3 ms after the one before; sequence 1 stepped 1 ms after the last.
            let idle = 30 + 1 + 3 * (21 - id);
            format!("{id} (3 pages, 47 tokens, idle {idle} ms)")
        })
        .collect();
    assert_eq!(
        refusal.to_string(),
        format!(
            "KV page pool exhausted: sequence 1 needs 1 more page(s) of 16 tokens to go from 48 to \
             49 tokens, and 0 of 63 pages are free; 20 other sequence(s) hold pages: {}, ...; a \
             sequence idle for more than 2006 ms is reclaimed when pages are short, a live one is \
             not preempted; sequence 1 keeps its 3 pages and the KV of its 48 tokens: send the \
             request again when pages are free, or end the sequence; to hold more, export the \
             artifact with more pages (numBlocks)",
            listed.join(", ")
        )
    );
    assert_eq!(owner.reclaimed(), Vec::<String>::new());
    assert_eq!(owner.length_of(1), Some(48));
    // The same request works once someone else ends.
    owner.told(2, "E", &[]);
    let mut expected = vec![1; 47];
    expected.extend([50, 51]);
    assert_eq!(owner.told(1, "", &[51]), expected);
}

#[test]
fn a_start_that_finds_no_pages_holds_nothing() {
    let mut owner = full();
    let text = owner.complaint(22, "S", &[1, 2]);
    assert!(text.starts_with("KV page pool exhausted: sequence 22 needs 1 more page(s)"));
    assert!(text.contains("21 other sequence(s) hold pages"));
    assert!(text.contains("is refused at START and holds nothing"));
    assert!(text.contains("is not preempted"));
    assert!(owner.complaint(22, "", &[1]).contains("has no KV state"));
    // The server still holds it: the client's END succeeds and answers nothing.
    assert_eq!(owner.ask(22, "E", &[]).result, Ok(None));
    for id in 1..=21 {
        owner.told(id, "E", &[]);
    }
    assert_eq!(owner.told(23, "S", &[9; 47]), [9; 47]);
    owner.told(23, "E", &[]);
    // One after another they never run out (L7).
    for id in 1..=43 {
        owner.told(id, "SE", &[1; 47]);
    }
}

#[test]
fn an_end_that_finds_no_pages_ends_all_the_same() {
    let mut owner = full();
    owner.told(1, "", &[50]);
    let text = owner.complaint(1, "E", &[51]);
    assert!(text.contains("keeps its 3 pages and the KV of its 48 tokens only until its END"));
    assert_eq!(owner.length_of(1), None);
}

#[test]
fn holders_are_listed_by_pages_then_id_without_those_that_hold_none() {
    let shapes = entries(16, &[64], &[1, 2, 4], &[1, 2, 4], &[0]);
    let mut owner = Owner::new(Geometry::new(100, 6, 16, vec![], shapes), settings(BATCHING));
    owner.told(5, "S", &[1; 16]);
    owner.told(4, "S", &[1; 30]);
    owner.now += MS;
    // In one batch: a text id that takes a page, and a START that finds too few.
    let first = owner.push(Some(text("4")), "S", &[1]);
    let refused = owner.push(Some(number(9)), "S", &[1; 40]);
    owner.settle();
    assert_eq!(owner.refused(first), None);
    let text = owner.refused(refused).unwrap();
    assert!(
        text.contains(
            "needs 3 more page(s) of 16 tokens to go from 0 to 40 tokens, and 1 of 5 pages are \
             free; 3 other sequence(s) hold pages: 4 (2 pages, 30 tokens, idle 3 ms), 5 (1 pages, \
             16 tokens, idle 6 ms), \"4\" (1 pages, 0 tokens, in this batch); a sequence idle"
        ),
        "{text}"
    );
}

#[test]
fn abandoned_sequences_give_way_only_when_short_and_oldest_first() {
    // Verification L10.
    let mut owner = full();
    assert!(owner.complaint(99, "S", &[1]).contains("KV page pool exhausted"));
    owner.ask(99, "E", &[]);
    assert_eq!(owner.reclaimed(), Vec::<String>::new());

    owner.now += 2 * 1_000 * MS + 5_000 * MS;
    // Nothing is freed before pages are short.
    owner.told(1, "E", &[]);
    owner.told(99, "SE", &[1; 47]);
    assert_eq!(owner.reclaimed(), Vec::<String>::new());
    owner.told(1, "S", &[1; 47]);
    owner.now += 7_000 * MS;

    // A new sequence of one page: exactly the least recently active one, which is now 2.
    owner.told(30, "S", &[3]);
    assert_eq!(owner.reclaimed(), ["2"]);
    assert!(owner.complaint(2, "", &[1]).contains("has no KV state"));
    assert_eq!(owner.engine.free().pages, 2);

    // 20 of three pages: the first needs one more page than is free and takes one; the rest follow.
    let mut freed = Vec::new();
    for id in 40..60 {
        owner.told(id, "S", &[1; 47]);
        freed.extend(owner.reclaimed());
    }
    let expected: Vec<_> = (3..=21).chain([1]).map(|id: u64| id.to_string()).collect();
    assert_eq!(freed, expected);
}

#[test]
fn reclaiming_stops_as_soon_as_there_is_enough() {
    let mut owner = full();
    owner.now += 10_000 * MS;
    // 4 pages at most per sequence: 64 tokens need two sequences' pages.
    owner.told(30, "S", &[1; 64]);
    assert_eq!(owner.engine.free().pages, 2);
    let reclaims = owner.events.iter().filter(|event| matches!(event, Event::Reclaimed { .. }));
    let lines: Vec<_> = reclaims.map(|event| (event.level(), event.to_string())).collect();
    // Sequence 1 was last active 60 ms before 21; the prompt wait is 2 ms.
    // 22 live with the new one: 2 × 1000 + ceil(22 / 4) × 1.
    let line = |id: u64, idle: u64| {
        let text = format!(
            "reclaimed sequence {id} (the least recently active, idle {idle} ms, limit 2006 ms) \
             for sequence 30: 3 page(s)"
        );
        (Level::Info, text)
    };
    assert_eq!(lines, [line(1, 10_000 + 60 + 2), line(2, 10_000 + 57 + 2)]);
}

#[test]
fn the_limit_is_twice_the_idle_time_and_what_serving_everyone_takes() {
    // One page in all; sequence 1 holds it.
    let shapes = || entries(16, &[16], &[1, 2, 4], &[1], &[0]);
    let geometry = || Geometry::new(100, 2, 16, vec![], shapes());
    // (longest batch, max batch size, limit with 2 live sequences)
    let cases: [(Nanos, usize, Nanos); 4] = [
        (5 * MS, 4, 2_005 * MS),
        (700 * MS, 4, 2_700 * MS),
        (700 * MS, 1, 3_400 * MS),
        (700 * MS, 0, 3_400 * MS),
    ];
    for (longest, max_batch_size, limit) in cases {
        let run = |idle: Nanos| {
            let mut settings = settings(Batching::Host);
            settings.max_batch_size = max_batch_size;
            let mut owner = Owner::new(geometry(), settings);
            owner.execution = longest;
            owner.told(1, "S", &[1]);
            owner.now += idle;
            let reply = owner.ask(2, "S", &[1]).result.clone();
            (reply.is_ok(), owner.length_of(1).is_none())
        };
        assert_eq!(run(limit + 1), (true, true), "{longest} {max_batch_size}");
        assert_eq!(run(limit), (false, false), "{longest} {max_batch_size}");
    }
}

#[test]
fn a_refused_request_keeps_its_sequence_alive() {
    // Verification L16: refused requests every 50 ms.
    let run = |refused: &[i32]| {
        let mut owner = full();
        for _ in 0..100 {
            owner.now += 50 * MS;
            if !refused.is_empty() {
                assert!(owner.complaint(1, "", refused).contains("outside the vocabulary"));
            }
        }
        owner.events.clear();
        let mut reclaimed = Vec::new();
        for id in 40..62 {
            owner.ask(id, "S", &[1; 47]);
            reclaimed.extend(owner.reclaimed());
        }
        (owner.length_of(1), reclaimed)
    };
    let (length, reclaimed) = run(&[1_000_000]);
    let others: Vec<_> = (2..=21).map(|id: u64| id.to_string()).collect();
    assert_eq!((length, reclaimed), (Some(47), others));
    // Control: a silent one goes first.
    let (length, reclaimed) = run(&[]);
    assert_eq!((length, reclaimed[0].as_str()), (None, "1"));
}

#[test]
fn a_sequence_with_a_request_at_hand_is_not_reclaimed() {
    let mut owner = full();
    owner.now += 10_000 * MS;
    // In this batch: 1 has a request behind the START that needs pages.
    let start = owner.push(Some(number(30)), "S", &[1; 4]);
    let step = owner.push(Some(number(1)), "", &[5]);
    owner.settle();
    assert_eq!((owner.refused(start), owner.refused(step)), (None, None));
    assert_eq!(owner.reclaimed(), ["2"]);

    // Not in this batch but queued: it came while an earlier batch ran.
    let mut owner = full();
    owner.now += 10_000 * MS;
    let first = owner.push(Some(number(30)), "S", &[1; 4]);
    let again = owner.push(Some(number(30)), "", &[1; 40]);
    owner.settle();
    assert_eq!((owner.refused(first), owner.refused(again)), (None, None));
    assert_eq!(owner.reclaimed(), ["1"]);
    let mut owner = full();
    owner.now += 10_000 * MS;
    owner.push(Some(number(3)), "", &[1000]);
    assert_eq!(owner.run(), Step::Idle);
    owner.push(Some(number(30)), "S", &[1; 4]);
    owner.settle();
    assert_eq!(owner.reclaimed(), ["1"]);
}

#[test]
fn sequences_of_one_batch_are_reclaimed_in_its_order() {
    let mut owner = Owner::new(chat(), settings(BATCHING));
    let ids: Vec<u64> = vec![7, 3, 9, 1, 8, 2, 5, 4, 6];
    for &id in &ids {
        owner.push(Some(number(id)), "S", &[1; 64]);
    }
    owner.settle();
    assert_eq!(owner.batches.len(), 1);
    owner.now += 10_000 * MS;
    let mut reclaimed = Vec::new();
    for id in 20..40 {
        owner.ask(id, "S", &[1; 64]);
        reclaimed.extend(owner.reclaimed());
    }
    let expected: Vec<_> = ids.iter().map(u64::to_string).collect();
    assert_eq!(reclaimed, expected);
}

#[test]
fn clients_that_idle_too_long_never_find_their_state_gone() {
    // Verification L15: the server forgets an idle sequence long before the backend reclaims it, so
    // a client that the server lets through always finds its state.
    let idle = 200 * MS;
    let mut settings = settings(Batching::Host);
    settings.max_sequence_idle = idle;
    let mut owner = Owner::new(chat(), settings);
    let (mut seed, mut exhausted, mut forgotten) = (7_u64, 0, 0);
    let mut last = [None::<Nanos>; 32];
    for _ in 0..3_000 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let client = (seed >> 33) as usize % last.len();
        owner.now += (seed >> 40) % (20 * MS);
        let live = last[client].is_some_and(|last| owner.now - last <= idle);
        forgotten += usize::from(last[client].is_some() && !live);
        let full = live && owner.length_of(client as u64 + 1).is_some_and(|length| length > 60);
        let (flags, tokens) = match (live, full) {
            (false, _) => ("S", vec![1; 47]),
            (true, true) => ("E", vec![]),
            (true, false) => ("", vec![2]),
        };
        let arrival = owner.now;
        match owner.ask(client as u64 + 1, flags, &tokens).result.clone() {
            Ok(_) => last[client] = (flags != "E").then_some(arrival),
            Err(Refusal::Exhausted(_)) => {
                exhausted += 1;
                if flags == "S" {
                    last[client] = None;
                }
            }
            Err(refusal) => panic!("{refusal}"),
        }
    }
    assert!(forgotten > 100 && exhausted > 10, "{forgotten} {exhausted}");
}

#[test]
fn rings_and_state_slots_are_reclaimed_like_pages() {
    // Verification L10 where ring pages or state slots are what runs out: four abandoned sequences
    // hold all of them, pages are left over.
    let linear = {
        let shapes = entries(4, &[16, 32, 64], &[1, 2], &[1, 2], &[0]);
        Geometry::new(64, 65, 4, vec![], shapes).with_state_slots(4)
    };
    for (geometry, needle) in
        [(window(), "windowed KV page pool"), (linear, "linear-attention state slots")]
    {
        let mut owner = Owner::new(geometry, settings(BATCHING));
        for id in [3, 1, 4, 2] {
            owner.told(id, "S", &[id as i32; 12]);
        }
        // Busy while the others are idle: it does not give way.
        owner.now += 10_000 * MS;
        owner.told(4, "", &[5]);
        owner.events.clear();
        owner.told(5, "S", &[5]);
        assert_eq!(owner.reclaimed(), ["3"]);
        assert!(owner.complaint(3, "", &[1]).contains("has no KV state"));
        let mut freed = Vec::new();
        for id in 6..=8 {
            owner.ask(id, "S", &[6; 12]);
            freed.extend(owner.reclaimed());
        }
        assert_eq!(freed, ["1", "2"], "{needle}");
        // 4, 5, 6 and 7 are live and hold all that there is.
        let text = owner.complaint(8, "S", &[6; 12]);
        assert!(text.starts_with(&format!("{needle} exhausted: sequence 8")), "{text}");
        assert_eq!(owner.told(4, "", &[6])[12..], [5, 6]);
    }
}

#[test]
fn what_is_short_decides_how_many_give_way() {
    // Four sequences of 12 tokens hold 3 pages each of 52 free and all 12 ring pages. 24 tokens
    // take 6 pages and a ring of 3: one of them is enough.
    let mut owner = Owner::new(window(), settings(BATCHING));
    for id in 1..=4 {
        owner.told(id, "S", &[1; 12]);
    }
    owner.now += 10_000 * MS;
    owner.events.clear();
    owner.told(5, "S", &[1; 24]);
    assert_eq!(owner.reclaimed(), ["1"]);
    let held = |owner: &Owner| (owner.engine.free().pages, owner.engine.free().ring_pages);
    assert_eq!(held(&owner), (64 - 9 - 6, 0));
    // Nothing is short: nothing is freed though three are idle.
    owner.told(5, "", &[2; 30]);
    assert_eq!(owner.reclaimed(), Vec::<String>::new());
    assert_eq!(held(&owner), (64 - 9 - 14, 0));
}
