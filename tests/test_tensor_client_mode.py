"""A KV artifact whose client keeps the block tables and the instance the pools (T18, T19)."""

import json

import numpy as np
import pytest
from harness import environment, fixtures, models
from harness.decoding import assert_close

MODEL = "reference_decode"
FOLDER = environment.UPSTREAM / "model_repository" / MODEL
RECORDED = environment.UPSTREAM / "reference" / "reference_decode.json"
TOLERANCE = 1e-3
SLOTS = ("tokenIds", "positions", "blockTables", "seqLens", "slotMapping")


@pytest.fixture(scope="module")
def model(repository, server):
    if not FOLDER.is_dir():
        pytest.skip(f"the artifact {MODEL} is not at {FOLDER}")
    model = repository.copy(FOLDER, MODEL)
    model.substitute(r"instance_group.*", "instance_group [ { kind: KIND_MODEL count: 1 } ]")
    server.load(MODEL)
    return model


@pytest.fixture(scope="module")
def steps(model):
    return json.loads(RECORDED.read_text())["steps"]


def inputs(step):
    slots = step["inputs"]
    return {
        name: np.array(slots[name]["data"], np.int32).reshape(slots[name]["shape"])
        for name in SLOTS
    }


def expected(step):
    logits = step["outputs"]["logits"]
    return np.array(logits["data"], np.float32).reshape(logits["shape"])


def test_t18_recorded_steps(client, steps):
    for step in steps:
        logits = client.infer(MODEL, inputs(step))["logits"]
        assert_close(logits, expected(step), TOLERANCE)
        assert (logits.argmax(axis=-1) == expected(step).argmax(axis=-1)).all()
        if step is steps[1]:
            # Control: one changed number is seen.
            wrong = expected(step)
            wrong.flat[0] += 1
            with pytest.raises(AssertionError):
                assert_close(logits, wrong, TOLERANCE)


def test_t19_control_a_page_that_nothing_wrote(client, steps):
    for step in steps[:2]:
        logits = client.infer(MODEL, inputs(step))["logits"]
    elsewhere = inputs(steps[1]) | {
        "blockTables": np.array([[5, 0]], np.int32),
        "slotMapping": np.array([11], np.int32),
    }
    other = client.infer(MODEL, elsewhere)["logits"]
    bound = TOLERANCE * np.abs(expected(steps[1])).max()
    assert np.abs(other - expected(steps[1])).max() > 10 * bound
    assert_close(logits, expected(steps[1]), TOLERANCE)


def test_the_pools_are_the_instances_states(server, model):
    server.log.expect(rf"instance '{MODEL}_\S*': 2 states \(1 KiB\) zeroed")


def test_shapes_without_a_program(client, steps):
    three = {name: np.repeat(array, 3, axis=0) for name, array in inputs(steps[0]).items()}
    with pytest.raises(
        Exception, match=r"takes input shapes \(\[3,1\], \[3,1\], \[3,2\], \[3\], \[3\]\)"
    ):
        client.infer(MODEL, three)


def test_our_own_artifact(repository, server, client):
    """A client that keeps the pages itself decodes what another implementation does."""
    prompt = fixtures.tiny_oracle("llama")["prompts"][1]
    artifact = models.export(
        fixtures.tiny_checkpoint("llama"), "client-mode", contexts=[64], batches=[1]
    )
    name = f"own_{client.protocol}"
    repository.add(artifact, name, "--mode", "client")
    server.load(name)
    config = server.config(name)
    block = int(config["parameters"]["kv_block_size"]["string_value"])
    pages = np.arange(64 // block, dtype=np.int32)[::-1] + 1
    ids = list(prompt["prompt_ids"])
    for position in range(len(ids) + 7):
        slot = pages[position // block] * block + position % block
        logits = client.infer(
            name,
            {
                "tokenIds": np.array([[ids[position]]], np.int32),
                "positions": np.array([[position]], np.int32),
                "blockTables": pages[None],
                "seqLens": np.array([position + 1], np.int32),
                "slotMapping": np.array([slot], np.int32),
            },
        )["logits"]
        if position + 1 == len(ids):
            ids.append(int(logits.ravel().argmax()))
    assert ids[len(prompt["prompt_ids"]) :] == prompt["greedy_ids"][:8]
    server.unload(name)
