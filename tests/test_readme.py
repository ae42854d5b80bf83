"""The README's commands, run as they stand there."""

import json
import os
import re
import subprocess
import sys
import urllib.request

import pytest
from harness import environment, fixtures
from harness.server import running, wait_until
from tlaloc_client.ports import free_ports

README = (environment.ROOT / "README.md").read_text(encoding="utf-8")
# What runs the commands that no test here does.
ELSEWHERE = {
    "scripts/demo.sh": "test_demo.py",
    "scripts/test.sh": ".ci/run",
    "scripts/verify.sh": "scripts/test.sh",
    "cargo build --release": "scripts/test.sh",
    "scripts/serve.sh --repository models": "every test with a server",
}


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def commands():
    return [line for block in blocks("sh") for line in block.splitlines()]


def command(start):
    """The one command that starts so."""
    (found,) = [line for line in commands() if line.startswith(start)]
    return found


class Readme:
    """The names that a reader puts in place of the README's."""

    def __init__(self, folder):
        self.checkpoint = environment.smollm2()
        self.artifact = folder / "artifact"
        self.models = folder / "models"

    def run(self, line, *more, **options):
        line = line.replace("target/release/", f"{os.environ['TLALOC_BIN_DIR']}/")
        line = re.sub(r"\bCHECKPOINT\b", str(self.checkpoint), line)
        line = re.sub(r"\bARTIFACT\b", str(self.artifact), line)
        line = re.sub(r"(--repository) models\b", rf"\1 {self.models}", line)
        script = "\n".join([line, *more])
        return subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=environment.ROOT,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
            timeout=300,
            **options,
        ).stdout


@pytest.fixture(scope="module")
def readme(tmp_path_factory):
    readme = Readme(tmp_path_factory.mktemp("readme"))
    readme.run(command("target/release/tlaloc-export CHECKPOINT"))
    readme.run(command("target/release/config-gen ARTIFACT --repository"))
    readme.run(command("target/release/config-gen ARTIFACT --mode generate"))
    return readme


@pytest.fixture(scope="module")
def server(readme):
    repository = type("Repository", (), {"path": readme.models})
    with running(repository) as server:
        server.load("chat")
        server.load("text")
        yield server


def test_every_command_is_run(readme):
    here = [
        command("target/release/tlaloc-export CHECKPOINT"),
        command("target/release/tlaloc-export inspect"),
        command("target/release/config-gen ARTIFACT --repository"),
        command("target/release/config-gen ARTIFACT --mode generate"),
        command("set -a; eval "),
        command('"$TLALOC_PYTHON" scripts/chat.py --model chat'),
        command('"$TLALOC_PYTHON" scripts/chat.py --mode generate'),
        command("curl -s localhost:8000/v2/models/text/generate "),
        command("tritonserver "),
    ]
    assert sorted(commands()) == sorted([*here, *ELSEWHERE])


def test_inspect(readme):
    assert "decode_b4_c2048" in readme.run(command("target/release/tlaloc-export inspect"))


def test_a_conversation(readme, server):
    said = readme.run(
        command("set -a; eval "),
        command('"$TLALOC_PYTHON" scripts/chat.py --model chat').replace(
            "CHECKPOINT", str(readme.checkpoint)
        )
        + f" --url 127.0.0.1:{server.grpc_port}",
        input="What is the capital of France? Answer in one sentence.\n",
    )
    assert "The capital of France is Paris." in said


def test_text_out(readme, server):
    asked = command("curl -s localhost:8000/v2/models/text/generate ")
    answer = json.loads(
        readme.run(asked.replace("localhost:8000", f"127.0.0.1:{server.http_port}"))
    )
    expected = fixtures.smollm2_prompts()["short_english"]
    assert answer["output_ids"] == expected["greedy_ids"][:8]
    assert expected["greedy_text"].startswith(answer["text_output"])
    said = readme.run(
        command("set -a; eval "),
        command('"$TLALOC_PYTHON" scripts/chat.py --mode generate')
        + f" --url 127.0.0.1:{server.grpc_port}",
        input="What is the capital of France? Answer in one sentence.\n",
    )
    assert "The capital of France is Paris." in said


def test_streams_of_the_docs(readme, server):
    text = (environment.ROOT / "docs/clients.md").read_text(encoding="utf-8")
    (stream,) = re.findall(r"^curl -sN .*generate_stream .*", text, re.MULTILINE)
    stream = stream.replace("localhost:8000", f"127.0.0.1:{server.http_port}")
    events = readme.run(stream.replace("/models/chat/", "/models/text/")).split("\n\n")
    events = [json.loads(event.removeprefix("data: ")) for event in events if event]
    assert "".join(event["text_output"] for event in events).startswith("The capital of France")
    assert ["finish_reason" in event for event in events] == [False] * (len(events) - 1) + [True]


def test_the_client(server):
    (source,) = blocks("python")
    source = source.replace("localhost:8001", f"127.0.0.1:{server.grpc_port}")
    printed = subprocess.run(
        [sys.executable, "-c", source], check=True, stdout=subprocess.PIPE, text=True, timeout=120
    ).stdout
    expected = fixtures.smollm2_prompts()["short_english"]["greedy_ids"]
    assert [int(line) for line in printed.split()] == expected[:8]


def is_ready(port):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/models/chat/ready") as answer:
            return answer.status == 200
    except OSError:
        return False


def test_a_server_of_ones_own(readme):
    line = command("tritonserver ")
    line = line.replace("tritonserver", os.environ["TLALOC_TRITONSERVER"], 1)
    line = line.replace("--model-repository=models", f"--model-repository={readme.models}")
    line = line.replace("/path/to/pjrt_plugin.so", os.environ["TLALOC_PJRT_PLUGIN_PATH"])
    http, grpc, metrics = free_ports(3)
    process = subprocess.Popen(
        [
            *line.split(),
            f"--backend-directory={environment.backend_directory()}",
            *("--model-control-mode=explicit", "--load-model=chat"),
            *("--http-address=127.0.0.1", f"--http-port={http}"),
            *("--grpc-address=127.0.0.1", f"--grpc-port={grpc}"),
            *("--metrics-address=127.0.0.1", f"--metrics-port={metrics}"),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # The programs are compiled by the tests above, and kept.
        env={**os.environ, "TLALOC_COMPILE_CACHE_DIR": str(environment.cache() / "programs")},
    )
    try:
        wait_until(lambda: is_ready(http), 600, "the model")
    finally:
        process.terminate()
        assert process.wait(60) == 0
