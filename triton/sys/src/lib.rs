//! Generated bindings of the Triton C API as a backend sees it (TRITONBACKEND API 1.19).
//!
//! `src/bindings.rs` is written by `generate.sh` and committed, so that building needs no libclang.
//! The functions are undefined symbols: the server that opens the backend has them, and in tests the
//! crate `triton-mock-host`. What a backend itself must define is not declared there; its form is
//! [`EntryPoints`].

#[allow(
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    clippy::all,
    clippy::pedantic
)]
mod bindings;

pub use bindings::*;

/// The functions that a backend gives to the server, which finds them by the names
/// `TRITONBACKEND_*`. Each returns null, or an error that the server deletes.
#[derive(Clone, Copy)]
pub struct EntryPoints {
    /// `TRITONBACKEND_Initialize`: once per process.
    pub initialize: unsafe extern "C" fn(*mut TRITONBACKEND_Backend) -> *mut TRITONSERVER_Error,
    /// `TRITONBACKEND_Finalize`: at the server's exit, if the backend was initialized.
    pub finalize: unsafe extern "C" fn(*mut TRITONBACKEND_Backend) -> *mut TRITONSERVER_Error,
    /// `TRITONBACKEND_GetBackendAttribute`: once, after `initialize`.
    pub get_backend_attribute: unsafe extern "C" fn(
        *mut TRITONBACKEND_Backend,
        *mut TRITONBACKEND_BackendAttribute,
    ) -> *mut TRITONSERVER_Error,
    /// `TRITONBACKEND_ModelInitialize`.
    pub model_initialize: unsafe extern "C" fn(*mut TRITONBACKEND_Model) -> *mut TRITONSERVER_Error,
    /// `TRITONBACKEND_ModelFinalize`: only for a model that was initialized.
    pub model_finalize: unsafe extern "C" fn(*mut TRITONBACKEND_Model) -> *mut TRITONSERVER_Error,
    /// `TRITONBACKEND_ModelInstanceInitialize`.
    pub model_instance_initialize:
        unsafe extern "C" fn(*mut TRITONBACKEND_ModelInstance) -> *mut TRITONSERVER_Error,
    /// `TRITONBACKEND_ModelInstanceFinalize`: only for an instance that was initialized, with none
    /// of its requests outstanding.
    pub model_instance_finalize:
        unsafe extern "C" fn(*mut TRITONBACKEND_ModelInstance) -> *mut TRITONSERVER_Error,
    /// `TRITONBACKEND_ModelInstanceExecute`: never twice at a time for one instance. With null the
    /// requests become the backend's, with an error they stay the server's.
    pub model_instance_execute: unsafe extern "C" fn(
        *mut TRITONBACKEND_ModelInstance,
        *mut *mut TRITONBACKEND_Request,
        u32,
    ) -> *mut TRITONSERVER_Error,
    /// `TRITONBACKEND_ModelInstanceReady`: at any time between the instance's initialization and its
    /// finalization, with null where it can serve. Older servers do not ask.
    pub model_instance_ready:
        unsafe extern "C" fn(*mut TRITONBACKEND_ModelInstance) -> *mut TRITONSERVER_Error,
}
