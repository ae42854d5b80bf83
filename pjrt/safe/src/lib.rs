//! Owned, checked handles over a PJRT plugin: everything in the project that knows PJRT's C API.
//!
//! The way down is [`Plugin`] (a loaded library, kept for ever) → [`Client`] (one per plugin and
//! device ordinal, shared) → [`Executable`] (a compiled StableHLO body) and [`Buffer`] (an array on
//! the device) → [`Pending`] (an execution on its way). Each holds what it needs alive, so handles
//! may be dropped in any order. [`Staging`] is memory that a caller writes step inputs into and the
//! device reads in place; [`MappedFile`] is a weight file that the device reads in place.
//!
//! Handles are `Send` and `Sync` because PJRT's functions may be called from any thread at once. The
//! one thing PJRT leaves to its caller, that nobody writes memory while it is read, is held by Rust's
//! borrows: donation takes a buffer `&mut`, a look at a buffer's bytes keeps it borrowed, and staged
//! memory cannot be written until the executions that read it have been awaited.
//!
//! PJRT checks the sizes of an execution's arguments but not their element types: callers compare
//! [`Buffer::shape`] with the body's signature.

mod api;
mod buffer;
mod cache;
mod client;
mod compile;
mod device_bytes;
mod disk;
mod error;
mod event;
mod execute;
mod heap;
mod host_target;
mod mapped;
mod note;
mod options;
mod platform;
mod plugin;
mod program_shape;
mod runtime;
mod shape;
mod staging;
mod stream;
mod view;

pub use buffer::{Buffer, HostBytes};
pub use cache::{CacheEntry, Claim, CompileCache, Unusable, program_in};
pub use client::Client;
pub use compile::{Executable, MemoryStats};
pub use device_bytes::DeviceBytes;
pub use error::{Code, Error, Failure};
pub use execute::{Argument, Pending};
pub use heap::{release_free_memory, zeroed};
pub use host_target::HostTarget;
pub use mapped::MappedFile;
pub use options::ClientOptions;
pub use plugin::Plugin;
pub use runtime::{DeviceRuntime, Direction, MAPPED_ALIGNMENT, Mapped, RuntimeError};
pub use shape::{ElementType, Shape};
pub use staging::{StagedInput, Staging};
pub use view::View;
