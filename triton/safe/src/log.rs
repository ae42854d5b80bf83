//! `tracing` events in the server's log.

use std::fmt::{self, Write};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, Registry};
use triton_backend_sys as sys;

use crate::error::{c_string, check};

/// Sends events to the server's log from now on; only the first call in a process counts.
pub(crate) fn install(prefix: String) {
    // Another subscriber is a test's.
    let _ = tracing::subscriber::set_global_default(Registry::default().with(ServerLog { prefix }));
}

/// Writes `<prefix>instance '<name>': <message> <field>=<value> …`, where the name is that of the
/// innermost span with a field `instance`; without one `model '<name>': `, after the field `model`.
struct ServerLog {
    prefix: String,
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for ServerLog {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        // The server's level can change at any time, and events need their spans at every level.
        // SAFETY: the function takes any level.
        metadata.is_span() || unsafe { sys::TRITONSERVER_LogIsEnabled(level(metadata)) }
    }

    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut names = Names::default();
        attributes.record(&mut names);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(names);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut names = Names::default();
        for span in context.event_scope(event).into_iter().flatten() {
            if let Some(outer) = span.extensions().get::<Names>() {
                names.instance = names.instance.or_else(|| outer.instance.clone());
                names.model = names.model.or_else(|| outer.model.clone());
            }
        }
        let mut text = Text::default();
        event.record(&mut text);
        let place = match (names.instance, names.model) {
            (Some(instance), _) => format!("instance '{instance}': "),
            (None, Some(model)) => format!("model '{model}': "),
            (None, None) => String::new(),
        };
        let line = c_string(&format!("{}{place}{}{}", self.prefix, text.message, text.fields));

        let metadata = event.metadata();
        let file = c_string(metadata.file().unwrap_or_else(|| metadata.target()));
        let row = metadata.line().and_then(|row| i32::try_from(row).ok()).unwrap_or(0);
        // SAFETY: both texts are C strings, which Triton copies.
        let logged = unsafe {
            let result =
                sys::TRITONSERVER_LogMessage(level(metadata), file.as_ptr(), row, line.as_ptr());
            check("TRITONSERVER_LogMessage", result)
        };
        // There is nowhere to tell of it.
        drop(logged);
    }
}

/// The fields of a span that begin the lines of events in it.
#[derive(Default)]
struct Names {
    instance: Option<String>,
    model: Option<String>,
}

impl Visit for Names {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let name = match field.name() {
            "instance" => &mut self.instance,
            "model" => &mut self.model,
            _ => return,
        };
        *name = Some(format!("{value:?}"));
    }
}

/// The message of an event, and its other fields as ` name=value`.
#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Visit for Text {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string does not fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}

fn level(metadata: &Metadata<'_>) -> sys::TRITONSERVER_LogLevel {
    match *metadata.level() {
        Level::ERROR => sys::TRITONSERVER_LOG_ERROR,
        Level::WARN => sys::TRITONSERVER_LOG_WARN,
        Level::INFO => sys::TRITONSERVER_LOG_INFO,
        Level::DEBUG | Level::TRACE => sys::TRITONSERVER_LOG_VERBOSE,
    }
}
