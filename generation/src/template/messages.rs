//! The messages of a conversation, as a request gives them.

use minijinja::Value;
use minijinja::value::ValueKind;

/// A conversation: JSON `[{"role": …, "content": …}, …]`. Content is text, or a list of parts
/// `{"type": "text", "text": …}`, which become one text with a line break between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Messages(pub(super) Value);

/// What a request has in place of messages.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessagesError {
    /// It cannot be read at all.
    #[error("no JSON list of messages: {reason}")]
    NotJson {
        /// What the parser says.
        reason: String,
    },
    /// There is nothing to answer.
    #[error("an empty list")]
    Empty,
    /// One message is not as it should be.
    #[error("message {index}, whose {what} is {found}, not {expected}")]
    Message {
        /// Its place, from 0.
        index: usize,
        /// What of it.
        what: &'static str,
        /// What it is.
        found: String,
        /// What it has to be.
        expected: &'static str,
    },
}

impl Messages {
    /// Reads and checks them. Other keys than role and content are for the template to read.
    pub fn parse(json: &str) -> Result<Messages, MessagesError> {
        let messages: Vec<Value> = serde_json::from_str(json)
            .map_err(|error| MessagesError::NotJson { reason: error.to_string() })?;
        if messages.is_empty() {
            return Err(MessagesError::Empty);
        }
        let checked = messages.into_iter().enumerate().map(|(index, message)| {
            check(&message).map_err(|(what, found, expected)| {
                let found = describe(&found);
                MessagesError::Message { index, what, found, expected }
            })
        });
        Ok(Messages(Value::from(checked.collect::<Result<Vec<_>, _>>()?)))
    }

    /// As JSON, with the content of each as one text.
    pub fn to_json(&self) -> String {
        serde_json::to_string(&self.0).unwrap_or_default()
    }

    /// Who speaks, in order.
    pub(super) fn roles(&self) -> String {
        let role = |message: &Value| Some(message.get_attr("role").ok()?.as_str()?.to_owned());
        self.0
            .try_iter()
            .into_iter()
            .flatten()
            .filter_map(|message| role(&message))
            .collect::<Vec<_>>()
            .join(", ")
    }
}

/// What is wrong, what was found, what was expected.
type Wrong = (&'static str, Value, &'static str);

const CONTENT: &str = "text, or a list of {\"type\": \"text\", \"text\": …}";

/// The message with its content as one text.
fn check(message: &Value) -> Result<Value, Wrong> {
    if message.kind() != ValueKind::Map {
        return Err(("JSON", message.clone(), "{\"role\": …, \"content\": …}"));
    }
    let key = |name| message.get_attr(name).unwrap_or_default();
    let role = key("role");
    if role.as_str().is_none_or(str::is_empty) {
        return Err(("role", role, "a name, such as system, user or assistant"));
    }
    let content = key("content");
    match content.kind() {
        ValueKind::String => Ok(message.clone()),
        ValueKind::Seq => with_content(message, text_of_parts(&content)?),
        // A reply that only calls tools says nothing.
        ValueKind::None | ValueKind::Undefined if key("tool_calls").is_true() => {
            Ok(message.clone())
        }
        _ => Err(("content", content, CONTENT)),
    }
}

fn text_of_parts(parts: &Value) -> Result<String, Wrong> {
    let mut texts = Vec::new();
    for part in parts.try_iter().into_iter().flatten() {
        let key = |name| part.get_attr(name).unwrap_or_default();
        let kind = key("type");
        if kind.as_str() != Some("text") {
            return Err(("content has a part whose type", kind, "\"text\""));
        }
        let text = key("text");
        match text.as_str() {
            Some(text) => texts.push(text.to_owned()),
            None => return Err(("content has a part whose text", text, "text")),
        }
    }
    Ok(texts.join("\n"))
}

fn with_content(message: &Value, content: String) -> Result<Value, Wrong> {
    let keys = message.try_iter().into_iter().flatten();
    let pairs = keys.map(|key| match key.as_str() {
        Some("content") => (key, Value::from(content.as_str())),
        _ => (key.clone(), message.get_item(&key).unwrap_or_default()),
    });
    Ok(Value::from_pairs(pairs))
}

/// A value in an error, cut where it is long.
fn describe(value: &Value) -> String {
    const LONGEST: usize = 60;
    match value.kind() {
        ValueKind::Undefined => "missing".to_owned(),
        ValueKind::None => "null".to_owned(),
        _ => {
            let json = serde_json::to_string(value).unwrap_or_else(|_| value.to_string());
            match json.char_indices().nth(LONGEST) {
                Some((end, _)) => format!("{}…", &json[..end]),
                None => json,
            }
        }
    }
}
