"""The Dockerfile and `serve.sh --docker`, as far as a machine without a container engine goes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from harness import environment

DOCKERFILE = environment.ROOT / "Dockerfile"


def hadolint(file):
    tool = Path(sys.executable).parent / "hadolint"
    return subprocess.run(
        [tool, "--config", environment.ROOT / ".hadolint.yaml", "--no-color", file],
        stdout=subprocess.PIPE,
        text=True,
        timeout=120,
    )


def test_the_dockerfile_is_clean():
    done = hadolint(DOCKERFILE)
    assert done.returncode == 0, done.stdout


def test_control_a_flaw_is_seen(tmp_path):
    flawed = tmp_path / "Dockerfile"
    flawed.write_text(DOCKERFILE.read_text() + "FROM debian:latest\nRUN cd /tmp\n")
    assert "DL3007" in hadolint(flawed).stdout


def test_every_stage_is_pinned():
    """No base image moves by itself: each is another stage, or has a version argument with a
    default."""
    lines = DOCKERFILE.read_text().splitlines()
    defaults = dict(
        line.removeprefix("ARG ").split("=", 1) for line in lines if line.startswith("ARG ")
    )
    assert all(defaults.values())
    stages = set()
    for line in lines:
        if line.startswith("FROM "):
            _, image, _, name = line.split()
            used = [argument for argument in defaults if f"${{{argument}}}" in image]
            assert image in stages or used, line
            stages.add(name)
    assert {"cpu", "gpu"} <= stages


@pytest.fixture
def docker(tmp_path):
    """A `docker` that prints what it was asked."""
    folder = tmp_path / "bin"
    folder.mkdir()
    tool = folder / "docker"
    tool.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    tool.chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "TLALOC_CACHE": str(tmp_path)}


def serve(settings, *arguments):
    return subprocess.run(
        [environment.SCRIPTS / "serve.sh", *arguments],
        env=settings,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
    )


def test_docker_runs_the_server_on_loopback_with_the_repository_read_only(docker, tmp_path):
    models = tmp_path / "models"
    models.mkdir()
    command = ("--repository", models, "--grpc-port", "9001", "--docker", "tlaloc-triton:cpu")
    asked = serve(docker, *command, "--", "--log-verbose", "1").stdout.splitlines()
    at = asked.index("tlaloc-triton:cpu")
    options, inside = asked[:at], asked[at + 1 :]
    assert options[0] == "run"
    assert "127.0.0.1:9001:8001" in options and "127.0.0.1:8000:8000" in options
    assert f"{models}:/models:ro" in options
    assert inside[:3] == ["tritonserver", "--model-repository", "/models"]
    assert inside[-2:] == ["--log-verbose", "1"]


def test_without_docker_it_says_so(tmp_path):
    settings = {"PATH": without_docker(tmp_path), "HOME": str(tmp_path)}
    done = serve(settings, "--repository", tmp_path, "--docker", "tlaloc-triton:cpu")
    assert done.returncode == 1
    assert "docker is missing" in done.stderr


def without_docker(folder):
    """A PATH with what the scripts use but docker."""
    tools = folder / "tools"
    tools.mkdir()
    for name in ("bash", "dirname", "basename", "realpath", "id", "mkdir", "sed"):
        source = next(
            path for path in (Path("/usr/bin") / name, Path("/bin") / name) if path.exists()
        )
        (tools / name).symlink_to(source)
    return str(tools)
