"""The fixtures of text are what Python's tokenizers and Jinja2 write."""

import shutil
import subprocess
import sys

import pytest
from harness import environment

FOLDER = environment.FIXTURES / "text"
FILES = ("tokenizer.json", "decoded.json", "rendered.json")


def test_the_fixtures_are_what_the_script_writes(tmp_path):
    shutil.copytree(FOLDER / "templates", tmp_path / "templates")
    script = environment.SCRIPTS / "producers" / "text.py"
    checkpoints = {"smollm2": environment.smollm2(), "gemma3": environment.gemma3()}
    if checkpoints["gemma3"] is None:
        pytest.skip("the fixtures hold what Gemma 3's tokenizer does")
    named = [f"--checkpoint={name}={folder}" for name, folder in checkpoints.items()]
    subprocess.run([sys.executable, script, tmp_path, *named], check=True)
    for name in FILES:
        assert (tmp_path / name).read_text() == (FOLDER / name).read_text(), name
