//! The server's functions, as far as `triton-backend` calls them.
//!
//! A pointer that a backend passes must be one of this host's objects, or a place to write to, as in
//! the header; that is what the SAFETY comments below mean by the contract.

mod responses;

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use triton_backend_sys as sys;

use crate::error::{ErrorObject, injected, invalid};
use crate::log::{self, LogLine};
use crate::object::{
    AttributeObject, BackendObject, BatchReport, InstanceObject, MemoryReport, Message, ModelObject,
};
use crate::request::{CorrelationObject, Event, InputObject, ParameterObject, RequestObject};

type Error = *mut sys::TRITONSERVER_Error;

const OK: Error = ptr::null_mut();

thread_local! {
    static API_VERSION: Cell<(u32, u32)> = const { Cell::new((0, 0)) };
}

/// The version that this thread's backend is told.
pub(crate) fn set_api_version(version: (u32, u32)) {
    API_VERSION.set(version);
}

/// Functions that read one value of an object.
macro_rules! getters {
    ($($symbol:ident, $raw:ident, |$object:ident: $type:ty| -> $value:ty $body:block)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $symbol(object: *mut sys::$raw, value: *mut $value) -> Error {
            // SAFETY: the contract.
            unsafe {
                let $object: &$type = &*object.cast();
                *value = $body;
            }
            OK
        }
    )*};
}

/// Functions that keep a backend's state with an object.
macro_rules! states {
    ($($get:ident, $set:ident, $raw:ident, $type:ty;)*) => {$(
        getters! { $get, $raw, |object: $type| -> *mut c_void { object.state.load(Ordering::SeqCst) } }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $set(object: *mut sys::$raw, state: *mut c_void) -> Error {
            // SAFETY: the contract.
            unsafe { (*object.cast::<$type>()).state.store(state, Ordering::SeqCst) };
            OK
        }
    )*};
}

/// Functions that read one value of a request.
macro_rules! request_getters {
    ($($symbol:ident, |$request:ident| -> $value:ty $body:block)*) => {$(
        getters! { $symbol, TRITONBACKEND_Request, |$request: RequestObject| -> $value {
            $request.used(stringify!($symbol));
            $body
        } }
    )*};
}

getters! {
    TRITONBACKEND_BackendName, TRITONBACKEND_Backend, |backend: BackendObject| -> *const c_char {
        backend.name.as_ptr()
    }
    TRITONBACKEND_BackendConfig, TRITONBACKEND_Backend,
    |backend: BackendObject| -> *mut sys::TRITONSERVER_Message { backend.config.raw() }
    TRITONBACKEND_ModelName, TRITONBACKEND_Model, |model: ModelObject| -> *const c_char {
        model.name.as_ptr()
    }
    TRITONBACKEND_ModelVersion, TRITONBACKEND_Model, |model: ModelObject| -> u64 { model.version }
    TRITONBACKEND_ModelAutoCompleteConfig, TRITONBACKEND_Model, |model: ModelObject| -> bool {
        model.auto_complete
    }
    TRITONBACKEND_ModelBackend, TRITONBACKEND_Model,
    |model: ModelObject| -> *mut sys::TRITONBACKEND_Backend {
        Arc::as_ptr(&model.backend).cast_mut().cast()
    }
    // The server is known by its backend.
    TRITONBACKEND_ModelServer, TRITONBACKEND_Model,
    |model: ModelObject| -> *mut sys::TRITONSERVER_Server {
        Arc::as_ptr(&model.backend).cast_mut().cast()
    }
    TRITONBACKEND_ModelInstanceName, TRITONBACKEND_ModelInstance,
    |instance: InstanceObject| -> *const c_char { instance.name.as_ptr() }
    TRITONBACKEND_ModelInstanceKind, TRITONBACKEND_ModelInstance,
    |instance: InstanceObject| -> u32 { instance.kind }
    TRITONBACKEND_ModelInstanceDeviceId, TRITONBACKEND_ModelInstance,
    |instance: InstanceObject| -> i32 { instance.device_id }
    TRITONBACKEND_ModelInstanceHostPolicy, TRITONBACKEND_ModelInstance,
    |instance: InstanceObject| -> *mut sys::TRITONSERVER_Message { instance.host_policy.raw() }
    TRITONBACKEND_ModelInstanceModel, TRITONBACKEND_ModelInstance,
    |instance: InstanceObject| -> *mut sys::TRITONBACKEND_Model {
        Arc::as_ptr(&instance.model).cast_mut().cast()
    }
}

states! {
    TRITONBACKEND_BackendState, TRITONBACKEND_BackendSetState, TRITONBACKEND_Backend, BackendObject;
    TRITONBACKEND_ModelState, TRITONBACKEND_ModelSetState, TRITONBACKEND_Model, ModelObject;
    TRITONBACKEND_ModelInstanceState, TRITONBACKEND_ModelInstanceSetState,
    TRITONBACKEND_ModelInstance, InstanceObject;
}

request_getters! {
    TRITONBACKEND_RequestId, |request| -> *const c_char { request.id.as_ptr() }
    TRITONBACKEND_RequestFlags, |request| -> u32 { request.flags }
    TRITONBACKEND_RequestIsCancelled, |request| -> bool { request.cancelled.load(Ordering::SeqCst) }
    TRITONBACKEND_RequestCorrelationId, |request| -> u64 {
        match &request.correlation {
            CorrelationObject::Number(id) => *id,
            CorrelationObject::Text(_) => return invalid("the correlation id is text"),
        }
    }
    TRITONBACKEND_RequestCorrelationIdString, |request| -> *const c_char {
        match &request.correlation {
            CorrelationObject::Number(_) => return invalid("the correlation id is a number"),
            CorrelationObject::Text(id) => id.as_ptr(),
        }
    }
    TRITONBACKEND_InferenceRequestTimeoutMicroseconds, |request| -> u64 {
        request.timeout_microseconds
    }
    TRITONBACKEND_RequestInputCount, |request| -> u32 { count(request.inputs.len()) }
    TRITONBACKEND_RequestOutputCount, |request| -> u32 { count(request.outputs.len()) }
    TRITONBACKEND_RequestParameterCount, |request| -> u32 { count(request.parameters.len()) }
}

fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

// Errors, messages, log.

#[unsafe(no_mangle)]
unsafe extern "C" fn TRITONSERVER_ErrorNew(code: u32, message: *const c_char) -> Error {
    // SAFETY: the contract.
    ErrorObject::raw(code, unsafe { CStr::from_ptr(message) }.to_owned())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn TRITONSERVER_ErrorDelete(error: Error) {
    // SAFETY: the contract.
    unsafe { ErrorObject::delete(error) };
}

#[unsafe(no_mangle)]
unsafe extern "C" fn TRITONSERVER_ErrorCode(error: Error) -> u32 {
    // SAFETY: the contract.
    unsafe { (*error.cast::<ErrorObject>()).code }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn TRITONSERVER_ErrorMessage(error: Error) -> *const c_char {
    // SAFETY: the contract.
    unsafe { (*error.cast::<ErrorObject>()).message.as_ptr() }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn TRITONSERVER_MessageSerializeToJson(
    message: *mut sys::TRITONSERVER_Message,
    base: *mut *const c_char,
    byte_size: *mut usize,
) -> Error {
    // SAFETY: the contract.
    unsafe {
        let message = &*message.cast::<Message>();
        *base = message.json.as_ptr().cast();
        *byte_size = message.json.len();
    }
    OK
}

#[unsafe(no_mangle)]
unsafe extern "C" fn TRITONSERVER_MessageNewFromSerializedJson(
    message: *mut *mut sys::TRITONSERVER_Message,
    base: *const c_char,
    byte_size: usize,
) -> Error {
    // SAFETY: the contract.
    unsafe {
        let json = std::slice::from_raw_parts(base.cast::<u8>(), byte_size);
        *message = Box::into_raw(Box::new(Message::owned(json))).cast();
    }
    OK
}

#[unsafe(no_mangle)]
unsafe extern "C" fn TRITONSERVER_MessageDelete(message: *mut sys::TRITONSERVER_Message) -> Error {
    // SAFETY: the contract: it came from TRITONBACKEND_ModelConfig, or from JSON.
    drop(unsafe { Box::from_raw(message.cast::<Message>()) });
    OK
}

#[unsafe(no_mangle)]
extern "C" fn TRITONSERVER_LogIsEnabled(level: u32) -> bool {
    level != sys::TRITONSERVER_LOG_VERBOSE || log::verbose()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn TRITONSERVER_LogMessage(
    level: u32,
    file: *const c_char,
    line: c_int,
    message: *const c_char,
) -> Error {
    // SAFETY: the contract.
    let [file, message] =
        [file, message].map(|text| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned());
    log::push(LogLine { level, file, line, message });
    OK
}

// Backends and models.

#[unsafe(no_mangle)]
unsafe extern "C" fn TRITONBACKEND_ApiVersion(major: *mut u32, minor: *mut u32) -> Error {
    // SAFETY: the contract.
    unsafe { (*major, *minor) = API_VERSION.get() };
    OK
}

#[unsafe(no_mangle)]
unsafe extern "C" fn TRITONBACKEND_BackendArtifacts(
    backend: *mut sys::TRITONBACKEND_Backend,
    kind: *mut sys::TRITONBACKEND_ArtifactType,
    location: *mut *const c_char,
) -> Error {
    // SAFETY: the contract.
    unsafe {
        *kind = sys::TRITONBACKEND_ARTIFACT_FILESYSTEM;
        *location = (*backend.cast::<BackendObject>()).directory.as_ptr();
    }
    OK
}

#[unsafe(no_mangle)]
unsafe extern "C" fn TRITONBACKEND_BackendAttributeAddPreferredInstanceGroup(
    attributes: *mut sys::TRITONBACKEND_BackendAttribute,
    kind: u32,
    count: u64,
    _: *const u64,
    _: u64,
) -> Error {
    // SAFETY: the contract.
    unsafe { (*attributes.cast::<AttributeObject>()).preferred.lock().push((kind, count)) };
    OK
}

#[unsafe(no_mangle)]
unsafe extern "C" fn TRITONBACKEND_ModelRepository(
    model: *mut sys::TRITONBACKEND_Model,
    kind: *mut sys::TRITONBACKEND_ArtifactType,
    location: *mut *const c_char,
) -> Error {
    // SAFETY: the contract.
    unsafe {
        *kind = sys::TRITONBACKEND_ARTIFACT_FILESYSTEM;
        *location = (*model.cast::<ModelObject>()).repository.as_ptr();
    }
    OK
}

#[unsafe(no_mangle)]
unsafe extern "C" fn TRITONBACKEND_ModelConfig(
    model: *mut sys::TRITONBACKEND_Model,
    version: u32,
    config: *mut *mut sys::TRITONSERVER_Message,
) -> Error {
    if version != 1 {
        return invalid("the configuration version is 1");
    }
    // SAFETY: the contract.
    unsafe {
        let model = &*model.cast::<ModelObject>();
        let json = model.config.lock();
        *config = Box::into_raw(Message::counted(&json, &model.live_messages)).cast();
    }
    OK
}

#[unsafe(no_mangle)]
unsafe extern "C" fn TRITONBACKEND_ModelSetConfig(
    model: *mut sys::TRITONBACKEND_Model,
    version: u32,
    config: *mut sys::TRITONSERVER_Message,
) -> Error {
    if version != 1 {
        return invalid("the configuration version is 1");
    }
    // SAFETY: the contract.
    unsafe {
        let json = (*config.cast::<Message>()).json.clone();
        *(*model.cast::<ModelObject>()).config.lock() = json;
    }
    OK
}

#[unsafe(no_mangle)]
unsafe extern "C" fn TRITONSERVER_ServerUnloadModel(
    server: *mut sys::TRITONSERVER_Server,
    model: *const c_char,
) -> Error {
    // SAFETY: the contract.
    let (backend, model) = unsafe { (&*server.cast::<BackendObject>(), CStr::from_ptr(model)) };
    backend.unloads.lock().push(model.to_string_lossy().into_owned());
    OK
}

// Statistics.

#[unsafe(no_mangle)]
unsafe extern "C" fn TRITONBACKEND_ModelInstanceReportStatistics(
    _: *mut sys::TRITONBACKEND_ModelInstance,
    request: *mut sys::TRITONBACKEND_Request,
    success: bool,
    start: u64,
    compute_start: u64,
    compute_end: u64,
    end: u64,
) -> Error {
    // SAFETY: the contract.
    let request = unsafe { &*request.cast::<RequestObject>() };
    request.used("TRITONBACKEND_ModelInstanceReportStatistics");
    if request.faults.report {
        return injected("TRITONBACKEND_ModelInstanceReportStatistics");
    }
    request.push(Event::Reported { success, times: [start, compute_start, compute_end, end] });
    OK
}

#[unsafe(no_mangle)]
unsafe extern "C" fn TRITONBACKEND_ModelInstanceReportBatchStatistics(
    instance: *mut sys::TRITONBACKEND_ModelInstance,
    requests: u64,
    start: u64,
    compute_start: u64,
    compute_end: u64,
    end: u64,
) -> Error {
    let times = [start, compute_start, compute_end, end];
    // SAFETY: the contract.
    let instance = unsafe { &*instance.cast::<InstanceObject>() };
    instance.batches.lock().push(BatchReport { requests, times });
    OK
}

#[unsafe(no_mangle)]
unsafe extern "C" fn TRITONBACKEND_ModelInstanceReportMemoryUsage(
    instance: *mut sys::TRITONBACKEND_ModelInstance,
    usage: *mut *mut sys::TRITONSERVER_BufferAttributes,
    usage_size: u32,
) -> Error {
    // SAFETY: the contract.
    unsafe { *(*instance.cast::<InstanceObject>()).memory.lock() = memory(usage, usage_size) };
    OK
}

#[unsafe(no_mangle)]
unsafe extern "C" fn TRITONBACKEND_ModelReportMemoryUsage(
    model: *mut sys::TRITONBACKEND_Model,
    usage: *mut *mut sys::TRITONSERVER_BufferAttributes,
    usage_size: u32,
) -> Error {
    // SAFETY: the contract.
    unsafe { *(*model.cast::<ModelObject>()).memory.lock() = memory(usage, usage_size) };
    OK
}

/// What a backend reports.
///
/// # Safety
/// `usage` must be a list of so many buffer attributes.
unsafe fn memory(
    usage: *mut *mut sys::TRITONSERVER_BufferAttributes,
    usage_size: u32,
) -> Vec<MemoryReport> {
    // SAFETY: the caller's promise.
    let list = unsafe { std::slice::from_raw_parts(usage, usage_size as usize) };
    // SAFETY: as above.
    list.iter().map(|attributes| unsafe { *attributes.cast::<MemoryReport>() }).collect()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn TRITONSERVER_BufferAttributesNew(
    attributes: *mut *mut sys::TRITONSERVER_BufferAttributes,
) -> Error {
    let report = MemoryReport { memory: u32::MAX, device: -1, byte_size: 0 };
    // SAFETY: the contract.
    unsafe { *attributes = Box::into_raw(Box::new(report)).cast() };
    OK
}

#[unsafe(no_mangle)]
unsafe extern "C" fn TRITONSERVER_BufferAttributesDelete(
    attributes: *mut sys::TRITONSERVER_BufferAttributes,
) -> Error {
    // SAFETY: the contract.
    drop(unsafe { Box::from_raw(attributes.cast::<MemoryReport>()) });
    OK
}

#[unsafe(no_mangle)]
unsafe extern "C" fn TRITONSERVER_BufferAttributesSetMemoryType(
    attributes: *mut sys::TRITONSERVER_BufferAttributes,
    memory: u32,
) -> Error {
    // SAFETY: the contract.
    unsafe { (*attributes.cast::<MemoryReport>()).memory = memory };
    OK
}

#[unsafe(no_mangle)]
unsafe extern "C" fn TRITONSERVER_BufferAttributesSetMemoryTypeId(
    attributes: *mut sys::TRITONSERVER_BufferAttributes,
    device: i64,
) -> Error {
    // SAFETY: the contract.
    unsafe { (*attributes.cast::<MemoryReport>()).device = device };
    OK
}

#[unsafe(no_mangle)]
unsafe extern "C" fn TRITONSERVER_BufferAttributesSetByteSize(
    attributes: *mut sys::TRITONSERVER_BufferAttributes,
    byte_size: usize,
) -> Error {
    // SAFETY: the contract.
    unsafe { (*attributes.cast::<MemoryReport>()).byte_size = byte_size };
    OK
}

// Requests.

#[unsafe(no_mangle)]
unsafe extern "C" fn TRITONBACKEND_RequestInputByIndex(
    request: *mut sys::TRITONBACKEND_Request,
    index: u32,
    input: *mut *mut sys::TRITONBACKEND_Input,
) -> Error {
    // SAFETY: the contract.
    let request = unsafe { &*request.cast::<RequestObject>() };
    request.used("TRITONBACKEND_RequestInputByIndex");
    let Some(found) = request.inputs.get(index as usize) else { return invalid("no such input") };
    // SAFETY: the contract.
    unsafe { *input = ptr::from_ref(found).cast_mut().cast() };
    OK
}

#[unsafe(no_mangle)]
unsafe extern "C" fn TRITONBACKEND_RequestOutputName(
    request: *mut sys::TRITONBACKEND_Request,
    index: u32,
    name: *mut *const c_char,
) -> Error {
    // SAFETY: the contract.
    let request = unsafe { &*request.cast::<RequestObject>() };
    request.used("TRITONBACKEND_RequestOutputName");
    let Some(found) = request.outputs.get(index as usize) else { return invalid("no such output") };
    // SAFETY: the contract.
    unsafe { *name = found.as_ptr() };
    OK
}

#[unsafe(no_mangle)]
unsafe extern "C" fn TRITONBACKEND_RequestParameter(
    request: *mut sys::TRITONBACKEND_Request,
    index: u32,
    key: *mut *const c_char,
    kind: *mut u32,
    value: *mut *const c_void,
) -> Error {
    // SAFETY: the contract.
    let request = unsafe { &*request.cast::<RequestObject>() };
    request.used("TRITONBACKEND_RequestParameter");
    let Some((name, parameter)) = request.parameters.get(index as usize) else {
        return invalid("no such parameter");
    };
    let (its_kind, its_value) = match parameter {
        ParameterObject::String(text) => (sys::TRITONSERVER_PARAMETER_STRING, text.as_ptr().cast()),
        ParameterObject::Int(number) => {
            (sys::TRITONSERVER_PARAMETER_INT, ptr::from_ref(number).cast())
        }
        ParameterObject::Bool(truth) => {
            (sys::TRITONSERVER_PARAMETER_BOOL, ptr::from_ref(truth).cast())
        }
        ParameterObject::Double(number) => {
            (sys::TRITONSERVER_PARAMETER_DOUBLE, ptr::from_ref(number).cast())
        }
        ParameterObject::Bytes(bytes) => (sys::TRITONSERVER_PARAMETER_BYTES, bytes.as_ptr().cast()),
    };
    // SAFETY: the contract.
    unsafe { (*key, *kind, *value) = (name.as_ptr(), its_kind, its_value) };
    OK
}

#[unsafe(no_mangle)]
unsafe extern "C" fn TRITONBACKEND_RequestRelease(
    request: *mut sys::TRITONBACKEND_Request,
    _: u32,
) -> Error {
    // The host may drop the request as soon as it sees the release, which is told of before this ends.
    // SAFETY: the contract.
    let request = unsafe { responses::shared(request) };
    request.used("TRITONBACKEND_RequestRelease");
    if request.faults.release {
        request.push(Event::ReleaseRefused);
        return injected("TRITONBACKEND_RequestRelease");
    }
    request.push(Event::Released);
    OK
}

#[unsafe(no_mangle)]
unsafe extern "C" fn TRITONBACKEND_InputProperties(
    input: *mut sys::TRITONBACKEND_Input,
    name: *mut *const c_char,
    data_type: *mut u32,
    shape: *mut *const i64,
    rank: *mut u32,
    byte_size: *mut u64,
    buffer_count: *mut u32,
) -> Error {
    // SAFETY: the contract.
    unsafe {
        let input = &*input.cast::<InputObject>();
        *name = input.name.as_ptr();
        *data_type = input.data_type;
        *shape = input.shape.as_ptr();
        *rank = count(input.shape.len());
        *byte_size = input.byte_size();
        *buffer_count = count(input.buffer_count());
    }
    OK
}

#[unsafe(no_mangle)]
unsafe extern "C" fn TRITONBACKEND_InputBuffer(
    input: *mut sys::TRITONBACKEND_Input,
    index: u32,
    buffer: *mut *const c_void,
    byte_size: *mut u64,
    memory: *mut u32,
    device: *mut i64,
) -> Error {
    // SAFETY: the contract.
    unsafe {
        let input = &*input.cast::<InputObject>();
        let Some((base, length)) = input.piece(index as usize) else {
            return invalid("no such buffer");
        };
        *buffer = base.cast();
        *byte_size = length as u64;
        *memory = input.memory;
        *device = input.gpu.device;
    }
    OK
}
