//! Test only: a PJRT plugin that wraps a real one and fails on demand.
//!
//! Built as `libpjrt_fault.so` and loaded like any plugin. The environment, read when it is loaded,
//! names the rest:
//!
//! * `PJRT_FAULT_TARGET`: path of the real plugin, whose functions are passed through;
//! * `PJRT_FAULT_PLAN`: path of a text file that says what fails. It is read again at every call that
//!   can fail, so a test steers a running server by writing it (write another file and rename it over
//!   the plan, or a half-written plan may be read). No file, or none named: nothing fails.
//!
//! # The plan
//! One fault a line; empty lines and lines that start with `#` mean nothing.
//!
//! | Line | What happens |
//! |---|---|
//! | `compile refuse` | compiling returns an error |
//! | `upload refuse` | copying host memory to a new buffer returns an error |
//! | `read refuse` | copying a buffer to the host returns an error |
//! | `execute refuse` | the launch returns an error and takes nothing: donated buffers are intact |
//! | `execute lose` | the execution runs, then its outputs are destroyed and the launch returns an error: donated buffers are gone |
//! | `execute fail` | the launch succeeds and awaiting its completion returns an error: donated buffers are gone |
//! | `execute delay MS` | the launch first sleeps for that many milliseconds |
//! | `hide views` | `PJRT_Client_CreateViewOfDeviceBuffer` is null |
//! | `hide pointers` | `PJRT_Buffer_OpaqueDeviceMemoryDataPointer` is null |
//! | `hide memory-stats` | `PJRT_Executable_GetCompiledMemoryStats` is null |
//!
//! A line may end in `at N`: then only the N-th call of its function fails, counted from 1 since the
//! plan last changed. `hide` lines are obeyed when the plugin is loaded, and not after. A line that is
//! not understood makes every call that can fail return an error, so that a mistyped plan is noticed.
//!
//! Every error starts with `pjrt-fault: ` and has the code INTERNAL.

mod errors;
mod plan;
mod table;

use tlaloc_pjrt_sys::PJRT_Api;

/// The plugin's entry point: the real plugin's table with some functions replaced, or null where the
/// real plugin cannot be loaded (standard error says why).
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub extern "C" fn GetPjrtApi() -> *const PJRT_Api {
    match table::get() {
        Ok(table) => table,
        Err(reason) => {
            eprintln!("pjrt-fault: {reason}");
            std::ptr::null()
        }
    }
}
