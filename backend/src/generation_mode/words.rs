//! What turns text into a model's tokens and back, from the files in its version directory.

use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use tlaloc_generation::options::GenerationOptions;
use tlaloc_generation::template::{ChatTemplate, Messages, TemplateError};
use tlaloc_generation::text::{StopStrings, Stream, Tokenizer};

use super::error::Error;

/// Tokenizer and chat template of a model.
pub struct Words {
    /// The tokenizer.
    pub tokenizer: Arc<Tokenizer>,
    template: Option<ChatTemplate>,
}

impl Words {
    /// What the version directory has.
    ///
    /// # Errors
    /// [`Error::NoTokenizer`], [`Error::Tokenizer`], [`Error::Template`].
    pub fn load(directory: &Path) -> Result<Self, Error> {
        if !directory.join(Tokenizer::FILE).exists() {
            return Err(Error::NoTokenizer { directory: directory.to_owned() });
        }
        let tokenizer = Tokenizer::load(directory)?;
        let template = ChatTemplate::load(directory)?;
        Ok(Words { tokenizer: Arc::new(tokenizer), template })
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
    pub fn render(&self, messages: &Messages) -> Result<String, TemplateError> {
        let Some(template) = &self.template else { return Ok(String::new()) };
        template.render(messages, true, SystemTime::now())
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
