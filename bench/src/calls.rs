//! A list of calls in a bare loop: what a server's scheduler chose, without a server around it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use tlaloc_artifact::{Artifact, Entry};
use tlaloc_pjrt::{Client, ClientOptions, Plugin};

use crate::error::Error;
use crate::program::{Model, Program};
use crate::replay::manifest;
use crate::summary::Summary;

/// What to run.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// The artifact's directory, or its manifest.
    artifact: PathBuf,

    /// One call a line, in order: the id of its entry and its number of rows, as in
    /// `decode_b4_c512 3`.
    calls: PathBuf,

    /// The PJRT plugin.
    #[arg(long, value_name = "FILE", env = "TLALOC_PJRT_PLUGIN_PATH")]
    plugin: PathBuf,

    /// Keep compiled programs in this folder, or take them from there.
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,

    /// Print one line of JSON.
    #[arg(long)]
    pub json: bool,
}

/// What a loop saw.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Time of all calls, each from writing its inputs to having its pools back, in milliseconds.
    total_milliseconds: f64,
    /// Ascending by id.
    entries: Vec<OfEntry>,
}

/// The calls of one entry.
#[derive(Debug, Serialize)]
struct OfEntry {
    /// Its id.
    entry: String,
    /// `decode` or `prefill`.
    kind: &'static str,
    /// Rows of a call at most, padding included.
    batch: usize,
    /// Tokens of a row in a call.
    tokens: usize,
    /// Logits of a row; more than one verify drafts.
    logits_columns: usize,
    calls: usize,
    /// Rows of all calls.
    rows: usize,
    milliseconds: Summary,
}

/// A program, and what its calls are like.
struct Loaded<'a> {
    entry: &'a Entry,
    program: Program,
    position: usize,
    ids: Vec<i32>,
    rows: usize,
    times: Vec<f64>,
}

/// Runs the calls in order, after one of each entry that does not count.
///
/// # Errors
/// What the artifact lacks for the calls, or what the plugin says.
pub fn run(options: &Options) -> Result<Report, Error> {
    let artifact = Artifact::open(&manifest(&options.artifact))?;
    let calls = read(&options.calls, &artifact)?;
    let plugin = Plugin::load(&options.plugin)?;
    let client = Client::shared(&plugin, 0, &ClientOptions::default())?;
    let mut model = Model::load(&artifact, &client)?;

    let mut most_rows: BTreeMap<&str, (&Entry, usize)> = BTreeMap::new();
    for (entry, rows) in &calls {
        let most = &mut most_rows.entry(&entry.id).or_insert((entry, 0)).1;
        *most = (*most).max(*rows);
    }
    let mut loaded = BTreeMap::new();
    for (id, (entry, most)) in most_rows {
        let mut program = Program::load(&artifact, entry, most, &client, options.cache.as_deref())?;
        let position = position(artifact.entries(), entry);
        let ids: Vec<i32> = (0..).map(|token| token % 97).take(most * entry.tokens).collect();
        program.step(&mut model, position, most, &ids)?;
        let of_entry = Loaded { entry, program, position, ids, rows: 0, times: Vec::new() };
        loaded.insert(id, of_entry);
    }
    for (entry, rows) in &calls {
        let Some(run) = loaded.get_mut(entry.id.as_str()) else { continue };
        let (time, _) = run.program.step(&mut model, run.position, *rows, &run.ids)?;
        run.rows += rows;
        run.times.push(time.as_secs_f64() * 1e3);
    }
    Ok(Report {
        total_milliseconds: loaded.values().flat_map(|run| &run.times).sum(),
        entries: loaded.into_values().map(Loaded::report).collect(),
    })
}

impl Loaded<'_> {
    fn report(self) -> OfEntry {
        OfEntry {
            entry: self.entry.id.clone(),
            kind: self.entry.kind.manifest_name(),
            batch: self.entry.batch,
            tokens: self.entry.tokens,
            logits_columns: self.entry.logits_columns,
            calls: self.times.len(),
            rows: self.rows,
            milliseconds: Summary::of(self.times),
        }
    }
}

/// Position of the first token of an entry's calls, such that they reach to the middle of what no
/// entry of a shorter context takes. (What a call costs depends on its entry, but for prefill over
/// more than 1024 positions, which attends up to its last one only.)
fn position(entries: &[Entry], entry: &Entry) -> usize {
    let same_kind = |other: &&Entry| other.kind == entry.kind && other.context < entry.context;
    let shorter = entries.iter().filter(same_kind).map(|other| other.context).max().unwrap_or(0);
    shorter.midpoint(entry.context).saturating_sub(entry.tokens)
}

fn read<'a>(file: &Path, artifact: &'a Artifact) -> Result<Vec<(&'a Entry, usize)>, Error> {
    let text = std::fs::read_to_string(file)
        .map_err(|source| Error::Unreadable { file: file.to_owned(), source })?;
    let parse = |(index, line): (usize, &str)| {
        call(line, artifact.entries()).ok_or_else(|| Error::Measurement {
            file: file.to_owned(),
            line: index + 1,
            reason: format!(
                "'{line}' should be the id of an entry of {} and a number of rows that it has",
                artifact.manifest_path().display()
            ),
        })
    };
    text.lines().enumerate().map(parse).collect()
}

fn call<'a>(line: &str, entries: &'a [Entry]) -> Option<(&'a Entry, usize)> {
    let (id, rows) = line.split_once(' ')?;
    let entry = entries.iter().find(|entry| entry.id == id)?;
    let rows = rows.parse().ok().filter(|rows| (1..=entry.batch).contains(rows))?;
    Some((entry, rows))
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for OfEntry { entry, calls, rows, milliseconds, .. } in &self.entries {
            let Summary { min, median, p90, .. } = milliseconds;
            writeln!(
                f,
                "{entry}: {calls} calls of {rows} rows; {median:.2} ms median, {min:.2} min, \
                 {p90:.2} p90"
            )?;
        }
        writeln!(f, "all calls: {:.1} ms", self.total_milliseconds)
    }
}

#[cfg(test)]
mod tests {
    use tlaloc_artifact::EntryKind;

    use super::*;
    use crate::entry::tests::entry;

    #[test]
    fn calls_are_lines_of_an_entry_and_its_rows() {
        let entries = [entry(EntryKind::Decode, 4, 512, 1)];
        let rows = |line| call(line, &entries).map(|(_, rows)| rows);
        assert_eq!(rows("decode_b4_c512 1"), Some(1));
        assert_eq!(rows("decode_b4_c512 4"), Some(4));
        for wrong in ["", "decode_b4_c512", "decode_b4_c512 0", "decode_b4_c512 5", "other 1"] {
            assert_eq!(rows(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn calls_reach_to_the_middle_of_their_contexts() {
        use EntryKind::{Decode, Prefill};
        let entries =
            [entry(Decode, 4, 128, 1), entry(Decode, 4, 512, 1), entry(Prefill, 4, 256, 256)];
        let positions = entries.each_ref().map(|entry| position(&entries, entry));
        assert_eq!(positions, [63, 319, 0]);
    }
}
