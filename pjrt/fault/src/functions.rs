//! The functions that are wrapped: every one that the `tlaloc-pjrt` crate calls, and those near them.

use std::ffi::c_char;
use std::ptr;

use tlaloc_pjrt_sys::*;

use crate::handles::{Handle, Kind};
use crate::plan::Fault;
use crate::wrapper::{Wrapper, real, wrapper};

/// A wrapped function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Function {
    /// As in the header.
    pub(crate) name: &'static str,
    /// Whether it gives its caller an event.
    gives_event: bool,
}

impl Function {
    /// Whether the function can go wrong in this way.
    pub(crate) fn can(&self, fault: Fault) -> bool {
        match fault {
            Fault::Lose => self.name == EXECUTE,
            Fault::Fail(_) => self.gives_event,
            // Whoever has waited goes on to read and free what the event is of.
            Fault::Null => self.name != "PJRT_Event_Await",
            Fault::Refuse(_) | Fault::Delay(_) => !RETURN_NOTHING.contains(&self.name),
        }
    }
}

const EXECUTE: &str = "PJRT_LoadedExecutable_Execute";
/// They have no error to return.
const RETURN_NOTHING: [&str; 2] = ["PJRT_Error_Destroy", "PJRT_Error_Message"];

/// The function of this name, or of one of the short names.
pub(crate) fn named(name: &str) -> Option<Function> {
    let name = match name {
        "compile" => "PJRT_Client_Compile",
        "upload" => "PJRT_Client_BufferFromHostBuffer",
        "read" => "PJRT_Buffer_ToHostBuffer",
        "execute" => EXECUTE,
        name => name,
    };
    FUNCTIONS.iter().find(|function| function.name == name).copied()
}

/// Declares the functions that pass through, and those of this module that do more. `uses` names the
/// handles that must be alive, `ends` the one that is destroyed, `gives` those that the caller gets.
macro_rules! functions {
    (
        $($name:ident($args:ident)
            $(uses $($used_kind:ident $used:ident),+)?
            $(ends $ended_kind:ident $ended:ident)?
            $(gives $($given_kind:ident $given:ident),+)?;)*
        {$($own:ident = $function:ident;)*}
    ) => {
        const FUNCTIONS: &[Function] = &[
            $(Function {
                name: stringify!($name),
                gives_event: false $($(|| matches!(Kind::$given_kind, Kind::Event))+)?,
            },)*
            $(Function {
                name: stringify!($own),
                gives_event: matches!(stringify!($own).as_bytes(), b"PJRT_LoadedExecutable_Execute"),
            },)*
        ];

        /// Puts the wrapped functions in the places of those that the table has.
        pub(crate) fn install(table: &mut PJRT_Api) {
            $(table.$name = table.$name.and(Some($name));)*
            $(table.$own = table.$own.and(Some($function));)*
        }

        /// Makes the place of a function null.
        pub(crate) fn hide(table: &mut PJRT_Api, function: Function) {
            match function.name {
                $(stringify!($name) => table.$name = None,)*
                $(stringify!($own) => table.$own = None,)*
                _ => {}
            }
        }

        $(
            #[allow(non_snake_case)]
            unsafe extern "C" fn $name(args: *mut $args) -> *mut PJRT_Error {
                let wrapper = wrapper();
                // SAFETY: see below.
                unsafe {
                    let used: &[Handle] =
                        &[$($((Kind::$used_kind, (*args).$used.addr()),)+)?];
                    let ended: &[Handle] = &[$((Kind::$ended_kind, (*args).$ended.addr()))?];
                    wrapper.call(
                        stringify!($name),
                        (used, ended),
                        || real!(wrapper, $name, args),
                        || [$($((Kind::$given_kind, (*args).$given.addr()),)+)?],
                    )
                }
            }
        )*
    };
}

// SAFETY for all: a caller passes what the header asks of the function that each replaces, and that
// goes on to the real one unchanged.

functions! {
    PJRT_Plugin_Initialize(PJRT_Plugin_Initialize_Args);
    PJRT_Plugin_Attributes(PJRT_Plugin_Attributes_Args);
    PJRT_Event_Destroy(PJRT_Event_Destroy_Args) ends Event event;
    PJRT_Client_Create(PJRT_Client_Create_Args) gives Client client;
    PJRT_Client_Destroy(PJRT_Client_Destroy_Args) ends Client client;
    PJRT_Client_PlatformName(PJRT_Client_PlatformName_Args) uses Client client;
    PJRT_Client_PlatformVersion(PJRT_Client_PlatformVersion_Args) uses Client client;
    PJRT_Client_Devices(PJRT_Client_Devices_Args) uses Client client;
    PJRT_Client_AddressableDevices(PJRT_Client_AddressableDevices_Args) uses Client client;
    PJRT_Client_AddressableMemories(PJRT_Client_AddressableMemories_Args) uses Client client;
    PJRT_Client_Compile(PJRT_Client_Compile_Args) uses Client client
        gives LoadedExecutable executable;
    PJRT_Client_BufferFromHostBuffer(PJRT_Client_BufferFromHostBuffer_Args) uses Client client
        gives Buffer buffer, Event done_with_host_buffer;
    PJRT_Client_CreateViewOfDeviceBuffer(PJRT_Client_CreateViewOfDeviceBuffer_Args)
        uses Client client gives Buffer buffer;
    PJRT_Client_CreateUninitializedBuffer(PJRT_Client_CreateUninitializedBuffer_Args)
        uses Client client gives Buffer buffer;
    PJRT_Client_CreateBuffersForAsyncHostToDevice(
        PJRT_Client_CreateBuffersForAsyncHostToDevice_Args
    ) uses Client client gives Transfer transfer_manager;
    PJRT_AsyncHostToDeviceTransferManager_Destroy(
        PJRT_AsyncHostToDeviceTransferManager_Destroy_Args
    ) ends Transfer transfer_manager;
    PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer(
        PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args
    ) uses Transfer transfer_manager gives Buffer buffer_out;
    PJRT_AsyncHostToDeviceTransferManager_TransferData(
        PJRT_AsyncHostToDeviceTransferManager_TransferData_Args
    ) uses Transfer transfer_manager gives Event done_with_h2d_transfer;
    PJRT_Client_DmaMap(PJRT_Client_DmaMap_Args) uses Client client;
    PJRT_Client_DmaUnmap(PJRT_Client_DmaUnmap_Args) uses Client client;
    PJRT_DeviceDescription_Attributes(PJRT_DeviceDescription_Attributes_Args);
    PJRT_DeviceDescription_Kind(PJRT_DeviceDescription_Kind_Args);
    PJRT_Device_GetDescription(PJRT_Device_GetDescription_Args);
    PJRT_Device_LocalHardwareId(PJRT_Device_LocalHardwareId_Args);
    PJRT_Device_AddressableMemories(PJRT_Device_AddressableMemories_Args);
    PJRT_Device_DefaultMemory(PJRT_Device_DefaultMemory_Args);
    PJRT_Device_MemoryStats(PJRT_Device_MemoryStats_Args);
    PJRT_Executable_Destroy(PJRT_Executable_Destroy_Args) ends Executable executable;
    PJRT_Executable_NumOutputs(PJRT_Executable_NumOutputs_Args) uses Executable executable;
    PJRT_Executable_OptimizedProgram(PJRT_Executable_OptimizedProgram_Args)
        uses Executable executable;
    PJRT_Executable_OutputElementTypes(PJRT_Executable_OutputElementTypes_Args)
        uses Executable executable;
    PJRT_Executable_OutputDimensions(PJRT_Executable_OutputDimensions_Args)
        uses Executable executable;
    PJRT_Executable_Serialize(PJRT_Executable_Serialize_Args) uses Executable executable;
    PJRT_Executable_Fingerprint(PJRT_Executable_Fingerprint_Args) uses Executable executable;
    PJRT_Executable_GetCompiledMemoryStats(PJRT_Executable_GetCompiledMemoryStats_Args)
        uses Executable executable;
    PJRT_Executable_DeserializeAndLoad(PJRT_Executable_DeserializeAndLoad_Args) uses Client client
        gives LoadedExecutable loaded_executable;
    PJRT_LoadedExecutable_Destroy(PJRT_LoadedExecutable_Destroy_Args)
        ends LoadedExecutable executable;
    PJRT_LoadedExecutable_GetExecutable(PJRT_LoadedExecutable_GetExecutable_Args)
        uses LoadedExecutable loaded_executable gives Executable executable;
    PJRT_Buffer_Destroy(PJRT_Buffer_Destroy_Args) ends Buffer buffer;
    PJRT_Buffer_ElementType(PJRT_Buffer_ElementType_Args) uses Buffer buffer;
    PJRT_Buffer_Dimensions(PJRT_Buffer_Dimensions_Args) uses Buffer buffer;
    PJRT_Buffer_GetMemoryLayout(PJRT_Buffer_GetMemoryLayout_Args) uses Buffer buffer;
    PJRT_Buffer_OnDeviceSizeInBytes(PJRT_Buffer_OnDeviceSizeInBytes_Args) uses Buffer buffer;
    PJRT_Buffer_Delete(PJRT_Buffer_Delete_Args) uses Buffer buffer;
    // The one question that may be asked of a donated buffer.
    PJRT_Buffer_IsDeleted(PJRT_Buffer_IsDeleted_Args);
    PJRT_Buffer_CopyToDevice(PJRT_Buffer_CopyToDevice_Args) uses Buffer buffer
        gives Buffer dst_buffer;
    PJRT_Buffer_CopyToMemory(PJRT_Buffer_CopyToMemory_Args) uses Buffer buffer
        gives Buffer dst_buffer;
    PJRT_Buffer_ToHostBuffer(PJRT_Buffer_ToHostBuffer_Args) uses Buffer src gives Event event;
    PJRT_Buffer_CopyRawToHost(PJRT_Buffer_CopyRawToHost_Args) uses Buffer buffer gives Event event;
    PJRT_Buffer_ReadyEvent(PJRT_Buffer_ReadyEvent_Args) uses Buffer buffer gives Event event;
    PJRT_Buffer_UnsafePointer(PJRT_Buffer_UnsafePointer_Args) uses Buffer buffer;
    PJRT_Buffer_IncreaseExternalReferenceCount(PJRT_Buffer_IncreaseExternalReferenceCount_Args)
        uses Buffer buffer;
    PJRT_Buffer_DecreaseExternalReferenceCount(PJRT_Buffer_DecreaseExternalReferenceCount_Args)
        uses Buffer buffer;
    PJRT_Buffer_OpaqueDeviceMemoryDataPointer(PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args)
        uses Buffer buffer;
    {
    PJRT_Error_Destroy = error_destroy;
    PJRT_Error_Message = error_message;
    PJRT_Error_GetCode = error_get_code;
    PJRT_Event_Await = event_await;
    PJRT_Event_Error = event_error;
    PJRT_Event_IsReady = event_is_ready;
    PJRT_Event_OnReady = event_on_ready;
    PJRT_LoadedExecutable_Execute = execute;
    }
}

unsafe extern "C" fn error_destroy(args: *mut PJRT_Error_Destroy_Args) {
    let wrapper = wrapper();
    // SAFETY: see above.
    unsafe {
        if !wrapper.does_nothing("PJRT_Error_Destroy")
            && !wrapper.errors.destroy((*args).error)
            && let Some(real) = wrapper.real.PJRT_Error_Destroy
        {
            real(args);
        }
    }
    wrapper.report();
}

unsafe extern "C" fn error_message(args: *mut PJRT_Error_Message_Args) {
    let wrapper = wrapper();
    if wrapper.does_nothing("PJRT_Error_Message") {
        return;
    }
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
    if wrapper.does_nothing("PJRT_Error_GetCode") {
        return ptr::null_mut();
    }
    // SAFETY: see above.
    unsafe {
        if let Some(code) = wrapper.errors.code((*args).error) {
            (*args).code = code;
            return ptr::null_mut();
        }
        real!(wrapper, PJRT_Error_GetCode, args)
    }
}

/// A function that uses an event, unless it is to fail: then the error that it comes with, once it has
/// come.
///
/// # Safety
/// The event is alive, and `real` may be called.
unsafe fn on_event(
    wrapper: &Wrapper,
    name: &'static str,
    event: *mut PJRT_Event,
    real: impl FnOnce() -> *mut PJRT_Error,
) -> *mut PJRT_Error {
    let error = wrapper.call(name, (&[(Kind::Event, event.addr())], &[]), real, || []);
    if !error.is_null() {
        return error;
    }
    match wrapper.doom(event) {
        None => ptr::null_mut(),
        Some(code) => wrapper.errors.make(code, "execution failed"),
    }
}

unsafe extern "C" fn event_await(args: *mut PJRT_Event_Await_Args) -> *mut PJRT_Error {
    let wrapper = wrapper();
    // SAFETY: see above.
    unsafe {
        let real = || real!(wrapper, PJRT_Event_Await, args);
        on_event(wrapper, "PJRT_Event_Await", (*args).event, real)
    }
}

unsafe extern "C" fn event_error(args: *mut PJRT_Event_Error_Args) -> *mut PJRT_Error {
    let wrapper = wrapper();
    // SAFETY: see above.
    unsafe {
        let real = || real!(wrapper, PJRT_Event_Error, args);
        on_event(wrapper, "PJRT_Event_Error", (*args).event, real)
    }
}

/// An event that is to fail is ready, and failed, at once for who asks: the real one is awaited here.
unsafe extern "C" fn event_is_ready(args: *mut PJRT_Event_IsReady_Args) -> *mut PJRT_Error {
    let wrapper = wrapper();
    // SAFETY: see above.
    unsafe {
        let event = (*args).event;
        if wrapper.doom(event).is_some() {
            wrapper.settle(event);
        }
        let used: &[Handle] = &[(Kind::Event, event.addr())];
        let real = || real!(wrapper, PJRT_Event_IsReady, args);
        wrapper.call("PJRT_Event_IsReady", (used, &[]), real, || [])
    }
}

unsafe extern "C" fn event_on_ready(args: *mut PJRT_Event_OnReady_Args) -> *mut PJRT_Error {
    let wrapper = wrapper();
    // SAFETY: see above.
    unsafe {
        let event = (*args).event;
        let used: &[Handle] = &[(Kind::Event, event.addr())];
        let real = || match (wrapper.doom(event), (*args).callback) {
            (Some(code), Some(callback)) => {
                wrapper.settle(event);
                callback(wrapper.errors.make(code, "execution failed"), (*args).user_arg);
                ptr::null_mut()
            }
            _ => real!(wrapper, PJRT_Event_OnReady, args),
        };
        wrapper.call("PJRT_Event_OnReady", (used, &[]), real, || [])
    }
}

unsafe extern "C" fn execute(args: *mut PJRT_LoadedExecutable_Execute_Args) -> *mut PJRT_Error {
    let wrapper = wrapper();
    // SAFETY: see above; and callers of this build launch on one device.
    let error = unsafe { wrapper.execute(args) };
    wrapper.report();
    error
}
