//! CUDA, through the driver's library, which is loaded when a CUDA client is made. It has not been
//! run on a GPU.

use std::ffi::c_int;
use std::ptr::{self, NonNull};
use std::slice;

use cudarc::driver::{DriverError, result, sys};
use parking_lot::Mutex;

use super::{DeviceRuntime, Direction, Mapped, RuntimeError};

/// The contexts of the devices that were used, by ordinal: the ones that plugins, Triton and every
/// other user of CUDA's runtime API in the process have, too.
#[derive(Debug)]
pub(crate) struct CudaRuntime {
    contexts: Mutex<Vec<(i32, Context)>>,
}

#[derive(Debug, Clone, Copy)]
struct Context(sys::CUcontext);

// SAFETY: a handle of the driver's, which any thread may set.
unsafe impl Send for Context {}

impl CudaRuntime {
    /// Loads the driver's library.
    ///
    /// # Errors
    /// The machine has none, or none that starts.
    pub(crate) fn load() -> Result<Self, RuntimeError> {
        // Whatever else is called first panics without the library.
        // SAFETY: loading runs the library's initialisers; it is the system's.
        if !unsafe { sys::is_culib_present() } {
            let message = "there is no libcuda.so.1".to_owned();
            return Err(RuntimeError { function: "loading the CUDA driver", message });
        }
        result::init().map_err(failed("cuInit"))?;
        Ok(CudaRuntime { contexts: Mutex::default() })
    }

    fn context(&self, ordinal: i32) -> Result<Context, RuntimeError> {
        let mut contexts = self.contexts.lock();
        if let Some((_, context)) = contexts.iter().find(|(known, _)| *known == ordinal) {
            return Ok(*context);
        }
        let device = result::device::get(c_int::from(ordinal)).map_err(failed("cuDeviceGet"))?;
        // Never released: the plugin, which is never unloaded, holds it as well.
        // SAFETY: a device of the driver's.
        let context = unsafe { result::primary_ctx::retain(device) };
        let context = Context(context.map_err(failed("cuDevicePrimaryCtxRetain"))?);
        contexts.push((ordinal, context));
        Ok(context)
    }
}

// SAFETY: the driver's host allocations are whole pages, zeroed here, and map to the device at an
// offset of none.
unsafe impl DeviceRuntime for CudaRuntime {
    fn is_host(&self) -> bool {
        false
    }

    fn set_device(&self, ordinal: i32) -> Result<(), RuntimeError> {
        let Context(context) = self.context(ordinal)?;
        // SAFETY: a context that is never released.
        unsafe { result::ctx::set_current(context) }.map_err(failed("cuCtxSetCurrent"))
    }

    unsafe fn copy(
        &self,
        direction: Direction,
        to: *mut u8,
        from: *const u8,
        byte_size: usize,
    ) -> Result<(), RuntimeError> {
        let address = |pointer: *const u8| pointer.addr() as sys::CUdeviceptr;
        // SAFETY: the caller's promise.
        unsafe {
            match direction {
                Direction::ToHost => {
                    let to = slice::from_raw_parts_mut(to, byte_size);
                    result::memcpy_dtoh_sync(to, address(from)).map_err(failed("cuMemcpyDtoH"))
                }
                Direction::ToDevice => {
                    let from = slice::from_raw_parts(from, byte_size);
                    result::memcpy_htod_sync(address(to), from).map_err(failed("cuMemcpyHtoD"))
                }
                Direction::OnDevice => {
                    let (to, stream) = (address(to.cast_const()), result::stream::null());
                    result::memcpy_dtod_async(to, address(from), byte_size, stream)
                        .map_err(failed("cuMemcpyDtoDAsync"))
                }
            }
        }
    }

    fn synchronize(&self) -> Result<(), RuntimeError> {
        // SAFETY: the default stream of the thread's context.
        unsafe { result::stream::synchronize(result::stream::null()) }
            .map_err(failed("cuStreamSynchronize"))
    }

    fn allocate_mapped(&self, byte_size: usize) -> Result<Mapped, RuntimeError> {
        let flags = sys::CU_MEMHOSTALLOC_DEVICEMAP;
        let none = |function| RuntimeError { function, message: "it gave no address".to_owned() };
        // SAFETY: the memory is new and has this size.
        unsafe {
            let host =
                result::malloc_host(byte_size.max(1), flags).map_err(failed("cuMemHostAlloc"))?;
            let host = NonNull::new(host.cast::<u8>()).ok_or_else(|| none("cuMemHostAlloc"))?;
            host.write_bytes(0, byte_size);
            let mut device = 0;
            let mapped = sys::cuMemHostGetDevicePointer_v2(&mut device, host.as_ptr().cast(), 0)
                .result()
                .map_err(failed("cuMemHostGetDevicePointer"))
                .and_then(|()| {
                    let device = usize::try_from(device).ok().map(ptr::without_provenance_mut);
                    let device = device.and_then(NonNull::new);
                    device.ok_or_else(|| none("cuMemHostGetDevicePointer"))
                });
            match mapped {
                Ok(device) => Ok(Mapped { host, device, byte_size }),
                Err(error) => {
                    let _ = result::free_host(host.as_ptr().cast());
                    Err(error)
                }
            }
        }
    }

    unsafe fn free_mapped(&self, memory: Mapped) {
        // SAFETY: the caller's promise. There is nothing to do about an error.
        let _ = unsafe { result::free_host(memory.host.as_ptr().cast()) };
    }
}

fn failed(function: &'static str) -> impl Fn(DriverError) -> RuntimeError {
    move |error| RuntimeError { function, message: format!("{error:?}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Says what it met: machines without the driver are refused in words, and without a panic.
    #[test]
    fn a_machine_without_the_driver_is_told_so() {
        match CudaRuntime::load() {
            Ok(_) => eprintln!("this machine has a CUDA driver"),
            Err(error) => assert!(
                error.function == "cuInit" || error.to_string().contains("no libcuda.so.1"),
                "{error}"
            ),
        }
    }
}
