"""scripts/demo.sh from a checkpoint to an answer, and how it leaves."""

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from harness import environment
from harness.server import wait_until

DEMO = environment.SCRIPTS / "demo.sh"
QUESTION = "What is the capital of France? Answer in one sentence."
STATISTICS = (
    r"\[7 tokens, prefill [\d.]+ ms for 42 tokens, median [\d.]+ ms per token, [\d.]+ tokens/s\]"
)


def demo(*arguments, **options):
    # In a process group of its own, as a terminal runs it.
    return subprocess.Popen(
        [DEMO, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
        # Jobs in the background of a script ignore Ctrl-C, and what they start inherits that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        **options,
    )


def left_behind():
    """Servers of a demo that still run, and its working folders."""
    processes = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if f"{environment.cache()}/demo." in file.read_bytes().decode(errors="replace"):
                processes.append(file.parent.name)
        except OSError:
            pass
    return processes + list(environment.cache().glob("demo.*"))


@pytest.fixture(autouse=True)
def nothing_before():
    assert left_behind() == []


def test_it_answers():
    process = demo("--question", QUESTION, "--max-tokens", "32")
    output, messages = process.communicate(timeout=570)
    assert process.returncode == 0, messages
    assert "The capital of France is Paris." in output
    assert re.search(STATISTICS, output)
    assert left_behind() == []


def test_an_interrupt_stops_the_server_and_ends_the_sequence():
    process = demo("--question", "Write a very long story.", "--max-tokens", "2000")
    # The first text of the reply: by now a sequence is open.
    assert process.stdout.read(1)
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=20)
    assert process.returncode == 130
    assert left_behind() == []


def test_keep_leaves_a_server_to_chat_with():
    process = demo("--question", QUESTION, "--max-tokens", "8", "--keep")
    output, messages = process.communicate(timeout=570)
    assert process.returncode == 0, messages
    chat = re.search(r"chat with it: +(.*)", messages)[1]
    stop = re.search(r"stop it: +(.*)", messages)[1]
    try:
        turns = subprocess.run(
            ["bash", "-c", chat],
            input=f"{QUESTION}\nWhat is the capital of Spain?\n",
            check=True,
            capture_output=True,
            text=True,
            timeout=60,
        ).stdout
        assert "The capital of France is Paris." in turns
        assert "Madrid" in turns
    finally:
        subprocess.run(["bash", "-c", stop], check=True, timeout=60)
        wait_until(lambda: left_behind() == [], 20, "the server to stop")


def test_an_unknown_checkpoint_is_refused():
    process = demo("--hf-id", "nobody/nothing", env={**os.environ, "HF_HUB_CACHE": "/nonexistent"})
    _, messages = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "nobody/nothing is not in the Hugging Face cache /nonexistent" in messages
