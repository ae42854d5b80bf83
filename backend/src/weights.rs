//! How a load brings weights to a device.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tlaloc_artifact::Tensor;
use tlaloc_pjrt::{Buffer, Client, MappedFile};
use tracing::info;

use crate::dtype::{element_type, signed};

const MIB: usize = 1 << 20;
/// Bytes from one line on the progress of a load to the next.
const TOLD_EVERY: usize = 1 << 30;

/// Weight files on their way to a device: mapped where it reads them in place, copied elsewhere.
pub struct Uploads<'a> {
    client: &'a Arc<Client>,
    started: Instant,
    total: usize,
    done: usize,
}

/// What was uploaded, for a load's lines.
pub struct Uploaded {
    /// How many weights.
    pub weights: usize,
    /// Their bytes.
    pub bytes: usize,
    /// How long it took.
    pub time: Duration,
}

impl<'a> Uploads<'a> {
    /// Nothing of `total` bytes is there.
    pub fn new(client: &'a Arc<Client>, total: usize) -> Self {
        Uploads { client, started: Instant::now(), total, done: 0 }
    }

    /// The weight of a file, which is as large as its tensor.
    ///
    /// # Errors
    /// The file cannot be mapped, or the device has no room.
    pub fn upload(&mut self, path: &Path, tensor: &Tensor) -> Result<Buffer, tlaloc_pjrt::Error> {
        let file = Arc::new(MappedFile::open(path)?);
        let (dtype, dims) = (element_type(tensor.dtype()), signed(tensor.dims()));
        let buffer = self.client.upload_mapped(&file, dtype, &dims)?;
        if !buffer.is_mapped() {
            file.drop_page_cache();
        }
        let before = self.done / TOLD_EVERY;
        self.done += buffer.bytes();
        if self.done / TOLD_EVERY > before {
            info!("uploaded {} of {} MiB of weights", self.done / MIB, self.total / MIB);
        }
        Ok(buffer)
    }

    /// The end of it.
    pub fn finish(&self, weights: &[Buffer]) -> Uploaded {
        Uploaded { weights: weights.len(), bytes: self.done, time: self.started.elapsed() }
    }
}

impl std::fmt::Display for Uploaded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Uploaded { weights, bytes, time } = self;
        write!(f, "uploaded {weights} weights ({} MiB) in {} ms", bytes / MIB, time.as_millis())
    }
}
