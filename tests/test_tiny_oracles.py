"""Random checkpoints of each Llama variant against full logits of another implementation."""

import numpy as np
import pytest
from harness import fixtures, models
from harness.decoding import LOGITS, assert_close, logits, prefill

FAMILIES = ["llama", "llama3", "llama_bf16"]
OPTIONS = {
    # Prompts of 1 to 90 tokens and 16 more: every context, and prompts of several calls.
    "contexts": [16, 64, 128],
    "batches": [1],
    "prefill_chunk": 32,
}


@pytest.fixture(scope="module", autouse=True)
def loaded(repository, server):
    for family in FAMILIES:
        dtype = "bf16" if family.endswith("bf16") else "f32"
        checkpoint = fixtures.tiny_checkpoint(family)
        repository.add(models.export(checkpoint, family, weight_dtype=dtype, **OPTIONS), family)
        server.load(family)


@pytest.fixture(scope="module")
def oracles():
    return {family: fixtures.tiny_oracle(family) for family in FAMILIES}


def decode(server, protocol, family, prompt, whole):
    """All rows of logits, fed with the expected ids."""
    with server.client(protocol) as client, client.sequence(family) as sequence:
        rows = [prefill(sequence, prompt["prompt_ids"], whole)]
        for token in prompt["greedy_ids"]:
            rows.append(logits(sequence.send([token], LOGITS)))
        return np.stack(rows)


def check(rows, prompts, oracle):
    """Compare the rows of several prompts with the oracle's."""
    for row, prompt in zip(rows, prompts):
        assert row[:-1].argmax(axis=1).tolist() == prompt["greedy_ids"]
    expected = [np.asarray(prompt["logits"]) for prompt in prompts]
    noise = oracle["summary"].get("noise")
    if noise is None:
        for row, expectation in zip(rows, expected):
            assert_close(row, expectation, 5e-5)
        return
    # Rounding of activations to bfloat16 is a step function: single elements of
    # two right implementations may differ, so the distance is one over all of them.
    difference = np.concatenate(rows) - np.concatenate(expected)
    distance = np.sqrt(np.mean(difference**2))
    allowed = 3 * noise["float32_vs_float64_sums"]["rms"]
    assert distance <= allowed, f"rms {distance:.1e}, {allowed:.1e} allowed"


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "by_token"])
@pytest.mark.parametrize("protocol", ["http", "grpc"])
@pytest.mark.parametrize("family", FAMILIES)
def test_matches_the_oracle(server, oracles, family, protocol, whole):
    prompts = oracles[family]["prompts"]
    rows = [decode(server, protocol, family, prompt, whole) for prompt in prompts]
    check(rows, prompts, oracles[family])


@pytest.mark.parametrize("family", FAMILIES)
def test_control_another_prompt_is_seen(server, oracles, family):
    first, second = oracles[family]["prompts"][1:3]
    rows = decode(server, "grpc", family, first, whole=True)
    with pytest.raises(AssertionError):
        check([rows], [{**second, "greedy_ids": first["greedy_ids"]}], oracles[family])


@pytest.mark.parametrize("family", FAMILIES)
def test_control_a_small_shift_is_seen(server, oracles, family):
    prompt = oracles[family]["prompts"][0]
    rows = decode(server, "grpc", family, prompt, whole=True)
    # What leaving the head's input unrounded would move, at least.
    with pytest.raises(AssertionError):
        check([rows + 4e-3], [prompt], oracles[family])
