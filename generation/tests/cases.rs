//! Every key of a request with values inside, at the border of and outside its range, and of another
//! type; and the documents that the tables are written to.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::{HashMap, HashSet};

use serde_json::Value as Json;
use tlaloc_generation::options::{
    Case, Class, DataType, GenerationRequest, Given, ModelFacts, Sent, Source, TABLE, Value, cases,
    cases_json, reply_markdown, request_markdown,
};

const MODEL: ModelFacts = ModelFacts {
    vocab_size: 49152,
    max_context: 128,
    has_tokenizer: true,
    has_chat_template: true,
    greedy_only: false,
};

fn given(sent: &Sent) -> Given {
    let integer =
        |json: &Json| json.as_i64().map(i128::from).or(json.as_u64().map(i128::from)).unwrap();
    let number = |json: &Json| match json {
        Json::String(text) => text.parse().unwrap(),
        json => json.as_f64().unwrap(),
    };
    let elements = sent.elements.iter();
    let value = match sent.data_type {
        DataType::Bool => Value::Flags(elements.map(|json| json.as_bool().unwrap()).collect()),
        DataType::Fp32 => Value::Numbers(elements.map(number).collect()),
        DataType::String => {
            Value::Strings(elements.map(|json| json.as_str().unwrap().into()).collect())
        }
        DataType::Fp16 => Value::Other { data_type: "FP16".to_owned(), count: elements.len() },
        _ => Value::Integers(elements.map(integer).collect()),
    };
    Given::new(sent.source, sent.name, value)
}

/// Whether the request of a case is taken, up to its place in the context; the refusal, if not.
fn taken(case: &Case, model: &ModelFacts) -> Result<(), String> {
    let given: Vec<_> = case.sent.iter().map(given).collect();
    let request = GenerationRequest::read(&given, model).map_err(|error| error.to_string())?;
    let room = request.options.max_tokens_after(1, model);
    room.map(|_| ()).map_err(|error| error.to_string())
}

/// What is wrong with how a case was met.
fn flaw(case: &Case, model: &ModelFacts) -> Option<String> {
    let sent = &case.sent[0];
    match (case.accepted, taken(case, model)) {
        (true, Ok(())) => None,
        (true, Err(refusal)) => Some(format!("{sent:?} was refused: {refusal}")),
        (false, Ok(())) => Some(format!("{sent:?} was taken")),
        (false, Err(refusal)) if refusal.contains(&format!("'{}'", sent.name)) => None,
        (false, Err(refusal)) => Some(format!("{sent:?} was refused without its name: {refusal}")),
    }
}

#[test]
fn every_case_is_met() {
    let flaws: Vec<_> = cases(&MODEL).iter().filter_map(|case| flaw(case, &MODEL)).collect();
    assert!(flaws.is_empty(), "{}", flaws.join("\n"));
}

/// The control: a model with other limits does not meet the cases of this one, in both directions.
#[test]
fn cases_of_another_model_are_not_met() {
    let flaws = |model: &ModelFacts| -> Vec<String> {
        cases(&MODEL).iter().filter_map(|case| flaw(case, model)).collect()
    };
    let larger = flaws(&ModelFacts { vocab_size: 49153, max_context: 129, ..MODEL }).join("\n");
    let smaller = flaws(&ModelFacts { vocab_size: 49151, max_context: 127, ..MODEL }).join("\n");
    for key in ["input_ids", "stop_token_ids", "end_id", "logit_bias", "max_tokens"] {
        let named = format!("name: \"{key}\"");
        assert!(
            larger.lines().any(|line| line.contains(&named) && line.ends_with("taken")),
            "{key}"
        );
        assert!(smaller.lines().any(|l| l.contains(&named) && l.contains("was refused:")), "{key}");
    }
}

/// Every name is tried, and every key in every way that it has.
#[test]
fn no_key_is_left_out() {
    let cases = cases(&MODEL);
    let names: HashSet<_> = cases.iter().map(|case| case.sent[0].name).collect();
    let mut classes: HashMap<_, HashSet<_>> = HashMap::new();
    let mut parameters = HashSet::new();
    for case in &cases {
        classes.entry(case.key).or_default().insert(case.class);
        if case.sent[0].source == Source::Parameter {
            parameters.insert(case.key);
        }
    }
    for key in TABLE {
        assert!(key.names().all(|name| names.contains(name)), "{}", key.name);
        let found = &classes[key.name];
        let never = key.is_refused() && key.range(None) == "absent";
        let expected = [Class::OutOfRange, Class::WrongType].into_iter();
        let inside = [Class::Valid, Class::Border].into_iter().filter(|_| !never);
        assert!(expected.chain(inside).all(|class| found.contains(&class)), "{}", key.name);
        assert_eq!(
            parameters.contains(key.name),
            key.place.allows(Source::Parameter),
            "{}",
            key.name
        );
    }
}

/// What the end-to-end tests send is what the table gives.
#[test]
fn the_fixture_holds_these_cases() {
    let fixture = std::fs::read_to_string("../tests/fixtures/generation/cases.json").unwrap();
    assert!(
        fixture == cases_json(&MODEL),
        "tests/fixtures/generation/cases.json is old: see generation/examples/request_cases.rs"
    );
}

#[test]
fn the_docs_hold_the_tables() {
    let docs = std::fs::read_to_string("../docs/generation.md").unwrap();
    for table in [request_markdown(), reply_markdown()] {
        assert!(docs.contains(&table), "docs/generation.md should hold:\n{table}");
    }
}
