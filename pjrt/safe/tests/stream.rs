//! Large weight files reach devices with memory of their own in pieces. The device is played by the
//! host: the client believes that it has memory of its own.
#![allow(clippy::unwrap_used)] // helpers of tests

#[path = "support/recording.rs"]
mod recording;
mod support;

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use recording::Recording;
use tlaloc_pjrt::{Client, ClientOptions, ElementType, MappedFile, Plugin};

const MIB: usize = 1 << 20;

/// KiB of the file that are in this process's memory.
fn resident(path: &Path) -> usize {
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut lines = maps.lines().skip_while(|line| !line.ends_with(path.to_str().unwrap()));
    let line = lines.find(|line| line.starts_with("Rss:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_large_file_passes_through_in_pieces() {
    let Some(path) = support::plugin_path() else { return };
    let plugin = Plugin::load(path).unwrap();
    let runtime = Some(Recording::new() as Arc<_>);
    let client = Client::shared_on(&plugin, 41, &ClientOptions::default(), runtime).unwrap();
    assert!(!client.shares_host_memory());

    // Not a whole number of pieces.
    let elements = 50 * MIB / 4 + 3;
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let bytes: Vec<u8> = (0..elements as u32).flat_map(u32::to_ne_bytes).collect();
    file.write_all(&bytes).unwrap();
    let mapped = Arc::new(MappedFile::open(file.path()).unwrap());
    assert_eq!(mapped.bytes().last(), bytes.last());
    let dims = [elements as i64];
    let buffer = client.upload_mapped(&mapped, ElementType::U32, &dims).unwrap();
    assert!(!buffer.is_mapped());
    let left = resident(file.path());
    assert!(left < 1024, "{left} KiB of the file are still in memory");
    let mut read = vec![0; bytes.len()];
    buffer.copy_to_host(&mut read).unwrap();
    assert!(read == bytes, "another array");
    // The control: looking at the file brings it back.
    assert_eq!(mapped.bytes(), bytes);
    assert!(resident(file.path()) > 40 * 1024);
}
