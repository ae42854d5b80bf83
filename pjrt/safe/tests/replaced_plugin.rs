//! A plugin file that is replaced while its old contents run: programs are kept under the digest of
//! the contents that made them, or not at all.

#![allow(clippy::unwrap_used)] // helpers of tests

mod support;

use std::path::Path;
use std::sync::Arc;

use tlaloc_pjrt::{Client, ClientOptions, CompileCache, Plugin};

const TEXT: &str = "module { func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %y = stablehlo.add %x, %x : tensor<4xf32>
    return %y : tensor<4xf32> } }";

fn client_of_a_copy(plugin: &Plugin, path: &Path) -> Arc<Client> {
    std::fs::copy(plugin.path(), path).unwrap();
    Client::shared(&Plugin::load(path).unwrap(), 0, &ClientOptions::default()).unwrap()
}

/// Another file takes the place of this one, as an upgrade does.
fn replace(path: &Path) {
    let newer = path.with_extension("newer");
    std::fs::write(&newer, "another plugin").unwrap();
    std::fs::rename(&newer, path).unwrap();
}

#[test]
fn a_plugin_replaced_before_its_digest_is_known_keeps_and_finds_no_programs() {
    let Some(original) = support::client() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plugin.so");
    let client = client_of_a_copy(original.plugin(), &path);
    let cache = CompileCache::open(&folder.path().join("programs")).unwrap();
    cache.store(&original.compile(TEXT).unwrap(), TEXT);
    assert!(cache.load(&original, TEXT).is_some(), "the control: the plugin is the file");

    replace(&path);
    cache.store(&client.compile(TEXT).unwrap(), TEXT);
    assert!(cache.load(&client, TEXT).is_none());
    let programs = std::fs::read_dir(folder.path().join("programs")).unwrap();
    let kept = programs.filter(|entry| entry.as_ref().unwrap().path().is_file()).count();
    assert_eq!(kept, 1, "kept under the key of a plugin that did not make it");
}

#[test]
fn a_plugin_replaced_after_its_digest_is_known_keeps_programs_as_the_old_one() {
    let Some(original) = support::client() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plugin.so");
    let client = client_of_a_copy(original.plugin(), &path);
    let cache = CompileCache::open(&folder.path().join("programs")).unwrap();
    cache.store(&client.compile(TEXT).unwrap(), TEXT);

    replace(&path);
    let other = TEXT.replace("add", "multiply");
    assert!(cache.load(&original, &other).is_none(), "the control: not kept yet");
    cache.store(&client.compile(&other).unwrap(), &other);
    assert!(cache.load(&original, &other).is_some(), "the same contents at another path find it");
}
