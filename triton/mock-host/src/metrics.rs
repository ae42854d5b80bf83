//! Metrics, as a server keeps them: one value for each name and set of labels, with a count of its
//! users in each family.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr;
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use triton_backend_sys as sys;

use crate::error::invalid;

type Error = *mut sys::TRITONSERVER_Error;

const OK: Error = ptr::null_mut();

/// A metric, as a scrape of the metrics port shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricSample {
    /// Its family's name.
    pub name: String,
    /// Its family's help.
    pub help: String,
    /// A `TRITONSERVER_METRIC_KIND_*`.
    pub kind: u32,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// A counter's or gauge's value, the sum of what a histogram observed.
    pub value: f64,
    /// A histogram's bounds, each with how many values were at most that.
    pub buckets: Vec<(f64, u64)>,
    /// How many values a histogram observed.
    pub count: u64,
}

type Shared = Arc<Mutex<MetricSample>>;

/// What the port shows.
static REGISTRY: LazyLock<Mutex<Vec<Shared>>> = LazyLock::new(Mutex::default);

/// Every metric that exists in the process.
pub fn metrics() -> Vec<MetricSample> {
    REGISTRY.lock().iter().map(|metric| metric.lock().clone()).collect()
}

struct FamilyObject {
    name: String,
    help: String,
    kind: u32,
    /// The users of each metric of this family.
    users: Mutex<Vec<(Shared, usize)>>,
}

struct MetricObject {
    family: *const FamilyObject,
    metric: Shared,
}

struct LabelObject {
    name: String,
    value: CString,
}

struct ArgumentsObject {
    bounds: Vec<f64>,
}

#[unsafe(no_mangle)]
unsafe extern "C" fn TRITONSERVER_ParameterNew(
    name: *const c_char,
    kind: sys::TRITONSERVER_ParameterType,
    value: *const c_void,
) -> *mut sys::TRITONSERVER_Parameter {
    if kind != sys::TRITONSERVER_PARAMETER_STRING {
        return ptr::null_mut();
    }
    // SAFETY: the contract: C strings.
    let (name, value) = unsafe { (CStr::from_ptr(name), CStr::from_ptr(value.cast())) };
    let label = LabelObject { name: name.to_string_lossy().into_owned(), value: value.to_owned() };
    Box::into_raw(Box::new(label)).cast()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn TRITONSERVER_ParameterDelete(parameter: *mut sys::TRITONSERVER_Parameter) {
    // SAFETY: the contract.
    drop(unsafe { Box::from_raw(parameter.cast::<LabelObject>()) });
}

#[unsafe(no_mangle)]
unsafe extern "C" fn TRITONSERVER_MetricArgsNew(
    arguments: *mut *mut sys::TRITONSERVER_MetricArgs,
) -> Error {
    // SAFETY: the contract.
    unsafe { *arguments = Box::into_raw(Box::new(ArgumentsObject { bounds: Vec::new() })).cast() };
    OK
}

#[unsafe(no_mangle)]
unsafe extern "C" fn TRITONSERVER_MetricArgsSetHistogram(
    arguments: *mut sys::TRITONSERVER_MetricArgs,
    buckets: *const f64,
    count: u64,
) -> Error {
    // SAFETY: the contract.
    unsafe {
        let bounds = std::slice::from_raw_parts(buckets, usize::try_from(count).unwrap_or(0));
        (*arguments.cast::<ArgumentsObject>()).bounds = bounds.to_vec();
    }
    OK
}

#[unsafe(no_mangle)]
unsafe extern "C" fn TRITONSERVER_MetricArgsDelete(
    arguments: *mut sys::TRITONSERVER_MetricArgs,
) -> Error {
    // SAFETY: the contract.
    drop(unsafe { Box::from_raw(arguments.cast::<ArgumentsObject>()) });
    OK
}

#[unsafe(no_mangle)]
unsafe extern "C" fn TRITONSERVER_MetricFamilyNew(
    family: *mut *mut sys::TRITONSERVER_MetricFamily,
    kind: sys::TRITONSERVER_MetricKind,
    name: *const c_char,
    help: *const c_char,
) -> Error {
    // SAFETY: the contract.
    unsafe {
        let [name, help] =
            [name, help].map(|text| CStr::from_ptr(text).to_string_lossy().into_owned());
        let object = FamilyObject { name, help, kind, users: Mutex::default() };
        *family = Box::into_raw(Box::new(object)).cast();
    }
    OK
}

#[unsafe(no_mangle)]
unsafe extern "C" fn TRITONSERVER_MetricFamilyDelete(
    family: *mut sys::TRITONSERVER_MetricFamily,
) -> Error {
    let family = family.cast::<FamilyObject>();
    // SAFETY: the contract.
    unsafe {
        if !(*family).users.lock().is_empty() {
            return invalid("the family still has metrics");
        }
        drop(Box::from_raw(family));
    }
    OK
}

#[unsafe(no_mangle)]
unsafe extern "C" fn TRITONSERVER_MetricNewWithArgs(
    metric: *mut *mut sys::TRITONSERVER_Metric,
    family: *mut sys::TRITONSERVER_MetricFamily,
    labels: *mut *const sys::TRITONSERVER_Parameter,
    label_count: u64,
    arguments: *const sys::TRITONSERVER_MetricArgs,
) -> Error {
    let of_histogram = !arguments.is_null();
    // SAFETY: the contract.
    let (family, labels, bounds) = unsafe {
        let family = &*family.cast::<FamilyObject>();
        let labels = std::slice::from_raw_parts(labels, usize::try_from(label_count).unwrap_or(0));
        let labels = labels.iter().map(|label| {
            let label = &*label.cast::<LabelObject>();
            (label.name.clone(), label.value.to_string_lossy().into_owned())
        });
        let bounds = arguments.cast::<ArgumentsObject>().as_ref();
        (family, labels.collect(), bounds.map_or(Vec::new(), |found| found.bounds.clone()))
    };
    if of_histogram != (family.kind == sys::TRITONSERVER_METRIC_KIND_HISTOGRAM) {
        return invalid("arguments are for histograms, which need them");
    }
    let shared = in_registry(family, labels, &bounds);
    let mut users = family.users.lock();
    match users.iter_mut().find(|(of, _)| Arc::ptr_eq(of, &shared)) {
        Some((_, count)) => *count += 1,
        None => users.push((shared.clone(), 1)),
    }
    let object = MetricObject { family, metric: shared };
    // SAFETY: the contract.
    unsafe { *metric = Box::into_raw(Box::new(object)).cast() };
    OK
}

/// The metric of this name and these labels, new where there is none.
fn in_registry(family: &FamilyObject, labels: BTreeMap<String, String>, bounds: &[f64]) -> Shared {
    let mut registry = REGISTRY.lock();
    let known = registry.iter().find(|metric| {
        let metric = metric.lock();
        metric.name == family.name && metric.labels == labels
    });
    if let Some(known) = known {
        return known.clone();
    }
    let new = Arc::new(Mutex::new(MetricSample {
        name: family.name.clone(),
        help: family.help.clone(),
        kind: family.kind,
        labels,
        value: 0.0,
        buckets: bounds.iter().map(|bound| (*bound, 0)).collect(),
        count: 0,
    }));
    registry.push(new.clone());
    new
}

#[unsafe(no_mangle)]
unsafe extern "C" fn TRITONSERVER_MetricDelete(metric: *mut sys::TRITONSERVER_Metric) -> Error {
    // SAFETY: the contract: the metric is given up, its family lives.
    let (metric, family) = unsafe {
        let metric = Box::from_raw(metric.cast::<MetricObject>());
        let family = &*metric.family;
        (metric, family)
    };
    let mut users = family.users.lock();
    if let Some(at) = users.iter().position(|(of, _)| Arc::ptr_eq(of, &metric.metric)) {
        users[at].1 -= 1;
        if users[at].1 == 0 {
            users.swap_remove(at);
            REGISTRY.lock().retain(|kept| !Arc::ptr_eq(kept, &metric.metric));
        }
    }
    OK
}

/// Functions that take a value for a metric.
macro_rules! updates {
    ($($symbol:ident, $kind:pat, |$metric:ident, $value:ident| $body:block)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $symbol(metric: *mut sys::TRITONSERVER_Metric, $value: f64) -> Error {
            // SAFETY: the contract.
            let mut $metric = unsafe { &*metric.cast::<MetricObject>() }.metric.lock();
            if !matches!($metric.kind, $kind) {
                return invalid(concat!(stringify!($symbol), " on a metric of another kind"));
            }
            $body
            OK
        }
    )*};
}

updates! {
    TRITONSERVER_MetricIncrement,
    sys::TRITONSERVER_METRIC_KIND_COUNTER | sys::TRITONSERVER_METRIC_KIND_GAUGE,
    |metric, value| {
        if value < 0.0 && metric.kind == sys::TRITONSERVER_METRIC_KIND_COUNTER {
            return invalid("a counter only grows");
        }
        metric.value += value;
    }
    TRITONSERVER_MetricSet, sys::TRITONSERVER_METRIC_KIND_GAUGE, |metric, value| {
        metric.value = value;
    }
    TRITONSERVER_MetricObserve, sys::TRITONSERVER_METRIC_KIND_HISTOGRAM, |metric, value| {
        metric.value += value;
        metric.count += 1;
        for (bound, count) in &mut metric.buckets {
            *count += u64::from(value <= *bound);
        }
    }
}
