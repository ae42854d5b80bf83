//! What is refused, in which words, and what it leaves (sequence mode §7, §10, §19, §21).

use tlaloc_engine::{Code, Geometry, Refusal};

use crate::support::{BATCHING, Owner, entries, number, reference, settings, text};

fn owner() -> Owner {
    Owner::new(reference(), settings(BATCHING))
}

#[test]
fn a_conversation_of_the_reference_artifact() {
    // Verification Q1 to Q9.
    let mut owner = owner();
    assert_eq!(owner.told(1, "S", &[3]), [3]);
    assert_eq!(owner.told(1, "", &[7]), [3, 7]);
    assert_eq!(owner.told(1, "", &[1]), [3, 7, 1]);
    assert_eq!(owner.told(1, "E", &[9]), [3, 7, 1, 9]);
    assert_eq!(owner.engine.free().pages, 5);

    assert_eq!(owner.told(2, "S", &[3, 7, 1, 9]), [3, 7, 1, 9]);

    let tickets = [(3, 4), (4, 10)].map(|(id, token)| owner.push(Some(number(id)), "S", &[token]));
    owner.settle();
    assert_eq!(owner.calls.last().unwrap().brief(), "decode_b2_c2: 3@0+1 4@0+1");
    assert_eq!(tickets.map(|ticket| owner.answers[&ticket].clone()), [[4], [10]]);

    assert_eq!(
        owner.complaint(5, "S", &[1, 2, 3, 4, 5]),
        "5 token(s) would take sequence 5 from 0 to 5 positions, but the largest context this \
         model was compiled for is 4; the sequence is not started and holds nothing: send at most \
         4 token(s)"
    );
    assert_eq!(
        owner.complaint(6, "S", &[11]),
        "token 0 of the request is 11, outside the vocabulary [0, 11); the sequence is not started \
         and holds nothing"
    );
    assert_eq!(
        owner.complaint(7, "S", &[]),
        "a request without tokens only ends a sequence: sequence 7 got one without END; send \
         tokens, or set END"
    );
    for id in [5, 6, 7] {
        assert_eq!(owner.length_of(id), None);
        assert_eq!(owner.ask(id, "E", &[]).result, Ok(None));
    }

    let calls = owner.calls.len();
    assert_eq!(owner.ask(3, "E", &[]).result, Ok(None));
    assert_eq!(owner.length_of(3), None);
    assert_eq!(owner.calls.len(), calls);
}

#[test]
fn a_step_of_a_sequence_that_is_not_held() {
    let mut owner = owner();
    for (flags, tokens) in [("", &[1][..]), ("", &[1, 2]), ("", &[]), ("E", &[1])] {
        let refusal = owner.ask(8, flags, tokens).result.clone().unwrap_err();
        assert_eq!(refusal.code(), Code::InvalidArgument);
        assert_eq!(
            refusal.to_string(),
            "sequence 8 has no KV state in instance 'model_0_0': it was not started there, or it \
             ended, was idle too long or was freed after an error; start it again with START and \
             all of its tokens"
        );
    }
    // Control: END without tokens of an unknown sequence succeeds.
    assert_eq!(owner.ask(8, "E", &[]).result, Ok(None));
}

#[test]
fn refusals_leave_a_held_sequence_as_it_was() {
    let mut owner = owner();
    owner.told(1, "S", &[3, 7]);
    let before = owner.engine.free().pages;
    for (tokens, needle) in [
        (&[11][..], "outside the vocabulary [0, 11); the sequence is unchanged"),
        (&[1, -1], "token 1 of the request is -1, outside the vocabulary"),
        (&[i32::MIN], "token 0 of the request is -2147483648, outside the vocabulary"),
        (&[], "a request without tokens only ends a sequence"),
        (
            &[1, 2, 3],
            "from 2 to 5 positions, but the largest context this model was compiled for \
                      is 4; the sequence is unchanged: send at most 2 token(s)",
        ),
    ] {
        let text = owner.complaint(1, "", tokens);
        assert!(text.contains(needle), "{text}");
        assert_eq!((owner.length_of(1), owner.engine.free().pages), (Some(2), before));
    }
    assert_eq!(owner.told(1, "", &[1, 9]), [3, 7, 1, 9]);
    // Full: it can end.
    assert!(owner.complaint(1, "", &[1]).contains("send at most 0 token(s)"));
    assert_eq!(owner.ask(1, "E", &[]).result, Ok(None));
}

#[test]
fn a_refused_start_ends_the_earlier_sequence_of_its_id() {
    // Verification L9, and the refusals that admission finds.
    for tokens in [&[1_000_000][..], &[], &[1, 2, 3, 4, 5]] {
        let mut owner = owner();
        owner.told(1, "S", &[3, 7]);
        owner.complaint(1, "S", tokens);
        assert_eq!((owner.length_of(1), owner.engine.free().pages), (None, 5), "{tokens:?}");
        assert!(owner.complaint(1, "", &[1]).contains("has no KV state"));
    }
    // So does one that intake refused for its shape.
    let mut owner = owner();
    owner.told(1, "S", &[3, 7]);
    let ticket = owner.arrive(Some(number(1)), "S", Err(Refusal::Malformed("rank 3".into())));
    owner.settle();
    assert_eq!(owner.refused(ticket).unwrap(), "rank 3");
    assert_eq!(owner.length_of(1), None);
    // Control: without START it does not.
    owner.told(1, "S", &[3, 7]);
    owner.arrive(Some(number(1)), "", Err(Refusal::Malformed("rank 3".into())));
    owner.settle();
    assert_eq!(owner.length_of(1), Some(2));
}

#[test]
fn a_refused_starts_pages_are_free_for_the_rest_of_its_batch() {
    let mut owner = owner();
    owner.told(1, "S", &[1, 2, 3, 4]);
    owner.told(2, "S", &[1, 2, 3, 4]);
    let hungry = owner.push(Some(number(3)), "S", &[5, 6, 7]);
    owner.push(Some(number(1)), "S", &[1000]);
    owner.settle();
    assert_eq!(owner.answers[&hungry], [5, 6, 7]);
    // A good START frees its earlier pages only at its turn.
    owner.told(3, "E", &[]);
    owner.told(1, "S", &[1, 2, 3, 4]);
    let hungry = owner.push(Some(number(3)), "S", &[5, 6, 7]);
    owner.push(Some(number(1)), "S", &[1]);
    owner.settle();
    assert!(owner.refused(hungry).unwrap().contains("KV page pool exhausted"));
}

#[test]
fn starting_again_begins_anew() {
    let mut owner = owner();
    owner.told(1, "S", &[1, 2, 3, 4]);
    assert_eq!(owner.told(1, "S", &[5]), [5]);
    assert_eq!((owner.length_of(1), owner.engine.free().pages), (Some(1), 4));
}

#[test]
fn end_frees_a_sequence_whose_request_is_refused() {
    for (flags, tokens) in [("E", &[11][..]), ("E", &[1; 9]), ("SE", &[11])] {
        let mut owner = owner();
        owner.told(1, "S", &[3, 7]);
        owner.complaint(1, flags, tokens);
        assert_eq!((owner.length_of(1), owner.engine.free().pages), (None, 5));
    }
    let mut owner = owner();
    owner.told(1, "S", &[3, 7]);
    assert!(owner.complaint(1, "E", &[11]).ends_with("[0, 11); the sequence is ended"));
}

#[test]
fn start_and_end_in_one_request() {
    let mut owner = owner();
    assert_eq!(owner.told(1, "SE", &[3, 7]), [3, 7]);
    assert_eq!(owner.ask(1, "SE", &[]).result, Ok(None));
    assert_eq!((owner.length_of(1), owner.engine.free().pages), (None, 5));
}

#[test]
fn numbers_and_texts_are_different_ids() {
    let mut owner = owner();
    owner.told(7, "S", &[1, 2]);
    let other = owner.push(Some(text("7")), "S", &[3]);
    owner.settle();
    assert_eq!(owner.answers[&other], [3]);
    assert_eq!(owner.told(7, "", &[4]), [1, 2, 4]);
    let ended = owner.push(Some(text("7")), "E", &[]);
    owner.settle();
    assert_eq!(owner.refused(ended), None);
    assert_eq!(owner.length_of(7), Some(3));
    let unknown = owner.push(Some(text("a \"b\"\n")), "", &[4]);
    owner.settle();
    let complaint = owner.refused(unknown).unwrap();
    assert!(complaint.starts_with(r#"sequence "a \"b\"\n" has no KV state"#), "{complaint}");
}

#[test]
fn a_request_without_a_sequence_is_refused_by_name() {
    let mut owner = owner();
    for (flags, tokens) in [("S", &[1][..]), ("", &[1]), ("E", &[]), ("", &[])] {
        let ticket = owner.push(None, flags, tokens);
        owner.settle();
        let refusal = owner.replies[&ticket].result.as_ref().unwrap_err();
        assert_eq!(refusal.code(), Code::InvalidArgument);
        assert!(refusal.to_string().starts_with("the request has no correlation id"));
    }
    // What intake found comes first.
    let ticket = owner.push(None, "S", &[11]);
    owner.settle();
    assert!(owner.refused(ticket).unwrap().contains("outside the vocabulary"));
}

#[test]
fn placeholders_are_refused_by_their_key() {
    // Verification W10 to W12.
    let refused = vec![(63, "video_token_id".to_owned()), (62, "image_token_id".to_owned())];
    let shapes = entries(4, &[16, 32, 64], &[1, 2], &[1, 2], &[0]);
    let mut owner = Owner::new(Geometry::new(64, 65, 4, refused, shapes), settings(BATCHING));
    let text = owner.complaint(1, "S", &[5, 62]);
    assert!(text.contains("token 1 of the request is 62, the model's image_token_id placeholder"));
    assert!(text.contains("holds nothing"));
    assert_eq!(owner.told(1, "S", &[5, 61]), [5, 61]);
    let text = owner.complaint(1, "", &[63]);
    assert!(text.contains("token 0 of the request is 63, the model's video_token_id placeholder"));
    assert!(text.contains("unchanged"));
    assert_eq!(owner.told(1, "", &[6]), [5, 61, 6]);
    // The first offence decides.
    assert!(owner.complaint(1, "", &[1, 64, 62]).contains("token 1 of the request is 64"));
    assert!(owner.complaint(1, "", &[1, 62, 64]).contains("token 1 of the request is 62"));
}

#[test]
fn a_million_tokens_are_refused_at_the_cost_of_looking_at_them() {
    let mut owner = owner();
    let tokens = vec![3; 1_000_000];
    let ticket = owner.push(Some(number(1)), "S", &tokens);
    owner.settle();
    let text = owner.refused(ticket).unwrap();
    assert!(text.contains("1000000 token(s) would take sequence 1 from 0 to 1000000 positions"));
    assert_eq!(owner.calls.len(), 0);
    assert_eq!(owner.engine.free().pages, 5);
}
