//! Test only: a PJRT plugin that wraps a real one and fails on demand.
//!
//! Built as `libpjrt_fault.so` and loaded like any plugin. The environment, read when it is loaded,
//! names the rest:
//!
//! * `PJRT_FAULT_TARGET`: path of the real plugin, whose functions are passed through;
//! * `PJRT_FAULT_PLAN`: path of a text file that says what fails. It is read again at every call, so a
//!   test steers a running server by writing it (write another file and rename it over the plan, or a
//!   half-written plan may be read). No file, or none named: nothing fails.
//!
//! # The plan
//! Empty lines and lines that start with `#` mean nothing. A fault is `FUNCTION FAULT [WHEN]`, with the
//! function as the header names it (`compile`, `upload`, `read` and `execute` are short for
//! `PJRT_Client_Compile`, `PJRT_Client_BufferFromHostBuffer`, `PJRT_Buffer_ToHostBuffer` and
//! `PJRT_LoadedExecutable_Execute`):
//!
//! | Fault | What happens |
//! |---|---|
//! | `refuse [CODE]` | the function does nothing and returns an error: of a launch, donated buffers are intact |
//! | `null` | it does nothing and succeeds: results, events and attributes are null, counts 0 |
//! | `fail [CODE]` | it succeeds, and the event that it gives is one that failed: donated buffers are gone |
//! | `lose` | the execution runs, then its outputs are destroyed and the launch returns an error: donated buffers are gone |
//! | `delay MS` | it first sleeps for that many milliseconds |
//!
//! `CODE` is the header's, such as `RESOURCE_EXHAUSTED`, and INTERNAL if not given.
//!
//! | When | Which calls of the function, counted from 1 since the plan last changed |
//! |---|---|
//! | | all |
//! | `at N` | the N-th |
//! | `from N` | the N-th and all after it |
//! | `chance P%` | of a hundred so many, the same ones for the same `seed N` line |
//!
//! Other lines change the table that the plugin's next loading gets (each path is loaded once, and may
//! be a link): `hide FUNCTION` makes it null, `hide extensions` the list of them; `api-version
//! MAJOR.MINOR` and `struct-size BYTES` are what it says of itself.
//!
//! `report PATH` has a file written after every call, a JSON object: `calls` by function and how many
//! faults were `injected` since the plan changed, the handles that callers have not destroyed (`live`,
//! by kind), and what they did wrong (`misuse`). Donated buffers are dead: any use of one but
//! destroying it, and any use of a destroyed handle, is an error and a misuse.
//!
//! A line that is not understood makes every call return an error, so that a mistyped plan is noticed.
//! Every error starts with `pjrt-fault: `.

mod errors;
mod functions;
mod handles;
mod plan;
mod wrapper;

use tlaloc_pjrt_sys::PJRT_Api;

/// The plugin's entry point: a table of the real plugin's functions, wrapped, or null where the real
/// plugin cannot be loaded (standard error says why).
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub extern "C" fn GetPjrtApi() -> *const PJRT_Api {
    match wrapper::table() {
        Ok(table) => table,
        Err(reason) => {
            eprintln!("pjrt-fault: {reason}");
            std::ptr::null()
        }
    }
}
