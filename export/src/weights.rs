//! Weight files: a slot's tensors read in ranges, converted and written, a band at a time.

use std::io::{self, Write};

use tlaloc_artifact::DType;

use crate::Error;
use crate::checkpoint::{Stored, StoredWeight};
use crate::family::Weights;
use crate::slots::WeightSlot;

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
        transposed(slot, &parts, &mut emit)
    } else {
        parts.iter().try_for_each(|part| stacked(slot.dtype, part, &mut emit))
    }
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
                convert(x, stored, part.zero_centred, dtype, &mut target);
            }
            emit(&target)?;
        }
    }
    Ok(())
}

/// The `parts`, `[out, in]` each, stacked along `out` and transposed to `[in, out]`: bands of input
/// features, each gathered from a strip of every part.
fn transposed(slot: &WeightSlot, parts: &[&StoredWeight], emit: &mut Emit) -> Result<(), Error> {
    let (inputs, outputs) = match slot.dims[..] {
        [inputs, outputs] => (inputs, outputs),
        _ => return Ok(()),
    };
    let size = slot.dtype.size();
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
                    convert(x, stored, part.zero_centred, slot.dtype, &mut element);
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

/// Appends one element, plus 1 if it is `zero_centred`, little-endian; narrowing rounds to nearest
/// even.
fn convert(bytes: &[u8], stored: Stored, zero_centred: bool, dtype: DType, target: &mut Vec<u8>) {
    let value = |bytes| stored.value(bytes) + if zero_centred { 1.0 } else { 0.0 };
    match (stored, dtype) {
        (Stored::F32, DType::F32) | (Stored::Bf16, DType::Bf16) if !zero_centred => {
            target.extend_from_slice(bytes);
        }
        (_, DType::Bf16) => target.extend(half::bf16::from_f32(value(bytes)).to_le_bytes()),
        _ => target.extend(value(bytes).to_le_bytes()),
    }
}
