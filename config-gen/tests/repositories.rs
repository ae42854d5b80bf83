//! Model directories, through the program itself.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../../artifact/tests/common/mod.rs"]
mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use common::Features::{Plain, Speculative, Windowed};
use tlaloc_artifact::Artifact;
use tlaloc_artifact::manifest::MANIFEST_FILE;

fn run(arguments: &[&Path], options: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_config-gen"));
    command.args(arguments).args(options).output().unwrap()
}

/// Standard output of a run that succeeds.
fn output(arguments: &[&Path], options: &[&str]) -> String {
    let run = run(arguments, options);
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    String::from_utf8(run.stdout).unwrap()
}

/// Standard error of a run that is refused and prints nothing else.
fn refusal(arguments: &[&Path], options: &[&str]) -> String {
    let run = run(arguments, options);
    assert!(!run.status.success());
    assert_eq!(String::from_utf8_lossy(&run.stdout), "");
    String::from_utf8(run.stderr).unwrap()
}

/// An artifact and an empty repository.
struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        let dir = tempfile::tempdir().unwrap();
        common::write(&dir.path().join("artifact"), Plain, true).unwrap();
        fs::create_dir(dir.path().join("models")).unwrap();
        Place { dir }
    }

    fn artifact(&self) -> std::path::PathBuf {
        self.dir.path().join("artifact")
    }

    fn models(&self) -> std::path::PathBuf {
        self.dir.path().join("models")
    }

    fn generate(&self, options: &[&str]) -> String {
        let models = self.models();
        let repository = ["--repository", models.to_str().unwrap()];
        output(&[&self.artifact()], &[&repository, options].concat())
    }

    fn refuse(&self, options: &[&str]) -> String {
        let models = self.models();
        let repository = ["--repository", models.to_str().unwrap()];
        refusal(&[&self.artifact()], &[&repository, options].concat())
    }
}

fn tree(root: &Path) -> BTreeMap<String, Vec<u8>> {
    common::files(root, "")
        .into_iter()
        .map(|path| {
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            (name, fs::read(&path).unwrap())
        })
        .collect()
}

#[test]
fn the_text_is_the_same_from_directory_and_manifest() {
    let place = Place::new();
    let directory = output(&[&place.artifact()], &[]);
    let manifest = output(&[&place.artifact().join(MANIFEST_FILE)], &[]);
    assert_eq!(directory, manifest);
    assert!(directory.contains("\nname: \"Small\"\n"), "{directory}");
    let named = output(&[&place.artifact()], &["--name", "chat"]);
    assert_eq!(named, directory.replace("name: \"Small\"", "name: \"chat\""));
    assert!(tree(&place.models()).is_empty());
}

#[test]
fn a_model_is_the_config_and_the_artifact() {
    let place = Place::new();
    let printed = place.generate(&["--name", "chat"]);
    let model = place.models().join("chat");
    assert_eq!(printed, format!("{}\n", model.display()));
    let text = output(&[&place.artifact()], &["--name", "chat"]);
    assert_eq!(fs::read_to_string(model.join("config.pbtxt")).unwrap(), text);
    assert_eq!(tree(&model.join("1")), tree(&place.artifact()));
    Artifact::open(&model.join("1").join(MANIFEST_FILE)).unwrap();
}

/// Files beside the artifact that its manifest does not name stay where they are.
#[test]
fn only_files_of_the_artifact_are_placed() {
    let place = Place::new();
    let before = tree(&place.artifact());
    fs::write(place.artifact().join("notes.txt"), "x").unwrap();
    place.generate(&[]);
    assert_eq!(tree(&place.models().join("Small/1")), before);
}

#[cfg(unix)]
#[test]
fn files_are_hard_links_and_never_symbolic_ones() {
    use std::os::unix::fs::{MetadataExt, symlink};
    let place = Place::new();
    let weights = place.artifact().join("weights");
    let (original, elsewhere) = (weights.join("0001_norm.bin"), place.dir.path().join("norm"));
    fs::rename(&original, &elsewhere).unwrap();
    symlink(&elsewhere, &original).unwrap();
    place.generate(&[]);
    let version = place.models().join("Small/1");
    for file in common::files(&version, "") {
        let found = fs::symlink_metadata(&file).unwrap();
        assert!(found.is_file(), "{}", file.display());
        let source = place.artifact().join(file.strip_prefix(&version).unwrap());
        assert_eq!(found.ino(), fs::metadata(source).unwrap().ino(), "{}", file.display());
    }
}

#[test]
fn an_existing_model_is_replaced_whole() {
    let place = Place::new();
    place.generate(&["--name", "m"]);
    let model = place.models().join("m");
    fs::write(model.join("1/left-over"), "x").unwrap();
    common::write(&place.artifact(), Windowed, true).unwrap();
    place.generate(&["--name", "m"]);
    assert_eq!(tree(&model.join("1")), tree(&place.artifact()));
    let names: Vec<_> =
        fs::read_dir(place.models()).unwrap().map(|item| item.unwrap().file_name()).collect();
    assert_eq!(names, ["m"], "nothing else is left");
    // Its own version directory is as good a source as any.
    let before = tree(&model);
    let models = place.models();
    let again = ["--name", "m", "--repository", models.to_str().unwrap()];
    output(&[&model.join("1")], &again);
    assert_eq!(tree(&model), before);
}

/// Every way to fail leaves the repository as it was: no model where there was none, the old one
/// where there was one.
#[test]
fn a_failure_leaves_the_repository_as_it_was() {
    type Damage = fn(&Path);
    let damages: [(Damage, &str); 6] = [
        (
            |a| fs::remove_file(a.join("weights/0001_norm.bin")).unwrap(),
            "0001_norm.bin: cannot be read",
        ),
        (
            |a| fs::write(a.join("weights/0001_norm.bin"), [0; 7]).unwrap(),
            "weight 'norm' is tensor<4xbf16>, which takes 8 bytes, but the file has 7",
        ),
        (|a| fs::remove_dir_all(a.join("bodies")).unwrap(), ".mlir: cannot be read"),
        (
            |a| fs::write(&common::files(a, ".mlir")[0], "module {}").unwrap(),
            "entry function @main is not in the body; it defines none",
        ),
        (|a| fs::write(a.join(MANIFEST_FILE), "{}").unwrap(), "schemaVersion: is missing"),
        // This one fails when the model is half built: a directory can be neither linked nor copied.
        (
            |a| {
                fs::remove_file(a.join("programs/prefill_b1_c4.json")).unwrap();
                fs::create_dir(a.join("programs/prefill_b1_c4.json")).unwrap();
            },
            "prefill_b1_c4.json: cannot be placed at",
        ),
    ];
    for (damage, message) in damages {
        let place = Place::new();
        place.generate(&["--name", "old"]);
        // The old model shares no file with the artifact about to be damaged.
        common::write(&place.artifact(), Plain, true).unwrap();
        let before = tree(&place.models());
        assert!(!before.is_empty());
        damage(&place.artifact());
        for name in ["old", "new"] {
            let error = place.refuse(&["--name", name]);
            assert!(error.starts_with("config-gen: "), "{error}");
            assert!(error.contains(message), "{message}\n{error}");
            assert_eq!(tree(&place.models()), before);
            assert_eq!(fs::read_dir(place.models()).unwrap().count(), 1, "{message}");
        }
    }
}

#[test]
fn what_is_no_model_of_this_backend_is_not_replaced() {
    let place = Place::new();
    let other = place.models().join("Small");
    fs::create_dir_all(other.join("1")).unwrap();
    fs::write(other.join("config.pbtxt"), "backend: \"python\"\n").unwrap();
    let before = tree(&place.models());
    let error = place.refuse(&[]);
    assert!(error.contains("exists and holds something else"), "{error}");
    assert_eq!(tree(&place.models()), before);
}

#[test]
fn options_are_refused_by_name() {
    let place = Place::new();
    for (options, message) in [
        (&["--name", "a/b"][..], "model name 'a/b' must be"),
        (&["--name", ""], "model name '' must be"),
        (&["--instance-group", "gpu:0,0"], "instance group 'gpu:0,0' must be"),
        (&["--max-sequence-idle", "0"], "--max-sequence-idle <US>"),
        (&["--max-queue-delay", "-1"], "-1"),
        (&["--mode", "both"], "[possible values: sequence, client, generate]"),
        (&["--kv-mode", "both"], "[possible values: sequence, client, generate]"),
        (&["--decoupled"], "--decoupled serves only speculative artifacts"),
        (
            &["--kv-mode", "client", "--max-queue-delay", "5"],
            "--max-queue-delay belongs to --mode sequence",
        ),
        (&["--mode", "client", "--decoupled"], "--decoupled belongs to --mode sequence"),
        (&["--mode", "generate", "--decoupled"], "--decoupled belongs to --mode sequence"),
        (&["--tokenizer", "."], "--tokenizer belongs to --mode generate"),
        (&["--mode", "client", "--dialect", "vllm"], "--dialect belongs to --mode generate"),
        (&["--speculation", "none"], "--speculation belongs to --mode generate"),
        (&["--mode", "generate", "--dialect", "openai"], "[possible values: trtllm, vllm]"),
        (&["--mode", "generate", "--max-running", "0"], "--max-running <REQUESTS>"),
        (
            &["--mode", "generate", "--batch-scheduler-policy", "static_batch"],
            "[possible values: guaranteed_no_evict, max_utilization]",
        ),
        (
            &["--mode", "generate", "--speculation", "medusa"],
            "[possible values: none, prompt_lookup]",
        ),
        (&["--mode", "generate", "--tokenizer", "/absent"], "/absent: has no tokenizer.json"),
    ] {
        let error = place.refuse(options);
        assert!(error.contains(message), "{message}\n{error}");
        assert!(tree(&place.models()).is_empty());
    }
    let error = refusal(&[&place.dir.path().join("absent")], &[]);
    assert!(error.contains("absent: cannot be read: No such file"), "{error}");
    let error = refusal(&[&place.models()], &[]);
    assert!(error.contains(&format!("holds neither {MANIFEST_FILE} nor ")), "{error}");
    // The control: with nothing wrong, the same calls succeed.
    place.generate(&["--name", "a", "--instance-group", "gpu:0,1", "--max-sequence-idle", "1"]);
    common::write(&place.artifact(), Speculative, true).unwrap();
    place.generate(&["--name", "b", "--decoupled"]);
}

/// `--kv-mode` is what `--mode` was called before.
#[test]
fn both_names_of_the_mode_are_one() {
    let place = Place::new();
    let text = output(&[&place.artifact()], &["--mode", "client"]);
    assert_eq!(text, output(&[&place.artifact()], &["--kv-mode", "client"]));
    assert_ne!(text, output(&[&place.artifact()], &[]));
}

#[test]
fn a_generating_model_has_the_checkpoints_small_files() {
    let place = Place::new();
    let checkpoint = place.dir.path().join("checkpoint");
    common::checkpoint(&checkpoint, 11, "{\"eos_token_id\": [2, 3]}");
    fs::write(checkpoint.join("tokenizer_config.json"), "{}").unwrap();
    fs::write(checkpoint.join("model.safetensors"), "weights").unwrap();
    let tokenizer = ["--tokenizer", checkpoint.to_str().unwrap()];
    let options = [&["--mode", "generate", "--name", "chat", "--max-running", "3"][..], &tokenizer];
    place.generate(&options.concat());
    let version = place.models().join("chat/1");
    let mut expected = tree(&place.artifact());
    for name in ["tokenizer.json", "generation_config.json", "tokenizer_config.json"] {
        expected.insert(name.to_owned(), fs::read(checkpoint.join(name)).unwrap());
    }
    assert_eq!(tree(&version), expected);
    let text = fs::read_to_string(place.models().join("chat/config.pbtxt")).unwrap();
    assert!(text.contains("key: \"max_running\" value: { string_value: \"3\" }"), "{text}");
    // Without a tokenizer there are none, and the model's own directory is as good a source as any.
    place.generate(&["--mode", "generate", "--name", "ids"]);
    assert_eq!(tree(&place.models().join("ids/1")), tree(&place.artifact()));
    let before = tree(&place.models().join("chat"));
    let models = place.models();
    let again = [
        &["--mode", "generate", "--name", "chat", "--max-running", "3"][..],
        &["--tokenizer", version.to_str().unwrap()],
        &["--repository", models.to_str().unwrap()],
    ];
    output(&[&version], &again.concat());
    assert_eq!(tree(&place.models().join("chat")), before);
}

/// A name that nothing can be made of must be given.
#[test]
fn a_nameless_artifact_needs_a_name() {
    let place = Place::new();
    let path = place.artifact().join(MANIFEST_FILE);
    let mut manifest = common::read_json(&path);
    manifest["modelName"] = "/".into();
    fs::write(&path, serde_json::to_vec(&manifest).unwrap()).unwrap();
    let error = place.refuse(&[]);
    assert!(error.contains("choose another one with --name"), "{error}");
    place.generate(&["--name", "m"]);
}
