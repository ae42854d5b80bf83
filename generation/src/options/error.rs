//! Why a request is refused. Nothing of it has been queued then.

use super::value::Source;

/// A refusal, by key.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// No key has this name: correct it or leave it out.
    #[error("{source_kind} '{key}' is not known{}", hint(*.nearest))]
    Unknown {
        /// Where it stood.
        source_kind: Source,
        /// The name as sent.
        key: String,
        /// The known name that it is like.
        nearest: Option<&'static str>,
    },
    /// The key may not stand there: send it as one of `places`.
    #[error("'{key}' cannot be a {source_kind}; send it as {places}")]
    Misplaced {
        /// The name as sent.
        key: String,
        /// Where it stood.
        source_kind: Source,
        /// Where it may stand.
        places: String,
    },
    /// The value has another type: send what is expected.
    #[error("{source_kind} '{key}' must be {expected}, got {found}")]
    Type {
        /// Where it stood.
        source_kind: Source,
        /// The name as sent.
        key: String,
        /// The value and its type.
        found: String,
        /// What it may be.
        expected: String,
    },
    /// The value is outside its range: send one inside.
    #[error("{source_kind} '{key}' must be {expected}, got {found}")]
    Range {
        /// Where it stood.
        source_kind: Source,
        /// The name as sent.
        key: String,
        /// The value, or the element of it that is outside.
        found: String,
        /// What it may be.
        expected: String,
    },
    /// The key asks for what the backend does not do: leave it out, or send the value that changes
    /// nothing.
    #[error("{source_kind} '{key}' = {found} is not supported: {reason}; {remedy}")]
    Unsupported {
        /// Where it stood.
        source_kind: Source,
        /// The name as sent.
        key: String,
        /// The value.
        found: String,
        /// Why it is not.
        reason: &'static str,
        /// What to send instead.
        remedy: String,
    },
    /// Two names or places of one key disagree: send one of them.
    #[error(
        "{first_source} '{first}' = {first_value} and {second_source} '{second}' = {second_value} \
         set the same option to different values; send one of them"
    )]
    Conflict {
        /// Where the first stood.
        first_source: Source,
        /// Its name.
        first: String,
        /// Its value.
        first_value: String,
        /// Where the second stood.
        second_source: Source,
        /// Its name.
        second: String,
        /// Its value.
        second_value: String,
    },
    /// Two keys cannot be combined as they are: see `reason`.
    #[error(
        "'{first}' = {first_value} cannot be combined with '{second}' = {second_value}: {reason}"
    )]
    Combination {
        /// One key.
        first: &'static str,
        /// Its value.
        first_value: String,
        /// The other one.
        second: &'static str,
        /// Its value.
        second_value: String,
        /// Why, and what to do.
        reason: &'static str,
    },
    /// The model cannot do what the key asks for: see `reason`.
    #[error("'{key}' = {found} cannot be served by this model: {reason}")]
    Model {
        /// The key.
        key: &'static str,
        /// Its value.
        found: String,
        /// Why, and what to do.
        reason: &'static str,
    },
    /// The request has no prompt, or an empty tensor for one: send one.
    #[error("the request has no prompt; send one of {expected}")]
    NoPrompt {
        /// The keys that this model takes prompts from.
        expected: &'static str,
    },
    /// The request has several prompts: send one.
    #[error("the request has a prompt in '{first}' and in '{second}'; send one of them")]
    SeveralPrompts {
        /// One key.
        first: &'static str,
        /// The other one.
        second: &'static str,
    },
    /// The prompt gives no token to start from: send some text.
    #[error(
        "the prompt has 0 tokens, expected 1 to {max_context}; send a prompt that is not empty"
    )]
    EmptyPrompt {
        /// The model's longest context.
        max_context: usize,
    },
    /// The prompt alone is longer than the context: shorten it.
    #[error("the prompt has {tokens} tokens, expected 1 to {max_context}; shorten it")]
    PromptTooLong {
        /// Tokens of the prompt.
        tokens: usize,
        /// The model's longest context.
        max_context: usize,
    },
    /// Prompt and generated tokens are longer than the context: ask for fewer.
    #[error(
        "'max_tokens' = {max_tokens} is too much behind a prompt of {tokens} tokens: the model's \
         longest context is {max_context}, so 'max_tokens' must be 1 to {most}"
    )]
    NoRoom {
        /// Tokens asked for.
        max_tokens: usize,
        /// Tokens of the prompt.
        tokens: usize,
        /// The model's longest context.
        max_context: usize,
        /// Tokens that fit.
        most: usize,
    },
    /// The smallest number of tokens does not fit behind the prompt: ask for fewer.
    #[error(
        "'min_tokens' = {min_tokens} is too much behind a prompt of {tokens} tokens: {most} tokens \
         can be generated; lower it"
    )]
    NoRoomForLeast {
        /// Tokens asked for.
        min_tokens: usize,
        /// Tokens of the prompt.
        tokens: usize,
        /// Tokens that are generated at most.
        most: usize,
    },
    /// A tensor has several rows: send one request for each prompt.
    #[error(
        "input '{key}' has the shape {shape:?}, expected one row: all dimensions but the last must \
         be 1; send one request for each prompt"
    )]
    Rows {
        /// The tensor.
        key: String,
        /// Its shape.
        shape: Vec<i64>,
    },
}

fn hint(nearest: Option<&str>) -> String {
    match nearest {
        Some(name) => format!("; did you mean '{name}'?"),
        None => "; leave it out".to_owned(),
    }
}
