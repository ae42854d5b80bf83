//! Reads and checks a request (tensor mode §9).

use tlaloc_artifact::DType;
use tlaloc_pjrt::Client;
use triton_backend::{Error, GpuMemory, Input, Piece, Request};

use super::buckets::Buckets;
use super::config::{ConfigTensor, TensorConfig};
use super::grouping::Member;
use super::paths::Place;
use crate::dtype::data_type;

/// A request that can be served.
pub struct Prepared<'a> {
    /// Class of its shapes.
    pub class: usize,
    /// Its rows; 1 without batching.
    pub rows: usize,
    /// Its inputs in the order of the configuration.
    pub inputs: Vec<Bytes<'a>>,
}

/// The bytes of an input: in how many pieces they come is Triton's choice.
pub enum Bytes<'a> {
    /// In one piece, or none.
    Whole(Piece<'a>),
    /// In several.
    Pieces(Vec<Piece<'a>>),
}

impl<'a> Bytes<'a> {
    fn of(input: &Input<'a>) -> Result<Self, String> {
        let mut pieces = input.pieces();
        if pieces.len() > 1 {
            let pieces = pieces.collect::<Result<_, _>>().map_err(|error| error.to_string())?;
            return Ok(Bytes::Pieces(pieces));
        }
        let whole = pieces.next().transpose().map_err(|error| error.to_string())?;
        Ok(Bytes::Whole(whole.unwrap_or(Piece::Host(&[]))))
    }

    /// The pieces in order.
    pub fn pieces(&self) -> &[Piece<'a>] {
        match self {
            Bytes::Whole(bytes) => std::slice::from_ref(bytes),
            Bytes::Pieces(pieces) => pieces,
        }
    }

    /// Some piece on a GPU.
    fn on_gpu(&self) -> Option<&GpuMemory<'a>> {
        self.pieces().iter().find_map(|piece| match piece {
            Piece::Gpu(memory) => Some(memory),
            Piece::Host(_) => None,
        })
    }

    /// Where they are.
    pub fn place(&self) -> Place {
        self.on_gpu().map_or(Place::Host, |_| Place::Gpu)
    }
}

impl Prepared<'_> {
    /// What grouping sees of it.
    pub fn member(&self, request: usize) -> Member {
        Member { request, class: self.class, rows: self.rows }
    }
}

/// Checks a request against the configuration and the artifacts.
///
/// # Errors
/// What is wrong, naming the input.
pub fn prepare<'a>(
    request: &'a Request,
    config: &TensorConfig,
    buckets: &Buckets,
    client: &Client,
) -> Result<Prepared<'a>, String> {
    let mut given: Vec<Input<'a>> = Vec::with_capacity(config.inputs.len());
    for input in request.inputs() {
        given.push(input.map_err(|error| error.to_string())?);
    }
    if given.len() != config.inputs.len() {
        let expected = config.inputs.len();
        return Err(format!("the request has {} inputs, the model has {expected}", given.len()));
    }
    let mut shapes = Vec::with_capacity(given.len());
    let mut inputs = Vec::with_capacity(given.len());
    for declared in &config.inputs {
        let input = given
            .iter()
            .find(|input| input.name() == declared.name)
            .ok_or_else(|| format!("the request has no input '{}'", declared.name))?;
        inputs.push(checked(input, declared, client)?);
        shapes.push(input.shape());
    }
    let (class, rows) = buckets.classify(&shapes)?;
    Ok(Prepared { class, rows, inputs })
}

/// The bytes of an input that has the declared type, and as many bytes as its shape says.
fn checked<'a>(
    input: &Input<'a>,
    declared: &ConfigTensor,
    client: &Client,
) -> Result<Bytes<'a>, String> {
    let name = input.name();
    if data_type(declared.dtype) != Some(input.data_type()) {
        let expected = data_type(declared.dtype).map(|expected| expected.to_string());
        return Err(format!(
            "input '{name}' is {}, the model takes {}",
            input.data_type(),
            expected.unwrap_or_default()
        ));
    }
    let needed = input.shape().iter().try_fold(declared.dtype.size() as u64, |bytes, dim| {
        bytes.checked_mul(u64::try_from(*dim).ok()?)
    });
    if needed != Some(input.byte_size()) {
        return Err(format!(
            "input '{name}' has {} bytes, which are not those of {} {:?}",
            input.byte_size(),
            input.data_type(),
            input.shape()
        ));
    }
    let bytes = Bytes::of(input)?;
    if let Some(memory) = bytes.on_gpu().filter(|_| !client.reaches_device_memory()) {
        return Err(Error::gpu_input(name, memory).to_string());
    }
    if declared.dtype == DType::Bool {
        // What is on a GPU is not seen here.
        let seen = bytes.pieces().iter().filter_map(|piece| match piece {
            Piece::Host(bytes) => Some(*bytes),
            Piece::Gpu(_) => None,
        });
        let odd = seen.flatten().find(|byte| **byte > 1);
        if let Some(odd) = odd {
            return Err(format!("input '{name}' holds the byte {odd} where BOOL has 0 and 1"));
        }
    }
    Ok(bytes)
}
