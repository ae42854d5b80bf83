//! `tlaloc-bench`: what the programs of an artifact cost by themselves, what the machine's memory
//! gives, and how the two compare with everything else that was measured beside them.

mod bandwidth;
mod calls;
mod compare;
mod entry;
mod error;
mod function;
mod inputs;
mod program;
mod replay;
mod summary;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::error::Error;

/// Measures an artifact's programs without a server around them.
#[derive(Parser)]
#[command(name = "tlaloc-bench", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs one program in a bare loop, the way the backend runs it.
    Replay(replay::Options),
    /// Runs a list of calls in a bare loop.
    Calls(calls::Options),
    /// Runs one StableHLO function in a bare loop.
    Function(function::Options),
    /// Measures how fast this machine reads memory.
    Bandwidth(bandwidth::Options),
    /// Prints ratios and goals from measurements of several contestants in alternating rounds.
    Compare {
        /// One JSON object a line: {"round": 1, "series": "replay decode b1", "value": 21.9}.
        measurements: PathBuf,
    },
}

fn run(command: &Command) -> Result<String, Error> {
    match command {
        Command::Replay(options) => {
            let report = replay::run(options)?;
            Ok(if options.json { json(&report) } else { report.to_string() })
        }
        Command::Calls(options) => {
            let report = calls::run(options)?;
            Ok(if options.json { json(&report) } else { report.to_string() })
        }
        Command::Function(options) => {
            let report = function::run(options)?;
            Ok(if options.json { json(&report) } else { report.to_string() })
        }
        Command::Bandwidth(options) => {
            let report = bandwidth::run(options);
            Ok(if options.json { json(&report) } else { report.to_string() })
        }
        Command::Compare { measurements } => {
            Ok(compare::Rounds::read(measurements)?.report().to_string())
        }
    }
}

/// One line of JSON.
fn json(report: &impl serde::Serialize) -> String {
    // Only maps with keys that are no text fail, and reports have none.
    serde_json::to_string(report).unwrap_or_default() + "\n"
}

fn main() -> ExitCode {
    match run(&Arguments::parse().command) {
        // A reader that went away is no reason to panic, as `print!` would.
        Ok(output) => match std::io::stdout().write_all(output.as_bytes()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        },
        Err(error) => {
            eprintln!("tlaloc-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
