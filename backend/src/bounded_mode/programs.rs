//! What a device holds of a model: a compiled program for every combination of buckets.

use std::path::PathBuf;
use std::sync::Arc;

use tlaloc_artifact::bounded::BoundedArtifact;
use tlaloc_artifact::stablehlo::prepare;
use tlaloc_pjrt::{Client, Executable};
use tracing::info;

use super::error::Error;
use crate::compile::{Compiler, Progress, in_parallel};

/// A model on one device.
pub struct DeviceModel {
    /// The device.
    pub client: Arc<Client>,
    /// One program per entry of the artifact; entries of one body share it.
    pub programs: Vec<Executable>,
}

/// The bodies of an artifact, each once.
pub struct Bodies {
    bodies: Vec<Body>,
    /// Index of each entry's body.
    of_entry: Vec<usize>,
}

struct Body {
    file: PathBuf,
    name: String,
    entry_point: String,
    /// The module to compile.
    module: String,
    /// The first entry that names it.
    entry: String,
}

impl Bodies {
    /// Reads every body and checks it against each entry that names it.
    pub fn read(artifact: &BoundedArtifact) -> Result<Self, Error> {
        let mut bodies: Vec<Body> = Vec::new();
        let mut of_entry = Vec::with_capacity(artifact.entries.len());
        for entry in &artifact.entries {
            let text = artifact.read_body(entry).map_err(Error::Body)?;
            let known = bodies
                .iter()
                .position(|body| body.file == entry.body && body.entry_point == entry.entry_point);
            of_entry.push(known.unwrap_or_else(|| {
                bodies.push(Body {
                    file: entry.body.clone(),
                    name: entry.body_name.clone(),
                    entry_point: entry.entry_point.clone(),
                    module: prepare(&text, &entry.entry_point),
                    entry: entry.id.clone(),
                });
                bodies.len() - 1
            }));
        }
        Ok(Bodies { bodies, of_entry })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.bodies.len()
    }

    /// Compiles each, or takes it from the compile cache; returns the program of every entry.
    pub fn compile(
        &self,
        client: &Arc<Client>,
        compiler: &Compiler,
    ) -> Result<Vec<Executable>, Error> {
        let progress = Progress::new(self.of_entry.len(), "entries");
        let compiled = in_parallel(self.bodies.len(), |index| {
            let entries = self.of_entry.iter().filter(|body| **body == index).count();
            self.bodies[index].compile(client, compiler, || progress.add(entries))
        })?;
        Ok(self.of_entry.iter().filter_map(|body| compiled.get(*body).cloned()).collect())
    }
}

impl Body {
    fn compile(
        &self,
        client: &Arc<Client>,
        compiler: &Compiler,
        ready: impl FnOnce() -> String,
    ) -> Result<Executable, Error> {
        let obtained = compiler
            .obtain(client, self.module.as_bytes())
            .map_err(|source| Error::Compile { body: self.file.clone(), source })?;
        let found = obtained.executable().num_outputs();
        if found != 1 {
            let (body, entry) = (self.file.clone(), self.entry.clone());
            return Err(Error::Compiled { body, entry, found });
        }
        info!(
            "{} bounded entry {} ({}) in {} ms; {}",
            obtained.how(),
            self.entry,
            self.name,
            obtained.millis(),
            ready()
        );
        Ok(obtained.keep())
    }
}
