//! Writes the outputs of a response.

use tlaloc_generation::options::Reply;
use tlaloc_pjrt::Client;
use triton_backend::{DataType, Error, Response, write_strings};

use super::config::Output;
use super::job::{Delta, Finish, Progress};
use crate::gpu;

/// Adds the outputs; those of the end only with `finish`.
pub fn fill<'a>(
    response: &mut Response<'_>,
    outputs: impl Iterator<Item = &'a Output>,
    delta: &Delta,
    progress: &Progress,
    finish: Option<&Finish>,
    client: &Client,
) -> Result<(), Error> {
    let mut writer = Writer { response, client, bytes: Vec::new() };
    for output in outputs {
        match output.reply {
            Reply::TextOutput => writer.string(output, &delta.text)?,
            Reply::OutputIds => writer.numbers(output, DataType::Int32, &delta.ids)?,
            Reply::NumInputTokens => {
                writer.numbers(output, DataType::Uint32, &[of(progress.prompt)])?
            }
            Reply::NumOutputTokens => {
                writer.numbers(output, DataType::Uint32, &[of(delta.generated)])?;
            }
            Reply::Logprobs => writer.string(output, &format!("[{}]", delta.logprobs_json))?,
            Reply::OutputLogProbs => writer.numbers(output, DataType::Fp32, &delta.logprobs)?,
            Reply::CumulativeLogprob | Reply::CumLogProbs => {
                let sum = progress.cumulative_logprob as f32;
                writer.numbers(output, DataType::Fp32, &[sum])?;
            }
            last => {
                let Some(finish) = finish else { continue };
                match last {
                    Reply::FinishReason => writer.string(output, finish.reason)?,
                    Reply::StopReason => writer.string(output, &finish.stop_reason)?,
                    Reply::ArrivalTimeNs => writer.time(output, progress.arrival)?,
                    Reply::FirstScheduledTimeNs => writer.time(output, progress.first_scheduled)?,
                    Reply::FirstTokenTimeNs => writer.time(output, progress.first_token)?,
                    Reply::LastTokenTimeNs => writer.time(output, progress.last_token)?,
                    Reply::TotalDraftTokens => {
                        let drafts = i32::try_from(progress.drafts).unwrap_or(i32::MAX);
                        writer.numbers(output, DataType::Int32, &[drafts])?;
                    }
                    Reply::TotalAcceptedDraftTokens => {
                        let accepted = i32::try_from(progress.accepted).unwrap_or(i32::MAX);
                        writer.numbers(output, DataType::Int32, &[accepted])?;
                    }
                    Reply::AcceptanceRate => {
                        let rate = progress.accepted as f32 / progress.drafts.max(1) as f32;
                        writer.numbers(output, DataType::Fp32, &[rate])?;
                    }
                    // Of every response, above.
                    _ => {}
                }
            }
        }
    }
    Ok(())
}

fn of(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

struct Writer<'a, 'r> {
    response: &'a mut Response<'r>,
    client: &'a Client,
    bytes: Vec<u8>,
}

impl Writer<'_, '_> {
    fn string(&mut self, output: &Output, text: &str) -> Result<(), Error> {
        self.bytes.clear();
        write_strings([text.as_bytes()], &mut self.bytes);
        self.write(output, DataType::Bytes, 1)
    }

    fn time(&mut self, output: &Output, time: u64) -> Result<(), Error> {
        self.numbers(output, DataType::Int64, &[i64::try_from(time).unwrap_or(i64::MAX)])
    }

    fn numbers<T: bytemuck::NoUninit>(
        &mut self,
        output: &Output,
        data_type: DataType,
        values: &[T],
    ) -> Result<(), Error> {
        self.bytes.clear();
        self.bytes.extend_from_slice(bytemuck::cast_slice(values));
        self.write(output, data_type, values.len())
    }

    /// Writes the bytes, which are of so many elements.
    fn write(&mut self, output: &Output, data_type: DataType, count: usize) -> Result<(), Error> {
        let size = i64::try_from(count).unwrap_or(i64::MAX);
        let shape: Vec<i64> =
            output.dims.iter().map(|dim| if *dim < 0 { size } else { *dim }).collect();
        let name = output.reply.name();
        gpu::write_output(self.response, name, data_type, &shape, &self.bytes, self.client)
    }
}
