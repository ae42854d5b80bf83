//! What a generation request may say, and what it says.
//!
//! * [`TABLE`]: every key of a request: its type, range, default, meaning, other names and where it
//!   may stand. Parser, checks, tensors of a model's configuration, docs and default list come from it.
//! * [`REPLIES`]: every output of a response, likewise.
//! * [`GenerationRequest::read`]: a checked request from neutral [`Given`] values, so that nothing here
//!   knows a server.

mod cases;
mod docs;
mod draft;
mod error;
mod key;
mod model;
mod parse;
mod reply;
mod request;
mod table;
mod value;

pub use cases::{Case, Class, Sent, cases, cases_json};
pub use docs::{defaults, reply_markdown, request_markdown};
pub use error::Error;
pub use key::{DataType, Key, Place, TensorSpec};
pub use model::ModelFacts;
pub use reply::{REPLIES, Reply, ReplySpec, Wants};
pub use request::{DEFAULT_MAX_TOKENS, EndId, GenerationOptions, GenerationRequest, Prompt};
pub use table::{TABLE, find, tensors};
pub use value::{Given, Source, Value};
