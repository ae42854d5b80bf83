//! A safe frame for Triton backends: everything here knows Triton's C API, nothing knows what a
//! backend computes.
//!
//! A backend implements [`Backend`] and names itself with [`export_backend!`] in a `cdylib`. The
//! frame checks versions, keeps the backend's state with Triton's objects, catches panics and sees
//! to it that every request is answered once, reported once and released once:
//!
//! ```text
//! Requests ──next──► Request ──respond(fill) / fail(error)──► Answered ──report(instance, times)──► released
//!                       ├─ dropped: answered with INTERNAL, released    └─ dropped: released
//!                       └─ into_stream ─► ResponseStream ──respond(fill)…──finish(fill) / fail(error)──► Answered
//! ```
//!
//! What a context says is read when it is built, so contexts hold no pointers. [`Instance`] is the
//! one handle that may outlive its callback: it goes dead when Triton takes its instance away.
//!
//! `examples/echo.rs` is a whole backend.

mod call;
mod clock;
mod context;
mod data_type;
mod entry;
mod error;
mod input;
mod instance;
mod log;
mod memory;
mod metrics;
mod output_memory;
mod parameter;
mod request;
mod response;
mod stream;
mod strings;

pub use clock::now_ns;
pub use context::{BackendContext, InstanceContext, InstanceKind, ModelContext, config_integer};
pub use data_type::DataType;
pub use entry::{Backend, entry_points};
pub use error::{Code, Error};
pub use input::{Input, Piece};
pub use instance::{Instance, MemoryUsage, Times};
pub use memory::{GpuMemory, Memory};
pub use metrics::{Counter, Gauge, Histogram, Label, MetricFamily};
pub use output_memory::OutputMemory;
pub use parameter::ParameterValue;
pub use request::{Answered, CorrelationId, Flags, Request, Requests};
pub use response::{OutputBuffer, Response};
pub use stream::ResponseStream;
pub use strings::{read_strings, write_strings};

#[doc(hidden)]
pub use triton_backend_sys as sys;

// The symbols that a server would bring.
#[cfg(test)]
use triton_mock_host as _;

/// Defines the `TRITONBACKEND_*` functions of a `cdylib` for a type that implements [`Backend`].
///
/// Use it once, in the crate that becomes `libtriton_<name>.so`.
#[macro_export]
macro_rules! export_backend {
    ($backend:ty) => {
        const _: () = {
            $crate::export_backend!(@entry $backend, TRITONBACKEND_Initialize, initialize,
                backend: *mut $crate::sys::TRITONBACKEND_Backend);
            $crate::export_backend!(@entry $backend, TRITONBACKEND_Finalize, finalize,
                backend: *mut $crate::sys::TRITONBACKEND_Backend);
            $crate::export_backend!(@entry $backend, TRITONBACKEND_GetBackendAttribute,
                get_backend_attribute,
                backend: *mut $crate::sys::TRITONBACKEND_Backend,
                attributes: *mut $crate::sys::TRITONBACKEND_BackendAttribute);
            $crate::export_backend!(@entry $backend, TRITONBACKEND_ModelInitialize, model_initialize,
                model: *mut $crate::sys::TRITONBACKEND_Model);
            $crate::export_backend!(@entry $backend, TRITONBACKEND_ModelFinalize, model_finalize,
                model: *mut $crate::sys::TRITONBACKEND_Model);
            $crate::export_backend!(@entry $backend, TRITONBACKEND_ModelInstanceInitialize,
                model_instance_initialize,
                instance: *mut $crate::sys::TRITONBACKEND_ModelInstance);
            $crate::export_backend!(@entry $backend, TRITONBACKEND_ModelInstanceFinalize,
                model_instance_finalize,
                instance: *mut $crate::sys::TRITONBACKEND_ModelInstance);
            $crate::export_backend!(@entry $backend, TRITONBACKEND_ModelInstanceExecute,
                model_instance_execute,
                instance: *mut $crate::sys::TRITONBACKEND_ModelInstance,
                requests: *mut *mut $crate::sys::TRITONBACKEND_Request,
                request_count: u32);
            $crate::export_backend!(@entry $backend, TRITONBACKEND_ModelInstanceReady,
                model_instance_ready,
                instance: *mut $crate::sys::TRITONBACKEND_ModelInstance);
        };
    };
    (@entry $backend:ty, $symbol:ident, $entry:ident, $($argument:ident: $type:ty),+) => {
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $symbol($($argument: $type),+) -> *mut $crate::sys::TRITONSERVER_Error {
            // SAFETY: the server calls this with what the entry point of this name is promised.
            unsafe { ($crate::entry_points::<$backend>().$entry)($($argument),+) }
        }
    };
}
