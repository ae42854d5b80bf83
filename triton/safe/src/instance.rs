use std::ptr::{self, NonNull};
use std::sync::{Arc, PoisonError, RwLock};

use tracing::warn;
use triton_backend_sys as sys;

use crate::call::get;
use crate::error::{Error, RawError, check};
use crate::memory::Memory;

/// Nanoseconds of [`now_ns`](crate::now_ns), each at or after the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Execution begins: inputs are prepared.
    pub start: u64,
    /// The computation begins.
    pub compute_start: u64,
    /// The computation ends: outputs are written.
    pub compute_end: u64,
    /// The outputs are written.
    pub end: u64,
}

/// How much memory of one kind an instance holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryUsage {
    /// The kind.
    pub memory: Memory,
    /// The device; 0 for host memory.
    pub device: i64,
    /// Bytes held.
    pub byte_size: usize,
}

/// Triton's side of a model instance, where its statistics go.
///
/// It may be cloned and kept anywhere: once Triton has finalized the instance, reports go nowhere.
/// Reports that Triton refuses are told of in the log, for there is nothing else to do about them.
#[derive(Clone, Debug)]
pub struct Instance {
    raw: Arc<RwLock<Option<Raw>>>,
}

#[derive(Debug)]
struct Raw(NonNull<sys::TRITONBACKEND_ModelInstance>);

// SAFETY: Triton's report functions may be called for an instance from any thread, several at a time.
unsafe impl Send for Raw {}
// SAFETY: as above.
unsafe impl Sync for Raw {}

impl Instance {
    /// # Safety
    /// `raw` must stay an instance until [`close`](Self::close) returns.
    pub(crate) unsafe fn new(raw: NonNull<sys::TRITONBACKEND_ModelInstance>) -> Self {
        Instance { raw: Arc::new(RwLock::new(Some(Raw(raw)))) }
    }

    /// Waits for reports under way; later ones go nowhere.
    pub(crate) fn close(&self) {
        *self.raw.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Counts `requests` that were executed as one batch.
    pub fn report_batch(&self, requests: u64, times: Times) {
        self.report("TRITONBACKEND_ModelInstanceReportBatchStatistics", |instance| {
            // SAFETY: `report` gives an instance that lives.
            unsafe {
                sys::TRITONBACKEND_ModelInstanceReportBatchStatistics(
                    instance,
                    requests,
                    times.start,
                    times.compute_start,
                    times.compute_end,
                    times.end,
                )
            }
        });
    }

    /// Says how much memory the instance holds, one entry for each kind and device. A later report
    /// replaces an earlier one.
    pub fn report_memory_usage(&self, usage: &[MemoryUsage]) {
        self.report("TRITONBACKEND_ModelInstanceReportMemoryUsage", |instance| {
            // SAFETY: `report` gives an instance that lives.
            with_attributes(usage, |list, count| unsafe {
                sys::TRITONBACKEND_ModelInstanceReportMemoryUsage(instance, list, count)
            })
        });
    }

    /// Asks the server to unload the instance's model, whose readiness then says that it does not
    /// serve: how an instance that cannot go on says so to servers that do not ask
    /// [`Backend::ready`](crate::Backend::ready). Clients see a model that is not loaded; loading it
    /// again brings it back.
    ///
    /// Not to be called in a callback of Triton's: the server may wait for it.
    ///
    /// # Errors
    /// [`Error::Call`]: servers unload on request only under `--model-control-mode=explicit`.
    pub fn unload_model(&self) -> Result<(), Error> {
        // Held until the server has answered: neither instance nor server go away before.
        let raw = self.raw.read().unwrap_or_else(PoisonError::into_inner);
        let Some(raw) = raw.as_ref() else { return Ok(()) };
        // SAFETY: the instance lives, and with it its model and the server.
        unsafe {
            let model = get(
                "TRITONBACKEND_ModelInstanceModel",
                sys::TRITONBACKEND_ModelInstanceModel,
                raw.0.as_ptr(),
            )?;
            let server = get("TRITONBACKEND_ModelServer", sys::TRITONBACKEND_ModelServer, model)?;
            let name = get("TRITONBACKEND_ModelName", sys::TRITONBACKEND_ModelName, model)?;
            check(
                "TRITONSERVER_ServerUnloadModel",
                sys::TRITONSERVER_ServerUnloadModel(server, name),
            )
        }
    }

    /// Counts one request.
    ///
    /// # Safety
    /// The caller must own the request.
    pub(crate) unsafe fn report_request(
        &self,
        request: NonNull<sys::TRITONBACKEND_Request>,
        success: bool,
        times: Times,
    ) {
        self.report("TRITONBACKEND_ModelInstanceReportStatistics", |instance| {
            // SAFETY: `report` gives an instance that lives, the caller a request.
            unsafe {
                sys::TRITONBACKEND_ModelInstanceReportStatistics(
                    instance,
                    request.as_ptr(),
                    success,
                    times.start,
                    times.compute_start,
                    times.compute_end,
                    times.end,
                )
            }
        });
    }

    /// Counts one response of a decoupled request: when it was begun, when its outputs were, and when
    /// it was sent, with the error in it.
    ///
    /// # Safety
    /// The factory must live.
    pub(crate) unsafe fn report_response(
        &self,
        factory: NonNull<sys::TRITONBACKEND_ResponseFactory>,
        times: [u64; 3],
        error: Option<&RawError>,
    ) {
        self.report("TRITONBACKEND_ModelInstanceReportResponseStatistics", |instance| {
            // SAFETY: `report` gives an instance that lives, the caller a factory.
            unsafe { report_response(instance, factory.as_ptr(), times, error) }
        });
    }

    fn report(
        &self,
        call: &'static str,
        function: impl FnOnce(*mut sys::TRITONBACKEND_ModelInstance) -> *mut sys::TRITONSERVER_Error,
    ) {
        let raw = self.raw.read().unwrap_or_else(PoisonError::into_inner);
        let Some(raw) = raw.as_ref() else { return };
        // SAFETY: Triton gives its errors to the caller.
        if let Err(error) = unsafe { check(call, function(raw.0.as_ptr())) } {
            warn!("{error}");
        }
    }
}

/// Gives the statistics of one response to Triton.
///
/// # Safety
/// Instance, factory and error must live.
unsafe fn report_response(
    instance: *mut sys::TRITONBACKEND_ModelInstance,
    factory: *mut sys::TRITONBACKEND_ResponseFactory,
    [start, output_start, end]: [u64; 3],
    error: Option<&RawError>,
) -> *mut sys::TRITONSERVER_Error {
    use sys::*;
    let mut raw = ptr::null_mut();
    // SAFETY: `raw` is writable, then statistics that are ours and are deleted once; the rest is the
    // caller's promise.
    unsafe {
        let mut result = TRITONBACKEND_ModelInstanceResponseStatisticsNew(&mut raw);
        if raw.is_null() {
            return result;
        }
        let mut then = |set: &dyn Fn() -> *mut TRITONSERVER_Error| {
            if result.is_null() {
                result = set();
            }
        };
        then(&|| TRITONBACKEND_ModelInstanceResponseStatisticsSetModelInstance(raw, instance));
        then(&|| TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseFactory(raw, factory));
        then(&|| TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseStart(raw, start));
        then(&|| {
            TRITONBACKEND_ModelInstanceResponseStatisticsSetComputeOutputStart(raw, output_start)
        });
        then(&|| TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseEnd(raw, end));
        if let Some(error) = error {
            then(&|| TRITONBACKEND_ModelInstanceResponseStatisticsSetError(raw, error.as_ptr()));
        }
        then(&|| TRITONBACKEND_ModelInstanceReportResponseStatistics(raw));
        let deleted = TRITONBACKEND_ModelInstanceResponseStatisticsDelete(raw);
        match NonNull::new(result) {
            None => deleted,
            // The first error is told of, the second is freed.
            Some(_) => {
                let _ = check("TRITONBACKEND_ModelInstanceResponseStatisticsDelete", deleted);
                result
            }
        }
    }
}

/// Says how much memory a model holds by itself.
///
/// # Safety
/// `model` must be a model.
pub(crate) unsafe fn report_model_memory(
    model: *mut sys::TRITONBACKEND_Model,
    usage: &[MemoryUsage],
) {
    if usage.is_empty() {
        return;
    }
    // SAFETY: the caller's promise.
    let result = with_attributes(usage, |list, count| unsafe {
        sys::TRITONBACKEND_ModelReportMemoryUsage(model, list, count)
    });
    // SAFETY: Triton gives its errors to the caller.
    if let Err(error) = unsafe { check("TRITONBACKEND_ModelReportMemoryUsage", result) } {
        warn!("{error}");
    }
}

/// Calls a report of Triton's with a list of attributes, which it reads before it returns, and their
/// number. What Triton has no attributes for stays unreported, which the log says.
fn with_attributes(
    usage: &[MemoryUsage],
    report: impl FnOnce(
        *mut *mut sys::TRITONSERVER_BufferAttributes,
        u32,
    ) -> *mut sys::TRITONSERVER_Error,
) -> *mut sys::TRITONSERVER_Error {
    let attributes: Result<Vec<_>, _> = usage.iter().map(Attributes::new).collect();
    let attributes = match attributes {
        Ok(attributes) => attributes,
        Err(error) => {
            warn!("memory usage stays unreported: {error}");
            return ptr::null_mut();
        }
    };
    let mut list: Vec<_> = attributes.iter().map(|attributes| attributes.0).collect();
    report(list.as_mut_ptr(), u32::try_from(list.len()).unwrap_or(u32::MAX))
}

/// Buffer attributes as a report takes them.
struct Attributes(*mut sys::TRITONSERVER_BufferAttributes);

impl Attributes {
    fn new(usage: &MemoryUsage) -> Result<Self, Error> {
        let mut raw = ptr::null_mut();
        // SAFETY: `raw` is writable, then attributes that are ours.
        unsafe {
            check(
                "TRITONSERVER_BufferAttributesNew",
                sys::TRITONSERVER_BufferAttributesNew(&mut raw),
            )?;
            let attributes = Attributes(raw);
            check(
                "TRITONSERVER_BufferAttributesSetMemoryType",
                sys::TRITONSERVER_BufferAttributesSetMemoryType(raw, usage.memory as u32),
            )?;
            check(
                "TRITONSERVER_BufferAttributesSetMemoryTypeId",
                sys::TRITONSERVER_BufferAttributesSetMemoryTypeId(raw, usage.device),
            )?;
            check(
                "TRITONSERVER_BufferAttributesSetByteSize",
                sys::TRITONSERVER_BufferAttributesSetByteSize(raw, usage.byte_size),
            )?;
            Ok(attributes)
        }
    }
}

impl Drop for Attributes {
    fn drop(&mut self) {
        // SAFETY: the attributes are ours and are given up.
        let deleted = unsafe {
            check(
                "TRITONSERVER_BufferAttributesDelete",
                sys::TRITONSERVER_BufferAttributesDelete(self.0),
            )
        };
        if let Err(error) = deleted {
            warn!("{error}");
        }
    }
}
