"""Serving artifacts and model repositories made for tests."""

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from . import environment


def export(checkpoint, label, **options):
    """The artifact of `checkpoint`, exported once per set of options and exporter.

    Options are those of `tlaloc-export`: `contexts=[64]` is `--contexts 64`.
    It lies outside the tree and is shared by runs: never write into it.
    """
    checkpoint = Path(checkpoint)
    exporter, arguments = environment.binary("tlaloc-export"), option_arguments(options)
    key = hashlib.sha256(exporter.read_bytes())
    for part in [str(checkpoint), *arguments]:
        key.update(part.encode() + b"\0")
    for file in sorted(checkpoint.iterdir()):
        if file.is_file():
            status = file.stat()
            key.update(f"{file.name} {status.st_size} {status.st_mtime_ns}\0".encode())

    folder = environment.cache() / "test-artifacts"
    artifact = folder / f"{label}-{key.hexdigest()[:16]}"
    if not artifact.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        for stale in folder.glob(f"{label}-*"):
            shutil.rmtree(stale, ignore_errors=True)
        partial = Path(tempfile.mkdtemp(prefix=".partial-", dir=folder)) / "artifact"
        export_to(checkpoint, partial, **options)
        try:
            partial.rename(artifact)
        except OSError:
            if not artifact.is_dir():  # else another run was faster
                raise
        shutil.rmtree(partial.parent, ignore_errors=True)
    return artifact


def export_to(checkpoint, folder, **options):
    """Export `checkpoint` to a folder of the caller's."""
    exporter = environment.binary("tlaloc-export")
    run([exporter, checkpoint, "--out", folder, *option_arguments(options)])
    return folder


def option_arguments(options):
    """`contexts=[16, 64]` as `--contexts 16,64`."""
    arguments = []
    for name, value in options.items():
        text = ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
        arguments += [f"--{name.replace('_', '-')}", text]
    return arguments


def run(command):
    """Run one of our binaries; what it said becomes the error when it fails."""
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    )
    if done.returncode != 0:
        words = " ".join(map(str, command))
        raise AssertionError(f"{words}\nexited with {done.returncode}:\n{done.stdout}")
    return done.stdout


class Repository:
    """A temporary model repository, on the artifacts' file system for hard links."""

    def __init__(self):
        environment.cache().mkdir(parents=True, exist_ok=True)
        self.path = Path(tempfile.mkdtemp(prefix="test-repository-", dir=environment.cache()))

    def add(self, artifact, name, *config_gen_arguments):
        """A model made from an artifact by `config-gen`."""
        config_gen = environment.binary("config-gen")
        run(
            [config_gen, artifact, "--repository", self.path, "--name", name, *config_gen_arguments]
        )
        return Model(self.path / name)

    def copy(self, folder, name):
        """A copy of an existing model folder."""
        shutil.copytree(folder, self.path / name)
        return Model(self.path / name)

    def drop(self, name):
        """Take a model out."""
        shutil.rmtree(self.path / name)

    def remove(self):
        shutil.rmtree(self.path, ignore_errors=True)


class Model:
    """A model in a repository, to be bent into the shape a test needs."""

    def __init__(self, path):
        self.path = path
        self.name = path.name
        self.version = path / "1"

    @property
    def config(self):
        return (self.path / "config.pbtxt").read_text(encoding="utf-8")

    @config.setter
    def config(self, text):
        self.write(self.path / "config.pbtxt", text.encode())

    def substitute(self, pattern, replacement):
        """Change config.pbtxt by regular expression; something must match."""
        self.config, count = re.subn(pattern, replacement, self.config)
        assert count, f"{pattern!r} is not in {self.path / 'config.pbtxt'}"

    def set_idle(self, microseconds):
        self.substitute(
            r"max_sequence_idle_microseconds: *\d+",
            f"max_sequence_idle_microseconds: {microseconds}",
        )

    def set_parameter(self, key, value):
        self.config += f'parameters: {{ key: "{key}" value: {{ string_value: "{value}" }} }}\n'

    @staticmethod
    def write(path, data):
        """Replace a file, leaving alone what it is a hard link to."""
        replacement = path.with_name(path.name + ".new")
        replacement.write_bytes(data)
        os.replace(replacement, path)
