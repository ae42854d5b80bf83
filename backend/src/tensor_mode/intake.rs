//! Reads and checks a request (tensor mode §9).

use tlaloc_artifact::DType;
use triton_backend::{Input, Request};

use super::buckets::Buckets;
use super::config::{ConfigTensor, TensorConfig};
use super::grouping::Member;
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
    Whole(&'a [u8]),
    /// In several.
    Pieces(Vec<&'a [u8]>),
}

impl<'a> Bytes<'a> {
    fn of(input: &Input<'a>) -> Result<Self, String> {
        let mut pieces = input.pieces();
        if pieces.len() > 1 {
            let pieces = pieces.collect::<Result<_, _>>().map_err(|error| error.to_string())?;
            return Ok(Bytes::Pieces(pieces));
        }
        let whole = pieces.next().transpose().map_err(|error| error.to_string())?;
        Ok(Bytes::Whole(whole.unwrap_or_default()))
    }

    /// The pieces in order.
    pub fn pieces(&self) -> &[&'a [u8]] {
        match self {
            Bytes::Whole(bytes) => std::slice::from_ref(bytes),
            Bytes::Pieces(pieces) => pieces,
        }
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
        inputs.push(checked(input, declared)?);
        shapes.push(input.shape());
    }
    let (class, rows) = buckets.classify(&shapes)?;
    Ok(Prepared { class, rows, inputs })
}

/// The bytes of an input that has the declared type, and as many bytes as its shape says.
fn checked<'a>(input: &Input<'a>, declared: &ConfigTensor) -> Result<Bytes<'a>, String> {
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
    if declared.dtype == DType::Bool {
        let odd = bytes.pieces().iter().flat_map(|piece| piece.iter()).find(|byte| **byte > 1);
        if let Some(odd) = odd {
            return Err(format!("input '{name}' holds the byte {odd} where BOOL has 0 and 1"));
        }
    }
    Ok(bytes)
}
