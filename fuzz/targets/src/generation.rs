//! What generation mode reads: tokenizers and chat templates of a checkpoint, messages and settings
//! of a request, logits of a model.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::SystemTime;

use arbitrary::{Arbitrary, Unstructured};
use serde_json::json;
use tlaloc_generation::options::{GenerationRequest, Given, ModelFacts, Prompt, Source, Value};
use tlaloc_generation::sampler::{Sampler, Sampling, Scratch};
use tlaloc_generation::template::{ChatTemplate, Messages};
use tlaloc_generation::text::{StopStrings, Stream, Tokenizer};

use crate::fixture;

const TEXT: &str = "<s>The 日本 😀 <unk>  other\n";

/// A `tokenizer.json`. One that can be read has to turn a text into tokens and those, and any others,
/// into text: the same in pieces as at once.
pub fn tokenizer(data: &[u8]) {
    let Ok(tokenizer) = Tokenizer::parse(data, Path::new("tokenizer.json")) else { return };
    let tokenizer = Arc::new(tokenizer);
    let mut tokens = tokenizer.encode(TEXT, true).unwrap_or_default();
    let vocab = tokenizer.vocab_size().max(1);
    tokens.extend((0..40).map(|step| i32::try_from((step * 37 + 3) % vocab).unwrap()));
    for skip in [false, true] {
        reply(&tokenizer, &tokens, skip, &[]);
    }
}

/// Tokens of the small tokenizer of the fixtures, and stop strings: the reply is cut before the
/// string that is complete first.
pub fn replies(data: &[u8]) {
    let Ok((strings, tokens, skip)) =
        <(Vec<String>, Vec<u16>, bool)>::arbitrary(&mut Unstructured::new(data))
    else {
        return;
    };
    static SMALL: LazyLock<Arc<Tokenizer>> = LazyLock::new(|| {
        let content = fixture("text/tokenizer.json");
        Arc::new(Tokenizer::parse(&content, Path::new("tokenizer.json")).unwrap())
    });
    let tokens: Vec<i32> = tokens.iter().map(|&token| i32::from(token % 400)).collect();
    reply(&SMALL, &tokens, skip, &strings);
}

fn reply(tokenizer: &Arc<Tokenizer>, tokens: &[i32], skip: bool, strings: &[String]) {
    let mut stream = Stream::new(tokenizer.clone(), skip, StopStrings::new(strings, false));
    let (mut text, mut stop) = (String::new(), None);
    for &token in tokens {
        let Ok(piece) = stream.push(token, true) else { return };
        text.push_str(piece.text);
        stop = stop.or(piece.stop);
    }
    let Ok(piece) = stream.finish(true) else { return };
    text.push_str(piece.text);
    let stop = stop.or(piece.stop);
    let whole = tokenizer.decode(tokens, skip).unwrap();
    match stop {
        None => {
            assert_eq!(text, whole);
            assert!(!strings.iter().any(|string| !string.is_empty() && whole.contains(string)));
        }
        Some(place) => {
            let cut = format!("{text}{}", strings[place]);
            assert!(whole.starts_with(&cut), "{cut:?} of {whole:?}");
            // No other string is complete before the last character of this one.
            let before = &cut[..cut.char_indices().next_back().unwrap().0];
            assert!(!strings.iter().any(|string| !string.is_empty() && before.contains(string)));
        }
    }
}

/// A chat template, a NUL, and the messages of a request.
pub fn chat_template(data: &[u8]) {
    let Ok(data) = std::str::from_utf8(data) else { return };
    let (source, messages) = data.split_once('\0').unwrap_or((data, "[]"));
    let messages = Messages::parse(messages);
    let template = ChatTemplate::compile(source.to_owned(), BTreeMap::new(), Path::new("a.jinja"));
    let (Ok(messages), Ok(template)) = (messages, template) else { return };
    let _ = template.render(&messages, true, SystemTime::UNIX_EPOCH);
}

/// The keys of a request as a JSON object, each an input and each a parameter. What is taken is inside
/// its range, and a refusal says something.
pub fn generation_request(data: &[u8]) {
    let Ok(keys) = serde_json::from_slice::<serde_json::Map<_, _>>(data) else { return };
    let model = ModelFacts {
        vocab_size: 100,
        max_context: 64,
        has_tokenizer: true,
        has_chat_template: true,
        greedy_only: false,
    };
    for model in [ModelFacts { greedy_only: true, ..model.clone() }, model] {
        for source in [Source::Tensor, Source::Parameter] {
            let value =
                |(key, json): (&String, _)| Some(Given::new(source, key, Value::from_json(json)?));
            let given: Vec<_> = keys.iter().filter_map(value).collect();
            match GenerationRequest::read(&given, &model) {
                Ok(request) => check_request(&request, &model),
                Err(error) => assert!(!error.to_string().is_empty()),
            }
        }
    }
}

fn check_request(request: &GenerationRequest, model: &ModelFacts) {
    let options = &request.options;
    let (temperature, top_p) = (options.temperature, options.top_p);
    assert!(temperature.is_finite() && temperature >= 0.0, "{temperature}");
    assert!(top_p > 0.0 && top_p <= 1.0, "{top_p}");
    assert!((0.0..=1.0).contains(&options.min_p));
    assert!(options.repetition_penalty > 0.0 && options.repetition_penalty.is_finite());
    assert!(!model.greedy_only || (temperature == 0.0 && options.logit_bias.is_empty()));
    assert!(options.stop.iter().chain(&options.bad_words).all(|string| !string.is_empty()));
    let legal = |&id: &i32| usize::try_from(id).is_ok_and(|id| id < model.vocab_size);
    assert!(options.stop_token_ids.iter().all(legal));
    assert!(options.allowed_token_ids.iter().flatten().all(legal));
    assert!(options.logit_bias.iter().all(|(id, bias)| legal(id) && bias.abs() <= 100.0));
    if let Prompt::Ids(ids) = &request.prompt {
        assert!(ids.iter().all(legal));
        if let Ok(most) = options.max_tokens_after(ids.len(), model) {
            assert!(most >= 1 && ids.len() + most <= model.max_context + 1);
        }
    }
}

/// Settings of a request within the ranges that its parser lets through, and rows of logits: any
/// bits. A token is one of the row's.
pub fn sampler(data: &[u8]) {
    let mut from = Unstructured::new(data);
    let Ok(sampling) = sampling(&mut from) else { return };
    let Ok((prompt, vocab)) = <(Vec<i32>, u8)>::arbitrary(&mut from) else { return };
    let (mut sampler, mut scratch) = (Sampler::new(sampling, &prompt, 64), Scratch::default());
    let bytes = from.take_rest();
    for row in bytes.chunks((usize::from(vocab) + 1) * 4).take(64) {
        if let Ok(choice) = sampler.sample_bytes(row, &mut scratch) {
            assert!((0..row.len() as i32 / 4).contains(&choice.token));
            assert!(choice.logprob.is_none_or(|of| of.logprob <= 1e-3), "{choice:?}");
        }
    }
}

fn sampling(from: &mut Unstructured) -> arbitrary::Result<Sampling> {
    let mut within = |least: f64, most: f64| -> arbitrary::Result<f64> {
        Ok(least + (most - least) * f64::from(u16::arbitrary(from)?) / f64::from(u16::MAX))
    };
    Ok(Sampling {
        temperature: within(0.0, 4.0)?,
        top_p: within(1e-6, 1.0)?,
        min_p: within(0.0, 1.0)?,
        repetition_penalty: within(0.01, 2.0)?,
        presence_penalty: within(-2.0, 2.0)?,
        frequency_penalty: within(-2.0, 2.0)?,
        top_k: u8::arbitrary(from)?.into(),
        seed: u64::arbitrary(from)?,
        bad_words: Vec::arbitrary(from)?,
        allowed: Option::arbitrary(from)?,
        logit_bias: <Vec<(i32, i8)>>::arbitrary(from)?
            .into_iter()
            .map(|(token, bias)| (token, bias.into()))
            .collect(),
        min_tokens: u8::arbitrary(from)?.into(),
        stop_ids: Vec::arbitrary(from)?,
        logprobs: <Option<u8>>::arbitrary(from)?.map(usize::from),
    })
}

pub(crate) fn tokenizer_seeds() -> Vec<Vec<u8>> {
    // Small enough that a change hits something else than a name of the vocabulary.
    let vocab = json!({"<s>": 0, "▁": 1, "a": 2, "▁a": 3, "<0xE5>": 4, "<0x8F>": 5, "b": 6});
    let merges = json!([["▁", "a"]]);
    let special = json!({"id": 0, "content": "<s>", "single_word": false, "lstrip": false,
                         "rstrip": false, "normalized": false, "special": true});
    let replace = json!({"type": "Replace", "pattern": {"String": "▁"}, "content": " "});
    let strip = json!({"type": "Strip", "content": " ", "start": 1, "stop": 0});
    let llama = json!([replace, {"type": "ByteFallback"}, {"type": "Fuse"}, strip]);
    let decoders = [
        json!({"type": "Sequence", "decoders": llama}),
        json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true,
               "use_regex": true}),
        json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": true}),
        json!({"type": "WordPiece", "prefix": "▁", "cleanup": true}),
        json!({"type": "BPEDecoder", "suffix": "▁"}),
        json!(null),
    ];
    let written = decoders.iter().map(|decoder| {
        json!({
            "version": "1.0", "truncation": null, "padding": null, "added_tokens": [special],
            "normalizer": {"type": "Prepend", "prepend": "▁"}, "pre_tokenizer": null,
            "post_processor": null, "decoder": decoder,
            "model": {"type": "BPE", "dropout": null, "unk_token": "<s>", "fuse_unk": true,
                      "continuing_subword_prefix": null, "end_of_word_suffix": null,
                      "byte_fallback": true, "vocab": vocab, "merges": merges}
        })
        .to_string()
        .into_bytes()
    });
    written.collect()
}

pub(crate) fn reply_seeds() -> Vec<Vec<u8>> {
    // `arbitrary` reads lengths from the end, contents from the start: any bytes are something.
    let bytes = |step: usize| (0..96).map(|at| (at * step % 251) as u8).collect();
    (1..12).map(bytes).collect()
}

pub(crate) fn chat_template_seeds() -> Vec<Vec<u8>> {
    let messages = json!([
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Hello"}]},
        {"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f"}}]},
    ]);
    let seed = |name: &str| {
        let mut seed = fixture(&format!("text/templates/{name}.jinja"));
        seed.push(0);
        seed.extend(messages.to_string().bytes());
        seed
    };
    ["chatml", "alternating", "dated"].map(seed).into()
}

pub(crate) fn generation_request_seeds() -> Vec<Vec<u8>> {
    let seeds = [
        json!({"text_input": "The 日本", "max_tokens": 5, "stream": true, "stop": ["a", "b"]}),
        json!({"input_ids": [1, 2, 3], "temperature": 0.5, "top_k": 3, "top_p": 0.9, "min_p": 0.1,
               "seed": -1, "logprobs": 5, "return_log_probs": true, "priority": 1}),
        json!({"messages": "[{\"role\": \"user\", \"content\": \"a\"}]", "timeout": 1000,
               "sampling_parameters": "{\"stop_token_ids\": [1], \"n\": 1, \"temperature\": 0}"}),
        json!({"input_ids": [99], "logit_bias": "{\"5\": -100}", "bad_words": ["x"], "min_tokens": 1,
               "allowed_token_ids": [5, 6], "repetition_penalty": 1.1, "presence_penalty": -2,
               "frequency_penalty": 2.0, "ignore_eos": true, "exclude_input_in_output": false}),
        json!({"prompt": "a", "sampling_parameters": {"max_tokens": 1, "end_id": 3}, "n": null}),
    ];
    seeds.map(|seed| seed.to_string().into_bytes()).into()
}

pub(crate) fn sampler_seeds() -> Vec<Vec<u8>> {
    let row = |scale: f32| (0..64).flat_map(move |at| ((at % 9) as f32 * scale).to_le_bytes());
    let seed = |step: usize| {
        let settings = (0..60).map(move |at| (at * step % 256) as u8);
        settings.chain(row(0.5)).chain(row(-3.0)).chain(row(f32::INFINITY)).collect()
    };
    (0..12).map(|step| seed(step * 23)).collect()
}
