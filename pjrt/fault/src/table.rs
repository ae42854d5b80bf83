//! The table handed out: the real plugin's, with the functions of this module in some places.

use std::collections::HashSet;
use std::env;
use std::ffi::c_char;
use std::fmt::Display;
use std::path::PathBuf;
use std::ptr;
use std::sync::LazyLock;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW, Symbol};
use parking_lot::Mutex;
use tlaloc_pjrt_sys::*;

use crate::errors::Errors;
use crate::plan::{Fault, Function, Hidden, Plan};

/// Everything behind the table.
struct Wrapper {
    /// The real plugin's functions, as far as the header of this build goes.
    real: PJRT_Api,
    /// What callers get.
    table: PJRT_Api,
    plan: Mutex<Plan>,
    errors: Errors,
    /// Completion events that are to fail, by handle.
    doomed: Mutex<HashSet<usize>>,
}

// SAFETY: the tables' pointers lead to functions and constant data of a plugin that stays loaded.
unsafe impl Send for Wrapper {}
// SAFETY: as above, and PJRT's functions may be called from any thread.
unsafe impl Sync for Wrapper {}

static WRAPPER: LazyLock<Result<Wrapper, String>> = LazyLock::new(Wrapper::load);

pub(crate) fn get() -> Result<*const PJRT_Api, &'static str> {
    match &*WRAPPER {
        Ok(wrapper) => Ok(&raw const wrapper.table),
        Err(reason) => Err(reason),
    }
}

/// Calls a function of the real plugin; an error of ours where it has none. Needs an `unsafe` block:
/// the arguments must be what the header asks of that function.
macro_rules! real {
    ($wrapper:expr, $function:ident, $args:expr) => {
        match $wrapper.real.$function {
            Some(function) => function($args),
            None => $wrapper.errors.make(concat!("the target lacks ", stringify!($function))),
        }
    };
}

/// The wrapper, for the functions of its table.
fn wrapper() -> &'static Wrapper {
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
        // SAFETY: a plugin's table, which is not unloaded.
        let real = unsafe { copy_table(real) };
        let mut plan = Plan::new(env::var_os("PJRT_FAULT_PLAN").map(PathBuf::from));
        let hidden = plan.hidden()?;

        let mut table = real;
        table.PJRT_Error_Destroy = Some(error_destroy);
        table.PJRT_Error_Message = Some(error_message);
        table.PJRT_Error_GetCode = Some(error_get_code);
        table.PJRT_Event_Await = Some(event_await);
        table.PJRT_Event_Destroy = Some(event_destroy);
        table.PJRT_Client_Compile = Some(compile);
        table.PJRT_Client_BufferFromHostBuffer = Some(upload);
        table.PJRT_Buffer_ToHostBuffer = Some(read);
        table.PJRT_LoadedExecutable_Execute = Some(execute);
        for entry in hidden {
            match entry {
                Hidden::Views => table.PJRT_Client_CreateViewOfDeviceBuffer = None,
                Hidden::Pointers => table.PJRT_Buffer_OpaqueDeviceMemoryDataPointer = None,
                Hidden::MemoryStats => table.PJRT_Executable_GetCompiledMemoryStats = None,
            }
        }
        Ok(Self {
            real,
            table,
            plan: Mutex::new(plan),
            errors: Errors::default(),
            doomed: Mutex::default(),
        })
    }

    /// Counts a call and returns the faults it meets, or the error that it must return: for a bad plan
    /// or a refusal.
    fn call(&self, function: Function) -> Result<Vec<Fault>, *mut PJRT_Error> {
        let faults = self.plan.lock().call(function).map_err(|reason| self.errors.make(reason))?;
        for fault in &faults {
            match fault {
                Fault::Refuse => return Err(self.errors.make("refused")),
                Fault::Delay(time) => std::thread::sleep(*time),
                Fault::Lose | Fault::Fail => {}
            }
        }
        Ok(faults)
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
                let mut wait = PJRT_Event_Await_Args { event, ..Versioned::new() };
                self.ignore(real!(self, PJRT_Event_Await, &mut wait));
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

// The functions of the table. SAFETY for all: a caller passes what the header asks of the function that
// each replaces, and that goes on to the real one unchanged.

unsafe extern "C" fn error_destroy(args: *mut PJRT_Error_Destroy_Args) {
    let wrapper = wrapper();
    // SAFETY: see above.
    unsafe {
        if !wrapper.errors.destroy((*args).error)
            && let Some(real) = wrapper.real.PJRT_Error_Destroy
        {
            real(args);
        }
    }
}

unsafe extern "C" fn error_message(args: *mut PJRT_Error_Message_Args) {
    let wrapper = wrapper();
    // SAFETY: see above.
    unsafe {
        if let Some((text, size)) = wrapper.errors.text((*args).error) {
            (*args).message = text.cast::<c_char>();
            (*args).message_size = size;
        } else if let Some(real) = wrapper.real.PJRT_Error_Message {
            real(args);
        }
    }
}

unsafe extern "C" fn error_get_code(args: *mut PJRT_Error_GetCode_Args) -> *mut PJRT_Error {
    let wrapper = wrapper();
    // SAFETY: see above.
    unsafe {
        if wrapper.errors.text((*args).error).is_some() {
            (*args).code = PJRT_Error_Code_INTERNAL;
            return ptr::null_mut();
        }
        real!(wrapper, PJRT_Error_GetCode, args)
    }
}

unsafe extern "C" fn event_await(args: *mut PJRT_Event_Await_Args) -> *mut PJRT_Error {
    let wrapper = wrapper();
    // SAFETY: see above.
    unsafe {
        let error = real!(wrapper, PJRT_Event_Await, args);
        if error.is_null() && wrapper.doomed.lock().contains(&(*args).event.addr()) {
            return wrapper.errors.make("execution failed");
        }
        error
    }
}

unsafe extern "C" fn event_destroy(args: *mut PJRT_Event_Destroy_Args) -> *mut PJRT_Error {
    let wrapper = wrapper();
    // SAFETY: see above.
    unsafe {
        wrapper.doomed.lock().remove(&(*args).event.addr());
        real!(wrapper, PJRT_Event_Destroy, args)
    }
}

unsafe extern "C" fn compile(args: *mut PJRT_Client_Compile_Args) -> *mut PJRT_Error {
    let wrapper = wrapper();
    match wrapper.call(Function::Compile) {
        Err(error) => error,
        // SAFETY: see above.
        Ok(_) => unsafe { real!(wrapper, PJRT_Client_Compile, args) },
    }
}

unsafe extern "C" fn upload(args: *mut PJRT_Client_BufferFromHostBuffer_Args) -> *mut PJRT_Error {
    let wrapper = wrapper();
    match wrapper.call(Function::Upload) {
        Err(error) => error,
        // SAFETY: see above.
        Ok(_) => unsafe { real!(wrapper, PJRT_Client_BufferFromHostBuffer, args) },
    }
}

unsafe extern "C" fn read(args: *mut PJRT_Buffer_ToHostBuffer_Args) -> *mut PJRT_Error {
    let wrapper = wrapper();
    // SAFETY: see above.
    unsafe {
        // Without a destination this only asks for the size.
        if !(*args).dst.is_null()
            && let Err(error) = wrapper.call(Function::Read)
        {
            return error;
        }
        real!(wrapper, PJRT_Buffer_ToHostBuffer, args)
    }
}

unsafe extern "C" fn execute(args: *mut PJRT_LoadedExecutable_Execute_Args) -> *mut PJRT_Error {
    let wrapper = wrapper();
    let faults = match wrapper.call(Function::Execute) {
        Err(error) => return error,
        Ok(faults) => faults,
    };
    // SAFETY: see above.
    unsafe {
        let error = real!(wrapper, PJRT_LoadedExecutable_Execute, args);
        if !error.is_null() {
            return error;
        }
        let args = &*args;
        if faults.contains(&Fault::Lose) {
            wrapper.lose(args);
            return wrapper.errors.make("launched and lost");
        }
        if faults.contains(&Fault::Fail) && !args.device_complete_events.is_null() {
            wrapper.doomed.lock().insert((*args.device_complete_events).addr());
        }
    }
    ptr::null_mut()
}
