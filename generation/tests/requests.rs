//! Requests through the one table: what is taken, and what is refused in which words.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use serde_json::{Value as Json, json};
use tlaloc_generation::options::{
    EndId, Error, GenerationOptions, GenerationRequest, Given, ModelFacts, Prompt, Reply, Source,
    TABLE, Value,
};
use tlaloc_generation::sampler::Sampling;

const MODEL: ModelFacts = ModelFacts {
    vocab_size: 100,
    max_context: 64,
    has_tokenizer: true,
    has_chat_template: true,
    greedy_only: false,
};

fn tensor(key: &str, value: Value) -> Given {
    Given::new(Source::Tensor, key, value)
}

fn prompt() -> Given {
    tensor("text_input", Value::text("hi"))
}

/// The request of a prompt and these.
fn read(given: &[Given]) -> Result<GenerationRequest, Error> {
    GenerationRequest::read(&[&[prompt()], given].concat(), &MODEL)
}

/// The request of a prompt and these keys in `sampling_parameters`.
fn sampling(json: &Json) -> Result<GenerationRequest, Error> {
    read(&[tensor("sampling_parameters", Value::text(json.to_string()))])
}

fn refusal(given: &[Given]) -> String {
    read(given).unwrap_err().to_string()
}

#[test]
fn a_prompt_alone_has_the_defaults() {
    let request = read(&[]).unwrap();
    assert_eq!(request.prompt, Prompt::Text("hi".to_owned()));
    assert_eq!(request.options, GenerationOptions::default());
    let wanted: Vec<_> = request.wants.iter().map(Reply::name).collect();
    assert_eq!(
        wanted,
        [
            "text_output",
            "output_ids",
            "finish_reason",
            "stop_reason",
            "num_input_tokens",
            "num_output_tokens"
        ]
    );
}

/// A default in the table, sent, changes nothing.
#[test]
fn defaults_are_those_of_the_table() {
    for key in TABLE.iter().filter(|key| !key.default.is_empty() && !key.is_refused()) {
        let json: Json = serde_json::from_str(key.default).unwrap();
        let value = match (key.name, Value::from_json(&json).unwrap()) {
            ("sampling_parameters" | "logit_bias", value) => Value::text(value.to_string()),
            (_, value) => value,
        };
        let mut options = read(&[tensor(key.name, value)]).unwrap().options;
        if key.name == "max_tokens" {
            assert_eq!(options.max_tokens.take(), Some(16));
        }
        assert_eq!(options, GenerationOptions::default(), "{}", key.name);
    }
    assert_eq!(read(&[]).unwrap().options.max_tokens_after(1, &MODEL), Ok(16));
}

/// What the front end for OpenAI's API sends in TensorRT-LLM's dialect.
#[test]
fn tensors_of_tensorrt_llm() {
    let request = read(&[
        tensor("stream", Value::Flags(vec![true])),
        tensor("max_tokens", Value::Integers(vec![20])),
        tensor("stop_words", Value::Strings(vec![b"a".to_vec(), b"b".to_vec()])),
        tensor("top_p", Value::Numbers(vec![0.5])),
        tensor("frequency_penalty", Value::Numbers(vec![-1.5])),
        tensor("presence_penalty", Value::Numbers(vec![2.0])),
        tensor("seed", Value::Integers(vec![u64::MAX.into()])),
        tensor("temperature", Value::Numbers(vec![0.25])),
        tensor("return_num_input_tokens", Value::Flags(vec![true])),
    ]);
    let expected = GenerationOptions {
        stream: true,
        max_tokens: Some(20),
        stop: vec!["a".to_owned(), "b".to_owned()],
        top_p: 0.5,
        frequency_penalty: -1.5,
        presence_penalty: 2.0,
        seed: Some(u64::MAX),
        temperature: 0.25,
        ..GenerationOptions::default()
    };
    assert_eq!(request.unwrap().options, expected);
}

/// The request that TensorRT-LLM's own documentation sends with curl.
#[test]
fn empty_words_stand_for_none() {
    let request = read(&[
        tensor("max_tokens", Value::Integers(vec![20])),
        tensor("bad_words", Value::text("")),
        tensor("stop_words", Value::text("")),
        tensor("pad_id", Value::Integers(vec![2])),
        tensor("end_id", Value::Integers(vec![2])),
    ]);
    let expected = GenerationOptions {
        max_tokens: Some(20),
        end_id: EndId::Only(2),
        ..GenerationOptions::default()
    };
    assert_eq!(request.unwrap().options, expected);
}

/// What the front end for OpenAI's API sends in vLLM's dialect, with every option set.
#[test]
fn sampling_parameters_of_vllm() {
    let request = sampling(&json!({
        "frequency_penalty": 0.0, "presence_penalty": 0, "logit_bias": {"7": -100, "03": 1.5},
        "logprobs": true, "top_logprobs": 3, "n": 1, "best_of": 1.0, "seed": 5, "stop": ["x", "yy"],
        "temperature": 0.5, "top_p": 1.0, "max_tokens": 9, "min_tokens": 2, "ignore_eos": true,
        "stop_token_ids": [4, 5], "allowed_token_ids": [1, 99], "top_k": -1, "min_p": 0.25,
        "include_stop_str_in_output": true, "bad_words": "z", "skip_special_tokens": false,
        "prompt_logprobs": null, "detokenize": true,
    }));
    let request = request.unwrap();
    let expected = GenerationOptions {
        logit_bias: vec![(3, 1.5), (7, -100.0)],
        logprobs: Some(3),
        seed: Some(5),
        stop: vec!["x".to_owned(), "yy".to_owned()],
        temperature: 0.5,
        max_tokens: Some(9),
        min_tokens: 2,
        end_id: EndId::None,
        stop_token_ids: vec![4, 5],
        allowed_token_ids: Some(vec![1, 99]),
        min_p: 0.25,
        include_stop_str_in_output: true,
        bad_words: vec!["z".to_owned()],
        skip_special_tokens: false,
        ..GenerationOptions::default()
    };
    assert_eq!(request.options, expected);
    assert!(request.wants.has(Reply::Logprobs));
}

#[test]
fn log_probabilities_are_as_asked() {
    let flag = |key, flag| tensor(key, Value::Flags(vec![flag]));
    for (given, count, sent) in [
        (vec![flag("logprobs", false)], None, vec![]),
        (vec![tensor("logprobs", Value::Integers(vec![0]))], Some(0), vec!["logprobs"]),
        (vec![tensor("logprobs", Value::Integers(vec![20]))], Some(20), vec!["logprobs"]),
        (vec![flag("return_logprobs", true)], Some(0), vec!["logprobs"]),
        (vec![flag("return_logprobs", false)], None, vec![]),
        (vec![flag("return_cumulative_logprob", true)], Some(0), vec!["cumulative_logprob"]),
        (vec![flag("return_log_probs", true)], Some(0), vec!["cum_log_probs", "output_log_probs"]),
    ] {
        let request = read(&given).unwrap();
        assert_eq!(request.options.logprobs, count, "{given:?}");
        let names = request.wants.iter().map(Reply::name);
        let names: Vec<_> = names.filter(|name| name.contains("log")).collect();
        assert_eq!(names, sent, "{given:?}");
    }
}

/// Values that another type holds exactly are as good; others are not.
#[test]
fn numbers_of_any_type_are_taken_where_exact() {
    let tokens = |value| read(&[tensor("max_tokens", value)]).map(|r| r.options.max_tokens);
    assert_eq!(tokens(Value::Numbers(vec![16.0])), Ok(Some(16)));
    assert!(tokens(Value::Numbers(vec![16.5])).is_err());
    assert!(tokens(Value::Numbers(vec![f64::NAN])).is_err());
    assert!(tokens(Value::Numbers(vec![f64::INFINITY])).is_err());
    assert!(tokens(Value::Numbers(vec![1e300])).is_err());
    let temperature = |value| read(&[tensor("temperature", value)]).map(|r| r.options.temperature);
    assert_eq!(temperature(Value::Integers(vec![2])), Ok(2.0));
    for number in [f64::NAN, f64::INFINITY, 1e300, -0.5] {
        assert!(temperature(Value::Numbers(vec![number])).is_err(), "{number}");
    }
}

/// Optional tensors without elements, which some clients send, count as absent.
#[test]
fn tensorrtllm_backend_249_empty_tensors_are_absent() {
    for key in TABLE {
        if key.name == "text_input" {
            continue;
        }
        for value in [
            Value::Integers(vec![]),
            Value::Strings(vec![]),
            Value::Other { data_type: "FP16".to_owned(), count: 0 },
        ] {
            assert_eq!(read(&[tensor(key.name, value)]), read(&[]), "{}", key.name);
        }
    }
    let error = GenerationRequest::read(&[tensor("input_ids", Value::Integers(vec![]))], &MODEL);
    assert!(matches!(error, Err(Error::NoPrompt { .. })));
}

#[test]
fn refusals_name_key_value_range_and_remedy() {
    let parameter = |key: &str, value| Given::new(Source::Parameter, key, value);
    let integer = |n| Value::Integers(vec![n]);
    for (given, words) in [
        (
            tensor("temprature", integer(1)),
            "input 'temprature' is not known; did you mean 'temperature'?",
        ),
        (parameter("zzz", integer(1)), "request parameter 'zzz' is not known; leave it out"),
        (
            tensor("top_k", integer(-2)),
            "input 'top_k' must be a whole number from -1 to 2147483647, got -2",
        ),
        (
            tensor("top_p", Value::Numbers(vec![0.0])),
            "input 'top_p' must be a number above 0, at most 1, got 0",
        ),
        (
            tensor("max_tokens", integer(65)),
            "input 'max_tokens' must be a whole number from 1 to 64, got 65",
        ),
        (
            parameter("max_tokens", Value::text("5")),
            "request parameter 'max_tokens' must be a whole number from 1 to 64, got the string \
             \"5\"",
        ),
        (
            tensor("stop_token_ids", Value::Integers(vec![5, 100])),
            "input 'stop_token_ids' must be token ids from 0 to 99, got 100 at 1",
        ),
        (
            tensor("max_tokens", Value::Integers(vec![5, 6])),
            "input 'max_tokens' must be a whole number from 1 to 64, got 2 whole numbers: [5, 6]",
        ),
        (
            tensor("stop", Value::Flags(vec![true])),
            "input 'stop' must be up to 64 strings of up to 1024 bytes each, got the flag true",
        ),
        (
            tensor("logit_bias", Value::text("{\"5\": 101}")),
            "input 'logit_bias' must be a JSON object from token ids (0 to 99) to numbers from \
             -100 to 100, got \"5\": 101",
        ),
        (tensor("logit_bias", Value::text("{\"5\": 1, \"05\": 2}")), "got token 5 twice"),
        (
            tensor("n", integer(2)),
            "input 'n' = 2 is not supported: a request generates one sequence; send several \
             requests; leave it out or send 1",
        ),
        (
            tensor("lora_task_id", integer(0)),
            "input 'lora_task_id' = 0 is not supported: adapters are not applied; merge the adapter \
             into the checkpoint before the export; leave it out",
        ),
        (
            parameter("text_input", Value::text("x")),
            "'text_input' cannot be a request parameter; send it as input",
        ),
        (
            tensor("sampling_parameters", Value::text("{\"stream\": true}")),
            "'stream' cannot be a sampling_parameters key; send it as input, parameter",
        ),
        (
            tensor("sampling_parameters", Value::text("{\"max_token\": null}")),
            "sampling_parameters key 'max_token' is not known; did you mean 'max_tokens'?",
        ),
        (
            tensor("sampling_parameters", Value::text("{\"a\"")),
            "input 'sampling_parameters' must be a JSON object, got \"{\\\"a\\\"\", which is not JSON",
        ),
        (
            tensor("stop", Value::Strings(vec![vec![b'a', 0xff]])),
            "got bytes that are not UTF-8 from byte 1",
        ),
    ] {
        let message = refusal(std::slice::from_ref(&given));
        assert!(message.contains(words), "{given:?}\n{message}\n{words}");
    }
}

#[test]
fn the_same_key_twice_must_mean_the_same() {
    let json = |text: &str| tensor("sampling_parameters", Value::text(text));
    let number = |n| tensor("temperature", Value::Numbers(vec![n]));
    let as_f32 = number(f64::from(0.7f32));
    assert_eq!(read(&[as_f32.clone(), json("{\"temperature\": 0.7}")]), read(&[as_f32]));
    let message = refusal(&[number(0.5), json("{\"temperature\": 0.7}")]);
    assert_eq!(
        message,
        "input 'temperature' = 0.5 and sampling_parameters key 'temperature' = 0.7 set the same \
         option to different values; send one of them"
    );
    let message = refusal(&[
        tensor("max_tokens", Value::Integers(vec![5])),
        tensor("request_output_len", Value::Integers(vec![6])),
    ]);
    assert!(message.contains("'max_tokens' = 5 and input 'request_output_len' = 6"), "{message}");
    // Setting the default again is a difference too.
    assert!(read(&[number(1.0), json("{\"temperature\": 0.7}")]).is_err());
    assert!(read(&[number(0.7), json("{\"temperature\": 1}")]).is_err());
}

#[test]
fn a_name_that_stands_twice_in_an_object_is_refused() {
    let refusal = |key, text: &str| refusal(&[tensor(key, Value::text(text))]);
    let twice = r#"{"temperature": 5, "top_k": 1, "temperature": 0}"#;
    assert!(refusal("sampling_parameters", twice).contains(r#""temperature" twice"#));
    assert!(refusal("logit_bias", r#"{"3": -100, "3": 0}"#).contains(r#""3" twice"#));
    // Control: once, it is taken; and what is no object is no JSON object.
    read(&[tensor("logit_bias", Value::text(r#"{"3": -100}"#))]).unwrap();
    assert!(refusal("logit_bias", "[3]").contains("expected a JSON object"));
}

#[test]
fn numbers_as_text_are_numbers_for_every_key_of_sampling_parameters() {
    let request = sampling(&json!({"n": "1", "best_of": "1", "top_k": "7"})).unwrap();
    assert_eq!(request.options.top_k, Some(7));
    assert!(sampling(&json!({"n": "2"})).is_err());
}

#[test]
fn token_lists_are_kept_sorted_and_once() {
    let ids = |key| tensor(key, Value::Integers(vec![9, 3, 9, 3, 7]));
    let options = read(&[ids("stop_token_ids"), ids("allowed_token_ids")]).unwrap().options;
    assert_eq!(options.stop_token_ids, [3, 7, 9]);
    assert_eq!(options.allowed_token_ids, Some(vec![3, 7, 9]));
}

#[test]
fn messages_are_short_whatever_was_sent() {
    let long = "z".repeat(2_000_000);
    let keys = [
        sampling(&json!({ long.as_str(): 1 })),
        read(&[tensor(&long, Value::Integers(vec![1]))]),
        read(&[tensor("logit_bias", Value::text(json!({ long.as_str(): 1 }).to_string()))]),
        read(&[tensor("logit_bias", Value::text(json!({"1": long}).to_string()))]),
    ];
    let no_tokenizer = ModelFacts { has_tokenizer: false, ..MODEL };
    let ids = |key| [tensor("input_ids", Value::Integers(vec![1])), key];
    let stop = ids(tensor("stop", Value::Strings(vec![vec![b'a'; 1000]; 60])));
    let greedy = ModelFacts { greedy_only: true, ..MODEL };
    let allowed = ids(tensor("allowed_token_ids", Value::Integers((0..100).collect())));
    let models =
        [GenerationRequest::read(&stop, &no_tokenizer), GenerationRequest::read(&allowed, &greedy)];
    for refused in keys.into_iter().chain(models) {
        let message = refused.unwrap_err().to_string();
        assert!(message.len() < 500, "{} bytes", message.len());
    }
}

#[test]
fn combinations_that_contradict_are_refused() {
    let integer = |key: &str, n| tensor(key, Value::Integers(vec![n]));
    let flag = |key: &str, flag| tensor(key, Value::Flags(vec![flag]));
    for (given, words) in [
        (
            vec![integer("min_tokens", 17)],
            "'min_tokens' = 17 cannot be combined with 'max_tokens' = 16",
        ),
        (
            vec![integer("end_id", 3), flag("ignore_eos", true)],
            "'ignore_eos' = true cannot be combined with 'end_id' = 3",
        ),
        (
            vec![integer("top_logprobs", 3)],
            "'top_logprobs' = 3 cannot be combined with 'logprobs' = absent",
        ),
        (
            vec![integer("top_logprobs", 3), integer("logprobs", 2)],
            "'logprobs' = 2 cannot be combined with 'top_logprobs' = 3",
        ),
        (
            vec![integer("logprobs", 2), flag("return_logprobs", false)],
            "'logprobs' = 2 cannot be combined with 'return_logprobs' = false",
        ),
        (
            vec![integer("input_ids", 3)],
            "the request has a prompt in 'text_input' and in 'input_ids'; send one of them",
        ),
        (
            vec![integer("input_lengths", 3)],
            "'input_lengths' = 3 cannot be combined with 'input_ids' = absent",
        ),
    ] {
        let message = refusal(&given);
        assert!(message.contains(words), "{given:?}\n{message}\n{words}");
    }
    read(&[integer("end_id", -1), flag("ignore_eos", true)]).unwrap();
    read(&[integer("min_tokens", 17), integer("max_tokens", 17)]).unwrap();
    let ids = tensor("input_ids", Value::Integers(vec![0, 99]));
    let lengths = |n| integer("input_lengths", n);
    GenerationRequest::read(&[ids.clone(), lengths(2)], &MODEL).unwrap();
    GenerationRequest::read(&[ids, lengths(1)], &MODEL).unwrap_err();
}

#[test]
fn models_without_text_take_ids() {
    let bare = ModelFacts { has_tokenizer: false, has_chat_template: false, ..MODEL };
    let ids = tensor("input_ids", Value::Integers(vec![1]));
    let request = GenerationRequest::read(std::slice::from_ref(&ids), &bare).unwrap();
    assert!(!request.wants.has(Reply::TextOutput) && request.wants.has(Reply::OutputIds));
    for (given, words) in [
        (
            vec![prompt()],
            "'text_input' = \"hi\" cannot be served by this model: it has no tokenizer",
        ),
        (vec![ids.clone(), tensor("stop", Value::text("x"))], "send 'stop_token_ids'"),
        (vec![ids.clone(), tensor("bad_words", Value::text("x"))], "send 'logit_bias'"),
        (vec![], "the request has no prompt; send one of 'input_ids'"),
    ] {
        let message = GenerationRequest::read(&given, &bare).unwrap_err().to_string();
        assert!(message.contains(words), "{message}");
    }
    let text = ModelFacts { has_chat_template: false, ..MODEL };
    let chat = [tensor("messages", Value::text("[{\"role\": \"user\", \"content\": \"hi\"}]"))];
    let message = GenerationRequest::read(&chat, &text).unwrap_err().to_string();
    assert!(message.contains("it has no chat template; send 'text_input'"), "{message}");
    GenerationRequest::read(&chat, &MODEL).unwrap();
}

/// Speculative models choose greedily, which is their default, and take nothing else.
#[test]
fn greedy_models_refuse_what_they_cannot_do() {
    let greedy = ModelFacts { greedy_only: true, ..MODEL };
    let read = |given: &[Given]| GenerationRequest::read(&[&[prompt()], given].concat(), &greedy);
    assert_eq!(read(&[]).unwrap().options.temperature, 0.0);
    for (key, value, fine) in [
        ("temperature", Value::Numbers(vec![1.0]), Value::Numbers(vec![0.0])),
        ("repetition_penalty", Value::Numbers(vec![1.5]), Value::Numbers(vec![1.0])),
        ("presence_penalty", Value::Numbers(vec![1.0]), Value::Numbers(vec![0.0])),
        ("frequency_penalty", Value::Numbers(vec![1.0]), Value::Numbers(vec![0.0])),
        ("min_tokens", Value::Integers(vec![1]), Value::Integers(vec![0])),
        ("bad_words", Value::text("x"), Value::text("")),
        ("allowed_token_ids", Value::Integers(vec![1]), Value::Integers(vec![])),
        ("logit_bias", Value::text("{\"1\": 1}"), Value::text("{}")),
        ("logprobs", Value::Integers(vec![1]), Value::Flags(vec![false])),
        ("return_log_probs", Value::Flags(vec![true]), Value::Flags(vec![false])),
        ("return_cumulative_logprob", Value::Flags(vec![true]), Value::Flags(vec![false])),
    ] {
        let message = read(&[tensor(key, value)]).unwrap_err().to_string();
        assert!(
            message.contains(&format!("'{key}' = ")) && message.contains("this model"),
            "{message}"
        );
        read(&[tensor(key, fine)]).unwrap();
    }
}

#[test]
fn tokens_fit_behind_the_prompt() {
    let options = |max_tokens| GenerationOptions { max_tokens, ..GenerationOptions::default() };
    // The last token needs no place.
    assert_eq!(options(Some(1)).max_tokens_after(64, &MODEL), Ok(1));
    assert_eq!(options(Some(64)).max_tokens_after(1, &MODEL), Ok(64));
    assert_eq!(options(None).max_tokens_after(60, &MODEL), Ok(5));
    assert_eq!(options(None).max_tokens_after(64, &MODEL), Ok(1));
    let message = |max_tokens, tokens| {
        options(max_tokens).max_tokens_after(tokens, &MODEL).unwrap_err().to_string()
    };
    assert!(message(Some(2), 64).contains("'max_tokens' must be 1 to 1"));
    assert!(message(Some(64), 2).contains("'max_tokens' = 64 is too much behind a prompt of 2"));
    assert_eq!(message(None, 65), "the prompt has 65 tokens, expected 1 to 64; shorten it");
    assert_eq!(message(None, 640), "the prompt has 640 tokens, expected 1 to 64; shorten it");
    assert!(message(None, 0).contains("the prompt has 0 tokens, expected 1 to 64"));
    let least = GenerationOptions { min_tokens: 6, ..options(None) };
    assert_eq!(least.max_tokens_after(59, &MODEL), Ok(6));
    assert!(least.max_tokens_after(60, &MODEL).is_err());
}

#[test]
fn options_become_the_samplers() {
    let request = sampling(&json!({
        "temperature": 0.5, "top_k": 7, "top_p": 0.25, "min_p": 0.125, "repetition_penalty": 1.5,
        "presence_penalty": -1, "frequency_penalty": 2, "allowed_token_ids": [3],
        "logit_bias": {"3": 4}, "min_tokens": 5, "stop_token_ids": [9], "logprobs": 2,
    }));
    let options = request.unwrap().options;
    let ids = options.end_ids(&[2, 4]);
    assert_eq!(ids, [2, 4]);
    let expected = Sampling {
        temperature: 0.5,
        top_k: 7,
        top_p: 0.25,
        min_p: 0.125,
        repetition_penalty: 1.5,
        presence_penalty: -1.0,
        frequency_penalty: 2.0,
        seed: 6,
        bad_words: vec![vec![1]],
        allowed: Some(vec![3]),
        logit_bias: vec![(3, 4.0)],
        min_tokens: 5,
        stop_ids: vec![2, 4, 9],
        logprobs: Some(2),
    };
    assert_eq!(options.sampling(6, vec![vec![1]], &ids), expected);
    assert_eq!(
        GenerationOptions::default().sampling(0, vec![], &[]),
        Sampling::default(),
        "both have vLLM's defaults"
    );
    let end = |json: Json| sampling(&json).unwrap().options.end_ids(&[2, 4]);
    assert_eq!(end(json!({"end_id": 5})), [5]);
    assert_eq!(end(json!({"end_id": -1})), [0; 0]);
    assert_eq!(end(json!({"ignore_eos": true, "stop_token_ids": [8]})), [0; 0]);
}

#[test]
fn one_row_is_taken() {
    for shape in [&[][..], &[0], &[5], &[1, 5], &[1, 0], &[1, 1]] {
        GenerationRequest::check_one_row("input_ids", shape).unwrap();
    }
    let error = GenerationRequest::check_one_row("input_ids", &[2, 5]).unwrap_err().to_string();
    assert!(error.contains("input 'input_ids' has the shape [2, 5], expected one row"), "{error}");
}
