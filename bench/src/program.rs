//! Programs as the backend's executor runs them: weights mapped, pools donated, step inputs staged,
//! every call awaited and its logits read in place.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tlaloc_artifact::{Artifact, DType, Entry, InputRole, OutputRole, Tensor};
use tlaloc_pjrt::{
    Argument, Buffer, Client, CompileCache, ElementType, Executable, MappedFile, Shape, Staging,
};

use crate::error::Error;
use crate::inputs::{ROLES, Rows};

/// Where an argument comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// An index of [`ROLES`].
    Step(usize),
    /// The next pool.
    Pool,
    /// The next weight.
    Weight,
}

/// What all programs of an artifact share.
pub struct Model {
    weights: Vec<Buffer>,
    pools: Vec<Buffer>,
}

impl Model {
    /// Maps the weights and zeroes the pools.
    ///
    /// # Errors
    /// What cannot be read, or what the plugin says.
    pub fn load(artifact: &Artifact, client: &Arc<Client>) -> Result<Model, Error> {
        let weights = artifact
            .weights()
            .iter()
            .map(|weight| {
                weight.open()?;
                let file = Arc::new(MappedFile::open(&weight.file)?);
                let element_type = element_type(weight.tensor.dtype());
                Ok(client.upload_mapped(&file, element_type, &signed(&weight.tensor))?)
            })
            .collect::<Result<_, Error>>()?;
        let pools = artifact
            .pools()
            .iter()
            .map(|pool| client.zeros(element_type(pool.tensor.dtype()), &signed(&pool.tensor)))
            .collect::<Result<_, _>>()?;
        Ok(Model { weights, pools })
    }
}

/// A compiled entry with all that its calls need beside a [`Model`].
pub struct Program {
    executable: Executable,
    sources: Vec<Source>,
    rows: Rows,
    inputs: Staging,
    /// Output index of each pool.
    pool_outputs: Vec<usize>,
    /// Output index of the logits.
    logits: usize,
    vocab_size: usize,
}

impl Program {
    /// Compiles an entry, or takes it from the cache, for calls of up to `batch` rows.
    ///
    /// # Errors
    /// What the artifact lacks for such calls, or what the plugin says.
    pub fn load(
        artifact: &Artifact,
        entry: &Entry,
        batch: usize,
        client: &Arc<Client>,
        cache: Option<&Path>,
    ) -> Result<Program, Error> {
        let sources = sources(artifact, entry)?;
        let (pages, page, windowed) =
            (artifact.num_blocks(), artifact.block_size(), artifact.windowed());
        let rows = Rows::new(entry, batch, pages, page, windowed).ok_or_else(|| Error::Pages {
            artifact: artifact.manifest_path().to_owned(),
            rows: batch,
            columns: entry.columns,
            found: artifact.num_blocks().saturating_sub(1),
        })?;
        if let Some(state) = artifact.linear_state()
            && state.num_slots < batch
        {
            return Err(Error::StateSlots {
                artifact: artifact.manifest_path().to_owned(),
                rows: batch,
                found: state.num_slots,
            });
        }
        let executable = compile(artifact, entry, client, cache)?;
        let dims = |role| entry.inputs.iter().find(|input| input.role == role);
        let shapes = ROLES.map(|role| {
            let dims = dims(role).map(|input| signed(&input.tensor)).unwrap_or_default();
            Shape::new(ElementType::I32, &dims)
        });
        let shapes = shapes.into_iter().collect::<Result<Vec<_>, _>>()?;
        let logits = entry.outputs.iter().position(|output| output.role == OutputRole::Logits);
        Ok(Program {
            executable,
            sources,
            rows,
            inputs: Staging::new(client, shapes)?,
            pool_outputs: entry.donations.iter().map(|(_, output)| *output).collect(),
            logits: logits.unwrap_or_default(),
            vocab_size: artifact.vocab_size(),
        })
    }

    /// Bytes of temporary memory; none where the plugin does not tell.
    pub fn temp_bytes(&self) -> Option<usize> {
        self.executable.memory_stats().map(|stats| stats.temp)
    }

    /// A call of `rows` rows; how long it took and the most likely next token of each row, whose search is not
    /// part of the time.
    ///
    /// # Errors
    /// What the plugin says.
    pub fn step(
        &mut self,
        model: &mut Model,
        position: usize,
        rows: usize,
        ids: &[i32],
    ) -> Result<(Duration, Vec<i32>), Error> {
        let started = Instant::now();
        fill(&mut self.inputs, &self.rows, position, rows, ids)?;

        let (mut pools, mut weights) = (model.pools.iter_mut(), model.weights.iter());
        let arguments = self.sources.iter().filter_map(|source| match source {
            Source::Step(step) => Some(Argument::Staged(self.inputs.input(*step))),
            Source::Pool => pools.next().map(Argument::Donate),
            Source::Weight => weights.next().map(Argument::Keep),
        });
        let mut pending = self.executable.execute(arguments)?;
        pending.wait()?;
        let logits = pending.take(self.logits);
        for (pool, output) in model.pools.iter_mut().zip(&self.pool_outputs) {
            if let Some(output) = pending.take(*output) {
                *pool = output;
            }
        }
        let time = started.elapsed();

        let bytes = logits.as_ref().map(Buffer::host_bytes).transpose()?.flatten();
        let logits: &[f32] = bytes
            .as_deref()
            .and_then(|bytes| bytemuck::try_cast_slice(bytes).ok())
            .unwrap_or_default();
        Ok((time, logits.chunks(self.vocab_size).take(rows).map(largest).collect()))
    }
}

fn sources(artifact: &Artifact, entry: &Entry) -> Result<Vec<Source>, Error> {
    let source = |input: &tlaloc_artifact::Input| match input.role {
        InputRole::Pool(_) => Ok(Source::Pool),
        InputRole::Weight => Ok(Source::Weight),
        role => match ROLES.iter().position(|known| *known == role) {
            Some(step) => Ok(Source::Step(step)),
            None => Err(Error::Input {
                artifact: artifact.manifest_path().to_owned(),
                entry: entry.id.clone(),
                input: input.name.clone(),
                role: role.manifest_name(),
            }),
        },
    };
    entry.inputs.iter().map(source).collect()
}

fn compile(
    artifact: &Artifact,
    entry: &Entry,
    client: &Arc<Client>,
    cache: Option<&Path>,
) -> Result<Executable, Error> {
    let body = artifact.read_body(entry)?;
    let cache = cache
        .map(|folder| {
            CompileCache::open(folder)
                .map_err(|source| Error::Cache { folder: folder.to_owned(), source })
        })
        .transpose()?;
    let kept = cache.as_ref().and_then(|cache| cache.load(client, &body));
    let executable = match kept {
        Some(executable) => executable,
        None => {
            let executable = client.compile(&body)?;
            if let Some(cache) = &cache {
                cache.store(&executable, &body);
            }
            executable
        }
    };
    let (found, expected) = (executable.num_outputs(), entry.outputs.len());
    if found != expected {
        return Err(Error::Outputs { entry: entry.id.clone(), found, expected });
    }
    Ok(executable)
}

/// Index of the first largest logit.
fn largest(logits: &[f32]) -> i32 {
    let mut best = (0, f32::NEG_INFINITY);
    for (index, logit) in (0..).zip(logits) {
        if *logit > best.1 {
            best = (index, *logit);
        }
    }
    best.0
}

fn fill(
    inputs: &mut Staging,
    rows: &Rows,
    position: usize,
    count: usize,
    ids: &[i32],
) -> Result<(), Error> {
    let mut inputs = inputs.inputs_mut()?.map(integers);
    rows.write(position, count, ids, ROLES.map(|_| inputs.next().unwrap_or_default()));
    Ok(())
}

/// Staged memory is aligned for any element.
fn integers(bytes: &mut [u8]) -> &mut [i32] {
    bytemuck::try_cast_slice_mut(bytes).unwrap_or_default()
}

/// Dims as the plugin takes them.
pub fn signed(tensor: &Tensor) -> Vec<i64> {
    tensor.dims().iter().map(|dim| i64::try_from(*dim).unwrap_or(i64::MAX)).collect()
}

/// Both crates know the same types by the names that StableHLO gives them.
pub fn element_type(dtype: DType) -> ElementType {
    let known = ElementType::ALL.iter().find(|known| known.to_string() == dtype.mlir_name());
    known.copied().unwrap_or(ElementType::U8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_the_largest_logits_is_taken() {
        assert_eq!(largest(&[0.5, 2.0, -1.0, 2.0]), 1);
        assert_eq!(largest(&[-3.0]), 0);
        assert_eq!(largest(&[f32::NAN, 1.0]), 1);
    }

    #[test]
    fn every_element_type_of_an_artifact_is_found() {
        assert_eq!(element_type(DType::Bf16), ElementType::Bf16);
        assert_eq!(element_type(DType::F8E4M3Fn), ElementType::F8E4M3Fn);
        assert_eq!(element_type(DType::Bool), ElementType::Bool);
        assert_eq!(element_type(DType::U64), ElementType::U64);
    }
}
