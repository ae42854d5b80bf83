//! Responses, the factories that make them, and their statistics.

use std::ffi::{CStr, c_char, c_void};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use triton_backend_sys as sys;

use super::{Error, OK};
use crate::error::{ErrorObject, injected, invalid};
use crate::object::ResponseStatisticsObject;
use crate::request::{
    Answer, Event, FactoryObject, GpuAddress, Output, OutputObject, RequestObject, ResponseObject,
};

#[unsafe(no_mangle)]
unsafe extern "C" fn TRITONBACKEND_ResponseNew(
    response: *mut *mut sys::TRITONBACKEND_Response,
    request: *mut sys::TRITONBACKEND_Request,
) -> Error {
    // SAFETY: the contract.
    let request = unsafe { shared(request) };
    request.used("TRITONBACKEND_ResponseNew");
    // SAFETY: the contract.
    unsafe { new_response(request, "TRITONBACKEND_ResponseNew", response) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn TRITONBACKEND_ResponseNewFromFactory(
    response: *mut *mut sys::TRITONBACKEND_Response,
    factory: *mut sys::TRITONBACKEND_ResponseFactory,
) -> Error {
    let function = "TRITONBACKEND_ResponseNewFromFactory";
    // SAFETY: the contract.
    unsafe {
        let request = (*factory.cast::<FactoryObject>()).request.clone();
        request.used_factory(function);
        new_response(request, function, response)
    }
}

/// # Safety
/// `request` must be one of the host's that is not released.
pub(super) unsafe fn shared(request: *mut sys::TRITONBACKEND_Request) -> Arc<RequestObject> {
    let request = request.cast::<RequestObject>();
    // SAFETY: the caller's promise; requests are kept in `Arc`s, of which this is one more.
    unsafe {
        Arc::increment_strong_count(request);
        Arc::from_raw(request)
    }
}

/// # Safety
/// `response` must be writable.
unsafe fn new_response(
    request: Arc<RequestObject>,
    function: &str,
    response: *mut *mut sys::TRITONBACKEND_Response,
) -> Error {
    if request.faults.response_new {
        return injected(function);
    }
    // SAFETY: the caller's promise.
    unsafe { *response = Box::into_raw(Box::new(ResponseObject::new(request))).cast() };
    OK
}

#[unsafe(no_mangle)]
unsafe extern "C" fn TRITONBACKEND_ResponseFactoryNew(
    factory: *mut *mut sys::TRITONBACKEND_ResponseFactory,
    request: *mut sys::TRITONBACKEND_Request,
) -> Error {
    // SAFETY: the contract.
    let request = unsafe { shared(request) };
    request.used("TRITONBACKEND_ResponseFactoryNew");
    if request.faults.factory_new {
        return injected("TRITONBACKEND_ResponseFactoryNew");
    }
    // SAFETY: the contract.
    unsafe { *factory = Box::into_raw(Box::new(FactoryObject::new(request))).cast() };
    OK
}

#[unsafe(no_mangle)]
unsafe extern "C" fn TRITONBACKEND_ResponseFactoryDelete(
    factory: *mut sys::TRITONBACKEND_ResponseFactory,
) -> Error {
    // SAFETY: the contract.
    drop(unsafe { Box::from_raw(factory.cast::<FactoryObject>()) });
    OK
}

#[unsafe(no_mangle)]
unsafe extern "C" fn TRITONBACKEND_ResponseFactoryIsCancelled(
    factory: *mut sys::TRITONBACKEND_ResponseFactory,
    is_cancelled: *mut bool,
) -> Error {
    // SAFETY: the contract.
    unsafe {
        let request = &(*factory.cast::<FactoryObject>()).request;
        request.used_factory("TRITONBACKEND_ResponseFactoryIsCancelled");
        *is_cancelled = request.cancelled.load(Ordering::SeqCst);
    }
    OK
}

#[unsafe(no_mangle)]
unsafe extern "C" fn TRITONBACKEND_ResponseFactorySendFlags(
    factory: *mut sys::TRITONBACKEND_ResponseFactory,
    flags: u32,
) -> Error {
    // SAFETY: the contract.
    let request = unsafe { &(*factory.cast::<FactoryObject>()).request };
    request.used_factory("TRITONBACKEND_ResponseFactorySendFlags");
    if flags & sys::TRITONSERVER_RESPONSE_COMPLETE_FINAL != 0 {
        request.ended.store(true, Ordering::SeqCst);
        request.push(Event::Ended);
    }
    OK
}

#[unsafe(no_mangle)]
unsafe extern "C" fn TRITONBACKEND_ResponseDelete(
    response: *mut sys::TRITONBACKEND_Response,
) -> Error {
    // SAFETY: the contract.
    drop(unsafe { Box::from_raw(response.cast::<ResponseObject>()) });
    OK
}

#[unsafe(no_mangle)]
unsafe extern "C" fn TRITONBACKEND_ResponseOutput(
    response: *mut sys::TRITONBACKEND_Response,
    output: *mut *mut sys::TRITONBACKEND_Output,
    name: *const c_char,
    data_type: u32,
    shape: *const i64,
    rank: u32,
) -> Error {
    // SAFETY: the contract.
    unsafe {
        let response = &mut *response.cast::<ResponseObject>();
        let faults = response.request.faults;
        if faults.output {
            return injected("TRITONBACKEND_ResponseOutput");
        }
        let new = Output {
            name: CStr::from_ptr(name).to_string_lossy().into_owned(),
            data_type,
            shape: std::slice::from_raw_parts(shape, rank as usize).to_vec(),
            bytes: Vec::new(),
        };
        let nowhere = faults.gpu_output.then_some(GpuAddress::NOWHERE);
        let given = response.request.gpu_outputs.iter().find(|(given, _)| *given == new.name);
        let gpu = given.map(|(_, gpu)| *gpu).or(nowhere);
        let mut new = Box::new(OutputObject { output: new, gpu, faults });
        *output = ptr::from_mut(&mut *new).cast();
        response.outputs.push(new);
    }
    OK
}

#[unsafe(no_mangle)]
unsafe extern "C" fn TRITONBACKEND_OutputBuffer(
    output: *mut sys::TRITONBACKEND_Output,
    buffer: *mut *mut c_void,
    byte_size: u64,
    memory: *mut u32,
    device: *mut i64,
) -> Error {
    // SAFETY: the contract.
    unsafe {
        let OutputObject { output, gpu, faults } = &mut *output.cast::<OutputObject>();
        if faults.buffer {
            return injected("TRITONBACKEND_OutputBuffer");
        }
        *device = 0;
        if let Some(gpu) = gpu {
            *buffer = ptr::with_exposed_provenance_mut(gpu.address);
            *memory = sys::TRITONSERVER_MEMORY_GPU;
            *device = gpu.device;
        } else {
            output.bytes = vec![0xAA; usize::try_from(byte_size).unwrap_or(0)];
            *buffer = output.bytes.as_mut_ptr().cast();
            *memory = sys::TRITONSERVER_MEMORY_CPU;
        }
    }
    OK
}

#[unsafe(no_mangle)]
unsafe extern "C" fn TRITONBACKEND_ResponseSend(
    response: *mut sys::TRITONBACKEND_Response,
    flags: u32,
    error: Error,
) -> Error {
    // SAFETY: the contract.
    let (mut response, error) = unsafe {
        let response = Box::from_raw(response.cast::<ResponseObject>());
        (response, ptr::NonNull::new(error).map(|error| ErrorObject::failure(error)))
    };
    let last = flags & sys::TRITONSERVER_RESPONSE_COMPLETE_FINAL != 0;
    response.request.ended.fetch_or(last, Ordering::SeqCst);
    if response.request.faults.send {
        response.request.push(Event::SendFailed);
        return injected("TRITONBACKEND_ResponseSend");
    }
    let outputs = response.outputs.drain(..).map(|output| output.output).collect();
    response.request.push(Event::Answered(Answer { error, outputs, last }));
    OK
}

// Statistics.

#[unsafe(no_mangle)]
unsafe extern "C" fn TRITONBACKEND_ModelInstanceResponseStatisticsNew(
    statistics: *mut *mut sys::TRITONBACKEND_ModelInstanceResponseStatistics,
) -> Error {
    let object = Box::new(ResponseStatisticsObject::default());
    // SAFETY: the contract.
    unsafe { *statistics = Box::into_raw(object).cast() };
    OK
}

#[unsafe(no_mangle)]
unsafe extern "C" fn TRITONBACKEND_ModelInstanceResponseStatisticsDelete(
    statistics: *mut sys::TRITONBACKEND_ModelInstanceResponseStatistics,
) -> Error {
    // SAFETY: the contract.
    drop(unsafe { Box::from_raw(statistics.cast::<ResponseStatisticsObject>()) });
    OK
}

/// Functions that set one thing of a response's statistics.
macro_rules! response_statistics {
    ($($symbol:ident, |$object:ident, $value:ident: $type:ty| $body:expr;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $symbol(
            statistics: *mut sys::TRITONBACKEND_ModelInstanceResponseStatistics,
            $value: $type,
        ) -> Error {
            // SAFETY: the contract.
            let $object = unsafe { &mut *statistics.cast::<ResponseStatisticsObject>() };
            $body;
            OK
        }
    )*};
}

response_statistics! {
    TRITONBACKEND_ModelInstanceResponseStatisticsSetModelInstance,
    |object, instance: *mut sys::TRITONBACKEND_ModelInstance| object.instance = !instance.is_null();
    TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseFactory,
    |object, factory: *mut sys::TRITONBACKEND_ResponseFactory| {
        // SAFETY: the contract.
        object.factory = Some(unsafe { (*factory.cast::<FactoryObject>()).request.clone() });
    };
    TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseStart,
    |object, time: u64| object.times[0] = time;
    TRITONBACKEND_ModelInstanceResponseStatisticsSetComputeOutputStart,
    |object, time: u64| object.times[1] = time;
    TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseEnd,
    |object, time: u64| object.times[2] = time;
    TRITONBACKEND_ModelInstanceResponseStatisticsSetError,
    |object, error: Error| object.failed = !error.is_null();
}

#[unsafe(no_mangle)]
unsafe extern "C" fn TRITONBACKEND_ModelInstanceReportResponseStatistics(
    statistics: *mut sys::TRITONBACKEND_ModelInstanceResponseStatistics,
) -> Error {
    // SAFETY: the contract.
    let object = unsafe { &*statistics.cast::<ResponseStatisticsObject>() };
    let ResponseStatisticsObject { instance: true, factory: Some(request), .. } = object else {
        return invalid("the statistics lack their instance or their factory");
    };
    if request.faults.report {
        return injected("TRITONBACKEND_ModelInstanceReportResponseStatistics");
    }
    request.push(Event::ReportedResponse { success: !object.failed, times: object.times });
    OK
}
