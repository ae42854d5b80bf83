//! Why a tensor-mode model cannot be served.

use std::path::PathBuf;

use triton_backend::Code;

/// Which side of a program a tensor is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// An input, bound to an argument.
    Input,
    /// An output, bound to a result.
    Output,
}

impl Side {
    /// As `config.pbtxt` has it.
    pub fn tensor(self) -> &'static str {
        match self {
            Side::Input => "input",
            Side::Output => "output",
        }
    }

    /// As a function has it.
    pub fn value(self) -> &'static str {
        match self {
            Side::Input => "argument",
            Side::Output => "result",
        }
    }

    /// The model parameter that binds the two.
    pub fn parameter(self) -> &'static str {
        match self {
            Side::Input => "arguments",
            Side::Output => "results",
        }
    }

    /// What an item of that parameter may be.
    pub fn forms(self) -> &'static str {
        match self {
            Side::Input => "input:<name>, weight:<file> or state:<name>",
            Side::Output => "output:<name> or state:<name>",
        }
    }
}

/// A failed load or instance creation. The model's name is put in front where it is reported. Where
/// no other remedy is named, `config.pbtxt` and the artifact disagree, and one is to be corrected.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A parameter is wrong: correct it.
    #[error(transparent)]
    Settings(#[from] crate::settings::Error),
    /// A tensor has a type that PJRT or Triton does not have: declare another.
    #[error(
        "{} '{name}' has data_type {found}; tensor mode has TYPE_ FP32 FP64 FP16 BF16 INT8 INT16 \
         INT32 INT64 UINT8 UINT16 UINT32 UINT64 BOOL",
        side.tensor()
    )]
    DataType {
        /// Input or output.
        side: Side,
        /// Its name.
        name: String,
        /// The type as written.
        found: String,
    },
    /// A program has no optional arguments: make it two models.
    #[error("input '{0}' is optional; every input of a compiled program is needed")]
    Optional(String),
    /// An item of a binding list has none of the forms.
    #[error(
        "{} '{item}' in the '{}' parameter is not {}",
        side.value(), side.parameter(), side.forms()
    )]
    Malformed {
        /// Arguments or results.
        side: Side,
        /// The item.
        item: String,
    },
    /// A binding list names what the configuration does not have.
    #[error(
        "the '{}' parameter names {} '{name}', which config.pbtxt does not declare",
        side.parameter(), side.tensor()
    )]
    Undeclared {
        /// Arguments or results.
        side: Side,
        /// The name.
        name: String,
    },
    /// A binding list names something twice.
    #[error("the '{}' parameter has {item} twice", side.parameter())]
    Twice {
        /// Arguments or results.
        side: Side,
        /// The item.
        item: String,
    },
    /// A binding list leaves a tensor of the configuration out.
    #[error(
        "config.pbtxt declares {} '{name}', which the '{}' parameter does not bind",
        side.tensor(), side.parameter()
    )]
    Unbound {
        /// Arguments or results.
        side: Side,
        /// The name.
        name: String,
    },
    /// A state is written and never read.
    #[error("the 'results' parameter writes state '{0}', which no state: argument reads")]
    UnreadState(String),
    /// A state is read and never written.
    #[error("the 'arguments' parameter reads state '{0}', which no state: result writes")]
    UnwrittenState(String),
    /// Requests of one batch would share a state.
    #[error(
        "state '{0}' cannot be combined with max_batch_size > 0: a state is one for all requests of \
         an instance"
    )]
    BatchedState(String),
    /// A file is named by an absolute path: name it inside the version directory.
    #[error("{kind} '{path}' is absolute; name a file inside the model version directory")]
    AbsolutePath {
        /// `artifact` or `weight file`.
        kind: &'static str,
        /// The path.
        path: String,
    },
    /// A file is outside of the version directory: put it inside.
    #[error("{kind} '{path}' leaves the model version directory")]
    OutsidePath {
        /// `artifact` or `weight file`.
        kind: &'static str,
        /// The path.
        path: String,
    },
    /// A file is missing or unreadable: install it.
    #[error("{}: cannot be read: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file is not StableHLO: export it again.
    #[error("{file}: {reason}")]
    NotStableHlo {
        /// The file.
        file: String,
        /// What is wrong.
        reason: String,
    },
    /// The function to serve is not there.
    #[error("{file}: entry function @{entry} is not in the artifact; it defines {defined}")]
    NoEntry {
        /// The file.
        file: String,
        /// The function.
        entry: String,
        /// Those that are there.
        defined: String,
    },
    /// The function has more or fewer arguments or results than are bound.
    #[error(
        "{file}: @{function} has {found} {}s, but config.pbtxt binds {bound}",
        side.value()
    )]
    Count {
        /// The file.
        file: String,
        /// The function.
        function: String,
        /// Arguments or results.
        side: Side,
        /// How many it has.
        found: usize,
        /// How many are bound.
        bound: usize,
    },
    /// An argument or result cannot be served as what it is bound to.
    #[error("{file}: {value} of @{function} is {found} {reason}")]
    Value {
        /// The file.
        file: String,
        /// Which one, and what it is bound to.
        value: String,
        /// The function.
        function: String,
        /// Its type.
        found: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A state's argument is aliased to another result than the state's: export it otherwise.
    #[error(
        "{file}: argument {argument} of @{function} has tf.aliasing_output = {found}, but state \
         '{state}' is written by result {result}"
    )]
    Aliasing {
        /// The file.
        file: String,
        /// The argument's index.
        argument: usize,
        /// The function.
        function: String,
        /// The attribute.
        found: String,
        /// The state.
        state: String,
        /// The result that it is bound to.
        result: usize,
    },
    /// Two artifacts take the same shapes: a request could not tell them apart.
    #[error("artifacts '{first}' and '{second}' take arguments of the same shapes; keep one")]
    SameShapes {
        /// The first.
        first: String,
        /// The second.
        second: String,
    },
    /// No artifact holds the largest batch.
    #[error("max_batch_size is {max_batch_size} but the largest artifact takes batch {largest}")]
    SmallBatches {
        /// What is configured.
        max_batch_size: usize,
        /// The largest there is.
        largest: usize,
    },
    /// A weight file's size is not its argument's: it was cut short, or belongs to another artifact.
    #[error(
        "weight file '{file}' has {found} bytes, but argument {argument} of @{function} is {tensor}, \
         which takes {needed}"
    )]
    WeightSize {
        /// The file.
        file: String,
        /// Its bytes.
        found: u64,
        /// The argument's index.
        argument: usize,
        /// The function.
        function: String,
        /// The argument's type.
        tensor: String,
        /// The argument's bytes.
        needed: usize,
    },
    /// No setting names a plugin.
    #[error("tlaloc backend: {0}")]
    NoPlugin(#[from] crate::device::NoPlugin),
    /// The plugin or its client does not come up.
    #[error("tlaloc backend: {0}")]
    Device(tlaloc_pjrt::Error),
    /// An artifact does not compile: export it again, for this plugin.
    #[error("{file}: {source}")]
    Compile {
        /// The file.
        file: String,
        /// What the plugin said.
        source: tlaloc_pjrt::Error,
    },
    /// The plugin does not tell what a compiled module takes: write it as text.
    #[error(
        "{file}: is MLIR bytecode, whose arguments this plugin does not tell; write it as text: {source}"
    )]
    Untold {
        /// The file.
        file: String,
        /// What the plugin said.
        source: tlaloc_pjrt::Error,
    },
    /// The plugin made something else of an artifact than it says.
    #[error("{file}: compiled to {found}, but @{function} has {expected}")]
    Compiled {
        /// The file.
        file: String,
        /// What the executable has.
        found: String,
        /// The function.
        function: String,
        /// What the function has.
        expected: String,
    },
    /// A weight or a state finds no room on the device.
    #[error("{what}: {source}")]
    Upload {
        /// The weight or the states.
        what: String,
        /// What the plugin said.
        source: tlaloc_pjrt::Error,
    },
    /// The instance is on a GPU that the model was not loaded for.
    #[error(transparent)]
    NoDevice(#[from] crate::device::NoDevice),
}

impl Error {
    /// Triton's code for it (PJRT use §1).
    pub fn code(&self) -> Code {
        match self {
            Error::Unreadable { .. } => Code::NotFound,
            Error::NoPlugin(_) | Error::Device(_) => Code::Unavailable,
            Error::Compiled { .. } | Error::Upload { .. } => Code::Internal,
            _ => Code::InvalidArgument,
        }
    }
}
