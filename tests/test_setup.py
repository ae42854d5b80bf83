"""scripts/setup.sh says what is missing, and repeats nothing."""

import os
import shutil
import subprocess

import pytest
from harness import environment

SETUP = environment.SCRIPTS / "setup.sh"
# What the script uses beside the prerequisites that it checks.
COMMON = (
    "awk basename bash cat cut df dirname flock getconf grep head ldd mkdir mktemp mv "
    "realpath rm sed sha256sum sort touch uname"
).split()


@pytest.fixture
def tools(tmp_path):
    """A folder to be the whole PATH, with all that setup.sh needs but Python packages."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in COMMON:
        (folder / name).symlink_to(shutil.which(name))
    fake(folder, "cargo", "echo cargo 99.0.0")
    fake(folder, "cc", "true")
    # A Python that is new enough and has venv; nothing may get as far as using it.
    fake(folder, "python3", "[[ $1 == -c ]]")
    return folder


def fake(folder, name, script):
    path = folder / name
    path.unlink(missing_ok=True)
    path.write_text(f"#!{shutil.which('bash')}\n{script}\n")
    path.chmod(0o755)


def setup(tools, cache, *arguments):
    """(exit status, standard output, standard error)"""
    settings = {"PATH": str(tools), "HOME": str(cache.parent), "TLALOC_CACHE": str(cache)}
    done = subprocess.run(
        [SETUP, *arguments], env=settings, capture_output=True, text=True, timeout=60
    )
    return done.returncode, done.stdout, done.stderr


MISSING = {
    "no Rust": (lambda tools: (tools / "cargo").unlink(), ["Rust is missing", "rustup"]),
    "old Rust": (
        lambda tools: fake(tools, "cargo", "echo cargo 1.60.0"),
        ["cargo is 1.60.0", "rustup update"],
    ),
    "no linker": (lambda tools: (tools / "cc").unlink(), ["C linker", "build-essential", "gcc"]),
    "no Python": (
        lambda tools: (tools / "python3").unlink(),
        ["Python 3.9 or newer is missing", "python3-venv"],
    ),
    "old Python": (
        lambda tools: fake(tools, "python3", "[[ $2 != *version_info* ]]"),
        ["Python 3.9 or newer is missing"],
    ),
    "no venv": (
        lambda tools: fake(tools, "python3", "[[ $2 != *ensurepip* ]]"),
        ["has no venv module", "python3-venv"],
    ),
    "other processor": (
        lambda tools: fake(tools, "uname", "echo Linux aarch64"),
        ["Linux aarch64", "nvcr.io/nvidia/tritonserver:24.10-py3"],
    ),
    "old glibc": (
        lambda tools: fake(tools, "getconf", "echo glibc 2.31"),
        ["needs glibc 2.35", "this system has 2.31", "tritonserver:24.10-py3"],
    ),
    "no glibc": (lambda tools: fake(tools, "getconf", "exit 1"), ["need glibc, which this system"]),
    "full disk": (
        lambda tools: fake(tools, "df", "printf 'x\\nx x x 100\\n'"),
        ["100 MB free", "TLALOC_CACHE"],
    ),
}


@pytest.mark.parametrize("case", MISSING)
def test_a_missing_prerequisite_is_named(tools, tmp_path, case):
    take_away, words = MISSING[case]
    take_away(tools)
    status, output, message = setup(tools, tmp_path / "cache", "--env")
    assert status == 1, message
    assert output == ""
    for word in words:
        assert word in message


def test_control_with_all_prerequisites_it_goes_on(tools, tmp_path):
    # As far as the fake Python reaches.
    status, _, message = setup(tools, tmp_path / "cache", "--env")
    assert status != 0
    assert "1/5 Python environment" in message
    assert "missing" not in message


def test_a_second_run_only_prints(tmp_path):
    environment.variables()
    command = [SETUP, "--env"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    names = [line.split("=", 1)[0] for line in done.stdout.splitlines()]
    assert names == [
        "TLALOC_TRITONSERVER",
        "TLALOC_PJRT_PLUGIN_PATH",
        "TLALOC_PYTHON",
        "TLALOC_SMOLLM2",
        "TLALOC_SMOLLM2_BF16",
        "TLALOC_GEMMA3",
    ]
    assert done.stderr == ""


@pytest.fixture
def without_gemma3(tmp_path):
    """Settings of a complete cache but for Gemma, on a machine that cannot fetch."""
    environment.variables()
    for folder in environment.cache().iterdir():
        if folder.name.split("-")[0] in ("python", "server", "plugin", "model"):
            (tmp_path / folder.name).symlink_to(folder)
    settings = {**os.environ, "TLALOC_CACHE": str(tmp_path), "PIP_NO_INDEX": "1"}
    settings.pop("TLALOC_GEMMA3", None)
    return settings


@pytest.mark.parametrize("declined", [False, True])
def test_a_machine_without_gemma3_does_without(without_gemma3, declined):
    if declined:
        without_gemma3["TLALOC_GEMMA3"] = ""
    done = subprocess.run(
        [SETUP, "--env"],
        env=without_gemma3,
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout.splitlines()[-1] == "TLALOC_GEMMA3=''"
    # The terms are shown where the model would have been taken.
    for words in ("https://ai.google.dev/gemma/terms", "going on without gemma-3-270m"):
        assert (words in done.stderr) != declined


# lib.sh is sourced, not run.
COMMANDS = [path for path in sorted(environment.SCRIPTS.glob("*.sh")) if os.access(path, os.X_OK)]


@pytest.mark.parametrize("script", COMMANDS, ids=lambda path: path.name)
def test_every_script_explains_itself(script):
    done = subprocess.run([script, "--help"], check=True, capture_output=True, text=True)
    assert f"scripts/{script.name}" in done.stdout
    assert done.stderr == ""
