//! Merges of a BPE vocabulary, before the tokenizer library takes them: it panics where two tokens
//! merge into more than the longest token has, or the second is shorter than the subword prefix.

use serde_json::Value;

/// Every merge must give a token.
///
/// # Errors
/// The first that gives none.
pub(super) fn check(model: &Value) -> Result<(), String> {
    let (Some(vocab), Some(merges)) = (model["vocab"].as_object(), model["merges"].as_array())
    else {
        return Ok(());
    };
    let prefix = model["continuing_subword_prefix"].as_str().unwrap_or_default().len();
    for merge in merges {
        let pair = match merge {
            Value::String(text) => text.split_once(' '),
            pair => pair[0].as_str().zip(pair[1].as_str()),
        };
        // What is no pair is the library's to refuse.
        let Some((first, second)) = pair else { continue };
        let merged = second.get(prefix..).map(|rest| [first, rest].concat());
        if !merged.is_some_and(|merged| vocab.contains_key(&merged)) {
            return Err(format!("its merge of {first:?} and {second:?} gives none of its tokens"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn merges_give_tokens() {
        let model = |merge, prefix| {
            let vocab = json!({"a": 0, "b": 1, "ab": 2, "##b": 3});
            json!({"vocab": vocab, "merges": [merge], "continuing_subword_prefix": prefix})
        };
        for (merge, prefix) in [
            (json!(["a", "b"]), json!(null)),
            (json!("a b"), json!(null)),
            (json!(["a", "##b"]), json!("##")),
        ] {
            check(&model(merge, prefix)).unwrap();
        }
        for (merge, prefix) in [
            (json!(["b", "a"]), json!(null)),
            (json!(["ab", "ab"]), json!(null)),
            (json!(["a", "b"]), json!("##")),
        ] {
            let refused = check(&model(merge, prefix)).unwrap_err();
            assert!(refused.contains("gives none of its tokens"), "{refused}");
        }
        check(&json!({"vocab": {}})).unwrap();
    }
}
