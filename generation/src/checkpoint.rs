//! The files of a checkpoint that a generation-mode model has in its version directory, under the
//! names that checkpoints give them.

use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::text::Tokenizer;

/// Says which tokens end the output; goes before [`MODEL_CONFIG`].
pub const GENERATION_CONFIG: &str = "generation_config.json";
/// Says so too.
pub const MODEL_CONFIG: &str = "config.json";
/// Special tokens by name, and maybe the chat template.
pub const TOKENIZER_CONFIG: &str = "tokenizer_config.json";
/// The chat template, where it has a file of its own.
pub const CHAT_TEMPLATE: &str = "chat_template.jinja";

/// All of them; only the first is needed.
pub const FILES: [&str; 5] =
    [Tokenizer::FILE, GENERATION_CONFIG, MODEL_CONFIG, TOKENIZER_CONFIG, CHAT_TEMPLATE];

/// A file that is not as it should be: take it from the checkpoint again.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be read: check its permissions.
    #[error("{}: cannot be read: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is not JSON.
    #[error("{}: is not JSON: {source}", path.display())]
    NotJson {
        /// The file.
        path: PathBuf,
        /// Where it is not.
        source: serde_json::Error,
    },
    /// Its end tokens are no token ids.
    #[error("{}: eos_token_id must be a token id or a list of them, got {found}", path.display())]
    EndIds {
        /// The file.
        path: PathBuf,
        /// What stands there.
        found: String,
    },
}

/// The tokens that end an output, of the first file in `folder` that names some; none if no file
/// does.
///
/// # Errors
/// Any [`Error`].
pub fn end_ids(folder: &Path) -> Result<Vec<i32>, Error> {
    for name in [GENERATION_CONFIG, MODEL_CONFIG] {
        let path = folder.join(name);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(source) => return Err(Error::Unreadable { path, source }),
        };
        let json: Value = match serde_json::from_str(&text) {
            Ok(json) => json,
            Err(source) => return Err(Error::NotJson { path, source }),
        };
        // Models of several kinds of input keep what concerns text apart.
        let places = [json.get("eos_token_id"), json.pointer("/text_config/eos_token_id")];
        let Some(found) = places.into_iter().flatten().find(|value| !value.is_null()) else {
            continue;
        };
        let id = |value: &Value| value.as_u64().and_then(|id| i32::try_from(id).ok());
        let ids = match found {
            Value::Array(list) => list.iter().map(id).collect(),
            one => id(one).map(|id| vec![id]),
        };
        return ids.ok_or_else(|| Error::EndIds { path, found: found.to_string() });
    }
    Ok(Vec::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(files: &[(&str, &str)]) -> Result<Vec<i32>, Error> {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        end_ids(folder.path())
    }

    #[test]
    fn end_ids_are_those_of_the_first_file_that_has_some() {
        let generation = |text| (GENERATION_CONFIG, text);
        let model = |text| (MODEL_CONFIG, text);
        let model_7 = model("{\"eos_token_id\": 7}");
        assert_eq!(of(&[]).unwrap(), [0; 0]);
        assert_eq!(of(&[model_7]).unwrap(), [7]);
        assert_eq!(of(&[generation("{\"eos_token_id\": [2, 3]}"), model_7]).unwrap(), [2, 3]);
        assert_eq!(of(&[generation("{\"eos_token_id\": null}"), model_7]).unwrap(), [7]);
        assert_eq!(of(&[generation("{}"), model_7]).unwrap(), [7]);
        assert_eq!(of(&[model("{\"text_config\": {\"eos_token_id\": 9}}")]).unwrap(), [9]);
    }

    #[test]
    fn damaged_files_are_refused_by_name() {
        for (text, words) in [
            ("{", "generation_config.json: is not JSON"),
            (
                "{\"eos_token_id\": \"x\"}",
                "eos_token_id must be a token id or a list of them, got \"x\"",
            ),
            ("{\"eos_token_id\": [-1]}", "got [-1]"),
            ("{\"eos_token_id\": 2147483648}", "got 2147483648"),
        ] {
            let error = of(&[(GENERATION_CONFIG, text)]).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
