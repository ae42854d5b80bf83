//! A plugin file that is replaced while its old contents run: nothing may be kept under its name.

#![allow(clippy::unwrap_used)] // helpers of tests

mod support;

use tlaloc_pjrt::{Client, ClientOptions, CompileCache, Plugin};

const TEXT: &str = "module { func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %y = stablehlo.add %x, %x : tensor<4xf32>
    return %y : tensor<4xf32> } }";

#[test]
fn a_replaced_plugin_keeps_and_finds_no_programs() {
    let Some(client) = support::client() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plugin.so");
    std::fs::copy(client.plugin().path(), &path).unwrap();
    let plugin = Plugin::load(&path).unwrap();
    let client = Client::shared(&plugin, 0, &ClientOptions::default()).unwrap();

    let programs = folder.path().join("programs");
    let kept = || std::fs::read_dir(&programs).unwrap().count();
    let cache = CompileCache::open(&programs).unwrap();
    cache.store(&client.compile(TEXT).unwrap(), TEXT);
    assert_eq!(kept(), 1, "the control: the plugin is the file");

    // Another version of the plugin, whose programs this process cannot make.
    let newer = folder.path().join("newer.so");
    std::fs::write(&newer, "another plugin").unwrap();
    std::fs::rename(&newer, &path).unwrap();

    // As at the next load of a model.
    let cache = CompileCache::open(&programs).unwrap();
    let other = TEXT.replace("add", "multiply");
    cache.store(&client.compile(&other).unwrap(), &other);
    assert_eq!(kept(), 1, "kept under the key of a plugin that did not make it");
    assert!(cache.load(&client, &other).is_none());
}
