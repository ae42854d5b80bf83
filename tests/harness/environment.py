"""Where the server, the plugin, the models and our own binaries are."""

import functools
import os
import shlex
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "scripts"
FIXTURES = ROOT / "tests" / "fixtures"
# Artifacts of the original exporter; they are not part of this tree.
UPSTREAM = ROOT.parent / "shared" / "upstream"

NAMES = (
    "TLALOC_TRITONSERVER",
    "TLALOC_PJRT_PLUGIN_PATH",
    "TLALOC_SMOLLM2",
    "TLALOC_SMOLLM2_BF16",
    "TLALOC_GEMMA3",
)


@functools.cache
def variables():
    """The environment of `scripts/setup.sh --env`; sets up when it is not exported."""
    if all(name in os.environ for name in NAMES):
        return {name: os.environ[name] for name in NAMES}
    printed = subprocess.run(
        [SCRIPTS / "setup.sh", "--env"], check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    return dict(word.split("=", 1) for word in shlex.split(printed))


def smollm2():
    return Path(variables()["TLALOC_SMOLLM2"])


def smollm2_bf16():
    """The same checkpoint, its weights rounded to bfloat16."""
    return Path(variables()["TLALOC_SMOLLM2_BF16"])


def gemma3():
    """The Gemma 3 checkpoint, or None on a machine that does without it."""
    path = variables()["TLALOC_GEMMA3"]
    return Path(path) if path else None


def cache():
    """The one folder outside the tree that may be written to."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(os.environ.get("TLALOC_CACHE") or f"{base}/tlaloc-triton")


def binary(name):
    """One of our release binaries: `tlaloc-export` or `config-gen`."""
    path = Path(os.environ.get("TLALOC_BIN_DIR") or ROOT / "target" / "release") / name
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: run the tests with scripts/test.sh --e2e")
    return path


def backend_directory():
    """The folder that holds tlaloc/libtriton_tlaloc.so."""
    path = Path(os.environ.get("TLALOC_BACKEND_DIR") or ROOT / "target" / "backends")
    if not (path / "tlaloc" / "libtriton_tlaloc.so").is_file():
        raise FileNotFoundError(f"{path} is missing: run the tests with scripts/test.sh --e2e")
    return path
