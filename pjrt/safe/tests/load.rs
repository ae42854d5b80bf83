//! Loading: plugins, and files that are none.

#![allow(clippy::unwrap_used)] // helpers of tests

mod support;

use std::sync::Arc;

use tlaloc_pjrt::{Client, ClientOptions, Error, Plugin};

#[test]
fn a_plugin_is_loaded_once() {
    let Some(path) = support::plugin_path() else { return };
    let plugin = Plugin::load(&path).unwrap();
    assert!(Arc::ptr_eq(&plugin, &Plugin::load(&path).unwrap()));
    assert_eq!(plugin.path(), path);
    let (major, minor) = plugin.api_version();
    assert_eq!(major, 0);
    assert!(minor >= 81, "{minor}");
}

#[test]
fn a_missing_file_is_refused_by_name_every_time() {
    for _ in 0..2 {
        let error = Plugin::load("/nowhere/plugin.so").unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("cannot load the PJRT plugin /nowhere/plugin.so: "), "{text}");
        assert!(text.contains("No such file"), "{text}");
    }
}

#[test]
fn a_failure_is_not_remembered() {
    let Some(plugin) = support::plugin_path() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plugin.so");
    assert!(matches!(Plugin::load(&path), Err(Error::Load { .. })));
    std::os::unix::fs::symlink(plugin, &path).unwrap();
    Plugin::load(&path).unwrap();
}

#[test]
fn a_text_file_is_refused_by_name() {
    let file = tempfile::NamedTempFile::with_suffix(".so").unwrap();
    std::fs::write(
        file.path(),
        "not a library, but long enough to hold an ELF header at its start",
    )
    .unwrap();
    let text = Plugin::load(file.path()).unwrap_err().to_string();
    let path = file.path().display();
    assert!(text.starts_with(&format!("cannot load the PJRT plugin {path}: ")), "{text}");
    assert!(text.contains("invalid ELF header"), "{text}");
}

#[test]
fn a_library_that_is_no_plugin_is_refused_by_name() {
    let text = Plugin::load("libc.so.6").unwrap_err().to_string();
    assert_eq!(text, "libc.so.6 is not a PJRT plugin: it has no function GetPjrtApi");
}

#[test]
fn a_negative_ordinal_is_refused() {
    let Some(path) = support::plugin_path() else { return };
    let plugin = Plugin::load(&path).unwrap();
    let error = Client::shared(&plugin, -1, &ClientOptions::default()).unwrap_err();
    assert!(matches!(error, Error::Device { .. }), "{error}");
}
