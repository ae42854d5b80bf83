//! What turns text into a model's tokens and back, from the files in its version directory.

use std::fmt::Display;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use serde_json::Value;
use tlaloc_generation::options::GenerationOptions;
use tlaloc_generation::template::{ChatTemplate, Messages, MessagesError, TemplateError};
use tlaloc_generation::text::{StopStrings, Stream, Tokenizer};

use super::error::Error;

/// Tokenizer and chat template of a model.
pub struct Words {
    /// The tokenizer.
    pub tokenizer: Arc<Tokenizer>,
    template: Option<ChatTemplate>,
}

/// Why a conversation has no text.
#[derive(Debug, thiserror::Error)]
pub enum Unrendered {
    /// The messages are not as they should be.
    #[error(transparent)]
    Messages(#[from] MessagesError),
    /// The template does not take them.
    #[error(transparent)]
    Template(#[from] TemplateError),
}

impl Words {
    /// What the version directory has; none without a tokenizer.
    ///
    /// # Errors
    /// [`Error::Text`].
    pub fn load(directory: &Path) -> Result<Option<Self>, Error> {
        if !directory.join(Tokenizer::FILE).exists() {
            return Ok(None);
        }
        let wrong = |error: &dyn Display| Error::Text {
            folder: directory.into(),
            reason: error.to_string(),
        };
        let tokenizer = Tokenizer::load(directory).map_err(|error| wrong(&error))?;
        let template = ChatTemplate::load(directory).map_err(|error| wrong(&error))?;
        Ok(Some(Words { tokenizer: Arc::new(tokenizer), template }))
    }

    /// Whether messages can be rendered.
    pub fn has_template(&self) -> bool {
        self.template.is_some()
    }

    /// The prompt of a conversation, up to where the reply begins. A model without a template has
    /// none.
    ///
    /// # Errors
    /// Why there is none.
    pub fn render(&self, messages: &Value) -> Result<String, Unrendered> {
        let messages = Messages::parse(&messages.to_string())?;
        let Some(template) = &self.template else { return Ok(String::new()) };
        Ok(template.render(&messages, true, SystemTime::now())?)
    }

    /// The text of one request's tokens, as they come.
    pub fn stream(&self, options: &GenerationOptions) -> Stream {
        let stops = StopStrings::new(&options.stop, options.include_stop_str_in_output);
        Stream::new(self.tokenizer.clone(), options.skip_special_tokens, stops)
    }

    /// The text of one token by itself.
    pub fn decode_one(&self, token: i32) -> String {
        self.tokenizer.decode(&[token], false).unwrap_or_default()
    }
}

/// The tokens that end an output: those of `generation_config.json` or `config.json`.
pub fn end_ids(directory: &Path) -> Result<Vec<i32>, Error> {
    for name in ["generation_config.json", "config.json"] {
        let file = directory.join(name);
        let Ok(text) = fs::read_to_string(&file) else { continue };
        let wrong = |reason: String| Error::Text { folder: file.clone(), reason };
        let json: Value = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        let id = |value: &Value| value.as_i64().and_then(|id| i32::try_from(id).ok());
        match json.get("eos_token_id") {
            None | Some(Value::Null) => continue,
            Some(Value::Array(list)) => {
                let ids: Option<Vec<i32>> = list.iter().map(id).collect();
                return ids.ok_or_else(|| wrong("eos_token_id is no list of ids".to_owned()));
            }
            Some(other) => {
                let one = id(other).map(|id| vec![id]);
                return one.ok_or_else(|| wrong("eos_token_id is no token id".to_owned()));
            }
        }
    }
    Ok(Vec::new())
}
