//! The compile cache: a program from disk is the program that was compiled.

#![allow(clippy::unwrap_used)] // helpers of tests

mod support;

use tlaloc_pjrt::{Argument, CompileCache, ElementType, Executable};

fn files(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

/// Adds one to a donated state and says whether it stayed in place.
fn run(executable: &Executable) -> (Vec<f32>, bool) {
    let mut state = executable.client().zeros(ElementType::F32, &[1024]).unwrap();
    let address = state.device_address();
    let mut pending = executable.execute([Argument::Donate(&mut state)]).unwrap();
    pending.wait().unwrap();
    let next = pending.take(0).unwrap();
    let values = support::f32_values(&next.host_bytes().unwrap().unwrap());
    (values, next.device_address() == address)
}

#[test]
fn a_kept_program_is_the_compiled_one() {
    let Some(client) = support::client() else { return };
    let folder = tempfile::tempdir().unwrap();
    let cache = CompileCache::open(folder.path()).unwrap();
    let text = "module {
      func.func public @main(%x: tensor<1024xf32> {tf.aliasing_output = 0 : i32}) -> tensor<1024xf32> {
        %one = stablehlo.constant dense<1.0> : tensor<1024xf32>
        %y = stablehlo.add %x, %one : tensor<1024xf32>
        return %y : tensor<1024xf32> } }";
    assert!(cache.load(&client, text).is_none());
    let compiled = client.compile(text).unwrap();
    cache.store(&compiled, text);
    assert_eq!(files(folder.path()).len(), 1);

    let kept = cache.load(&client, text).unwrap();
    assert!(kept.outputs().eq(compiled.outputs()));
    assert_eq!(kept.memory_stats(), compiled.memory_stats());
    assert_eq!(run(&kept), (vec![1.0; 1024], true));
    // Another text is another program.
    assert!(cache.load(&client, &text.replace("1.0", "2.0")).is_none());

    // A damaged file is not run, and is replaced by the next compilation.
    let [file] = &files(folder.path())[..] else { panic!("one file") };
    let mut bytes = std::fs::read(file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(file, bytes).unwrap();
    assert!(cache.load(&client, text).is_none());
    cache.store(&compiled, text);
    assert!(cache.load(&client, text).is_some());
}
