//! Tokens to text and back, against what Python's tokenizers made of them
//! (scripts/producers/text.py).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use tlaloc_generation::text::{StopStrings, Stream, TextError, Tokenizer};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/text")
}

fn json_of(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// The small tokenizer of the fixtures, with another decoder if one is given.
fn content(decoder: Option<&Value>) -> String {
    let mut content = json_of(&fixtures().join("tokenizer.json"));
    if let Some(decoder) = decoder {
        content["decoder"] = decoder.clone();
    }
    content.to_string()
}

fn small(decoder: Option<&Value>) -> Result<Tokenizer, TextError> {
    Tokenizer::parse(content(decoder).as_bytes(), Path::new("small"))
}

/// The same as the library has it.
fn library_of(decoder: Option<&Value>) -> tokenizers::Tokenizer {
    content(decoder).parse().unwrap()
}

/// A checkpoint's tokenizer, if the checkpoint is there.
fn checkpoint(variable: &str) -> Option<Tokenizer> {
    let folder = std::env::var_os(variable);
    if folder.is_none() {
        eprintln!("skipped: {variable} is not set");
    }
    Some(Tokenizer::load(Path::new(&folder?)).unwrap())
}

fn tokenizer_of(case: &Value) -> Option<Tokenizer> {
    match case["name"].as_str().unwrap() {
        "smollm2" => checkpoint("TLALOC_SMOLLM2"),
        "gemma3" => checkpoint("TLALOC_GEMMA3"),
        _ => Some(small(case.get("decoder")).unwrap()),
    }
}

fn ids(value: &Value) -> Vec<i32> {
    value.as_array().unwrap().iter().map(|id| id.as_i64().unwrap() as i32).collect()
}

/// The pieces of a reply without stop strings.
fn pieces(tokenizer: &Arc<Tokenizer>, tokens: &[i32], skip: bool) -> Vec<String> {
    let mut stream = Stream::new(tokenizer.clone(), skip, StopStrings::default());
    let mut pieces: Vec<String> =
        tokens.iter().map(|&token| stream.push(token, true).unwrap().text.to_owned()).collect();
    pieces.push(stream.finish(true).unwrap().text.to_owned());
    pieces
}

#[test]
fn tensorrtllm_backend_332_pieces_are_the_text_that_python_decodes() {
    for case in json_of(&fixtures().join("decoded.json")).as_array().unwrap() {
        let Some(tokenizer) = tokenizer_of(case) else { continue };
        let tokenizer = Arc::new(tokenizer);
        let name = &case["name"];
        for decoded in case["decoded"].as_array().unwrap() {
            let tokens = ids(&decoded["ids"]);
            for (skip, text) in [(false, &decoded["text"]), (true, &decoded["skipped"])] {
                let text = text.as_str().unwrap();
                assert_eq!(tokenizer.decode(&tokens, skip).unwrap(), text, "{name} {tokens:?}");
                assert_eq!(pieces(&tokenizer, &tokens, skip).concat(), text, "{name} {tokens:?}");
            }
        }
        for encoded in case["encoded"].as_array().unwrap() {
            let text = encoded["text"].as_str().unwrap();
            assert_eq!(tokenizer.encode(text, false).unwrap(), ids(&encoded["ids"]), "{name}");
            assert_eq!(tokenizer.encode(text, true).unwrap(), ids(&encoded["special"]), "{name}");
        }
    }
}

#[test]
fn the_fixture_tells_decoders_apart() {
    // A control: what one decoder makes of the tokens is not what another does.
    let fixture = json_of(&fixtures().join("decoded.json"));
    let llama = Arc::new(small(None).unwrap());
    for case in fixture.as_array().unwrap().iter().skip(1).take(7) {
        let differs = case["decoded"].as_array().unwrap().iter().any(|decoded| {
            let text = pieces(&llama, &ids(&decoded["ids"]), true).concat();
            text != decoded["skipped"].as_str().unwrap()
        });
        assert!(differs, "{}", case["name"]);
    }
}

#[test]
fn mlx_vlm_1778_a_character_of_several_tokens_comes_whole() {
    for tokenizer in [Some(small(None).unwrap()), checkpoint("TLALOC_SMOLLM2")] {
        let Some(tokenizer) = tokenizer.map(Arc::new) else { continue };
        let text = "😀 日本語, e\u{301} and 👩‍👩‍👧 end";
        let tokens = tokenizer.encode(text, false).unwrap();
        assert!(tokens.len() > text.chars().count() / 2, "characters of several tokens");
        let pieces = pieces(&tokenizer, &tokens, true);
        assert_eq!(pieces.concat(), text);
        assert!(!pieces.iter().any(|piece| piece.contains('\u{fffd}')), "{pieces:?}");
        // Nothing is kept that no later token can change.
        assert_eq!(pieces[tokens.len()], "", "{pieces:?}");
        assert!(pieces[tokens.len() - 1].ends_with('d'), "{pieces:?}");
    }
}

#[test]
fn what_a_cut_character_leaves_comes_at_the_end() {
    let tokenizer = Arc::new(small(None).unwrap());
    let emoji = tokenizer.encode("a😀", false).unwrap();
    let cut = &emoji[..emoji.len() - 1];
    let pieces = pieces(&tokenizer, cut, true);
    assert_eq!(pieces.last().unwrap(), "\u{fffd}\u{fffd}\u{fffd}");
    assert_eq!(pieces.concat(), tokenizer.decode(cut, true).unwrap());
}

#[test]
fn a_wrong_byte_after_a_character_in_bytes_does_not_end_the_stream() {
    let library = library_of(None);
    let bytes = ["<0xE5>", "<0x8F>", "<0xAB>", "<0xE5>", "▁a"];
    let tokens: Vec<u32> = bytes.iter().map(|name| library.token_to_id(name).unwrap()).collect();
    let ids: Vec<i32> = tokens.iter().map(|&token| token as i32).collect();
    let whole = library.decode(&tokens, false).unwrap();
    assert_eq!(whole, "\u{fffd}\u{fffd}\u{fffd}\u{fffd} a");
    assert_eq!(pieces(&Arc::new(small(None).unwrap()), &ids, false).concat(), whole);
    // Why the library's own stream is not used.
    let mut stream = library.decode_stream(false);
    assert!(tokens.iter().any(|&token| stream.step(token).is_err()));
}

#[test]
fn a_stop_string_cuts_over_tokens_and_characters() {
    let tokenizer = Arc::new(small(None).unwrap());
    let tokens = tokenizer.encode("the other 😀 world", false).unwrap();
    let reply = |strings: &[&str], included| {
        let stops = StopStrings::new(strings, included);
        let mut stream = Stream::new(tokenizer.clone(), true, stops);
        let (mut text, mut stop) = (String::new(), None);
        for &token in &tokens {
            let piece = stream.push(token, true).unwrap();
            text.push_str(piece.text);
            stop = stop.or(piece.stop);
        }
        text.push_str(stream.finish(true).unwrap().text);
        (text, stop)
    };
    assert_eq!(reply(&["er 😀"], false), ("the oth".into(), Some(0)));
    assert_eq!(reply(&["er 😀"], true), ("the other 😀".into(), Some(0)));
    assert_eq!(reply(&["x", " world"], false), ("the other 😀".into(), Some(1)));
    assert_eq!(reply(&["the"], false), (String::new(), Some(0)));
    assert_eq!(reply(&["worldly"], false), ("the other 😀 world".into(), None));
}

#[test]
fn a_stop_string_that_is_complete_only_at_the_end_counts() {
    let tokenizer = Arc::new(small(None).unwrap());
    let tokens = tokenizer.encode("a😀", false).unwrap();
    let mut stream = Stream::new(tokenizer, true, StopStrings::new(&["😀"], false));
    for &token in &tokens {
        assert_eq!(stream.push(token, true).unwrap().stop, None);
    }
    // The run of bytes may go on until then.
    let piece = stream.finish(true).unwrap();
    assert_eq!((piece.text, piece.stop), ("", Some(0)));
}

#[test]
fn a_token_costs_the_same_however_long_the_reply_is() {
    let tokenizer = Arc::new(small(None).unwrap());
    let mut stream = Stream::new(tokenizer.clone(), true, StopStrings::new(&["never"], false));
    let tokens = tokenizer.encode("the 日 and 😀 go on", false).unwrap();
    let mut round = || {
        let push = |&token: &i32| assert!(stream.push(token, true).unwrap().stop.is_none());
        allocation_counter::measure(|| tokens.iter().for_each(push)).bytes_total
    };
    let (_, early) = (round(), round());
    (0..500).for_each(|_| assert!(round() <= early));
}

#[test]
fn bad_words_are_banned_at_the_start_and_after_a_space() {
    let Some(tokenizer) = checkpoint("TLALOC_SMOLLM2") else { return };
    let words = tokenizer.encode_bad_word("Paris").unwrap();
    let texts: Vec<_> = words.iter().map(|word| tokenizer.decode(word, false).unwrap()).collect();
    assert_eq!(texts, ["Paris", " Paris"]);
    assert_eq!(tokenizer.encode_bad_word("").unwrap(), Vec::<Vec<i32>>::new());
    // White space is a word, too; other than spaces it counts at the start of one.
    for word in ["\n", "\n\n", " ", "\n\nThe"] {
        let first = tokenizer.encode_bad_word(word).unwrap().swap_remove(0);
        assert_eq!(tokenizer.decode(&first, false).unwrap(), word);
    }
}

#[test]
fn what_is_no_tokenizer_is_refused_by_name() {
    let error = Tokenizer::load(Path::new("/nowhere")).unwrap_err();
    assert!(matches!(error, TextError::Unreadable { .. }), "{error}");
    assert!(error.to_string().contains("/nowhere/tokenizer.json"), "{error}");
    for content in ["", "{}", "[1]", "{\"model\": {\"type\": \"BPE\"}}"] {
        let error = Tokenizer::parse(content.as_bytes(), Path::new("a.json")).unwrap_err();
        assert!(matches!(error, TextError::Invalid { .. }), "{error}");
    }
    // Ids are INT32 for a client. Once, each up to the largest was looked at.
    let mut far = json_of(&fixtures().join("tokenizer.json"));
    far["model"]["vocab"]["ß"] = json!(u32::MAX);
    let error = Tokenizer::parse(far.to_string().as_bytes(), Path::new("a.json")).unwrap_err();
    assert!(error.to_string().contains("4294967295"), "{error}");
    let strip = json!({"type": "Strip", "content": " ", "start": 0, "stop": 1});
    let replace = json!({"type": "Replace", "pattern": {"String": "ab"}, "content": ""});
    for (decoder, named) in [
        (
            json!({"type": "CTC", "pad_token": "", "word_delimiter_token": "|", "cleanup": true}),
            "CTC",
        ),
        (json!({"type": "Sequence", "decoders": [{"type": "Fuse"}, strip]}), "Strip"),
        (
            json!({"type": "Sequence", "decoders": [{"type": "Fuse"}, replace]}),
            "Replace after Fuse",
        ),
    ] {
        let error = small(Some(&decoder)).unwrap_err();
        assert!(matches!(error, TextError::NoStream { .. }), "{error}");
        assert!(error.to_string().contains(named), "{error}");
    }
}

#[test]
fn text_that_no_context_holds_is_refused_at_once() {
    let tokenizer = small(None).unwrap();
    let longest = "<unk>".len().max("<0x00>".len()).max("▁the".len());
    assert_eq!(tokenizer.most_bytes(10), 10 * longest * 4);
    assert_eq!(tokenizer.most_bytes(usize::MAX), usize::MAX);
    let text = "a".repeat(tokenizer.most_bytes(10));
    // Too long, but only its tokens tell.
    let tokens = tokenizer.encode_prompt(&text, false, 10).unwrap();
    assert_eq!(tokens, tokenizer.encode(&text, false).unwrap());
    let error = tokenizer.encode_prompt(&(text + "a"), false, 10).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the text has 241 bytes; a context of 10 tokens holds 240 at most; shorten it"
    );
}

#[test]
fn ids_outside_the_vocabulary_have_no_text() {
    let tokenizer = small(None).unwrap();
    let vocab = tokenizer.vocab_size() as i32;
    assert_eq!(vocab, 372);
    assert_ne!(tokenizer.decode(&[vocab - 1], false).unwrap(), "");
    assert_eq!(tokenizer.decode(&[vocab, -1, i32::MAX], false).unwrap(), "");
}

/// The library's own decoding of all tokens at once.
fn at_once(library: &tokenizers::Tokenizer, tokens: &[i32], skip: bool) -> String {
    let tokens: Vec<u32> = tokens.iter().map(|&token| token as u32).collect();
    library.decode(&tokens, skip).unwrap()
}

#[test]
fn any_tokens_stream_to_what_the_library_decodes_at_once() {
    let fixture = json_of(&fixtures().join("decoded.json"));
    for case in fixture.as_array().unwrap() {
        let Some(tokenizer) = tokenizer_of(case).map(Arc::new) else { continue };
        let library: tokenizers::Tokenizer = match case["name"].as_str().unwrap() {
            "smollm2" => of_checkpoint("TLALOC_SMOLLM2"),
            "gemma3" => continue, // takes seconds to read, and the small one decodes as it does
            _ => library_of(case.get("decoder")),
        };
        let vocab = tokenizer.vocab_size() as i32;
        // Special tokens and bytes lie at the start of every vocabulary.
        let token = prop_oneof![0..vocab, 0..300i32];
        let tokens = prop::collection::vec(token, 1..40);
        let mut runner = proptest::test_runner::TestRunner::default();
        let run = runner.run(&(tokens, any::<bool>()), |(tokens, skip)| {
            prop_assert_eq!(
                pieces(&tokenizer, &tokens, skip).concat(),
                at_once(&library, &tokens, skip)
            );
            Ok(())
        });
        run.unwrap_or_else(|error| panic!("{}: {error}", case["name"]));
    }
}

fn of_checkpoint(variable: &str) -> tokenizers::Tokenizer {
    let folder = std::env::var_os(variable).unwrap();
    tokenizers::Tokenizer::from_file(Path::new(&folder).join("tokenizer.json")).unwrap()
}
