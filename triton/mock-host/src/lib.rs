//! Test only: a host that defines the Triton server's symbols, so that a backend's tests link and can
//! drive the backend as a server does.
//!
//! [`Host`] starts a backend from its entry points, loads models, creates instances and executes
//! [`RequestSetup`]s. What the backend did with a request is a list of [`Event`]s; misuse, such as a
//! second release, is one of them and not a crash. [`Faults`] make single functions fail. Buffers of
//! inputs are never aligned.

mod error;
mod host;
mod log;
mod metrics;
mod object;
mod request;
mod symbols;

pub use error::{Failure, live_errors};
pub use host::{
    BackendSetup, Host, InstanceSetup, LoadedInstance, LoadedModel, ModelSetup, Reports, Ticket,
};
pub use log::{LogLine, log_lines, set_verbose};
pub use metrics::{MetricSample, metrics};
pub use object::{BatchReport, MemoryReport};
pub use request::{
    Answer, Correlation, Event, Faults, GpuAddress, InputSetup, Output, Parameter, RequestSetup,
};
