//! Executables: compiled StableHLO bodies.

use std::ptr::NonNull;
use std::sync::Arc;

use parking_lot::Mutex;
use tlaloc_pjrt_sys::{
    PJRT_Client_Compile_Args, PJRT_Executable, PJRT_Executable_Destroy_Args,
    PJRT_Executable_GetCompiledMemoryStats_Args, PJRT_Executable_NumOutputs_Args,
    PJRT_Executable_OptimizedProgram_Args, PJRT_Executable_OutputDimensions_Args,
    PJRT_Executable_OutputElementTypes_Args, PJRT_Executable_Serialize_Args, PJRT_LoadedExecutable,
    PJRT_LoadedExecutable_Destroy_Args, PJRT_LoadedExecutable_GetExecutable_Args, PJRT_Program,
    Versioned,
};

use crate::api::{Api, call};
use crate::client::Client;
use crate::error::{Code, Error, Failure};
use crate::execute::Scratch;
use crate::program_shape::ProgramShape;
use crate::shape::{ElementType, Shape};

/// A serialised `CompileOptionsProto` with `executable_build_options` (field 3) of `num_replicas`
/// (field 4) = 1 and `num_partitions` (field 5) = 1. Plugins abort the process without them.
pub(crate) const COMPILE_OPTIONS: [u8; 6] = [0x1a, 0x04, 0x20, 0x01, 0x28, 0x01];

/// A compiled body. Clones share it.
#[derive(Debug, Clone)]
pub struct Executable {
    pub(crate) inner: Arc<Loaded>,
}

/// What an executable needs, in bytes of device memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryStats {
    /// All arguments.
    pub argument: usize,
    /// All outputs, those written over arguments included.
    pub output: usize,
    /// Outputs that are written over arguments, where these are donated.
    pub alias: usize,
    /// Intermediate results. As much as a donated pool or more means that the pool is copied.
    pub temp: usize,
}

/// A loaded executable of the C API, destroyed with this handle.
#[derive(Debug)]
pub(crate) struct Loaded {
    raw: NonNull<PJRT_LoadedExecutable>,
    pub(crate) outputs: Box<[Arc<Shape>]>,
    memory_stats: Option<MemoryStats>,
    /// Memory of executions that have ended, for those to come.
    pub(crate) scratch: Mutex<Vec<Scratch>>,
    pub(crate) client: Arc<Client>,
}

// SAFETY: PJRT's executable functions may be called from any thread.
unsafe impl Send for Loaded {}
// SAFETY: as above, from several at once.
unsafe impl Sync for Loaded {}

impl Client {
    /// Compiles a StableHLO module, MLIR text or portable bytecode, for this client's device.
    ///
    /// # Errors
    /// [`Error::Call`] with the compiler's words, [`Error::ElementType`] for an output of a type that
    /// this crate does not know.
    pub fn compile(
        self: &Arc<Self>,
        module: &(impl AsRef<[u8]> + ?Sized),
    ) -> Result<Executable, Error> {
        let module = module.as_ref();
        // Plugins read past the given size up to a NUL.
        let mut code = Vec::with_capacity(module.len() + 1);
        code.extend_from_slice(module);
        code.push(0);
        let format = "mlir";
        let program = PJRT_Program {
            code: code.as_mut_ptr().cast(),
            code_size: module.len(),
            format: format.as_ptr().cast(),
            format_size: format.len(),
            ..Versioned::new()
        };
        let mut args = PJRT_Client_Compile_Args {
            client: self.raw(),
            program: &program,
            compile_options: COMPILE_OPTIONS.as_ptr().cast(),
            compile_options_size: COMPILE_OPTIONS.len(),
            ..Versioned::new()
        };
        // SAFETY: client, program and options outlive the call.
        unsafe { call!(self.api(), PJRT_Client_Compile, &mut args) }?;
        let raw = self.api().non_null("PJRT_Client_Compile", args.executable)?;
        Executable::new(self, raw)
    }
}

impl Executable {
    /// Takes over a loaded executable and reads what is known about it.
    pub(crate) fn new(
        client: &Arc<Client>,
        raw: NonNull<PJRT_LoadedExecutable>,
    ) -> Result<Self, Error> {
        let mut loaded = Loaded {
            raw,
            outputs: Box::default(),
            memory_stats: None,
            scratch: Mutex::default(),
            client: client.clone(),
        };
        let description = Description::of(&loaded)?;
        loaded.outputs = description.outputs()?;
        loaded.memory_stats = description.memory_stats();
        Ok(Executable { inner: Arc::new(loaded) })
    }

    /// The executable in the plugin's own serialised form.
    pub(crate) fn serialise(&self) -> Result<Vec<u8>, Error> {
        Description::of(&self.inner)?.serialise()
    }

    /// The client it was compiled by.
    pub fn client(&self) -> &Arc<Client> {
        &self.inner.client
    }

    /// How many outputs an execution has.
    pub fn num_outputs(&self) -> usize {
        self.inner.outputs.len()
    }

    /// The shape of each output.
    pub fn outputs(&self) -> impl ExactSizeIterator<Item = &Shape> {
        self.inner.outputs.iter().map(|shape| &**shape)
    }

    /// The shape of each parameter, read from the plugin's own form of the program: for modules that
    /// do not tell their signature themselves.
    ///
    /// # Errors
    /// [`Error::Call`] where the plugin does not give its form of the program, or gives one that
    /// cannot be read.
    pub fn parameters(&self) -> Result<Vec<Shape>, Error> {
        let description = Description::of(&self.inner)?;
        let unreadable = |reason: String| Error::Call {
            function: "PJRT_Executable_OptimizedProgram",
            failure: Failure {
                code: Code::Internal,
                message: format!("the plugin's form of the program is not to be read: {reason}"),
            },
        };
        let module = description.optimized_program()?;
        let program = ProgramShape::parse(&module).map_err(unreadable)?;
        if program.results.iter().ne(self.outputs()) {
            return Err(unreadable("its results are not the executable's outputs".to_owned()));
        }
        Ok(program.parameters)
    }

    /// What an execution needs of the device's memory; none where the plugin does not tell.
    pub fn memory_stats(&self) -> Option<MemoryStats> {
        self.inner.memory_stats
    }
}

impl Loaded {
    pub(crate) fn raw(&self) -> *mut PJRT_LoadedExecutable {
        self.raw.as_ptr()
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        let mut args =
            PJRT_LoadedExecutable_Destroy_Args { executable: self.raw(), ..Versioned::new() };
        // SAFETY: the executable is alive and not used after this: executions hold it. There is
        // nothing to do about an error.
        let _ = unsafe { call!(self.client.api(), PJRT_LoadedExecutable_Destroy, &mut args) };
    }
}

/// The C API's view of a loaded executable that has the facts about it.
struct Description {
    api: Api,
    raw: NonNull<PJRT_Executable>,
}

impl Description {
    fn of(loaded: &Loaded) -> Result<Self, Error> {
        let api = loaded.client.api();
        let mut args = PJRT_LoadedExecutable_GetExecutable_Args {
            loaded_executable: loaded.raw(),
            ..Versioned::new()
        };
        // SAFETY: the loaded executable is alive.
        unsafe { call!(api, PJRT_LoadedExecutable_GetExecutable, &mut args) }?;
        let raw = api.non_null("PJRT_LoadedExecutable_GetExecutable", args.executable)?;
        Ok(Self { api, raw })
    }

    fn outputs(&self) -> Result<Box<[Arc<Shape>]>, Error> {
        let executable = self.raw.as_ptr();
        let mut count = PJRT_Executable_NumOutputs_Args { executable, ..Versioned::new() };
        // SAFETY: the executable is alive.
        unsafe { call!(self.api, PJRT_Executable_NumOutputs, &mut count) }?;
        if count.num_outputs == 0 {
            return Ok(Box::default());
        }
        let mut types = PJRT_Executable_OutputElementTypes_Args { executable, ..Versioned::new() };
        // SAFETY: the executable is alive.
        unsafe { call!(self.api, PJRT_Executable_OutputElementTypes, &mut types) }?;
        let mut dims = PJRT_Executable_OutputDimensions_Args {
            executable,
            num_outputs: count.num_outputs,
            ..Versioned::new()
        };
        // SAFETY: the executable is alive.
        unsafe { call!(self.api, PJRT_Executable_OutputDimensions, &mut dims) }?;

        // SAFETY: arrays of these sizes that live as long as the executable: a type and a rank for
        // each output, and the dimensions of all of them in one row.
        let (types, ranks, mut rest) = unsafe {
            let types = array(types.output_types, types.num_output_types);
            let ranks = array(dims.dim_sizes, count.num_outputs);
            (types, ranks, array(dims.dims, ranks.iter().sum()))
        };
        let mut shapes = Vec::with_capacity(count.num_outputs);
        for (output, (&code, &rank)) in types.iter().zip(ranks).enumerate() {
            let element_type =
                ElementType::from_raw(code).ok_or(Error::ElementType { output, code })?;
            let (dims, after) = rest.split_at_checked(rank).ok_or_else(contradiction)?;
            rest = after;
            shapes.push(Arc::new(Shape::new(element_type, dims)?));
        }
        // The plugin writes as many outputs as it said it has.
        if shapes.len() != count.num_outputs {
            return Err(contradiction());
        }
        Ok(shapes.into())
    }

    fn serialise(&self) -> Result<Vec<u8>, Error> {
        let mut args =
            PJRT_Executable_Serialize_Args { executable: self.raw.as_ptr(), ..Versioned::new() };
        // SAFETY: the executable is alive.
        unsafe { call!(self.api, PJRT_Executable_Serialize, &mut args) }?;
        // SAFETY: bytes that live until the deleter below is called.
        let bytes =
            unsafe { array(args.serialized_bytes.cast::<u8>(), args.serialized_bytes_size) };
        let bytes = bytes.to_vec();
        if let Some(delete) = args.serialized_executable_deleter {
            // SAFETY: the bytes' holder, not used after this.
            unsafe { delete(args.serialized_executable) };
        }
        Ok(bytes)
    }

    /// The compiled program as a serialised `HloModuleProtoWithConfig`.
    fn optimized_program(&self) -> Result<Vec<u8>, Error> {
        const FORMAT: &[u8] = b"hlo_with_config";
        let mut program = PJRT_Program::new();
        let mut args = PJRT_Executable_OptimizedProgram_Args {
            executable: self.raw.as_ptr(),
            program: &mut program,
            ..Versioned::new()
        };
        // SAFETY: the executable is alive; a program without memory asks for its size and format.
        unsafe { call!(self.api, PJRT_Executable_OptimizedProgram, &mut args) }?;
        // SAFETY: a text of the plugin's that lives as long as it.
        let format = unsafe { array(program.format.cast::<u8>(), program.format_size) };
        if format != FORMAT {
            return Err(Error::Call {
                function: "PJRT_Executable_OptimizedProgram",
                failure: Failure {
                    code: Code::Unimplemented,
                    message: format!("unknown program format {}", String::from_utf8_lossy(format)),
                },
            });
        }
        let mut code = vec![0_u8; program.code_size];
        program.code = code.as_mut_ptr().cast();
        args.program = &mut program;
        // SAFETY: as above; the memory has the size asked for.
        unsafe { call!(self.api, PJRT_Executable_OptimizedProgram, &mut args) }?;
        Ok(code)
    }

    fn memory_stats(&self) -> Option<MemoryStats> {
        let mut args = PJRT_Executable_GetCompiledMemoryStats_Args {
            executable: self.raw.as_ptr(),
            ..Versioned::new()
        };
        // SAFETY: the executable is alive.
        unsafe { call!(self.api, PJRT_Executable_GetCompiledMemoryStats, &mut args) }.ok()?;
        Some(MemoryStats {
            argument: usize::try_from(args.argument_size_in_bytes).ok()?,
            output: usize::try_from(args.output_size_in_bytes).ok()?,
            alias: usize::try_from(args.alias_size_in_bytes).ok()?,
            temp: usize::try_from(args.temp_size_in_bytes).ok()?,
        })
    }
}

impl Drop for Description {
    fn drop(&mut self) {
        let mut args =
            PJRT_Executable_Destroy_Args { executable: self.raw.as_ptr(), ..Versioned::new() };
        // SAFETY: the executable is alive and not used after this. There is nothing to do about an
        // error.
        let _ = unsafe { call!(self.api, PJRT_Executable_Destroy, &mut args) };
    }
}

fn contradiction() -> Error {
    Error::Call {
        function: "PJRT_Executable_OutputDimensions",
        failure: Failure {
            code: Code::Internal,
            message: "the plugin contradicts itself about the outputs".to_owned(),
        },
    }
}

/// A slice of the C API's, which may be null when empty.
///
/// # Safety
/// `data` is null or points to `len` values that live for `'a`.
unsafe fn array<'a, T>(data: *const T, len: usize) -> &'a [T] {
    if data.is_null() {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(data, len) }
}
