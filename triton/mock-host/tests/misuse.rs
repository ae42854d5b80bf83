//! The host sees what a backend does wrong. (What it does right is seen by `triton-backend`'s tests.)

#![allow(clippy::unwrap_used)] // helpers of tests

use std::ptr;

use triton_backend_sys as sys;
use triton_mock_host::{
    Answer, BackendSetup, Event, Host, InstanceSetup, LoadedInstance, ModelSetup, RequestSetup,
};

type Error = *mut sys::TRITONSERVER_Error;

type Execute = unsafe extern "C" fn(
    *mut sys::TRITONBACKEND_ModelInstance,
    *mut *mut sys::TRITONBACKEND_Request,
    u32,
) -> Error;

/// An instance of a backend that does nothing but execute.
fn instance(execute: Execute) -> LoadedInstance {
    unsafe extern "C" fn nothing<O>(_: *mut O) -> Error {
        ptr::null_mut()
    }
    unsafe extern "C" fn no_attributes(
        _: *mut sys::TRITONBACKEND_Backend,
        _: *mut sys::TRITONBACKEND_BackendAttribute,
    ) -> Error {
        ptr::null_mut()
    }
    let entry = sys::EntryPoints {
        initialize: nothing,
        finalize: nothing,
        get_backend_attribute: no_attributes,
        model_initialize: nothing,
        model_finalize: nothing,
        model_instance_initialize: nothing,
        model_instance_finalize: nothing,
        model_instance_execute: execute,
        model_instance_ready: nothing,
    };
    let host = Host::start(entry, BackendSetup::default()).unwrap();
    host.load(ModelSetup::default()).unwrap().instance(InstanceSetup::default()).unwrap()
}

#[test]
fn a_second_release_is_seen() {
    unsafe extern "C" fn execute(
        _: *mut sys::TRITONBACKEND_ModelInstance,
        requests: *mut *mut sys::TRITONBACKEND_Request,
        _: u32,
    ) -> Error {
        // SAFETY: the host lists one request, which outlives its release.
        unsafe {
            assert!(sys::TRITONBACKEND_RequestRelease(*requests, 1).is_null());
            assert!(sys::TRITONBACKEND_RequestRelease(*requests, 1).is_null());
        }
        ptr::null_mut()
    }
    let instance = instance(execute);
    let tickets = instance.execute(vec![RequestSetup::default()]).unwrap();
    let misused = Event::Misused("TRITONBACKEND_RequestRelease");
    assert_eq!(tickets[0].wait(), [Event::Released, misused, Event::Released]);
}

#[test]
fn a_second_answer_use_after_release_and_a_lost_response_are_seen() {
    unsafe extern "C" fn execute(
        instance: *mut sys::TRITONBACKEND_ModelInstance,
        requests: *mut *mut sys::TRITONBACKEND_Request,
        _: u32,
    ) -> Error {
        let mut responses = [ptr::null_mut(); 3];
        let mut flags = 0;
        // SAFETY: as above; the responses are new.
        unsafe {
            for response in &mut responses {
                assert!(sys::TRITONBACKEND_ResponseNew(response, *requests).is_null());
            }
            let [first, second, _] = responses;
            assert!(sys::TRITONBACKEND_ResponseSend(first, 0, ptr::null_mut()).is_null());
            assert!(sys::TRITONBACKEND_ResponseSend(second, 1, ptr::null_mut()).is_null());
            assert!(sys::TRITONBACKEND_RequestRelease(*requests, 1).is_null());
            assert!(sys::TRITONBACKEND_RequestFlags(*requests, &mut flags).is_null());
            let report = sys::TRITONBACKEND_ModelInstanceReportStatistics;
            assert!(report(instance, *requests, true, 1, 2, 3, 4).is_null());
        }
        ptr::null_mut()
    }
    let instance = instance(execute);
    let tickets = instance.execute(vec![RequestSetup::default()]).unwrap();
    let answered = |last| Event::Answered(Answer { error: None, outputs: vec![], last });
    assert_eq!(
        tickets[0].wait(),
        [
            answered(false),
            answered(true),
            Event::Released,
            Event::Misused("TRITONBACKEND_RequestFlags"),
            Event::Misused("TRITONBACKEND_ModelInstanceReportStatistics"),
            Event::Reported { success: true, times: [1, 2, 3, 4] },
        ]
    );
    assert_eq!(tickets[0].live_responses(), 1);
}

#[test]
fn requests_stay_the_hosts_where_executing_fails() {
    unsafe extern "C" fn execute(
        _: *mut sys::TRITONBACKEND_ModelInstance,
        _: *mut *mut sys::TRITONBACKEND_Request,
        count: u32,
    ) -> Error {
        assert_eq!(count, 2);
        // SAFETY: the message is a C string.
        unsafe { sys::TRITONSERVER_ErrorNew(sys::TRITONSERVER_ERROR_UNAVAILABLE, c"no".as_ptr()) }
    }
    let instance = instance(execute);
    let failure = instance.execute(vec![RequestSetup::default(); 2]).map(drop).unwrap_err();
    assert_eq!(
        (failure.code, failure.message.as_str()),
        (sys::TRITONSERVER_ERROR_UNAVAILABLE, "no")
    );
}

#[test]
fn use_of_a_factory_after_the_last_response_is_seen() {
    unsafe extern "C" fn execute(
        _: *mut sys::TRITONBACKEND_ModelInstance,
        requests: *mut *mut sys::TRITONBACKEND_Request,
        _: u32,
    ) -> Error {
        let mut factory = ptr::null_mut();
        let mut response = ptr::null_mut();
        let mut cancelled = true;
        // SAFETY: the host lists one request, of which the factory is and the response.
        unsafe {
            assert!(sys::TRITONBACKEND_ResponseFactoryNew(&mut factory, *requests).is_null());
            let is_cancelled = sys::TRITONBACKEND_ResponseFactoryIsCancelled;
            assert!(is_cancelled(factory, &mut cancelled).is_null() && !cancelled);
            assert!(sys::TRITONBACKEND_ResponseNewFromFactory(&mut response, factory).is_null());
            assert!(sys::TRITONBACKEND_ResponseSend(response, 1, ptr::null_mut()).is_null());
            assert!(is_cancelled(factory, &mut cancelled).is_null());
            assert!(sys::TRITONBACKEND_ResponseFactorySendFlags(factory, 1).is_null());
            assert!(sys::TRITONBACKEND_RequestRelease(*requests, 1).is_null());
        }
        ptr::null_mut()
    }
    let instance = instance(execute);
    let tickets = instance.execute(vec![RequestSetup::default()]).unwrap();
    assert_eq!(
        tickets[0].wait(),
        [
            Event::Answered(Answer { error: None, outputs: vec![], last: true }),
            Event::Misused("TRITONBACKEND_ResponseFactoryIsCancelled"),
            Event::Misused("TRITONBACKEND_ResponseFactorySendFlags"),
            Event::Ended,
            Event::Released,
        ]
    );
    assert_eq!(tickets[0].live_factories(), 1);
}
