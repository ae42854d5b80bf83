//! The compile cache: a program from disk is the program that was compiled.

#![allow(clippy::unwrap_used)] // helpers of tests

mod support;

use std::fs::File;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use tlaloc_pjrt::{Argument, CompileCache, ElementType, Executable};

fn files(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    paths.filter(|path| path.is_file()).collect()
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

    // A file that was changed, cut off or taken from another program is not run, and is replaced by
    // the next compilation.
    let [file] = &files(folder.path())[..] else { panic!("one file") };
    let whole = std::fs::read(file).unwrap();
    let mut changed = whole.clone();
    changed[whole.len() / 2] ^= 1;
    let other = text.replace("1.0", "2.0");
    cache.store(&client.compile(&other).unwrap(), &other);
    let of_other = files(folder.path()).into_iter().find(|found| found != file).unwrap();
    for bytes in [changed, whole[..whole.len() / 2].to_vec(), std::fs::read(of_other).unwrap()] {
        std::fs::write(file, bytes).unwrap();
        assert!(cache.load(&client, text).is_none());
        cache.store(&compiled, text);
        assert_eq!(run(&cache.load(&client, text).unwrap()), (vec![1.0; 1024], true));
    }
}

#[test]
fn a_program_is_written_down_before_it_runs() {
    let Some(client) = support::client() else { return };
    let folder = tempfile::tempdir().unwrap();
    let cache = CompileCache::open(folder.path()).unwrap();
    let text = "module {
      func.func public @main(%x: tensor<3xf32>) -> tensor<3xf32> {
        %y = \"stablehlo.sort\"(%x) <{dimension = 0 : i64, is_stable = true}> ({
        ^bb0(%a: tensor<f32>, %b: tensor<f32>):
          %less = stablehlo.compare LT, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
          stablehlo.return %less : tensor<i1>
        }) : (tensor<3xf32>) -> tensor<3xf32>
        return %y : tensor<3xf32> } }";
    let sorted = |executable: &Executable| {
        let input = support::f32_bytes(&[3.0, 1.0, 2.0]);
        let input = executable.client().upload(ElementType::F32, &[3], &input).unwrap();
        let mut pending = executable.execute([Argument::Keep(&input)]).unwrap();
        pending.wait().unwrap();
        let output = pending.take(0).unwrap();
        support::f32_values(&output.host_bytes().unwrap().unwrap())
    };
    let compiled = client.compile(text).unwrap();
    let entry = cache.entry(&compiled, text).unwrap();
    assert!(files(folder.path()).is_empty(), "nothing is kept before it has run");
    assert_eq!(sorted(&compiled), [1.0, 2.0, 3.0]);
    assert!(cache.entry(&compiled, text).is_none(), "the control: this plugin cannot do it later");
    entry.keep();
    assert_eq!(sorted(&cache.load(&client, text).unwrap()), [1.0, 2.0, 3.0]);
}

#[test]
fn a_bounded_cache_keeps_what_was_used_last() {
    let Some(client) = support::client() else { return };
    let folder = tempfile::tempdir().unwrap();
    let texts: Vec<_> = (1..4).map(support::square_plus_text).collect();
    let compiled: Vec<_> = texts.iter().map(|text| client.compile(text).unwrap()).collect();
    let cache = CompileCache::open(folder.path()).unwrap();
    let used_long_ago = |age: u64| {
        let last = files(folder.path()).into_iter().max_by_key(|file| modified(file)).unwrap();
        let then = SystemTime::now() - Duration::from_secs(age);
        File::options().write(true).open(last).unwrap().set_modified(then).unwrap();
    };
    cache.store(&compiled[0], &texts[0]);
    used_long_ago(200);
    cache.store(&compiled[1], &texts[1]);
    used_long_ago(100);
    // The older one is used again.
    assert!(cache.load(&client, &texts[0]).is_some());
    let two: u64 = files(folder.path()).iter().map(|file| file.metadata().unwrap().len()).sum();
    let cache = cache.bounded(two + two / 4);
    cache.store(&compiled[2], &texts[2]);
    let there = texts.iter().map(|text| cache.load(&client, text).is_some());
    assert_eq!(there.collect::<Vec<_>>(), [true, false, true]);
}

fn modified(file: &std::path::Path) -> SystemTime {
    file.metadata().unwrap().modified().unwrap()
}

#[test]
fn threads_with_claims_compile_a_program_once() {
    let Some(client) = support::client() else { return };
    let folder = tempfile::tempdir().unwrap();
    let cache = CompileCache::open(folder.path()).unwrap();
    let text = "module {
      func.func public @main(%x: tensor<1024xf32> {tf.aliasing_output = 0 : i32}) -> tensor<1024xf32> {
        %y = stablehlo.add %x, %x : tensor<1024xf32>
        return %y : tensor<1024xf32> } }";
    let threads = 4;
    let together = Barrier::new(threads);
    let compiled = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                together.wait();
                let _claim = cache.claim(&client, text).unwrap();
                if cache.load(&client, text).is_none() {
                    compiled.fetch_add(1, Ordering::Relaxed);
                    cache.store(&client.compile(text).unwrap(), text);
                }
            });
        }
    });
    assert_eq!(compiled.into_inner(), 1);
}
