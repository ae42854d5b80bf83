//! Programs: the types of their results.

use std::ptr;

use tlaloc_artifact::DType;
use tlaloc_artifact::stablehlo::Module;
use tlaloc_pjrt_sys::*;

use crate::buffer::Buffer;
use crate::event;

struct Program {
    types: Vec<PJRT_Buffer_Type>,
    ranks: Vec<usize>,
    /// Of all results in one row.
    dims: Vec<i64>,
    bytes: Vec<usize>,
    /// The argument that each result is aliased to.
    aliases: Vec<Option<usize>>,
}

const TYPES: [(DType, PJRT_Buffer_Type); 6] = [
    (DType::F32, PJRT_Buffer_Type_F32),
    (DType::F16, PJRT_Buffer_Type_F16),
    (DType::Bf16, PJRT_Buffer_Type_BF16),
    (DType::I32, PJRT_Buffer_Type_S32),
    (DType::I8, PJRT_Buffer_Type_S8),
    (DType::F8E4M3Fn, PJRT_Buffer_Type_F8E4M3FN),
];

/// Bytes of an element.
pub(crate) fn size(element_type: PJRT_Buffer_Type) -> usize {
    TYPES.iter().find(|(_, raw)| *raw == element_type).unwrap().0.size()
}

impl Program {
    fn read(text: &str) -> Self {
        let module = Module::parse(text).unwrap();
        let main = module.function("main").unwrap();
        let mut program = Program {
            types: Vec::new(),
            ranks: Vec::new(),
            dims: Vec::new(),
            bytes: Vec::new(),
            aliases: vec![None; main.results.len()],
        };
        for result in &main.results {
            let tensor = result.ty.tensor().unwrap();
            let known = TYPES.iter().find(|(dtype, _)| *dtype == tensor.dtype());
            program.types.push(known.unwrap().1);
            program.ranks.push(tensor.dims().len());
            program.dims.extend(tensor.dims().iter().map(|dim| i64::try_from(*dim).unwrap()));
            program.bytes.push(tensor.bytes());
        }
        for (index, argument) in main.arguments.iter().enumerate() {
            if let Some(value) = argument.attribute("tf.aliasing_output") {
                let result: usize = value.split(':').next().unwrap().trim().parse().unwrap();
                program.aliases[result] = Some(index);
            }
        }
        program
    }

    /// # Safety
    /// `raw` is a program of this plugin's that lives.
    unsafe fn of<'a, T>(raw: *mut T) -> &'a Program {
        // SAFETY: the caller's promise.
        unsafe { &*raw.cast::<Program>() }
    }
}

pub(crate) unsafe extern "C" fn compile(args: *mut PJRT_Client_Compile_Args) -> *mut PJRT_Error {
    // SAFETY: the caller's struct with a program's text.
    unsafe {
        let text = &*(*args).program;
        let text = std::slice::from_raw_parts(text.code.cast::<u8>(), text.code_size);
        let program = Program::read(std::str::from_utf8(text).unwrap());
        (*args).executable = Box::into_raw(Box::new(program)).cast();
    }
    ptr::null_mut()
}

pub(crate) unsafe extern "C" fn destroy(
    args: *mut PJRT_LoadedExecutable_Destroy_Args,
) -> *mut PJRT_Error {
    // SAFETY: a program of this plugin's, which the caller gives up.
    drop(unsafe { Box::from_raw((*args).executable.cast::<Program>()) });
    ptr::null_mut()
}

/// The description of a program is the program.
pub(crate) unsafe extern "C" fn executable(
    args: *mut PJRT_LoadedExecutable_GetExecutable_Args,
) -> *mut PJRT_Error {
    // SAFETY: the caller's struct.
    unsafe { (*args).executable = (*args).loaded_executable.cast() };
    ptr::null_mut()
}

pub(crate) unsafe extern "C" fn count(
    args: *mut PJRT_Executable_NumOutputs_Args,
) -> *mut PJRT_Error {
    // SAFETY: the caller's struct with a program of this plugin's.
    unsafe { (*args).num_outputs = Program::of((*args).executable).types.len() };
    ptr::null_mut()
}

pub(crate) unsafe extern "C" fn types(
    args: *mut PJRT_Executable_OutputElementTypes_Args,
) -> *mut PJRT_Error {
    // SAFETY: the caller's struct with a program of this plugin's; nobody writes to the types.
    unsafe {
        let program = Program::of((*args).executable);
        (*args).output_types = program.types.as_ptr().cast_mut();
        (*args).num_output_types = program.types.len();
    }
    ptr::null_mut()
}

pub(crate) unsafe extern "C" fn dims(
    args: *mut PJRT_Executable_OutputDimensions_Args,
) -> *mut PJRT_Error {
    // SAFETY: the caller's struct with a program of this plugin's.
    unsafe {
        let program = Program::of((*args).executable);
        (*args).num_outputs = program.ranks.len();
        (*args).dims = program.dims.as_ptr();
        (*args).dim_sizes = program.ranks.as_ptr();
    }
    ptr::null_mut()
}

pub(crate) unsafe extern "C" fn execute(
    args: *mut PJRT_LoadedExecutable_Execute_Args,
) -> *mut PJRT_Error {
    // SAFETY: the caller's struct: one device, arguments of this plugin's, room for the results. What
    // may be donated is nobody else's meanwhile.
    unsafe {
        let args = &mut *args;
        let program = Program::of(args.executable);
        let options = &*args.options;
        let kept = match options.num_non_donatable_input_indices {
            0 => &[],
            count => std::slice::from_raw_parts(options.non_donatable_input_indices, count),
        };
        let arguments = std::slice::from_raw_parts(*args.argument_lists, args.num_args);
        let outputs = *args.output_lists;
        for (index, (bytes, alias)) in program.bytes.iter().zip(&program.aliases).enumerate() {
            let donated = alias.filter(|argument| !kept.contains(&(*argument as i64)));
            let output = match donated.and_then(|argument| arguments.get(argument)) {
                Some(argument) => Buffer::of(*argument).donated(),
                None => Buffer::zeros(*bytes),
            };
            *outputs.add(index) = output.into_raw();
        }
        *args.device_complete_events = event();
    }
    ptr::null_mut()
}
