//! The table handed out: the real plugin's, with the functions of this module in some places.

use std::collections::HashMap;
use std::env;
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
    /// Completion events that are to fail, by handle, and why.
    doomed: Mutex<HashMap<usize, &'static str>>,
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

/// The wrapper, inside a function of its table.
macro_rules! wrapper {
    () => {
        match &*WRAPPER {
            Ok(wrapper) => wrapper,
            // Never: the function was found in the wrapper's table.
            Err(_) => return Default::default(),
        }
    };
}

impl Wrapper {
    fn load() -> Result<Self, String> {
        let target = env::var_os("PJRT_FAULT_TARGET").ok_or("PJRT_FAULT_TARGET is not set")?;
        let failed = |error| format!("{}: {error}", target.display());
        // SAFETY: loading runs the library's initialisers; whoever set the variable vouches for it.
        let library = unsafe { Library::open(Some(&target), RTLD_NOW | RTLD_LOCAL) }
            .map_err(failed)?;
        // SAFETY: a symbol of this name has this type in every PJRT plugin.
        let real = unsafe {
            let get: Symbol<unsafe extern "C" fn() -> *const PJRT_Api> =
                library.get(b"GetPjrtApi\0").map_err(failed)?;
            get()
        };
        std::mem::forget(library);
        if real.is_null() {
            return Err(failed_text(&target, "its GetPjrtApi returns null"));
        }
        let real = copy_table(real);
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
}
