//! Chat templates, against what Jinja2 made of them (scripts/producers/text.py).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use tlaloc_generation::template::{ChatTemplate, Messages, MessagesError, TemplateError};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/text")
}

fn template(source: &str) -> Result<ChatTemplate, TemplateError> {
    ChatTemplate::compile(source.to_owned(), BTreeMap::new(), Path::new("a.jinja"))
}

fn rendered(source: &str, messages: &Value) -> Result<String, TemplateError> {
    let messages = Messages::parse(&messages.to_string()).unwrap();
    template(source)?.render(&messages, true, SystemTime::UNIX_EPOCH)
}

fn hello() -> Value {
    json!([{"role": "user", "content": "Hello"}])
}

/// The template of a fixture, if its checkpoint is there.
fn template_of(case: &Value) -> Option<ChatTemplate> {
    let name = case["name"].as_str().unwrap();
    if name == "smollm2" {
        let Some(folder) = std::env::var_os("TLALOC_SMOLLM2") else {
            eprintln!("skipped: TLALOC_SMOLLM2 is not set");
            return None;
        };
        return ChatTemplate::load(Path::new(&folder)).unwrap();
    }
    let path = fixtures().join("templates").join(name).with_extension("jinja");
    let tokens = serde_json::from_value(case["special_tokens"].clone()).unwrap();
    Some(ChatTemplate::compile(fs::read_to_string(&path).unwrap(), tokens, &path).unwrap())
}

#[test]
fn templates_render_as_transformers_renders_them() {
    let fixture = fs::read_to_string(fixtures().join("rendered.json")).unwrap();
    let fixture: Value = serde_json::from_str(&fixture).unwrap();
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(fixture["now"].as_u64().unwrap());
    let (mut texts, mut refusals) = (0, 0);
    for of_template in fixture["templates"].as_array().unwrap() {
        let Some(template) = template_of(of_template) else { continue };
        for case in of_template["cases"].as_array().unwrap() {
            let messages = Messages::parse(case["messages"].as_str().unwrap()).unwrap();
            let prompt = case["add_generation_prompt"].as_bool().unwrap();
            let found = template.render(&messages, prompt, now);
            match (found, case["text"].as_str(), case["raised"].as_str()) {
                (Ok(found), Some(text), _) => {
                    assert_eq!(found, text, "{}", of_template["name"]);
                    texts += 1;
                }
                (Err(TemplateError::Refused { message, .. }), None, Some(raised)) => {
                    assert_eq!(message, raised);
                    refusals += 1;
                }
                (Err(TemplateError::Failed { .. }), None, None) => refusals += 1,
                (found, ..) => panic!("{found:?} for {case}"),
            }
        }
    }
    assert!(texts >= 20 && refusals >= 6, "{texts} texts, {refusals} refusals");
}

#[test]
fn the_order_of_keys_is_kept_for_the_template() {
    let messages = r#"[{"role": "user", "content": "", "z": 1, "a": {"y": 2, "b": 3}}]"#;
    let messages = Messages::parse(messages).unwrap();
    let template = template("{{ messages[0] | tojson }}{{ messages[0] | tojson(sort_keys=true) }}");
    let text = template.unwrap().render(&messages, true, SystemTime::UNIX_EPOCH).unwrap();
    assert_eq!(
        text,
        r#"{"role": "user", "content": "", "z": 1, "a": {"y": 2, "b": 3}}"#.to_owned()
            + r#"{"a": {"b": 3, "y": 2}, "content": "", "role": "user", "z": 1}"#
    );
}

#[test]
fn parts_of_text_become_one_text() {
    let parts = json!([{"role": "user", "name": "n", "content": [
        {"type": "text", "text": "a"}, {"type": "text", "text": "b"},
    ]}]);
    let source = "{{ messages[0].content }}|{{ messages[0].role }}|{{ messages[0].name }}";
    assert_eq!(rendered(source, &parts).unwrap(), "a\nb|user|n");
}

#[test]
fn messages_are_refused_by_place() {
    let image = json!([{"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}]);
    let long = "x".repeat(500);
    for (messages, named) in [
        (json!([]), "an empty list"),
        (json!({"role": "user", "content": ""}), "no JSON list"),
        (json!("hello"), "no JSON list"),
        (json!([1]), "message 0, whose JSON is 1, not"),
        (json!([{"role": "user", "content": ""}, "b"]), "message 1, whose JSON is \"b\","),
        (json!([{"content": "a"}]), "message 0, whose role is missing"),
        (json!([{"role": "", "content": "a"}]), "message 0, whose role is \"\""),
        (json!([{"role": 3, "content": "a"}]), "message 0, whose role is 3"),
        (json!([{"role": "user"}]), "message 0, whose content is missing"),
        (json!([{"role": "user", "content": null}]), "message 0, whose content is null"),
        (json!([{"role": "user", "content": 5}]), "message 0, whose content is 5"),
        (image, "message 0, whose content has a part whose type is \"image_url\""),
        (
            json!([{"role": "user", "content": [{"type": "text"}]}]),
            "message 0, whose content has a part whose text is missing",
        ),
        (json!([{"role": "user", "content": {"long": long}}]), "x…"),
    ] {
        let error = Messages::parse(&messages.to_string()).unwrap_err();
        assert!(error.to_string().contains(named), "{error}");
        assert!(error.to_string().len() < 300, "{error}");
    }
    let deep = "[".repeat(100_000);
    let error = Messages::parse(&deep).unwrap_err();
    assert!(matches!(error, MessagesError::NotJson { .. }), "{error}");
}

#[test]
fn a_refusal_by_the_template_tells_its_words_and_the_roles() {
    let source = "{{ raise_exception('Only ' ~ 2 ~ ' roles') }}";
    let error = rendered(source, &json!([{"role": "narrator", "content": ""}])).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the model's chat template refuses these messages (roles: narrator): Only 2 roles"
    );
}

#[test]
fn a_template_that_does_not_end_is_ended() {
    let nested = "{% for a in range(10000) %}{% for b in range(10000) %}{% for c in range(10000) %}\
                  {% endfor %}{% endfor %}{% endfor %}";
    let grows = "{% set ns = namespace(x='x') %}{% for i in range(100) %}\
                 {% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x }}";
    for source in [nested, grows, "{{ 'x' * 100000000000 }}"] {
        let error = rendered(source, &hello()).unwrap_err();
        assert!(matches!(error, TemplateError::TooMuchWork { .. }), "{error}");
    }
    let endless = "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}";
    assert!(rendered(endless, &hello()).is_err());
}

#[test]
fn a_long_conversation_is_not_too_much_work() {
    let content = "x".repeat(400);
    let turns = [
        json!({"role": "user", "content": content}),
        json!({"role": "assistant", "content": content}),
    ];
    let messages: Value = turns.iter().cycle().take(2000).cloned().collect();
    let source = fs::read_to_string(fixtures().join("templates/chatml.jinja")).unwrap();
    assert!(rendered(&source, &messages).unwrap().len() > 800_000);
}

#[test]
fn what_is_no_template_is_refused_by_name() {
    let error = template("a\n{% for %}").unwrap_err();
    assert!(matches!(error, TemplateError::Syntax { line: 2, .. }), "{error}");
    assert!(error.to_string().contains("a.jinja"), "{error}");
    for source in ["{{ messages[0] | nothing }}", "{{ nothing() }}", "{{ 1 + 'a' }}"] {
        let error = rendered(source, &hello()).unwrap_err();
        assert!(matches!(error, TemplateError::Failed { .. }), "{error}");
    }
    let error = rendered("{{ strftime_now('%') }}", &hello()).unwrap_err();
    assert!(error.to_string().contains("strftime_now"), "{error}");
}

#[test]
fn a_template_is_found_in_either_place() {
    let folder = tempfile::tempdir().unwrap();
    let load = || ChatTemplate::load(folder.path());
    let text = || {
        let messages = Messages::parse(&hello().to_string()).unwrap();
        load().unwrap().unwrap().render(&messages, true, SystemTime::UNIX_EPOCH).unwrap()
    };
    let config = |value: Value| {
        fs::write(folder.path().join("tokenizer_config.json"), value.to_string()).unwrap();
    };
    assert!(load().unwrap().is_none());
    config(json!({"bos_token": "<s>"}));
    assert!(load().unwrap().is_none());
    config(json!({"chat_template": "{{ bos_token }}one", "bos_token": {"content": "<s>"}}));
    assert_eq!(text(), "<s>one");
    let named = |name| json!({"name": name, "template": name});
    config(json!({"chat_template": [named("tools"), named("default")]}));
    assert_eq!(text(), "default");
    for wrong in [json!({"chat_template": [named("tools")]}), json!({"chat_template": 3})] {
        config(wrong);
        assert!(matches!(load().unwrap_err(), TemplateError::Invalid { .. }));
    }
    config(json!({"chat_template": "one", "bos_token": "<s>"}));
    fs::write(folder.path().join("chat_template.jinja"), "{{ bos_token }}two\n").unwrap();
    assert_eq!(text(), "<s>two");
    fs::write(folder.path().join("tokenizer_config.json"), "{").unwrap();
    assert!(load().unwrap_err().to_string().contains("tokenizer_config.json"));
}
