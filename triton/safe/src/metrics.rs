//! Metrics of a backend's own, on the server's metrics port.

use std::ffi::{CStr, CString};
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::sync::{Arc, Mutex, PoisonError};

use tracing::warn;
use triton_backend_sys as sys;

use crate::call::name;
use crate::error::{Error, check};

/// A label: its name and value.
pub type Label<'a> = (&'a str, &'a str);

/// The metrics of one name, which their labels tell apart.
///
/// Triton counts the users of a metric by the family that made it: two families of one name would take
/// each other's metrics away. A backend therefore makes each family once, and keeps it for as long as
/// it runs. Metrics of the same labels are one: what one of them counts, the others show, and it is
/// gone with the last of them.
///
/// Where the server has no metrics, which the log says, values go nowhere.
#[derive(Debug)]
pub struct MetricFamily<M> {
    family: Option<Arc<Family>>,
    /// Bounds of a histogram's buckets.
    bounds: &'static [f64],
    metric: PhantomData<fn() -> M>,
}

/// A value that only grows.
#[derive(Debug)]
pub struct Counter(Option<Metric>);

/// A value that goes up and down.
#[derive(Debug)]
pub struct Gauge(Option<Metric>);

/// How often values were within bounds, with their number and sum.
#[derive(Debug)]
pub struct Histogram(Option<Metric>);

impl MetricFamily<Counter> {
    /// Counters of this name; `help` says what they count.
    pub fn counters(name: &str, help: &str) -> Self {
        Self::new(sys::TRITONSERVER_METRIC_KIND_COUNTER, name, help, &[])
    }

    /// The counter with these labels, 0 at first.
    pub fn with(&self, labels: &[Label<'_>]) -> Counter {
        Counter(self.metric(labels))
    }
}

impl MetricFamily<Gauge> {
    /// Gauges of this name; `help` says what they show.
    pub fn gauges(name: &str, help: &str) -> Self {
        Self::new(sys::TRITONSERVER_METRIC_KIND_GAUGE, name, help, &[])
    }

    /// The gauge with these labels, 0 at first.
    pub fn with(&self, labels: &[Label<'_>]) -> Gauge {
        Gauge(self.metric(labels))
    }
}

impl MetricFamily<Histogram> {
    /// Histograms of this name; `help` says what they observe. A bucket counts values up to its
    /// bound; bounds ascend, and a bucket without a bound follows the last.
    pub fn histograms(name: &str, help: &str, bounds: &'static [f64]) -> Self {
        Self::new(sys::TRITONSERVER_METRIC_KIND_HISTOGRAM, name, help, bounds)
    }

    /// The histogram with these labels.
    pub fn with(&self, labels: &[Label<'_>]) -> Histogram {
        Histogram(self.metric(labels))
    }
}

impl Counter {
    /// Adds a value, which is not negative.
    pub fn add(&self, value: f64) {
        // SAFETY: `update` gives a counter that lives.
        update(&self.0, |raw| unsafe { sys::TRITONSERVER_MetricIncrement(raw, value) });
    }
}

impl Gauge {
    /// Shows a value.
    pub fn set(&self, value: f64) {
        // SAFETY: `update` gives a gauge that lives.
        update(&self.0, |raw| unsafe { sys::TRITONSERVER_MetricSet(raw, value) });
    }
}

impl Histogram {
    /// Counts a value.
    pub fn observe(&self, value: f64) {
        // SAFETY: `update` gives a histogram that lives.
        update(&self.0, |raw| unsafe { sys::TRITONSERVER_MetricObserve(raw, value) });
    }
}

fn update(
    metric: &Option<Metric>,
    function: impl FnOnce(*mut sys::TRITONSERVER_Metric) -> *mut sys::TRITONSERVER_Error,
) {
    let Some(metric) = metric else { return };
    // SAFETY: Triton gives its errors to the caller.
    if let Err(error) = unsafe { check("updating a metric", function(metric.raw.as_ptr())) } {
        warn!("{error}");
    }
}

impl<M> MetricFamily<M> {
    fn new(
        kind: sys::TRITONSERVER_MetricKind,
        name: &str,
        help: &str,
        bounds: &'static [f64],
    ) -> Self {
        let family = Family::new(kind, name, help)
            .inspect_err(|error| warn!("metric {name} is not to be had: {error}"));
        MetricFamily { family: family.ok().map(Arc::new), bounds, metric: PhantomData }
    }

    fn metric(&self, labels: &[Label<'_>]) -> Option<Metric> {
        let family = self.family.as_ref()?;
        Metric::new(family, labels, self.bounds)
            .inspect_err(|error| warn!("a metric is not to be had: {error}"))
            .ok()
    }
}

/// A family of Triton's.
#[derive(Debug)]
struct Family {
    raw: NonNull<sys::TRITONSERVER_MetricFamily>,
    kind: sys::TRITONSERVER_MetricKind,
    /// Held while a metric is made or deleted: Triton looks a metric up and counts its user in two
    /// steps, between which another thread must not delete it.
    members: Mutex<()>,
}

// SAFETY: families are only used with the lock on their members held.
unsafe impl Send for Family {}
// SAFETY: as above.
unsafe impl Sync for Family {}

impl Family {
    fn new(kind: sys::TRITONSERVER_MetricKind, text: &str, help: &str) -> Result<Self, Error> {
        let call = "TRITONSERVER_MetricFamilyNew";
        let (text, help) = (name("metric", text)?, name("metric's help", help)?);
        let mut raw = ptr::null_mut();
        // SAFETY: `raw` is writable; Triton copies the texts.
        unsafe {
            check(
                call,
                sys::TRITONSERVER_MetricFamilyNew(&mut raw, kind, text.as_ptr(), help.as_ptr()),
            )?;
        }
        let raw = NonNull::new(raw).ok_or(Error::NoObject { call })?;
        Ok(Family { raw, kind, members: Mutex::default() })
    }
}

impl Drop for Family {
    fn drop(&mut self) {
        // SAFETY: the family is ours, and its metrics, which hold it, are gone.
        let deleted = unsafe {
            check(
                "TRITONSERVER_MetricFamilyDelete",
                sys::TRITONSERVER_MetricFamilyDelete(self.raw.as_ptr()),
            )
        };
        if let Err(error) = deleted {
            warn!("{error}");
        }
    }
}

/// A metric of Triton's.
#[derive(Debug)]
struct Metric {
    raw: NonNull<sys::TRITONSERVER_Metric>,
    family: Arc<Family>,
}

// SAFETY: metrics are atomic values, which any thread may update; they are made and deleted with the
// lock of their family held.
unsafe impl Send for Metric {}
// SAFETY: as above.
unsafe impl Sync for Metric {}

impl Metric {
    fn new(family: &Arc<Family>, labels: &[Label<'_>], bounds: &[f64]) -> Result<Self, Error> {
        let call = "TRITONSERVER_MetricNewWithArgs";
        let labels = labels.iter().map(Parameter::new).collect::<Result<Vec<_>, Error>>()?;
        let mut list: Vec<_> = labels.iter().map(|label| label.0.as_ptr().cast_const()).collect();
        let arguments = match family.kind {
            sys::TRITONSERVER_METRIC_KIND_HISTOGRAM => Some(Arguments::new(bounds)?),
            _ => None,
        };
        let arguments =
            arguments.as_ref().map_or(ptr::null(), |arguments| arguments.0.cast_const());
        let mut raw = ptr::null_mut();
        let _alone = family.members.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: `raw` is writable, the family lives; Triton copies labels and arguments.
        unsafe {
            check(
                call,
                sys::TRITONSERVER_MetricNewWithArgs(
                    &mut raw,
                    family.raw.as_ptr(),
                    list.as_mut_ptr(),
                    list.len() as u64,
                    arguments,
                ),
            )?;
        }
        let raw = NonNull::new(raw).ok_or(Error::NoObject { call })?;
        Ok(Metric { raw, family: family.clone() })
    }
}

impl Drop for Metric {
    fn drop(&mut self) {
        let _alone = self.family.members.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the metric is ours and is given up; its family lives.
        let deleted = unsafe {
            check("TRITONSERVER_MetricDelete", sys::TRITONSERVER_MetricDelete(self.raw.as_ptr()))
        };
        if let Err(error) = deleted {
            warn!("{error}");
        }
    }
}

/// A label as Triton takes it.
struct Parameter(NonNull<sys::TRITONSERVER_Parameter>);

impl Parameter {
    fn new((label, value): &Label<'_>) -> Result<Self, Error> {
        let call = "TRITONSERVER_ParameterNew";
        let (label, value): (CString, CString) = (name("label", label)?, name("label", value)?);
        let value: &CStr = &value;
        // SAFETY: C strings, which Triton copies.
        let raw = unsafe {
            sys::TRITONSERVER_ParameterNew(
                label.as_ptr(),
                sys::TRITONSERVER_PARAMETER_STRING,
                value.as_ptr().cast(),
            )
        };
        NonNull::new(raw).map(Parameter).ok_or(Error::NoObject { call })
    }
}

impl Drop for Parameter {
    fn drop(&mut self) {
        // SAFETY: the parameter is ours and is given up.
        unsafe { sys::TRITONSERVER_ParameterDelete(self.0.as_ptr()) };
    }
}

/// A histogram's bounds as Triton takes them.
struct Arguments(*mut sys::TRITONSERVER_MetricArgs);

impl Arguments {
    fn new(bounds: &[f64]) -> Result<Self, Error> {
        let mut raw = ptr::null_mut();
        // SAFETY: `raw` is writable, then arguments that are ours; Triton copies the bounds.
        unsafe {
            check("TRITONSERVER_MetricArgsNew", sys::TRITONSERVER_MetricArgsNew(&mut raw))?;
            let arguments = Arguments(raw);
            check(
                "TRITONSERVER_MetricArgsSetHistogram",
                sys::TRITONSERVER_MetricArgsSetHistogram(raw, bounds.as_ptr(), bounds.len() as u64),
            )?;
            Ok(arguments)
        }
    }
}

impl Drop for Arguments {
    fn drop(&mut self) {
        // SAFETY: the arguments are ours and are given up.
        let deleted = unsafe {
            check("TRITONSERVER_MetricArgsDelete", sys::TRITONSERVER_MetricArgsDelete(self.0))
        };
        if let Err(error) = deleted {
            warn!("{error}");
        }
    }
}
