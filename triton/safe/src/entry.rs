//! What a backend is, and the functions by which the server drives it.

use std::any::Any;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use serde_json::Value;
use tracing::{Span, error, info_span};
use triton_backend_sys as sys;

use crate::call::get;
use crate::context::{BackendContext, InstanceContext, InstanceKind, ModelContext, set_config};
use crate::error::{Error, check};
use crate::instance::{Instance, MemoryUsage, report_model_memory};
use crate::log;
use crate::request::Requests;

/// A backend: one value per process, from the first load of a model of it to the server's exit.
///
/// Every function but [`initialize`](Self::initialize) runs in a `tracing` span that names the model
/// or the instance, so that the server's log does; a thread of the backend's own does that by
/// entering the [`Span::current`] of the function that started it. A panic in any of them becomes an
/// error of that call; what it held is dropped.
pub trait Backend: Send + Sync + Sized + 'static {
    /// A loaded model.
    type Model: Send + Sync + 'static;
    /// An instance of a model. Dropped when Triton finalizes the instance: its threads must have
    /// ended then. Triton waits until every request of the instance is released, so none is left.
    type Instance: Send + Sync + 'static;

    /// What a model without `instance_group` in its configuration gets: one instance of the first of
    /// these kinds that the machine has. Triton chooses where there are none.
    const PREFERRED_KINDS: &'static [InstanceKind] = &[];

    /// Starts the backend.
    fn initialize(context: &BackendContext) -> Result<Self, Error>;

    /// A configuration that has what the model's own leaves out; none where there is nothing to add.
    /// Asked for before [`load`](Self::load), where the server lets backends complete configurations.
    /// Of what it changes, Triton takes over `input`, `output`, `max_batch_size` and the scheduler.
    fn complete_config(&self, _: &ModelContext) -> Option<Value> {
        None
    }

    /// Loads a model.
    fn load(&self, context: &ModelContext) -> Result<Self::Model, Error>;

    /// How much memory a loaded model holds by itself, without its instances
    /// ([`Instance::report_memory_usage`]): one entry for each kind and device.
    fn memory_usage(_: &Self::Model) -> Vec<MemoryUsage> {
        Vec::new()
    }

    /// Creates an instance of a loaded model.
    fn create_instance(
        model: &Arc<Self::Model>,
        context: &InstanceContext,
    ) -> Result<Self::Instance, Error>;

    /// Takes over requests to an instance, to answer them now or later. Triton does not call this
    /// twice at a time for one instance, but again while earlier requests are unanswered.
    fn execute(instance: &Self::Instance, requests: Requests<'_>);

    /// Whether an instance can serve, which the model's readiness tells to those who ask for it. Asked
    /// at any time and by any thread, by servers that know of it; see also
    /// [`Instance::unload_model`].
    fn ready(_: &Self::Instance) -> Result<(), Error> {
        Ok(())
    }
}

/// The functions of a backend. [`export_backend!`](crate::export_backend) gives them to a server;
/// tests give them to a mock host.
pub fn entry_points<B: Backend>() -> sys::EntryPoints {
    sys::EntryPoints {
        initialize: initialize::<B>,
        finalize: finalize::<B>,
        get_backend_attribute: get_backend_attribute::<B>,
        model_initialize: model_initialize::<B>,
        model_finalize: model_finalize::<B>,
        model_instance_initialize: model_instance_initialize::<B>,
        model_instance_finalize: model_instance_finalize::<B>,
        model_instance_execute: model_instance_execute::<B>,
        model_instance_ready: model_instance_ready::<B>,
    }
}

/// What is kept with Triton's model.
struct ModelState<B: Backend> {
    model: Arc<B::Model>,
    span: Span,
}

/// What is kept with Triton's instance.
struct InstanceState<B: Backend> {
    instance: B::Instance,
    span: Span,
    /// After the instance, which may report as it is dropped.
    _open: Open,
}

/// Closes an instance for reports when Triton takes it away.
struct Open(Instance);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.close();
    }
}

unsafe extern "C" fn initialize<B: Backend>(
    raw: *mut sys::TRITONBACKEND_Backend,
) -> *mut sys::TRITONSERVER_Error {
    guard("TRITONBACKEND_Initialize", || {
        check_version()?;
        // SAFETY: the server gives a backend.
        unsafe {
            let context = BackendContext::new(raw)?;
            log::install(format!("{} backend: ", context.name()));
            let backend = B::initialize(&context)?;
            set_state(
                "TRITONBACKEND_BackendSetState",
                sys::TRITONBACKEND_BackendSetState,
                raw,
                backend,
            )
        }
    })
}

unsafe extern "C" fn finalize<B: Backend>(
    raw: *mut sys::TRITONBACKEND_Backend,
) -> *mut sys::TRITONSERVER_Error {
    guard("TRITONBACKEND_Finalize", || {
        // SAFETY: the server gives the backend it initialized, whose state is a `B`, last of all.
        drop(unsafe {
            take_state::<_, B>(
                "TRITONBACKEND_Finalize",
                sys::TRITONBACKEND_BackendState,
                sys::TRITONBACKEND_BackendSetState,
                raw,
            )?
        });
        Ok(())
    })
}

unsafe extern "C" fn get_backend_attribute<B: Backend>(
    _: *mut sys::TRITONBACKEND_Backend,
    attributes: *mut sys::TRITONBACKEND_BackendAttribute,
) -> *mut sys::TRITONSERVER_Error {
    guard("TRITONBACKEND_GetBackendAttribute", || {
        for kind in B::PREFERRED_KINDS {
            // SAFETY: the server gives attributes to add to; the list of devices is empty.
            unsafe {
                check(
                    "TRITONBACKEND_BackendAttributeAddPreferredInstanceGroup",
                    sys::TRITONBACKEND_BackendAttributeAddPreferredInstanceGroup(
                        attributes,
                        *kind as u32,
                        1,
                        ptr::null(),
                        0,
                    ),
                )?;
            }
        }
        Ok(())
    })
}

unsafe extern "C" fn model_initialize<B: Backend>(
    raw: *mut sys::TRITONBACKEND_Model,
) -> *mut sys::TRITONSERVER_Error {
    let call = "TRITONBACKEND_ModelInitialize";
    guard(call, || {
        // SAFETY: the server gives a model of the backend that it initialized, whose state is a `B`.
        unsafe {
            let backend = get("TRITONBACKEND_ModelBackend", sys::TRITONBACKEND_ModelBackend, raw)?;
            let backend: &B = state(call, sys::TRITONBACKEND_BackendState, backend)?;
            let mut context = ModelContext::new(raw)?;
            let span = info_span!("model", model = context.name());
            if context.auto_complete()
                && let Some(config) = span.in_scope(|| backend.complete_config(&context))
            {
                set_config(raw, &config)?;
                context = ModelContext::new(raw)?;
            }
            let model = Arc::new(span.in_scope(|| backend.load(&context))?);
            span.in_scope(|| report_model_memory(raw, &B::memory_usage(&model)));
            set_state(
                "TRITONBACKEND_ModelSetState",
                sys::TRITONBACKEND_ModelSetState,
                raw,
                ModelState::<B> { model, span },
            )
        }
    })
}

unsafe extern "C" fn model_finalize<B: Backend>(
    raw: *mut sys::TRITONBACKEND_Model,
) -> *mut sys::TRITONSERVER_Error {
    let call = "TRITONBACKEND_ModelFinalize";
    guard(call, || {
        // SAFETY: the server gives a model that it initialized, after its instances.
        let state = unsafe {
            take_state::<_, ModelState<B>>(
                call,
                sys::TRITONBACKEND_ModelState,
                sys::TRITONBACKEND_ModelSetState,
                raw,
            )?
        };
        if let Some(state) = state {
            let ModelState { model, span } = *state;
            span.in_scope(|| drop(model));
        }
        Ok(())
    })
}

unsafe extern "C" fn model_instance_initialize<B: Backend>(
    raw: *mut sys::TRITONBACKEND_ModelInstance,
) -> *mut sys::TRITONSERVER_Error {
    let call = "TRITONBACKEND_ModelInstanceInitialize";
    guard(call, || {
        let raw = NonNull::new(raw).ok_or(Error::NoState { call })?;
        // SAFETY: the server gives an instance of a model that it initialized. The instance lives
        // until this function fails or its finalization returns, and before either it is closed.
        unsafe {
            let open = Open(Instance::new(raw));
            let model = get(
                "TRITONBACKEND_ModelInstanceModel",
                sys::TRITONBACKEND_ModelInstanceModel,
                raw.as_ptr(),
            )?;
            let ModelState { model, .. } =
                state::<_, ModelState<B>>(call, sys::TRITONBACKEND_ModelState, model)?;
            let context = InstanceContext::new(raw, open.0.clone())?;
            let span = info_span!("instance", instance = context.name());
            let instance = span.in_scope(|| B::create_instance(model, &context))?;
            set_state(
                "TRITONBACKEND_ModelInstanceSetState",
                sys::TRITONBACKEND_ModelInstanceSetState,
                raw.as_ptr(),
                InstanceState::<B> { instance, span, _open: open },
            )
        }
    })
}

unsafe extern "C" fn model_instance_finalize<B: Backend>(
    raw: *mut sys::TRITONBACKEND_ModelInstance,
) -> *mut sys::TRITONSERVER_Error {
    let call = "TRITONBACKEND_ModelInstanceFinalize";
    guard(call, || {
        // SAFETY: the server gives an instance that it initialized, with no execution under way.
        let state = unsafe {
            take_state::<_, InstanceState<B>>(
                call,
                sys::TRITONBACKEND_ModelInstanceState,
                sys::TRITONBACKEND_ModelInstanceSetState,
                raw,
            )?
        };
        if let Some(state) = state {
            let InstanceState { instance, span, _open } = *state;
            span.in_scope(|| drop(instance));
        }
        Ok(())
    })
}

unsafe extern "C" fn model_instance_execute<B: Backend>(
    raw: *mut sys::TRITONBACKEND_ModelInstance,
    requests: *mut *mut sys::TRITONBACKEND_Request,
    request_count: u32,
) -> *mut sys::TRITONSERVER_Error {
    let call = "TRITONBACKEND_ModelInstanceExecute";
    guard(call, || {
        // SAFETY: the server gives an instance that it initialized, and a list of requests.
        let (state, requests) = unsafe {
            let state: &InstanceState<B> = state(call, sys::TRITONBACKEND_ModelInstanceState, raw)?;
            let requests = match NonNull::new(requests) {
                Some(list) => std::slice::from_raw_parts(list.as_ptr(), request_count as usize),
                None => &[],
            };
            // Ours from here on, so this function succeeds whatever happens.
            (state, Requests::new(requests))
        };
        state.span.in_scope(|| {
            let executed = catch_unwind(AssertUnwindSafe(|| B::execute(&state.instance, requests)));
            if let Err(payload) = executed {
                error!("{}", panicked(call, payload));
            }
        });
        Ok(())
    })
}

unsafe extern "C" fn model_instance_ready<B: Backend>(
    raw: *mut sys::TRITONBACKEND_ModelInstance,
) -> *mut sys::TRITONSERVER_Error {
    let call = "TRITONBACKEND_ModelInstanceReady";
    guard(call, || {
        // SAFETY: the server gives an instance that it initialized and does not finalize meanwhile.
        let state: &InstanceState<B> =
            unsafe { state(call, sys::TRITONBACKEND_ModelInstanceState, raw)? };
        state.span.in_scope(|| B::ready(&state.instance))
    })
}

/// The TRITONBACKEND API promises that a backend runs where the major version is its own and the
/// minor version not smaller.
fn check_version() -> Result<(), Error> {
    let built = (sys::TRITONBACKEND_API_VERSION_MAJOR, sys::TRITONBACKEND_API_VERSION_MINOR);
    let mut server = (0, 0);
    // SAFETY: both results are writable.
    unsafe {
        check(
            "TRITONBACKEND_ApiVersion",
            sys::TRITONBACKEND_ApiVersion(&mut server.0, &mut server.1),
        )?;
    }
    if server.0 == built.0 && server.1 >= built.1 {
        Ok(())
    } else {
        Err(Error::ApiVersion { server, built })
    }
}

/// Runs an entry point; nothing unwinds out of it.
fn guard(
    call: &'static str,
    body: impl FnOnce() -> Result<(), Error>,
) -> *mut sys::TRITONSERVER_Error {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => ptr::null_mut(),
        Ok(Err(error)) => error.to_raw().into_raw(),
        Err(payload) => panicked(call, payload).to_raw().into_raw(),
    }
}

fn panicked(call: &'static str, payload: Box<dyn Any + Send>) -> Error {
    let message = match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
        (Some(text), _) => (*text).to_owned(),
        (_, Some(text)) => text.clone(),
        (None, None) => "a payload that is not text".to_owned(),
    };
    // Dropping a payload of someone else's making might panic in its turn.
    std::mem::forget(payload);
    Error::Panicked { call, message }
}

type GetState<O> = unsafe extern "C" fn(*mut O, *mut *mut c_void) -> *mut sys::TRITONSERVER_Error;
type SetState<O> = unsafe extern "C" fn(*mut O, *mut c_void) -> *mut sys::TRITONSERVER_Error;

/// Gives a state to a Triton object.
///
/// # Safety
/// `object` must be what `function` takes.
unsafe fn set_state<O, S>(
    call: &'static str,
    function: SetState<O>,
    object: *mut O,
    state: S,
) -> Result<(), Error> {
    let state = Box::into_raw(Box::new(state));
    // SAFETY: the caller's promise; where Triton does not take the state it is ours again.
    unsafe {
        check(call, function(object, state.cast())).inspect_err(|_| drop(Box::from_raw(state)))
    }
}

/// The state of a Triton object, for the entry point `call`.
///
/// # Safety
/// `object` must be what `function` takes; its state must be null or an `S` that lives for `'a`.
unsafe fn state<'a, O, S>(
    call: &'static str,
    function: GetState<O>,
    object: *mut O,
) -> Result<&'a S, Error> {
    // SAFETY: the caller's promise.
    unsafe { get(call, function, object)?.cast::<S>().as_ref().ok_or(Error::NoState { call }) }
}

/// Takes the state from a Triton object, for the entry point `call`. There is none where the object
/// was not initialized: Triton finalizes a model whose initialization failed.
///
/// # Safety
/// `object` must be what `get_state` and `set_state` take; its state must be null or an `S` that came
/// from [`set_state`] and is not in use.
unsafe fn take_state<O, S>(
    call: &'static str,
    get_state: GetState<O>,
    set_state: SetState<O>,
    object: *mut O,
) -> Result<Option<Box<S>>, Error> {
    // SAFETY: the caller's promise; the state is taken once, for the object forgets it.
    unsafe {
        let state = get(call, get_state, object)?.cast::<S>();
        if state.is_null() {
            return Ok(None);
        }
        check(call, set_state(object, ptr::null_mut()))?;
        Ok(Some(Box::from_raw(state)))
    }
}
