//! Rows of the pools outside of calls: pages and state slots that are copied to host memory and back,
//! or zeroed.
//!
//! Two small programs per pool type do it on the device: one reads rows, one writes them over the
//! donated pool. Both take [`ROWS`] rows at a time.

use std::sync::Arc;

use tlaloc_artifact::{Artifact, PoolRole, Tensor};
use tlaloc_engine::generation::{MoveKind, Moves};
use tlaloc_engine::{Amounts, CallFailure, Resource};
use tlaloc_pjrt::{Argument, Buffer, Client, ElementType, Executable};

use super::error::Error;
use crate::compile::{Compiler, Obtained};
use crate::dtype::{element_type, signed};

/// Rows that one execution moves.
const ROWS: usize = 16;

/// What is done with rows of the pools outside of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowUse {
    /// Nothing.
    None,
    /// They are zeroed.
    Scrub,
    /// They are zeroed, and copied to host memory and back.
    Swap,
}

/// The programs that move rows of a model's pools.
pub struct RowPrograms {
    types: Vec<PoolType>,
    /// Index of each pool's type.
    of_pool: Vec<usize>,
}

/// What serves all pools of one type.
struct PoolType {
    /// `[ROWS, …]`.
    rows: Tensor,
    write: Executable,
    read: Option<Executable>,
    /// Rows of zeros on the device.
    zeros: Buffer,
}

impl RowPrograms {
    /// Compiles what `use_` needs.
    ///
    /// # Errors
    /// [`Error::Rows`].
    pub fn load(
        artifact: &Artifact,
        client: &Arc<Client>,
        compiler: &Compiler,
        use_: RowUse,
    ) -> Result<Option<Self>, Error> {
        if use_ == RowUse::None {
            return Ok(None);
        }
        let mut known: Vec<&Tensor> = Vec::new();
        let mut programs = RowPrograms { types: Vec::new(), of_pool: Vec::new() };
        for pool in artifact.pools() {
            let found = known.iter().position(|tensor| **tensor == pool.tensor);
            let index = match found {
                Some(index) => index,
                None => {
                    let new = PoolType::load(&pool.tensor, client, compiler, use_);
                    programs.types.push(new.map_err(|source| Error::Rows {
                        pool: format!("'{}' ({})", pool.name, pool.tensor),
                        source,
                    })?);
                    known.push(&pool.tensor);
                    known.len() - 1
                }
            };
            programs.of_pool.push(index);
        }
        Ok(Some(programs))
    }
}

impl PoolType {
    fn load(
        pool: &Tensor,
        client: &Arc<Client>,
        compiler: &Compiler,
        use_: RowUse,
    ) -> Result<Self, tlaloc_pjrt::Error> {
        let inner = pool.dims().get(1..).unwrap_or_default();
        let dims = [&[ROWS], inner].concat();
        let rows = Tensor::new(pool.dtype(), dims).unwrap_or_else(|| pool.clone());
        let compile = |text: String| compiler.obtain(client, text.as_bytes()).map(Obtained::keep);
        Ok(PoolType {
            write: compile(write_program(pool, &rows))?,
            read: match use_ {
                RowUse::Swap => Some(compile(read_program(pool, &rows))?),
                _ => None,
            },
            zeros: client.zeros(element_type(rows.dtype()), &signed(rows.dims()))?,
            rows,
        })
    }
}

/// StableHLO of a program that gives rows of a pool; indices outside of it are drawn to its edge.
fn read_program(pool: &Tensor, rows: &Tensor) -> String {
    let inner = pool.dims().get(1..).unwrap_or_default();
    let offsets = list(1..=inner.len());
    let sizes = list([1].iter().chain(inner).copied());
    format!(
        "module @read_rows {{\n  func.func public @main(%pool: {pool}, %index: tensor<{ROWS}xi32>) -> {rows} {{\n    \
         %0 = stablehlo.reshape %index : (tensor<{ROWS}xi32>) -> tensor<{ROWS}x1xi32>\n    \
         %1 = \"stablehlo.gather\"(%pool, %0) <{{dimension_numbers = #stablehlo.gather<offset_dims \
         = [{offsets}], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, \
         slice_sizes = array<i64: {sizes}>, indices_are_sorted = false}}> : ({pool}, \
         tensor<{ROWS}x1xi32>) -> {rows}\n    return %1 : {rows}\n  }}\n}}\n"
    )
}

/// StableHLO of a program that writes rows of a pool in place; those of negative indices are dropped.
fn write_program(pool: &Tensor, rows: &Tensor) -> String {
    let windows = list(1..pool.dims().len());
    let scalar = Tensor::new(pool.dtype(), []).unwrap_or_else(|| pool.clone());
    format!(
        "module @write_rows {{\n  func.func public @main(%pool: {pool} {{tf.aliasing_output = 0 : \
         i32}}, %index: tensor<{ROWS}xi32>, %rows: {rows}) -> {pool} {{\n    \
         %0 = stablehlo.reshape %index : (tensor<{ROWS}xi32>) -> tensor<{ROWS}x1xi32>\n    \
         %1 = \"stablehlo.scatter\"(%pool, %0, %rows) <{{scatter_dimension_numbers = \
         #stablehlo.scatter<update_window_dims = [{windows}], inserted_window_dims = [0], \
         scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, indices_are_sorted = false, \
         unique_indices = false}}> ({{\n    ^bb0(%old: {scalar}, %new: {scalar}):\n      \
         stablehlo.return %new : {scalar}\n    }}) : ({pool}, tensor<{ROWS}x1xi32>, {rows}) -> \
         {pool}\n    return %1 : {pool}\n  }}\n}}\n"
    )
}

fn list(numbers: impl Iterator<Item = usize>) -> String {
    numbers.map(|number| number.to_string()).collect::<Vec<_>>().join(", ")
}

/// The resource whose rows a pool has.
fn resource(role: PoolRole) -> Resource {
    match role {
        PoolRole::Kv => Resource::Pages,
        PoolRole::WindowKv => Resource::RingPages,
        PoolRole::State => Resource::StateSlots,
    }
}

const RESOURCES: [Resource; 3] = [Resource::Pages, Resource::RingPages, Resource::StateSlots];

/// The rows of one instance: where those in host memory are.
pub struct Rows {
    pools: Vec<PoolRows>,
    host: Amounts,
    /// Bytes of [`ROWS`] rows on their way.
    staged: Vec<u8>,
}

struct PoolRows {
    resource: Resource,
    row_bytes: usize,
    /// Rows in host memory.
    host: Vec<u8>,
}

impl Rows {
    /// With room for rows of at most `swap_bytes` in host memory, of every resource the same share.
    ///
    /// # Errors
    /// [`Error::Swap`] where the host has no such memory.
    pub fn new(artifact: &Artifact, swap_bytes: usize) -> Result<Self, Error> {
        let all: usize = artifact.pools().iter().map(|pool| pool.tensor.bytes()).sum();
        let count = |role: PoolRole| {
            let pool = artifact.pools().iter().find(|pool| pool.role == role);
            pool.and_then(|pool| pool.tensor.dims().first().copied()).unwrap_or(0)
        };
        let share = |rows: usize| {
            let rows = rows as u128 * swap_bytes as u128 / all.max(1) as u128;
            usize::try_from(rows).unwrap_or(usize::MAX)
        };
        let host = Amounts {
            pages: share(count(PoolRole::Kv)),
            ring_pages: share(count(PoolRole::WindowKv)),
            state_slots: share(count(PoolRole::State)),
        };
        let pools = artifact.pools().iter().map(|pool| {
            let resource = resource(pool.role);
            let rows = pool.tensor.dims().first().copied().unwrap_or(0);
            let row_bytes = pool.tensor.bytes() / rows.max(1);
            // Untouched memory takes no room until it is written.
            let host = zeroed(host.of(resource) * row_bytes)?;
            Ok(PoolRows { resource, row_bytes, host })
        });
        let pools = pools.collect::<Result<Vec<_>, Error>>()?;
        Ok(Rows { pools, host, staged: Vec::new() })
    }

    /// Rows that host memory has room for.
    pub fn host_room(&self) -> Amounts {
        self.host
    }

    /// Does what the scheduler asks for.
    pub fn run(
        &mut self,
        programs: &RowPrograms,
        client: &Arc<Client>,
        pools: &mut [Buffer],
        moves: &Moves<'_>,
    ) -> Result<(), CallFailure> {
        self.try_run(programs, client, pools, moves).map_err(|error| CallFailure::Execution {
            message: error.to_string(),
            pools_lost: pools.iter().any(Buffer::is_deleted),
        })
    }

    fn try_run(
        &mut self,
        programs: &RowPrograms,
        client: &Arc<Client>,
        pools: &mut [Buffer],
        moves: &Moves<'_>,
    ) -> Result<(), tlaloc_pjrt::Error> {
        for resource in RESOURCES {
            let rows = moves.rows(resource);
            for (chunk, device) in rows.device.chunks(ROWS).enumerate() {
                let host = rows.host.chunks(ROWS).nth(chunk).unwrap_or_default();
                let index = upload_index(client, device)?;
                let each = self.pools.iter_mut().zip(pools.iter_mut()).zip(&programs.of_pool);
                for ((place, pool), kind) in each.filter(|((p, _), _)| p.resource == resource) {
                    // Each pool has a type: both lists are of the artifact's pools.
                    let Some(kind) = programs.types.get(*kind) else { continue };
                    match moves.kind {
                        MoveKind::Scrub => kind.write(pool, &index, &kind.zeros)?,
                        MoveKind::Out => {
                            kind.read(pool, &index, &mut self.staged)?;
                            place.keep(host, &self.staged);
                        }
                        MoveKind::In => {
                            place.give(host, &mut self.staged, kind.rows.bytes());
                            let (element, dims) =
                                (element_type(kind.rows.dtype()), signed(kind.rows.dims()));
                            let values = client.upload(element, &dims, &self.staged)?;
                            kind.write(pool, &index, &values)?;
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

impl PoolRows {
    /// Copies staged rows to these of the host.
    fn keep(&mut self, rows: &[usize], staged: &[u8]) {
        for (row, bytes) in rows.iter().zip(staged.chunks_exact(self.row_bytes.max(1))) {
            let range = row * self.row_bytes..(row + 1) * self.row_bytes;
            if let Some(place) = self.host.get_mut(range) {
                place.copy_from_slice(bytes);
            }
        }
    }

    /// Copies these rows of the host to `staged`, which gets `size` bytes.
    fn give(&self, rows: &[usize], staged: &mut Vec<u8>, size: usize) {
        staged.clear();
        for row in rows {
            let range = row * self.row_bytes..(row + 1) * self.row_bytes;
            staged.extend_from_slice(self.host.get(range).unwrap_or_default());
        }
        staged.resize(size, 0);
    }
}

impl PoolType {
    fn read(
        &self,
        pool: &Buffer,
        index: &Buffer,
        bytes: &mut Vec<u8>,
    ) -> Result<(), tlaloc_pjrt::Error> {
        let Some(read) = &self.read else { return Ok(()) };
        let mut pending = read.execute([Argument::Keep(pool), Argument::Keep(index)])?;
        let rows = pending.take(0);
        pending.wait()?;
        bytes.resize(self.rows.bytes(), 0);
        rows.map_or(Ok(()), |rows| rows.copy_to_host(bytes))
    }

    fn write(
        &self,
        pool: &mut Buffer,
        index: &Buffer,
        rows: &Buffer,
    ) -> Result<(), tlaloc_pjrt::Error> {
        let arguments = [Argument::Donate(&mut *pool), Argument::Keep(index), Argument::Keep(rows)];
        let mut pending = self.write.execute(arguments)?;
        pending.wait()?;
        if let Some(written) = pending.take(0) {
            *pool = written;
        }
        Ok(())
    }
}

/// Rows of a pool for a program; what is missing is -1.
fn upload_index(client: &Arc<Client>, rows: &[usize]) -> Result<Buffer, tlaloc_pjrt::Error> {
    let mut index = [-1_i32; ROWS];
    for (place, row) in index.iter_mut().zip(rows) {
        *place = i32::try_from(*row).unwrap_or(-1);
    }
    let dims = [i64::try_from(ROWS).unwrap_or(i64::MAX)];
    client.upload(ElementType::I32, &dims, bytemuck::cast_slice(&index))
}

/// Zeroed memory that the system hands over page by page, or an error where it has none.
fn zeroed(bytes: usize) -> Result<Vec<u8>, Error> {
    let mut memory: Vec<u8> = Vec::new();
    memory.try_reserve_exact(bytes).map_err(|_| Error::Swap { bytes })?;
    drop(memory);
    Ok(vec![0; bytes])
}

#[cfg(test)]
mod tests {
    use super::*;
    use tlaloc_artifact::DType;

    #[test]
    fn programs_are_as_written_by_hand() {
        let pool = Tensor::new(DType::Bf16, [9, 4, 2]).unwrap();
        let rows = Tensor::new(DType::Bf16, [16, 4, 2]).unwrap();
        let read = read_program(&pool, &rows);
        assert!(read.contains("%pool: tensor<9x4x2xbf16>, %index: tensor<16xi32>"), "{read}");
        assert!(read.contains("offset_dims = [1, 2], collapsed_slice_dims = [0]"), "{read}");
        assert!(read.contains("slice_sizes = array<i64: 1, 4, 2>"), "{read}");
        let write = write_program(&pool, &rows);
        assert!(write.contains("tensor<9x4x2xbf16> {tf.aliasing_output = 0 : i32}"), "{write}");
        assert!(
            write.contains("update_window_dims = [1, 2], inserted_window_dims = [0]"),
            "{write}"
        );
        assert!(write.contains("^bb0(%old: tensor<bf16>, %new: tensor<bf16>)"), "{write}");
    }
}
