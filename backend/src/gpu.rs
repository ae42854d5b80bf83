//! GPU memory that Triton hands out, as PJRT clients take it: the one place where the two meet.

use tlaloc_pjrt::{Client, DeviceBytes};
use triton_backend::{DataType, Error, GpuMemory, Input, OutputBuffer, Piece, Response};

/// The memory for the client.
pub fn bytes<'a>(memory: &GpuMemory<'a>) -> DeviceBytes<'a> {
    // A device that no client has.
    let ordinal = i32::try_from(memory.device()).unwrap_or(-1);
    // SAFETY: Triton vouches for inputs for as long as their request lives, and for outputs, which
    // nobody else is given, for as long as their response does; the handle lives no longer than that.
    unsafe { DeviceBytes::new(memory.address(), memory.byte_size(), ordinal) }
}

/// Copies GPU memory to the host.
///
/// # Errors
/// As [`Client::copy_to_host`].
pub fn fetch(
    client: &Client,
    from: &GpuMemory<'_>,
    to: &mut [u8],
) -> Result<(), tlaloc_pjrt::Error> {
    client.copy_to_host(&bytes(from), to)
}

/// Copies host memory to a GPU.
///
/// # Errors
/// As [`Client::copy_to_device`].
pub fn deliver(client: &Client, from: &[u8], to: &GpuMemory<'_>) -> Result<(), tlaloc_pjrt::Error> {
    client.copy_to_device(from, &mut bytes(to))
}

/// Replaces `bytes` with an input's, wherever they are.
///
/// # Errors
/// They are on a GPU that the client does not reach, or cannot be copied.
pub fn read_input(input: &Input<'_>, bytes: &mut Vec<u8>, client: &Client) -> Result<(), Error> {
    if !client.reaches_device_memory() {
        return input.read_into(bytes);
    }
    bytes.clear();
    for piece in input.pieces() {
        match piece? {
            Piece::Host(piece) => bytes.extend_from_slice(piece),
            Piece::Gpu(memory) => {
                let start = bytes.len();
                bytes.resize(start + memory.byte_size(), 0);
                fetch(client, &memory, bytes.get_mut(start..).unwrap_or_default()).map_err(
                    |error| Error::internal(format!("input '{}': {error}", input.name())),
                )?;
            }
        }
    }
    Ok(())
}

/// Adds an output with a copy of `bytes`, wherever the client wants it.
///
/// # Errors
/// It wants it on a GPU that the PJRT client does not reach, or it cannot be copied; and as
/// [`Response::output`].
pub fn write_output(
    response: &mut Response<'_>,
    name: &str,
    data_type: DataType,
    shape: &[i64],
    bytes: &[u8],
    client: &Client,
) -> Result<(), Error> {
    let buffer = response.output_buffer(name, data_type, shape, bytes.len())?;
    match buffer {
        OutputBuffer::Host(buffer) => buffer.copy_from_slice(bytes),
        OutputBuffer::Gpu(memory) => send(client, name, bytes, &memory)?,
    }
    Ok(())
}

/// Copies an output to the GPU where the client wants it.
///
/// # Errors
/// As [`write_output`].
pub fn send(
    client: &Client,
    name: &str,
    bytes: &[u8],
    memory: &GpuMemory<'_>,
) -> Result<(), Error> {
    if !client.reaches_device_memory() {
        return Err(Error::gpu_output(name, memory));
    }
    deliver(client, bytes, memory)
        .map_err(|error| Error::internal(format!("output '{name}': {error}")))
}
