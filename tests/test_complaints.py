"""What users of servers and plugins complained about in public, tried on this backend."""

import ast
import contextlib
import re
import time

import numpy as np
import pytest
from harness import environment, examples, fixtures, models
from harness.complaints import COMPLAINTS, LIMITS, PROMISES
from harness.decoding import greedy_alone, together
from harness.memory import MEBIBYTE, growth
from harness.tensors import at_once
from tritonclient.utils import InferenceServerException

PROMPT = fixtures.tiny_oracle("llama")["prompts"][1]
EXPECTED = PROMPT["greedy_ids"]
IDLE = 1.0


@pytest.fixture(scope="module")
def artifact():
    return models.export(fixtures.tiny_checkpoint("llama"), "lifecycle", contexts=[64], batches=[1])


def named_tests(path):
    """The tests of a file."""
    text = (environment.ROOT / path).read_text()
    if path.endswith(".py"):
        return {node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}
    return set(re.findall(r"#\[test\]\s*(?:#\[[^\n]*\]\s*)*fn (\w+)", text))


@pytest.mark.parametrize("table", [COMPLAINTS, PROMISES], ids=["complaints", "promises"])
def test_every_complaint_and_promise_has_its_test(table):
    missing = {
        name: reference
        for name, references in table.items()
        for reference in references
        if reference.partition("::")[2] not in named_tests(reference.partition("::")[0])
    }
    assert missing == {}
    assert all(table.values())
    # The check sees a test that is not there.
    assert "test_nothing" not in named_tests("tests/test_complaints.py")


def test_every_complaint_without_a_test_is_explained():
    text = (environment.ROOT / "docs" / "known-limits.md").read_text()
    assert {issue for issue in LIMITS if f"[{issue}]" not in text} == set()
    assert LIMITS.isdisjoint(COMPLAINTS)


def test_server_3577_slots_are_used_over_and_over(server, repository, artifact, all_rows):
    """Rounds of short sequences, more at once than there are slots, and no START is lost."""
    name, clients = "churn", 8
    repository.add(artifact, name).substitute(
        r"max_candidate_sequences: *\d+", "max_candidate_sequences: 4"
    )
    server.load(name)
    each = 850 // clients if all_rows else 12

    def live(client):
        for _ in range(each):
            with client.sequence(name) as sequence:
                assert sequence.next_token(PROMPT["prompt_ids"]) == EXPECTED[0]
                assert sequence.next_token(EXPECTED[:1]) == EXPECTED[1]

    for _ in range(6):
        together(server, [live] * clients)
    assert greedy_alone(server, name, PROMPT["prompt_ids"], 16) == EXPECTED
    server.unload(name)


def test_server_8449_idle_sequences_are_told_of_once(server, repository, artifact):
    """Sequences that are left alone are no reason to fill the log for ever."""
    name, count = "left_alone", 16
    model = repository.add(artifact, name)
    model.set_idle(int(IDLE * 1e6))
    server.load(name)
    mark = server.log.mark()
    with server.client() as client:
        for _ in range(count):
            # Those that find no page are sequences for the server all the same.
            with contextlib.suppress(InferenceServerException):
                client.sequence(name).send(PROMPT["prompt_ids"])
        # There is nothing to await: it is the absence of lines that is looked for.
        time.sleep(4 * IDLE)
        with pytest.raises(InferenceServerException, match="must specify the START flag"):
            sequence = client.sequence(name)
            sequence.send([1], start=False)
    lines = [line for line in server.log.text(mark).splitlines() if name in line]
    assert len(lines) <= 3 * count, "\n".join(lines[-10:])
    assert greedy_alone(server, name, PROMPT["prompt_ids"], 16) == EXPECTED
    server.unload(name)


def test_server_4528_loading_again_without_unloading(server, repository, artifact):
    name = "again"
    model = repository.add(artifact, name)
    sizes = []
    for cycle in range(30):
        # The server loads anew what has changed, and drops the old one when the new one is there.
        model.config += f"# {cycle}\n"
        server.load(name)
        assert greedy_alone(server, name, PROMPT["prompt_ids"], 2) == EXPECTED[:2]
        sizes.append(server.resident_bytes())
    assert growth(sizes[9:]) < 0.5 * MEBIBYTE, sizes
    assert growth([100 * MEBIBYTE + cycle * MEBIBYTE for cycle in range(20)]) >= MEBIBYTE
    server.unload(name)


def test_server_8457_memory_after_many_requests(server, repository, all_rows):
    name = "buckets"
    examples.add(repository, name)
    server.load(name)
    x = np.arange(8, dtype=np.float32)
    sizes = []
    for _ in range(20):
        answers = at_once(server, name, [{"X": x}] * (5000 if all_rows else 250), threads=2)
        assert all((answer["Y"] == x * x + x).all() for answer in answers)
        sizes.append(server.resident_bytes())
    assert growth(sizes[5:]) < 0.5 * MEBIBYTE, sizes
    server.unload(name)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"inputs": 7}',
        b'{"inputs": [{"name": "X"}]}',
        b'{"inputs": [{"name": "X", "shape": [-1], "datatype": "FP32", "data": []}]}',
        b'{"inputs": [{"name": "X", "shape": [8], "datatype": "FP32", "data": [1, "x"]}]}',
        b'{"inputs": [{"name": "X", "shape": [0], "datatype": "FP32", "data": []}]}',
        b'{"inputs": [{"name": "X", "shape": [8], "datatype": "NONE", "data": [1]}]}',
        bytes(range(256)),
    ],
)
def test_server_3119_bodies_that_are_no_requests(server, repository, body):
    name = "plain"
    if not (repository.path / name).exists():
        examples.add(repository, "buckets", name)
    server.load(name)
    status, _ = server.request("POST", f"/v2/models/{name}/infer", body)
    assert 400 <= status < 600
    x = np.arange(8, dtype=np.float32)
    (answer,) = at_once(server, name, [{"X": x}])
    assert (answer["Y"] == x * x + x).all()
