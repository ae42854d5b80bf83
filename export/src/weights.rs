//! Weight files: a slot's tensors read in ranges, converted and written, a band at a time.

use std::io::{self, Write};

use tlaloc_artifact::DType;

use crate::Error;
use crate::checkpoint::{Stored, StoredWeight};
use crate::family::Weights;
use crate::quantise::WeightQuant;
use crate::slots::{Content, WeightSlot};

/// Bytes held at a time, converted. As many again are held as stored.
const BAND: usize = 16 << 20;

/// Writes the file of `slot` to `sink`: little-endian, dense, row-major. `written` is told the bytes
/// of each step.
///
/// # Errors
/// When a tensor cannot be read or the sink cannot be written.
pub fn write_slot(
    slot: &WeightSlot,
    weights: &Weights,
    sink: &mut dyn Write,
    written: &mut dyn FnMut(u64),
) -> Result<(), Error> {
    let parts: Vec<_> = slot.parts.iter().filter_map(|part| weights.get(&part.role)).collect();
    let mut emit = |bytes: &[u8]| -> io::Result<()> {
        sink.write_all(bytes)?;
        written(bytes.len() as u64);
        Ok(())
    };
    let mut emit = |bytes: &[u8]| {
        emit(bytes).map_err(|source| Error::Unwritable { slot: slot.name.clone(), source })
    };
    if slot.transposed {
        return transposed(slot, &parts, &mut emit);
    }
    parts.iter().try_for_each(|part| match slot.content {
        Content::Values(dtype) => stacked(dtype, part, &mut emit),
        Content::Codes(quant) => each_row(part, &mut |row| {
            let scale = scale(quant, part, row)?;
            let codes: Vec<_> = row.iter().map(|&value| quant.code(value, scale)).collect();
            emit(&codes)
        }),
        Content::Scales(quant) => {
            each_row(part, &mut |row| emit(&scale(quant, part, row)?.to_le_bytes()))
        }
    })
}

type Emit<'a> = dyn FnMut(&[u8]) -> Result<(), Error> + 'a;

/// All elements of `part` in their order.
fn stacked(dtype: DType, part: &StoredWeight, emit: &mut Emit) -> Result<(), Error> {
    let stored = part.tensor.stored()?;
    let chunk = BAND / dtype.size();
    let (mut source, mut target) = (Vec::new(), Vec::new());
    for (start, elements) in part.runs() {
        for first in (0..elements).step_by(chunk) {
            source.resize(chunk.min(elements - first) * stored.size(), 0);
            part.tensor.read(start + first, &mut source)?;
            target.clear();
            for x in source.chunks_exact(stored.size()) {
                convert(x, stored, part.zero_centred, Encoding::Value(dtype), &mut target);
            }
            emit(&target)?;
        }
    }
    Ok(())
}

/// Calls `each` with the values of every row of `part`, in order.
fn each_row(
    part: &StoredWeight,
    each: &mut dyn FnMut(&[f32]) -> Result<(), Error>,
) -> Result<(), Error> {
    let stored = part.tensor.stored()?;
    let width = part.row_elements();
    let band = width * (BAND / (width * size_of::<f32>())).max(1);
    let (mut bytes, mut values) = (Vec::new(), Vec::new());
    for (start, elements) in part.runs() {
        for first in (0..elements).step_by(band) {
            bytes.resize(band.min(elements - first) * stored.size(), 0);
            part.tensor.read(start + first, &mut bytes)?;
            values.clear();
            let stored_values = bytes.chunks_exact(stored.size()).map(|x| stored.value(x));
            values.extend(stored_values.map(|value| centred(value, part.zero_centred)));
            values.chunks_exact(width).try_for_each(&mut *each)?;
        }
    }
    Ok(())
}

fn scale(quant: WeightQuant, part: &StoredWeight, row: &[f32]) -> Result<f32, Error> {
    quant.scale(row).ok_or_else(|| {
        let reason =
            format!("holds a value that is not finite, which {} has no code for", quant.name());
        part.tensor.refuse(reason)
    })
}

/// The `parts`, `[out, in]` each, stacked along `out` and transposed to `[in, out]`: bands of input
/// features, each gathered from a strip of every part.
fn transposed(slot: &WeightSlot, parts: &[&StoredWeight], emit: &mut Emit) -> Result<(), Error> {
    let (inputs, outputs) = match slot.dims[..] {
        [inputs, outputs] => (inputs, outputs),
        _ => return Ok(()),
    };
    let encodings = encodings(slot.content, parts)?;
    let size = slot.content.dtype().size();
    let most = (BAND / (outputs * size)).clamp(1, inputs);
    let (mut strip, mut element, mut band) = (Vec::new(), Vec::new(), Vec::new());
    for first in (0..inputs).step_by(most) {
        let width = most.min(inputs - first);
        band.resize(width * outputs * size, 0);
        let mut output = 0;
        for part in parts {
            let stored = part.tensor.stored()?;
            strip.resize(width * stored.size(), 0);
            for row in 0..part.rows() {
                part.tensor.read(part.row_start(row) + first, &mut strip)?;
                for (i, x) in strip.chunks_exact(stored.size()).enumerate() {
                    element.clear();
                    convert(x, stored, part.zero_centred, encodings[output], &mut element);
                    let at = (i * outputs + output) * size;
                    band[at..at + size].copy_from_slice(&element);
                }
                output += 1;
            }
        }
        emit(&band)?;
    }
    Ok(())
}

/// How one element is written.
#[derive(Clone, Copy)]
enum Encoding {
    /// In this type; narrowing rounds to nearest even.
    Value(DType),
    /// As a code in a row of this scale.
    Code(WeightQuant, f32),
}

/// The encoding of each row of the stacked `parts`.
fn encodings(content: Content, parts: &[&StoredWeight]) -> Result<Vec<Encoding>, Error> {
    let mut encodings = Vec::new();
    for part in parts {
        match content {
            Content::Codes(quant) => each_row(part, &mut |row| {
                encodings.push(Encoding::Code(quant, scale(quant, part, row)?));
                Ok(())
            })?,
            other => encodings.extend(vec![Encoding::Value(other.dtype()); part.rows()]),
        }
    }
    Ok(encodings)
}

/// Appends one element, plus 1 if it is `zero_centred`, little-endian.
fn convert(
    bytes: &[u8],
    stored: Stored,
    zero_centred: bool,
    encoding: Encoding,
    target: &mut Vec<u8>,
) {
    let value = || centred(stored.value(bytes), zero_centred);
    match (encoding, stored) {
        (Encoding::Code(quant, scale), _) => target.push(quant.code(value(), scale)),
        (Encoding::Value(DType::F32), Stored::F32)
        | (Encoding::Value(DType::Bf16), Stored::Bf16)
            if !zero_centred =>
        {
            target.extend_from_slice(bytes);
        }
        (Encoding::Value(DType::Bf16), _) => {
            target.extend(half::bf16::from_f32(value()).to_le_bytes());
        }
        (Encoding::Value(_), _) => target.extend(value().to_le_bytes()),
    }
}

fn centred(value: f32, zero_centred: bool) -> f32 {
    if zero_centred { value + 1.0 } else { value }
}
