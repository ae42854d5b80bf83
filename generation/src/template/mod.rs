//! Chat templates: a conversation to the text that the model continues.
//!
//! Checkpoints write them for Jinja2 as Hugging Face's transformers sets it up. Here minijinja
//! renders them, with the same options, functions and filters.

mod messages;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind as Io};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use jiff::{Timestamp, fmt::strtime, tz::TimeZone};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Kwargs;
use minijinja::{Environment, Error, ErrorKind, Value, context};
use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};

pub use messages::{Messages, MessagesError};

/// What is wrong with a chat template, or why it renders nothing.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    /// A file is there, but it cannot be read.
    #[error("cannot read {path}: {source}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// `tokenizer_config.json` is not what it should be.
    #[error("{path} holds no chat template that can be read: {reason}")]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The template cannot be compiled.
    #[error("the chat template of {path} is not valid Jinja, line {line}: {reason}")]
    Syntax {
        /// The file that holds it.
        path: PathBuf,
        /// Where it stops making sense, from 1.
        line: usize,
        /// What minijinja says.
        reason: String,
    },
    /// The template itself refuses the conversation.
    #[error("the model's chat template refuses these messages (roles: {roles}): {message}")]
    Refused {
        /// In the template's words.
        message: String,
        /// The roles of the messages.
        roles: String,
    },
    /// The template does more than a template should for this conversation.
    #[error("the model's chat template did not end within {limit} steps for these messages")]
    TooMuchWork {
        /// The limit.
        limit: u64,
    },
    /// The template does something that it cannot.
    #[error("the model's chat template fails on these messages (roles: {roles}): {reason}")]
    Failed {
        /// What minijinja says, with the template's line.
        reason: String,
        /// The roles of the messages.
        roles: String,
    },
}

/// A compiled chat template.
#[derive(Debug)]
pub struct ChatTemplate {
    environment: Environment<'static>,
    /// `bos_token` and the like, by name.
    special_tokens: BTreeMap<String, String>,
}

/// minijinja counts an instruction as one, and data by size: thousands of messages fit.
const STEPS: u64 = 4_000_000;
/// What templates call themselves within minijinja.
const NAME: &str = "chat template";

impl ChatTemplate {
    /// The file with the template alone; it goes before the other one.
    pub const FILE: &str = "chat_template.jinja";
    /// The file with special tokens, and maybe the template.
    pub const CONFIG: &str = "tokenizer_config.json";

    /// The template of a checkpoint's folder, None if it has none. Of several, the one that is
    /// called `default`.
    pub fn load(folder: &Path) -> Result<Option<ChatTemplate>, TemplateError> {
        let (file, path) = (folder.join(ChatTemplate::FILE), folder.join(ChatTemplate::CONFIG));
        let config = match read(&path)? {
            Some(text) => serde_json::from_str(&text).map_err(|error| TemplateError::Invalid {
                path: path.clone(),
                reason: error.to_string(),
            })?,
            None => serde_json::Value::Null,
        };
        let tokens = special_tokens(&config);
        if let Some(source) = read(&file)? {
            return ChatTemplate::compile(source, tokens, &file).map(Some);
        }
        let source = match config.get("chat_template") {
            None | Some(serde_json::Value::Null) => return Ok(None),
            Some(serde_json::Value::Array(several)) => {
                several.iter().find(|entry| entry["name"] == "default").map(|one| &one["template"])
            }
            one => one,
        };
        let Some(source) = source.and_then(serde_json::Value::as_str) else {
            let reason = "chat_template is neither text nor a list with one called default";
            return Err(TemplateError::Invalid { path, reason: reason.into() });
        };
        ChatTemplate::compile(source.to_owned(), tokens, &path).map(Some)
    }

    /// Compiles a template; `path` is what errors call the file that holds it.
    pub fn compile(
        source: String,
        special_tokens: BTreeMap<String, String>,
        path: &Path,
    ) -> Result<ChatTemplate, TemplateError> {
        let syntax = |error: Error| TemplateError::Syntax {
            path: path.into(),
            line: error.line().unwrap_or_default(),
            reason: error.to_string(),
        };
        let mut environment = Environment::new();
        let options = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(options.map_err(syntax)?);
        environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
        environment
            .set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.set_fuel(Some(STEPS));
        environment.add_filter("tojson", tojson);
        environment.add_function("raise_exception", raise_exception);
        environment.add_template_owned(NAME, source).map_err(syntax)?;
        Ok(ChatTemplate { environment, special_tokens })
    }

    /// The text of a conversation; with `add_generation_prompt` it ends where the model's reply
    /// begins. The special tokens of the model are written out in it. A template that asks for the
    /// date is told `now`, in UTC.
    pub fn render(
        &self,
        messages: &Messages,
        add_generation_prompt: bool,
        now: SystemTime,
    ) -> Result<String, TemplateError> {
        let failed = |error: Error| failure(&error, messages);
        let template = self.environment.get_template(NAME).map_err(failed)?;
        let tokens = self.special_tokens.iter().map(|(name, token)| (name.as_str(), token));
        let variables = context! {
            messages => messages.0.clone(),
            add_generation_prompt,
            // Templates of models with tools ask for them.
            tools => (),
            documents => (),
            strftime_now => Value::from_function(move |layout: &str| date(now, layout)),
            ..Value::from_pairs(tokens),
        };
        template.render(variables).map_err(failed)
    }
}

fn read(path: &Path) -> Result<Option<String>, TemplateError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == Io::NotFound => Ok(None),
        Err(source) => Err(TemplateError::Unreadable { path: path.into(), source }),
    }
}

/// The special tokens of a configuration that have a name: text, or an object that holds it.
fn special_tokens(config: &serde_json::Value) -> BTreeMap<String, String> {
    let named = config.as_object().into_iter().flatten().filter(|(key, _)| key.ends_with("_token"));
    let text = |value: &serde_json::Value| {
        value.as_str().or_else(|| value.get("content")?.as_str()).map(str::to_owned)
    };
    named.filter_map(|(key, value)| Some((key.clone(), text(value)?))).collect()
}

/// A template's own refusal.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Raised(String);

fn raise_exception(message: String) -> Result<Value, Error> {
    let error = Error::new(ErrorKind::InvalidOperation, "raise_exception");
    Err(error.with_source(Raised(message)))
}

fn failure(error: &Error, messages: &Messages) -> TemplateError {
    let roles = messages.roles();
    let mut source: Option<&dyn std::error::Error> = Some(error);
    while let Some(cause) = source {
        if let Some(Raised(message)) = cause.downcast_ref() {
            return TemplateError::Refused { message: message.clone(), roles };
        }
        let kind = cause.downcast_ref().map(Error::kind);
        if kind == Some(ErrorKind::OutOfFuel) {
            return TemplateError::TooMuchWork { limit: STEPS };
        }
        source = cause.source();
    }
    TemplateError::Failed { reason: error.to_string(), roles }
}

fn date(now: SystemTime, layout: &str) -> Result<String, Error> {
    let wrong = |error| Error::new(ErrorKind::InvalidOperation, format!("strftime_now: {error}"));
    let now = Timestamp::try_from(now).map_err(wrong)?.to_zoned_datetime(TimeZone::UTC);
    strtime::format(layout, &now).map_err(wrong)
}

/// As transformers does it: not escaped for HTML, as Python's json module spaces it.
fn tojson(value: Value, options: Kwargs) -> Result<String, Error> {
    let indent: Option<usize> = options.get("indent")?;
    let sorted = options.get::<Option<bool>>("sort_keys")?.unwrap_or_default();
    let ascii = options.get::<Option<bool>>("ensure_ascii")?.unwrap_or_default();
    options.assert_all_used()?;
    let wrong = |reason: String| Error::new(ErrorKind::BadSerialization, reason);
    if ascii {
        return Err(wrong("tojson has no ensure_ascii here".into()));
    }
    let value = if sorted {
        let mut value = serde_json::to_value(&value).map_err(|error| wrong(error.to_string()))?;
        value.sort_all_objects();
        serde_json::from_value(value).map_err(|error| wrong(error.to_string()))?
    } else {
        value
    };
    let mut json = Vec::new();
    let written = match indent {
        None => value.serialize(&mut Serializer::with_formatter(&mut json, Spaced)),
        Some(spaces) => {
            let indent = " ".repeat(spaces.min(80));
            let pretty = PrettyFormatter::with_indent(indent.as_bytes());
            value.serialize(&mut Serializer::with_formatter(&mut json, pretty))
        }
    };
    written.map_err(|error| wrong(error.to_string()))?;
    String::from_utf8(json).map_err(|error| wrong(error.to_string()))
}

/// `{"a": 1, "b": [2, 3]}`.
struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + io::Write>(
        &mut self,
        to: &mut W,
        first: bool,
    ) -> io::Result<()> {
        to.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_key<W: ?Sized + io::Write>(
        &mut self,
        to: &mut W,
        first: bool,
    ) -> io::Result<()> {
        to.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, to: &mut W) -> io::Result<()> {
        to.write_all(b": ")
    }
}
