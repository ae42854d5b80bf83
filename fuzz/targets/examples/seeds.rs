//! Writes the seeds of every target, as `TARGET/seed-N` in the folder that is named.
#![allow(clippy::unwrap_used, reason = "a tool of developers")]

fn main() {
    let folder = std::path::PathBuf::from(std::env::args().nth(1).unwrap());
    for target in tlaloc_fuzz_targets::TARGETS {
        let folder = folder.join(target.name);
        std::fs::create_dir_all(&folder).unwrap();
        for (number, seed) in (target.seeds)().iter().enumerate() {
            std::fs::write(folder.join(format!("seed-{number}")), seed).unwrap();
        }
    }
}
