//! In which calls requests run (sequence mode §11), and what is reported of them (§20).

use tlaloc_engine::{Geometry, Nanos, RowRef, Times};

use crate::support::{BATCHING, MS, Owner, Ran, chat, entries, number, reference, settings};

fn owner(geometry: Geometry) -> Owner {
    Owner::new(geometry, settings(BATCHING))
}

fn tokens(count: usize) -> Vec<i32> {
    (0..count as i32).map(|index| index % 90).collect()
}

/// One batch of new sequences 1, 2, … with prompts of these lengths.
fn prompts(geometry: Geometry, lengths: &[usize]) -> Vec<String> {
    let mut owner = owner(geometry);
    let mut tickets = Vec::new();
    for (id, &length) in (1..).zip(lengths) {
        tickets.push(owner.push(Some(number(id)), "S", &tokens(length)));
    }
    owner.settle();
    assert_eq!(owner.batches.len(), 1);
    for (ticket, &length) in tickets.iter().zip(lengths) {
        assert_eq!(owner.refused(*ticket), None);
        assert_eq!(owner.answers[ticket], tokens(length));
    }
    owner.briefs()
}

fn ladder(contexts: &[usize], prefill: &[usize], chunks: &[usize]) -> Geometry {
    Geometry::new(100, 256, 4, vec![], entries(4, contexts, &[1, 2, 4], prefill, chunks))
}

#[test]
fn prompts_of_one_context_share_a_call() {
    let calls = prompts(ladder(&[16, 32, 64], &[1, 2, 4], &[0]), &[5, 24, 11, 27]);
    assert_eq!(calls, ["prefill_b2_c16: 1@0+5 3@0+11", "prefill_b2_c32: 2@0+24 4@0+27"]);
}

#[test]
fn contexts_are_not_merged_and_go_in_order_of_first_appearance() {
    let calls = prompts(ladder(&[16, 32], &[1, 2], &[0]), &[20, 3, 30, 16]);
    assert_eq!(calls, ["prefill_b2_c32: 1@0+20 3@0+30", "prefill_b2_c16: 2@0+3 4@0+16"]);
}

#[test]
fn a_group_is_cut_by_the_largest_prefill_batch_of_its_context() {
    let calls = prompts(ladder(&[16], &[1, 2], &[0]), &[5, 6, 7, 8, 9]);
    assert_eq!(
        calls,
        ["prefill_b2_c16: 1@0+5 2@0+6", "prefill_b2_c16: 3@0+7 4@0+8", "prefill_b1_c16: 5@0+9"]
    );
}

#[test]
fn long_prompts_advance_one_chunk_each_in_turn() {
    let calls = prompts(ladder(&[16, 32, 64], &[1], &[8]), &[20, 3, 18]);
    assert_eq!(
        calls,
        [
            "prefill_b1_c16_t8: 1@0+8",
            "prefill_b1_c16_t8: 2@0+3",
            "prefill_b1_c16_t8: 3@0+8",
            "prefill_b1_c16_t8: 1@8+8",
            "prefill_b1_c16_t8: 3@8+8",
            "prefill_b1_c32_t8: 1@16+4",
            "prefill_b1_c32_t8: 3@16+2",
        ]
    );
}

#[test]
fn a_tail_of_one_token_is_a_decode_step_after_the_rounds_other_calls() {
    let calls = prompts(ladder(&[16, 32], &[1, 2], &[8]), &[9, 12]);
    assert_eq!(
        calls,
        ["prefill_b2_c16_t8: 1@0+8 2@0+8", "prefill_b1_c16_t8: 2@8+4", "decode_b1_c16: 1@8+1"]
    );
}

#[test]
fn the_smallest_chunk_that_fits_is_chosen_among_equal_buckets() {
    let calls = prompts(ladder(&[16, 32], &[1], &[16, 4]), &[3, 10, 20]);
    assert_eq!(
        calls,
        [
            "prefill_b1_c16_t4: 1@0+3",
            "prefill_b1_c16: 2@0+10",
            "prefill_b1_c16: 3@0+16",
            "prefill_b1_c32_t4: 3@16+4",
        ]
    );
}

#[test]
fn a_prompt_that_no_prefill_entry_takes_runs_token_by_token() {
    let mut shapes = entries(4, &[16, 32], &[1, 2], &[], &[]);
    shapes.extend(entries(4, &[16], &[], &[1], &[0]));
    let calls = prompts(Geometry::new(100, 64, 4, vec![], shapes), &[17]);
    // The first call is limited to 16 tokens, the 17th is a decode step.
    assert_eq!(calls, ["prefill_b1_c16: 1@0+16", "decode_b1_c32: 1@16+1"]);

    let calls = prompts(reference(), &[4, 3]);
    assert_eq!(
        calls,
        [
            "decode_b1_c2: 1@0+1",
            "decode_b1_c2: 1@1+1",
            "decode_b1_c4: 1@2+1",
            "decode_b1_c4: 1@3+1",
            "decode_b1_c2: 2@0+1",
            "decode_b1_c2: 2@1+1",
            "decode_b1_c4: 2@2+1",
        ]
    );
}

#[test]
fn decode_steps_share_calls_of_at_most_the_largest_batch() {
    let mut owner = owner(ladder(&[16, 32], &[1, 2, 4], &[0]));
    for id in 1..=6 {
        owner.push(Some(number(id)), "S", &tokens(if id == 5 { 20 } else { 3 }));
    }
    owner.settle();
    owner.briefs();
    for id in 1..=6 {
        owner.push(Some(number(id)), "", &[1]);
    }
    owner.settle();
    assert_eq!(
        owner.briefs(),
        ["decode_b4_c16: 1@3+1 2@3+1 3@3+1 4@3+1", "decode_b2_c32: 5@20+1 6@3+1"]
    );
}

#[test]
fn prompts_run_before_decode_steps() {
    let mut owner = owner(chat());
    owner.ask(1, "S", &[1]);
    owner.briefs();
    owner.push(Some(number(1)), "", &[2]);
    owner.push(Some(number(2)), "S", &[1, 2, 3]);
    owner.settle();
    assert_eq!(owner.briefs(), ["prefill_b1_c64: 2@0+3", "decode_b1_c64: 1@1+1"]);
}

#[test]
fn a_group_without_an_entry_is_refused_whole() {
    // Batch 2 exists only for the small context.
    let mut shapes = entries(4, &[16], &[1, 2], &[], &[]);
    shapes.extend(entries(4, &[32], &[1], &[], &[]));
    let mut owner = owner(Geometry::new(100, 64, 4, vec![], shapes));
    owner.ask(1, "S", &tokens(17));
    owner.ask(2, "S", &[1]);
    let tickets = [1, 2].map(|id| owner.push(Some(number(id)), "", &[1]));
    owner.settle();
    for ticket in tickets {
        assert_eq!(
            owner.refused(ticket).unwrap(),
            "no decode entry of the artifact covers 2 sequence(s) of 1 token(s) at context 18; \
             export one, or send fewer tokens at once"
        );
    }
    assert_eq!((owner.length_of(1), owner.length_of(2)), (Some(17), Some(1)));
    // Control: alone each fits.
    assert_eq!(owner.told(2, "", &[7]), [1, 7]);
    assert_eq!(owner.told(1, "", &[7]).len(), 18);
}

#[test]
fn rows_name_their_request_and_say_when_it_is_the_last_call() {
    let mut owner = owner(ladder(&[16], &[1], &[2]));
    let ticket = owner.push(Some(number(7)), "S", &[10, 11, 12, 13, 14]);
    owner.settle();
    let row = |at, tokens: &[i32], last| ("7".to_owned(), at, tokens.to_vec(), last);
    assert_eq!(
        owner.calls,
        [
            Ran { entry: "prefill_b1_c16_t2".into(), rows: vec![row(0, &[10, 11], false)] },
            Ran { entry: "prefill_b1_c16_t2".into(), rows: vec![row(2, &[12, 13], false)] },
            Ran { entry: "decode_b1_c16".into(), rows: vec![row(4, &[14], true)] },
        ]
    );
    assert_eq!(owner.replies[&ticket].result, Ok(Some(RowRef { call: 2, row: 0 })));
    assert_eq!(owner.replies[&ticket].tokens, [10, 11, 12, 13, 14]);
}

#[test]
fn pages_are_those_of_the_whole_request_and_before_end_frees_them() {
    // Verification W2's schedule on a full-history model: pages = ceil(length / block size).
    let geometry = ladder(&[16, 32, 64], &[1, 2], &[0]);
    let mut owner = owner(geometry);
    let sizes = [vec![13], vec![1; 11], vec![9], vec![1; 27]].concat();
    let (mut length, count) = (0, sizes.len());
    for (index, size) in sizes.into_iter().enumerate() {
        let flags = match index {
            0 => "S",
            _ if index + 1 == count => "E",
            _ => "",
        };
        length += size;
        let reply = owner.ask(3, flags, &tokens(size));
        assert!(reply.result.is_ok());
        assert_eq!(reply.held.pages, length.div_ceil(4), "at {length}");
    }
    assert_eq!(length, 60);
    assert_eq!(owner.engine.free().pages, owner.engine.total().pages);
}

#[test]
fn the_lowest_free_pages_are_given_first() {
    let mut owner = owner(reference());
    owner.told(1, "S", &[1, 2, 3]);
    owner.told(2, "S", &[4, 5, 6]);
    let pages = |owner: &Owner, id| {
        let mut sequences = owner.engine.sequences();
        sequences.find(|sequence| *sequence.id == number(id)).unwrap().pages.to_vec()
    };
    assert_eq!((pages(&owner, 1), pages(&owner, 2)), (vec![1, 2], vec![3, 4]));
    owner.told(1, "E", &[]);
    owner.told(3, "S", &[7]);
    owner.told(4, "S", &[8, 9, 10]);
    assert_eq!((pages(&owner, 3), pages(&owner, 4)), (vec![1], vec![2, 5]));
}

#[test]
fn times_are_those_of_the_last_execution_and_of_the_batch() {
    let mut owner = owner(ladder(&[16], &[1], &[2]));
    let arrival = owner.now;
    let long = owner.push(Some(number(1)), "S", &[1, 2, 3, 4]);
    owner.now += MS;
    let short = owner.push(Some(number(2)), "S", &[1, 2]);
    let refused = owner.push(Some(number(3)), "", &[1, 2]);
    owner.settle();
    // The prompt wait ends 2 ms after the first arrival; then three calls of 1 ms: 1, 2, 1.
    let start = arrival + 2 * MS;
    let times = |start, compute_start, compute_end| Times { start, compute_start, compute_end };
    let of = |ticket: u64| owner.replies[&ticket].times;
    assert_eq!(of(long), times(arrival, start + 2 * MS, start + 3 * MS));
    assert_eq!(of(short), times(arrival + MS, start + MS, start + 2 * MS));
    assert_eq!(of(refused), times(arrival + MS, start, start));
    let [report] = owner.batches[..] else { panic!("{:?}", owner.batches) };
    let seen: (usize, [Nanos; 3]) =
        (report.requests, [report.start, report.compute_start, report.compute_end]);
    assert_eq!(seen, (3, [start, start, start + 3 * MS]));
}

#[test]
fn a_request_does_not_start_after_its_batch() {
    // Arrivals are stamped by another thread: a stamp may be later than the batch's time.
    let mut owner = owner(chat());
    owner.now += MS;
    let ticket = owner.push(Some(number(1)), "S", &[1]);
    owner.now -= MS;
    let start = owner.now;
    owner.settle();
    assert_eq!(owner.replies[&ticket].times.start, start);
}
