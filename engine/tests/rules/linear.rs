//! State slots of linear attention (artifact format §9, sequence mode §10).

use tlaloc_engine::{Amounts, Code, Event, Geometry};

use crate::support::{
    BATCHING, MS, Owner, copy_failed, entries, failed, number, settings, took_the_pools,
};

/// Three state slots, pages enough for many more sequences.
fn owner() -> Owner {
    let shapes = entries(4, &[16], &[1, 2, 4], &[1, 2], &[0, 3]);
    let geometry = Geometry::new(64, 65, 4, vec![], shapes).with_state_slots(3);
    Owner::new(geometry, settings(BATCHING))
}

fn slot(owner: &Owner, id: u64) -> Vec<usize> {
    let mut sequences = owner.engine.sequences();
    sequences.find(|sequence| *sequence.id == number(id)).unwrap().state_slots.to_vec()
}

#[test]
fn a_sequence_takes_the_lowest_slot_at_start_and_keeps_it() {
    let mut owner = owner();
    for id in 1..=3 {
        let reply = owner.ask(id, "S", &[1, 2]);
        assert_eq!(reply.held, Amounts { pages: 1, ring_pages: 0, state_slots: 1 });
    }
    assert_eq!([1, 2, 3].map(|id| slot(&owner, id)), [[0], [1], [2]]);
    assert_eq!(owner.engine.free(), Amounts { pages: 61, ring_pages: 0, state_slots: 0 });
    assert_eq!(owner.told(2, "", &[3; 9]).len(), 11);
    assert_eq!(slot(&owner, 2), [1]);
    owner.told(2, "E", &[]);
    owner.told(1, "E", &[]);
    // What the slot holds of its last owner is left there: position 0 starts from nothing.
    assert_eq!(owner.told(4, "S", &[5]), [5]);
    assert_eq!(slot(&owner, 4), [0]);
    assert_eq!(owner.told(5, "S", &[6; 7]), [6; 7]);
    assert_eq!(slot(&owner, 5), [1]);
    // Starting again may well be in the same slot.
    assert_eq!(owner.told(4, "S", &[8]), [8]);
    assert_eq!(slot(&owner, 4), [0]);
}

#[test]
fn slots_run_out_by_name() {
    let mut owner = owner();
    for id in 1..=3 {
        owner.told(id, "S", &[1, 2]);
    }
    owner.now += 30 * MS;
    let refusal = owner.ask(4, "S", &[1]).result.clone().unwrap_err();
    assert_eq!(refusal.code(), Code::Unavailable);
    assert_eq!(
        refusal.to_string(),
        "linear-attention state slots exhausted: sequence 4 needs 1 more state slot(s) to go from \
         0 to 1 tokens, and 0 of 3 state slots are free; 3 other sequence(s) hold state slots: 1 \
         (1 state slots, 2 tokens, idle 36 ms), 2 (1 state slots, 2 tokens, idle 33 ms), 3 (1 \
         state slots, 2 tokens, idle 30 ms); a sequence idle for more than 2001 ms is reclaimed \
         when state slots are short, a live one is not preempted; sequence 4 is refused at START \
         and holds nothing: send it again when state slots are free; to hold more, export the \
         artifact with more state slots (numSlots)"
    );
    assert_eq!(owner.length_of(4), None);
    assert_eq!(owner.told(1, "", &[3]), [1, 2, 3]);
    owner.told(3, "E", &[]);
    assert_eq!(owner.told(4, "S", &[1]), [1]);
}

#[test]
fn pages_are_told_of_before_slots() {
    let shapes = entries(4, &[16], &[1], &[1], &[0]);
    let geometry = Geometry::new(64, 2, 4, vec![], shapes).with_state_slots(1);
    let mut owner = Owner::new(geometry, settings(BATCHING));
    owner.told(1, "S", &[1]);
    assert!(owner.complaint(2, "S", &[1]).starts_with("KV page pool exhausted"));
}

#[test]
fn idle_sequences_give_their_slots_way() {
    let mut owner = owner();
    for id in 1..=3 {
        owner.told(id, "S", &[1, 2]);
        owner.now += 10 * MS;
    }
    owner.told(1, "", &[3]);
    owner.now += 3_000 * MS;
    owner.events.clear();
    owner.told(4, "S", &[1]);
    let reclaimed = |event: &&Event| matches!(event, Event::Reclaimed { .. });
    let event = owner.events.iter().find(reclaimed).unwrap().to_string();
    assert!(event.ends_with("for sequence 4: 1 page(s), 1 state slot(s)"), "{event}");
    assert_eq!(owner.reclaimed(), ["2"]);
    assert_eq!(slot(&owner, 4), [1]);
}

#[test]
fn tokens_that_a_state_has_taken_in_cannot_be_sent_again() {
    let mut owner = owner();
    owner.told(1, "S", &[1, 2]);
    owner.told(2, "S", &[3, 4]);
    owner.outcomes.push_back(copy_failed("boom"));
    assert_eq!(
        owner.complaint(1, "", &[5]),
        "decode_b1_c16 ran, but its results could not be copied to the host: boom; the sequence's \
         linear-attention state has taken these tokens in and cannot go back, so the sequence is \
         freed: start it again"
    );
    let ticket = *owner.order.last().unwrap();
    assert_eq!(owner.replies[&ticket].result.as_ref().unwrap_err().code(), Code::Internal);
    assert_eq!(owner.length_of(1), None);
    // The others are as they were.
    assert_eq!(owner.told(2, "", &[5]), [3, 4, 5]);
    assert_eq!(owner.told(1, "S", &[1, 2]), [1, 2]);
    // Control: an execution that did not run took nothing in.
    owner.outcomes.push_back(failed("boom"));
    owner.complaint(1, "", &[5]);
    assert_eq!(owner.told(1, "", &[5]), [1, 2, 5]);
}

#[test]
fn lost_pools_free_every_slot() {
    let mut owner = owner();
    for id in 1..=3 {
        owner.told(id, "S", &[1, 2]);
    }
    owner.outcomes.push_back(took_the_pools("boom"));
    owner.complaint(1, "", &[3]);
    assert_eq!(owner.engine.free(), owner.engine.total());
    assert_eq!(owner.told(9, "S", &[1, 2]), [1, 2]);
    assert_eq!(slot(&owner, 9), [0]);
}

#[test]
fn an_empty_start_and_end_takes_a_slot_and_gives_it_back() {
    let mut owner = owner();
    assert_eq!(owner.ask(1, "SE", &[]).result, Ok(None));
    assert_eq!(owner.engine.free(), owner.engine.total());
}
