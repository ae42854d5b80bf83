//! What the checks of a request need to know of the model.

/// Facts of one model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelFacts {
    /// Token ids are below this.
    pub vocab_size: usize,
    /// Tokens that a sequence can hold, prompt and generated ones.
    pub max_context: usize,
    /// Whether text can be read and written.
    pub has_tokenizer: bool,
    /// Whether messages can be rendered.
    pub has_chat_template: bool,
    /// Whether the device chooses the tokens (artifacts with a draft head, `tlaloc-serving-v5`):
    /// greedily, with no logits to change or report.
    pub greedy_only: bool,
}
