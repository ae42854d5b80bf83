//! What Triton's pointers point to. Objects outlive their use by the backend, so that late use is
//! seen and not undefined.

use std::ffi::{CString, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use parking_lot::Mutex;
use triton_backend_sys as sys;

use crate::request::RequestObject;

/// A `TRITONSERVER_Message`: JSON.
pub(crate) struct Message {
    pub(crate) json: Vec<u8>,
    /// Where a message that is the backend's to delete is counted.
    live: Option<Arc<AtomicUsize>>,
}

impl Message {
    pub(crate) fn new(json: &str) -> Self {
        Message::owned(json.as_bytes())
    }

    pub(crate) fn owned(json: &[u8]) -> Self {
        Message { json: json.to_vec(), live: None }
    }

    pub(crate) fn raw(&self) -> *mut sys::TRITONSERVER_Message {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    pub(crate) fn counted(json: &[u8], live: &Arc<AtomicUsize>) -> Box<Self> {
        live.fetch_add(1, Ordering::SeqCst);
        Box::new(Message { json: json.to_vec(), live: Some(live.clone()) })
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        if let Some(live) = &self.live {
            live.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

pub(crate) type State = AtomicPtr<c_void>;

pub(crate) struct BackendObject {
    pub(crate) name: CString,
    pub(crate) directory: CString,
    pub(crate) config: Message,
    pub(crate) state: State,
    /// Names of the models that it asked the server to unload.
    pub(crate) unloads: Mutex<Vec<String>>,
}

/// A `TRITONBACKEND_BackendAttribute`: preferred instance groups, as kind and count.
#[derive(Default)]
pub(crate) struct AttributeObject {
    pub(crate) preferred: Mutex<Vec<(u32, u64)>>,
}

pub(crate) struct ModelObject {
    pub(crate) name: CString,
    pub(crate) version: u64,
    pub(crate) repository: CString,
    pub(crate) config: Mutex<Vec<u8>>,
    pub(crate) auto_complete: bool,
    pub(crate) live_messages: Arc<AtomicUsize>,
    pub(crate) memory: Mutex<Vec<MemoryReport>>,
    pub(crate) backend: Arc<BackendObject>,
    pub(crate) state: State,
}

/// A batch that a backend counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchReport {
    /// Requests in it.
    pub requests: u64,
    /// Start, compute start, compute end and end in nanoseconds.
    pub times: [u64; 4],
}

/// Memory that a backend reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryReport {
    /// A `TRITONSERVER_MEMORY_*`.
    pub memory: u32,
    /// The device.
    pub device: i64,
    /// Bytes.
    pub byte_size: usize,
}

pub(crate) struct InstanceObject {
    pub(crate) name: CString,
    pub(crate) kind: u32,
    pub(crate) device_id: i32,
    pub(crate) host_policy: Message,
    pub(crate) model: Arc<ModelObject>,
    pub(crate) state: State,
    pub(crate) batches: Mutex<Vec<BatchReport>>,
    pub(crate) memory: Mutex<Vec<MemoryReport>>,
    pub(crate) requests: Mutex<Vec<Arc<RequestObject>>>,
}

/// Statistics of a response, as a backend fills them.
#[derive(Default)]
pub(crate) struct ResponseStatisticsObject {
    pub(crate) instance: bool,
    pub(crate) factory: Option<Arc<RequestObject>>,
    pub(crate) times: [u64; 3],
    pub(crate) failed: bool,
}
