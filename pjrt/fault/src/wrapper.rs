//! What stands behind the tables that are handed out: the real plugin, the plan, and all handles.

use std::collections::HashMap;
use std::env;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::ptr;
use std::slice;
use std::sync::LazyLock;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW, Symbol};
use parking_lot::Mutex;
use serde_json::json;
use tlaloc_pjrt_sys::*;

use crate::errors::Errors;
use crate::functions;
use crate::handles::{Handle, Handles, Kind};
use crate::plan::{Edit, Fault, Plan};

/// The real plugin and what callers have of it.
pub(crate) struct Wrapper {
    /// The real plugin's functions, as far as the header of this build goes.
    pub(crate) real: PJRT_Api,
    pub(crate) errors: Errors,
    plan: Mutex<Plan>,
    handles: Mutex<Handles>,
    /// What events that are to fail come with, by handle.
    doomed: Mutex<HashMap<usize, PJRT_Error_Code>>,
    /// One report is written at a time.
    reporting: Mutex<()>,
}

// SAFETY: the table's pointers lead to functions and constant data of a plugin that stays loaded.
unsafe impl Send for Wrapper {}
// SAFETY: as above, and PJRT's functions may be called from any thread.
unsafe impl Sync for Wrapper {}

static WRAPPER: LazyLock<Result<Wrapper, String>> = LazyLock::new(Wrapper::load);

/// A table, changed as the plan says now. It is never freed.
pub(crate) fn table() -> Result<*const PJRT_Api, String> {
    let wrapper = WRAPPER.as_ref()?;
    let mut table = wrapper.real;
    functions::install(&mut table);
    for edit in wrapper.plan.lock().edits()? {
        match edit {
            Edit::Hide(function) => functions::hide(&mut table, function),
            Edit::HideExtensions => table.extension_start = ptr::null_mut(),
            Edit::ApiVersion(major, minor) => {
                table.pjrt_api_version.major_version = major;
                table.pjrt_api_version.minor_version = minor;
            }
            Edit::StructSize(size) => table.struct_size = size,
        }
    }
    Ok(Box::into_raw(Box::new(table)))
}

/// Calls a function of the real plugin; an error of ours where it has none. Needs an `unsafe` block:
/// the arguments must be what the header asks of that function.
macro_rules! real {
    ($wrapper:expr, $function:ident, $args:expr) => {
        match $wrapper.real.$function {
            Some(function) => function($args),
            None => $wrapper.errors.make(
                tlaloc_pjrt_sys::PJRT_Error_Code_UNIMPLEMENTED,
                concat!("the target lacks ", stringify!($function)),
            ),
        }
    };
}
pub(crate) use real;

/// The wrapper, for the functions of its tables.
pub(crate) fn wrapper() -> &'static Wrapper {
    match &*WRAPPER {
        Ok(wrapper) => wrapper,
        // Never: whoever calls got the table from the wrapper.
        Err(_) => std::process::abort(),
    }
}

impl Wrapper {
    fn load() -> Result<Self, String> {
        let target = env::var_os("PJRT_FAULT_TARGET").ok_or("PJRT_FAULT_TARGET is not set")?;
        let failed = |error: &dyn Display| format!("{}: {error}", target.display());
        // SAFETY: loading runs the library's initialisers; whoever set the variable vouches for it.
        let library = unsafe { Library::open(Some(&target), RTLD_NOW | RTLD_LOCAL) }
            .map_err(|error| failed(&error))?;
        // SAFETY: a symbol of this name has this type in every PJRT plugin.
        let real = unsafe {
            let get: Symbol<unsafe extern "C" fn() -> *const PJRT_Api> =
                library.get(b"GetPjrtApi\0").map_err(|error| failed(&error))?;
            get()
        };
        std::mem::forget(library);
        if real.is_null() {
            return Err(failed(&"its GetPjrtApi returns null"));
        }
        Ok(Self {
            // SAFETY: a plugin's table, which is not unloaded.
            real: unsafe { copy_table(real) },
            errors: Errors::default(),
            plan: Mutex::new(Plan::new(env::var_os("PJRT_FAULT_PLAN").map(PathBuf::from))),
            handles: Mutex::default(),
            doomed: Mutex::default(),
            reporting: Mutex::default(),
        })
    }

    /// A call of a function with these handles, used and ended: `real`, unless it meets a fault that
    /// keeps it from being called. `given` are the handles that the caller then has.
    pub(crate) fn call<const GIVEN: usize>(
        &self,
        name: &'static str,
        (used, ended): (&[Handle], &[Handle]),
        real: impl FnOnce() -> *mut PJRT_Error,
        given: impl FnOnce() -> [Handle; GIVEN],
    ) -> *mut PJRT_Error {
        let error = match self.enter(name, used, ended) {
            Err(error) => error,
            Ok(faults) => {
                let error = self.passed_on(real());
                if error.is_null() {
                    let given = given();
                    given.iter().for_each(|handle| self.handles.lock().made(*handle));
                    let events = given.iter().filter(|(kind, _)| *kind == Kind::Event);
                    events.for_each(|(_, event)| self.sentence(*event, &faults));
                }
                error
            }
        };
        self.report();
        error
    }

    /// Counts a call and returns the faults it meets that do not keep it from being made, or what it
    /// returns instead: null for [`Fault::Null`].
    fn enter(
        &self,
        name: &'static str,
        used: &[Handle],
        ended: &[Handle],
    ) -> Result<Vec<Fault>, *mut PJRT_Error> {
        let internal = PJRT_Error_Code_INTERNAL;
        let faults = self.plan.lock().call(name);
        let faults = faults.map_err(|reason| self.errors.make(internal, reason))?;
        for fault in &faults {
            match fault {
                Fault::Refuse(code) => return Err(self.errors.make(*code, "refused")),
                Fault::Null => return Err(ptr::null_mut()),
                Fault::Delay(time) => std::thread::sleep(*time),
                Fault::Lose | Fault::Fail(_) => {}
            }
        }
        let used = self.handles.lock().used(name, used, ended);
        used.map_err(|reason| self.errors.make(internal, reason))?;
        for (kind, handle) in ended {
            if *kind == Kind::Event {
                self.doomed.lock().remove(handle);
            }
        }
        Ok(faults)
    }

    /// Counts a call of a function that cannot tell what is wrong with a plan; whether it is to do
    /// nothing.
    pub(crate) fn does_nothing(&self, name: &'static str) -> bool {
        let faults = self.plan.lock().call(name).unwrap_or_default();
        faults.iter().any(|fault| matches!(fault, Fault::Null | Fault::Refuse(_)))
    }

    /// Takes note of an error of the real plugin, if there is one.
    fn passed_on(&self, error: *mut PJRT_Error) -> *mut PJRT_Error {
        if !error.is_null() && self.errors.code(error).is_none() {
            self.errors.pass_on(error);
        }
        error
    }

    /// Makes an event one that is to fail, where a fault says so.
    fn sentence(&self, event: usize, faults: &[Fault]) {
        for fault in faults {
            if let Fault::Fail(code) = fault {
                self.doomed.lock().insert(event, *code);
            }
        }
    }

    /// What an event is to come with, if it is to fail.
    pub(crate) fn doom(&self, event: *mut PJRT_Event) -> Option<PJRT_Error_Code> {
        self.doomed.lock().get(&event.addr()).copied()
    }

    /// Waits for the real event.
    ///
    /// # Safety
    /// It is alive.
    pub(crate) unsafe fn settle(&self, event: *mut PJRT_Event) {
        let mut args = PJRT_Event_Await_Args { event, ..Versioned::new() };
        // SAFETY: the caller's promise.
        self.ignore(unsafe { real!(self, PJRT_Event_Await, &mut args) });
    }

    /// A launch.
    ///
    /// # Safety
    /// `args` are those of a launch on one device.
    pub(crate) unsafe fn execute(
        &self,
        args: *mut PJRT_LoadedExecutable_Execute_Args,
    ) -> *mut PJRT_Error {
        // SAFETY: the caller's promise: lists of the sizes that the arguments and the executable have.
        unsafe {
            let executable = (*args).executable;
            let arguments = list(*(*args).argument_lists, (*args).num_args);
            let mut used = vec![(Kind::LoadedExecutable, executable.addr())];
            used.extend(arguments.iter().map(|buffer| (Kind::Buffer, buffer.addr())));
            let faults = match self.enter("PJRT_LoadedExecutable_Execute", &used, &[]) {
                Ok(faults) => faults,
                Err(error) => return error,
            };
            let error = self.passed_on(real!(self, PJRT_LoadedExecutable_Execute, args));
            if !error.is_null() {
                return error;
            }
            for buffer in arguments {
                if self.is_deleted(*buffer) {
                    self.handles.lock().donated(buffer.addr());
                }
            }
            if faults.contains(&Fault::Lose) {
                self.lose(&*args);
                return self.errors.make(PJRT_Error_Code_INTERNAL, "launched and lost");
            }
            let outputs = list(*(*args).output_lists, self.num_outputs(executable));
            let mut handles = self.handles.lock();
            outputs.iter().for_each(|buffer| handles.made((Kind::Buffer, buffer.addr())));
            if !(*args).device_complete_events.is_null() {
                let event = (*(*args).device_complete_events).addr();
                handles.made((Kind::Event, event));
                self.sentence(event, &faults);
            }
        }
        ptr::null_mut()
    }

    /// Waits for the end of a launch, then destroys its event and its outputs.
    ///
    /// # Safety
    /// `args` are those of a launch on one device that succeeded.
    unsafe fn lose(&self, args: &PJRT_LoadedExecutable_Execute_Args) {
        // SAFETY: handles that the launch returned, each destroyed once and cleared.
        unsafe {
            if !args.device_complete_events.is_null() {
                let event = args.device_complete_events.replace(ptr::null_mut());
                self.settle(event);
                let mut destroy = PJRT_Event_Destroy_Args { event, ..Versioned::new() };
                self.ignore(real!(self, PJRT_Event_Destroy, &mut destroy));
            }
            let outputs = *args.output_lists;
            for index in 0..self.num_outputs(args.executable) {
                let buffer = outputs.add(index).replace(ptr::null_mut());
                let mut destroy = PJRT_Buffer_Destroy_Args { buffer, ..Versioned::new() };
                self.ignore(real!(self, PJRT_Buffer_Destroy, &mut destroy));
            }
        }
    }

    /// # Safety
    /// The buffer is alive.
    unsafe fn is_deleted(&self, buffer: *mut PJRT_Buffer) -> bool {
        let mut args = PJRT_Buffer_IsDeleted_Args { buffer, ..Versioned::new() };
        // SAFETY: the caller's promise.
        self.ignore(unsafe { real!(self, PJRT_Buffer_IsDeleted, &mut args) });
        args.is_deleted
    }

    /// # Safety
    /// The executable is alive.
    unsafe fn num_outputs(&self, loaded_executable: *mut PJRT_LoadedExecutable) -> usize {
        let mut get =
            PJRT_LoadedExecutable_GetExecutable_Args { loaded_executable, ..Versioned::new() };
        // SAFETY: the executable is alive; its description is destroyed once, after its last use.
        unsafe {
            self.ignore(real!(self, PJRT_LoadedExecutable_GetExecutable, &mut get));
            let executable = get.executable;
            let mut count = PJRT_Executable_NumOutputs_Args { executable, ..Versioned::new() };
            self.ignore(real!(self, PJRT_Executable_NumOutputs, &mut count));
            let mut destroy = PJRT_Executable_Destroy_Args { executable, ..Versioned::new() };
            self.ignore(real!(self, PJRT_Executable_Destroy, &mut destroy));
            count.num_outputs
        }
    }

    /// Destroys an error of a call on the way into a fault, which is the error that is reported.
    fn ignore(&self, error: *mut PJRT_Error) {
        if !error.is_null() && !self.errors.destroy(error) {
            let mut args = PJRT_Error_Destroy_Args { error, ..Versioned::new() };
            if let Some(destroy) = self.real.PJRT_Error_Destroy {
                // SAFETY: an error of the real plugin that is not used after this.
                unsafe { destroy(&mut args) };
            }
        }
    }

    /// Writes the report, where the plan asks for one.
    pub(crate) fn report(&self) {
        let _turn = self.reporting.lock();
        let (path, report) = {
            let (plan, handles) = (self.plan.lock(), self.handles.lock());
            let Some((path, calls, injected)) = plan.report() else { return };
            let mut live = handles.live();
            live.insert("Error".to_owned(), self.errors.live());
            let misuse = handles.misuse();
            let report =
                json!({"calls": calls, "injected": injected, "live": live, "misuse": misuse});
            (path, report.to_string())
        };
        if let Err(error) = replace(&path, &report) {
            eprintln!("pjrt-fault: {}: {error}", path.display());
        }
    }
}

/// Replaces a file, so that nobody reads half of it.
fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let partial = path.with_extension("partial");
    std::fs::write(&partial, text)?;
    std::fs::rename(&partial, path)
}

/// A list of handles.
///
/// # Safety
/// `first` is null or the first of so many.
unsafe fn list<'a, T>(first: *const T, len: usize) -> &'a [T] {
    if first.is_null() {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { slice::from_raw_parts(first, len) }
}

/// The part of a plugin's table that this build knows; entries beyond a shorter table's end are null.
///
/// # Safety
/// `table` is the table of a plugin.
unsafe fn copy_table(table: *const PJRT_Api) -> PJRT_Api {
    // SAFETY: numbers and nullable pointers; and the source is as long as it says.
    unsafe {
        let mut copy: PJRT_Api = std::mem::zeroed();
        let size = (*table).struct_size.min(size_of::<PJRT_Api>());
        ptr::copy_nonoverlapping(table.cast::<u8>(), (&raw mut copy).cast(), size);
        copy.struct_size = size;
        copy
    }
}
