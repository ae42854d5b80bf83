//! Test only: a PJRT plugin whose programs end at once and compute nothing, to count what everything
//! around them costs.
//!
//! It plays a CPU of one device that reads and writes the host's memory. A program is its `@main`: its
//! results have the types that stand there, a donated argument becomes the result that is aliased to
//! it, and all other results are zero. A caller who breaks the C API's rules breaks this plugin, which
//! checks nothing and never returns an error.
#![allow(clippy::unwrap_used, reason = "what a test cannot go on without")]

mod buffer;
mod program;

use std::ffi::c_char;
use std::ptr;
use std::sync::OnceLock;

use tlaloc_pjrt_sys::*;

/// What every handle is that stands for nothing.
static NOTHING: u8 = 0;
const PLATFORM: &str = "cpu";

/// A table of functions, which never changes.
struct Table(PJRT_Api);
// SAFETY: only read.
unsafe impl Send for Table {}
// SAFETY: only read.
unsafe impl Sync for Table {}
struct Devices([*mut PJRT_Device; 1]);
// SAFETY: only read.
unsafe impl Sync for Devices {}
static DEVICES: Devices = Devices([(&raw const NOTHING).cast_mut().cast()]);

/// The plugin's entry point.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub extern "C" fn GetPjrtApi() -> *const PJRT_Api {
    static TABLE: OnceLock<Table> = OnceLock::new();
    &raw const TABLE.get_or_init(|| Table(table())).0
}

fn table() -> PJRT_Api {
    // SAFETY: integers, nullable pointers and functions that may be missing.
    let empty: PJRT_Api = unsafe { std::mem::zeroed() };
    PJRT_Api {
        struct_size: size_of::<PJRT_Api>(),
        pjrt_api_version: PJRT_Api_Version {
            major_version: PJRT_API_MAJOR as i32,
            minor_version: PJRT_API_MINOR as i32,
            ..Versioned::new()
        },
        PJRT_Event_Destroy: Some(nothing),
        PJRT_Event_Await: Some(nothing),
        PJRT_Client_Create: Some(client_create),
        PJRT_Client_Destroy: Some(nothing),
        PJRT_Client_PlatformName: Some(platform_name),
        PJRT_Client_AddressableDevices: Some(devices),
        PJRT_Client_Compile: Some(program::compile),
        PJRT_Client_BufferFromHostBuffer: Some(buffer::from_host),
        PJRT_Client_CreateViewOfDeviceBuffer: Some(buffer::view),
        PJRT_DeviceDescription_Kind: Some(device_kind),
        PJRT_Device_GetDescription: Some(description),
        PJRT_Device_LocalHardwareId: Some(nothing),
        PJRT_Executable_Destroy: Some(nothing),
        PJRT_Executable_NumOutputs: Some(program::count),
        PJRT_Executable_OutputElementTypes: Some(program::types),
        PJRT_Executable_OutputDimensions: Some(program::dims),
        PJRT_LoadedExecutable_Destroy: Some(program::destroy),
        PJRT_LoadedExecutable_GetExecutable: Some(program::executable),
        PJRT_LoadedExecutable_Execute: Some(program::execute),
        PJRT_Buffer_Destroy: Some(buffer::destroy),
        PJRT_Buffer_IsDeleted: Some(buffer::is_deleted),
        PJRT_Buffer_ToHostBuffer: Some(buffer::to_host),
        PJRT_Buffer_ReadyEvent: Some(buffer::ready),
        PJRT_Buffer_OnDeviceSizeInBytes: Some(buffer::size),
        PJRT_Buffer_IncreaseExternalReferenceCount: Some(nothing),
        PJRT_Buffer_DecreaseExternalReferenceCount: Some(nothing),
        PJRT_Buffer_OpaqueDeviceMemoryDataPointer: Some(buffer::address),
        ..empty
    }
}

/// An event that has happened.
fn event() -> *mut PJRT_Event {
    (&raw const NOTHING).cast_mut().cast()
}

unsafe extern "C" fn nothing<T>(_: *mut T) -> *mut PJRT_Error {
    ptr::null_mut()
}

unsafe extern "C" fn client_create(args: *mut PJRT_Client_Create_Args) -> *mut PJRT_Error {
    // SAFETY: the caller's struct.
    unsafe { (*args).client = (&raw const NOTHING).cast_mut().cast() };
    ptr::null_mut()
}

unsafe extern "C" fn platform_name(args: *mut PJRT_Client_PlatformName_Args) -> *mut PJRT_Error {
    // SAFETY: the caller's struct.
    let args = unsafe { &mut *args };
    args.platform_name = PLATFORM.as_ptr().cast::<c_char>();
    args.platform_name_size = PLATFORM.len();
    ptr::null_mut()
}

unsafe extern "C" fn devices(args: *mut PJRT_Client_AddressableDevices_Args) -> *mut PJRT_Error {
    // SAFETY: the caller's struct.
    let args = unsafe { &mut *args };
    args.addressable_devices = DEVICES.0.as_ptr();
    args.num_addressable_devices = DEVICES.0.len();
    ptr::null_mut()
}

unsafe extern "C" fn description(args: *mut PJRT_Device_GetDescription_Args) -> *mut PJRT_Error {
    // SAFETY: the caller's struct.
    unsafe { (*args).device_description = (&raw const NOTHING).cast_mut().cast() };
    ptr::null_mut()
}

unsafe extern "C" fn device_kind(args: *mut PJRT_DeviceDescription_Kind_Args) -> *mut PJRT_Error {
    // SAFETY: the caller's struct.
    let args = unsafe { &mut *args };
    args.device_kind = PLATFORM.as_ptr().cast::<c_char>();
    args.device_kind_size = PLATFORM.len();
    ptr::null_mut()
}
