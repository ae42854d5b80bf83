//! What differs between the platforms that plugins drive. Nothing else in the project asks which one
//! it runs on.

use std::fmt;
use std::sync::Arc;

use tlaloc_pjrt_sys::PJRT_Extension_Type_Gpu_Custom_Call;

use crate::api::Api;
use crate::options::{ClientOptions, CreateOption};
use crate::runtime::{CudaRuntime, DeviceRuntime, HostRuntime};

/// A kind of platform.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Platform {
    /// The host's processors: one device, whose memory is the host's.
    Cpu,
    /// An XLA GPU plugin: takes memory options, one device of many is chosen.
    Gpu,
    /// Anything else, used without options.
    Other,
}

impl Platform {
    /// The platform by the name that a client gives it.
    pub(crate) fn from_name(name: &str) -> Self {
        match name {
            "cpu" => Platform::Cpu,
            "cuda" | "rocm" | "sycl" | "gpu" => Platform::Gpu,
            _ => Platform::Other,
        }
    }

    /// What a plugin shows of its platform before it has a client: only whether it is a GPU plugin,
    /// by an extension that no other has.
    pub(crate) fn of_plugin(api: Api) -> Self {
        // SAFETY: a loaded plugin's table reaches far past the start of the extension list.
        match unsafe { api.has_extension(PJRT_Extension_Type_Gpu_Custom_Call) } {
            true => Platform::Gpu,
            false => Platform::Other,
        }
    }

    /// The options to create a client with: sets to be tried in order, until one has no option that
    /// the plugin does not know. A GPU client must never be made without its options, or it takes
    /// most of the device's memory.
    pub(crate) fn option_sets(
        self,
        ordinal: i32,
        options: &ClientOptions,
    ) -> Vec<Vec<CreateOption>> {
        match self {
            Platform::Gpu => vec![vec![
                CreateOption::Float("memory_fraction", options.memory_fraction),
                CreateOption::Bool("preallocate", options.preallocate),
                CreateOption::Ints("visible_devices", Box::new([i64::from(ordinal)])),
            ]],
            Platform::Cpu | Platform::Other => {
                vec![vec![CreateOption::Int("cpu_device_count", 1)], vec![]]
            }
        }
    }

    /// Whether the device ordinal that was asked for must be the client's only device. GPU plugins
    /// give device 0 for one that does not exist; elsewhere ordinals name nothing.
    pub(crate) fn has_ordinals(self) -> bool {
        self == Platform::Gpu
    }

    /// The runtime of the platform of this name; none where this build knows none, or it does not
    /// start: everything goes through the plugin then.
    pub(crate) fn runtime(self, name: &str) -> Option<Arc<dyn DeviceRuntime>> {
        match (self, name) {
            (Platform::Cpu, _) => Some(Arc::new(HostRuntime)),
            (Platform::Gpu, "cuda") => match CudaRuntime::load() {
                Ok(runtime) => Some(Arc::new(runtime)),
                Err(error) => {
                    tracing::warn!(
                        "tensors of clients in GPU memory are refused, and step inputs are uploaded \
                         one by one: {error}"
                    );
                    None
                }
            },
            (Platform::Gpu | Platform::Other, _) => None,
        }
    }

    /// What memory must be aligned to for a buffer to be laid over it.
    pub(crate) fn view_alignment(self) -> usize {
        match self {
            Platform::Gpu => 16,
            Platform::Cpu | Platform::Other => 64,
        }
    }

    /// A device in words: `GPU 0` or `device 0`.
    pub(crate) fn device(self, ordinal: i32) -> String {
        match self {
            Platform::Gpu => format!("GPU {ordinal}"),
            Platform::Cpu | Platform::Other => format!("device {ordinal}"),
        }
    }

    /// What the log says at a client's creation beyond the common facts, before and after the path.
    pub(crate) fn log_details(self, options: &ClientOptions) -> (impl fmt::Display, &'static str) {
        match self {
            Platform::Gpu => (
                format!(
                    ", memory_fraction={}, preallocate={}",
                    options.memory_fraction, options.preallocate
                ),
                ", CUDA kernels not registered (this build has none)",
            ),
            Platform::Cpu | Platform::Other => (String::new(), ""),
        }
    }
}
