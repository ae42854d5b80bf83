"""The released tarball, unpacked into an empty folder: all that a machine needs beside a server and
a plugin."""

import os
import subprocess
from types import SimpleNamespace

import pytest
from harness import environment, fixtures
from harness.decoding import greedy
from harness.server import running

# Of the environment, what any machine has, and what names the server and the plugin.
RUNTIME = ("TLALOC_TRITONSERVER", "TLALOC_PJRT_PLUGIN_PATH")


def bare():
    known = environment.variables()
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": os.environ["HOME"],
        **{name: known[name] for name in RUNTIME},
    }


def run(*command, **options):
    return subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, timeout=600, **options
    ).stdout


@pytest.fixture(scope="module")
def tarball(tmp_path_factory):
    out = tmp_path_factory.mktemp("out")
    return run(environment.SCRIPTS / "package.sh", "--out", out).strip()


@pytest.fixture(scope="module")
def package(tarball, tmp_path_factory):
    folder = tmp_path_factory.mktemp("empty")
    run("tar", "-xzf", tarball, "-C", folder, "--strip-components", "1")
    return folder


def test_equal_binaries_give_equal_bytes(tarball, tmp_path):
    again = run(environment.SCRIPTS / "package.sh", "--out", tmp_path).strip()
    run("cmp", tarball, again)


def test_the_sums_hold_and_a_changed_file_is_seen(package):
    check = ("sha256sum", "--check", "--quiet", "SHA256SUMS")
    run(*check, cwd=package)
    listed = {line.split("  ", 1)[1] for line in (package / "SHA256SUMS").read_text().splitlines()}
    files = {str(file.relative_to(package)) for file in package.rglob("*") if file.is_file()}
    assert files == listed | {"SHA256SUMS"}
    readme = package / "README.md"
    text = readme.read_bytes()
    readme.write_bytes(text + b"\n")
    with pytest.raises(subprocess.CalledProcessError):
        run(*check, cwd=package, stderr=subprocess.DEVNULL)
    readme.write_bytes(text)


def test_everything_linked_in_comes_with_its_licence(package):
    rows = (package / "licences" / "index.tsv").read_text().splitlines()
    crates = [row.split("\t") for row in rows]
    for name, version, expression in crates:
        assert expression
        assert list((package / "licences" / f"{name}-{version}").iterdir())
    names = {name for name, _, _ in crates}
    assert {"serde_json", "libloading", "tracing", "clap"} <= names
    assert not {"proptest", "insta"} & names, "crates of tests are not linked in"


def test_serves_a_checkpoint_from_the_unpacked_folder(package, tmp_path):
    checkpoint = fixtures.tiny_checkpoint("llama")
    prompt = fixtures.tiny_oracle("llama")["prompts"][1]
    artifact, models = tmp_path / "artifact", tmp_path / "models"
    run(
        package / "bin" / "tlaloc-export", checkpoint, "--out", artifact, "--contexts", "64", env={}
    )
    run(
        package / "bin" / "config-gen", artifact, "--repository", models, "--name", "tiny", env={}
    )  # fmt: skip
    settings = {**bare(), "TLALOC_CACHE": str(tmp_path / "cache")}
    with running(
        SimpleNamespace(path=models),
        script=package / "scripts" / "serve.sh",
        settings=settings,
    ) as server:
        server.load("tiny")
        with server.client() as client, client.sequence("tiny") as sequence:
            ids = greedy(sequence, prompt["prompt_ids"], len(prompt["greedy_ids"]))
    assert ids == prompt["greedy_ids"]


@pytest.mark.parametrize(
    "change, needle",
    [
        ({"TLALOC_PJRT_PLUGIN_PATH": ""}, "set TLALOC_PJRT_PLUGIN_PATH to a PJRT plugin"),
        ({"TLALOC_PJRT_PLUGIN_PATH": "/nowhere/p.so"}, "/nowhere/p.so does not exist"),
        ({"TLALOC_TRITONSERVER": "/nowhere/tritonserver"}, "set TLALOC_TRITONSERVER"),
    ],
)
def test_a_missing_part_is_named(package, tmp_path, change, needle):
    done = subprocess.run(
        [package / "scripts" / "serve.sh", "--repository", tmp_path],
        env={**bare(), **change},
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert needle in done.stderr
