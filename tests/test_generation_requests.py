"""Every key of a request, inside, at the border of and outside its range, through the server.

The cases come from the backend's own table, see `generation/examples/request_cases.rs`.
"""

import json
import queue

import numpy as np
import pytest
import tritonclient.grpc as triton
from harness import environment, models

CASES = json.loads((environment.FIXTURES / "generation" / "cases.json").read_text(encoding="utf-8"))
TYPES = {
    "BOOL": bool,
    "INT32": np.int32,
    "UINT64": np.uint64,
    "FP16": np.float16,
    "FP32": np.float32,
    "BYTES": object,
}
# Seconds, for up to 128 tokens on a busy machine.
TIMEOUT = 300
# A name that the client library keeps to itself, and a kind of parameter that it does not send.
RESERVED = ["timeout"]


@pytest.fixture(scope="module", params=["trtllm", "vllm"])
def send(request, repository, server):
    """Sends a case: its outputs, or the refusal."""
    artifact = models.export(
        environment.smollm2(),
        "smollm2-verify",
        contexts=[128],
        batches=[1],
        prefill_chunk=32,
        verify_chunk=3,
    )
    dialect = request.param
    options = ["--mode", "generate", "--dialect", dialect, "--tokenizer", environment.smollm2()]
    repository.add(artifact, dialect, *options)
    server.load(dialect)
    answers = queue.Queue()
    client = triton.InferenceServerClient(f"127.0.0.1:{server.grpc_port}")
    client.start_stream(lambda result, error: answers.put((result, error)))

    def send(case):
        inputs, parameters = [], {}
        for sent in case["sent"]:
            if sent["source"] == "parameter":
                parameters[sent["name"]] = sent["elements"][0]
            else:
                inputs.append(tensor(sent, batched=dialect == "trtllm"))
        client.async_stream_infer(dialect, inputs, parameters=parameters or None)
        try:
            result, error = answers.get(timeout=TIMEOUT)
        except queue.Empty:
            raise AssertionError(f"no answer to {case}") from None
        return result, error and error.message()

    yield send
    client.stop_stream()
    client.close()
    server.unload(dialect)


def tensor(sent, batched):
    elements = sent["elements"]
    if sent["type"] == "BYTES":
        elements = [text.encode() for text in elements]
    elif sent["type"].startswith("FP"):
        elements = [float(number) for number in elements]
    shape = [1] * batched + sent["shape"]
    made = triton.InferInput(sent["name"], shape, sent["type"])
    made.set_data_from_numpy(np.array(elements, TYPES[sent["type"]]).reshape(shape))
    return made


def sendable(case):
    first = case["sent"][0]
    return first["source"] == "tensor" or (
        first["type"] != "FP32" and first["name"] not in RESERVED
    )


def flaw(case, result, refusal):
    """What is wrong with the answer to a case."""
    if case["accepted"] and refusal is not None:
        return f"{case} was refused: {refusal}"
    if not case["accepted"] and refusal is None:
        return f"{case} was taken"
    if refusal is not None and f"'{case['sent'][0]['name']}'" not in refusal:
        return f"{case} was refused without its name: {refusal}"
    if refusal is None and result.as_numpy("output_ids").size < 1:
        return f"{case} gave no tokens"
    return None


def test_every_key(send):
    cases = [case for case in CASES if sendable(case)]
    assert {case["key"] for case in cases} == {case["key"] for case in CASES}
    assert len(CASES) - len(cases) < 40
    answers = [(case, *send(case)) for case in cases]
    flaws = [found for answer in answers if (found := flaw(*answer))]
    assert not flaws, "\n".join(flaws)
    # Control: each answer is wrong for the opposite case.
    for case, result, refusal in answers:
        assert flaw({**case, "accepted": not case["accepted"]}, result, refusal)
