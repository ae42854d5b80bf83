"""A token whose embedding is not a number, and those who get the pages of whoever sent it."""

import json

import numpy as np
import pytest
from harness.decoding import LOGITS, greedy_alone
from harness.fault_faces import SequenceFace

PROMPT, OTHER = SequenceFace.LONG, SequenceFace.SHORT
# A token that neither of them has.
POISON = min(
    set(range(96)).difference(
        *(p[ids] for p in (PROMPT, OTHER) for ids in ("prompt_ids", "greedy_ids"))
    )
)


def poison(model):
    """Makes the embedding of one token NaN; the head has weights of its own."""
    manifest = json.loads((model.version / "tlaloc-serving.json").read_text())
    (slot,) = [slot for slot in manifest["weights"]["table"] if slot["name"] == "embedTokens"]
    values = np.fromfile(model.version / slot["path"], "<f4").reshape(slot["dims"])
    values[POISON] = np.nan
    model.write(model.version / slot["path"], values.tobytes())


@pytest.fixture(scope="module")
def model(repository, server):
    model = repository.add(SequenceFace.artifact(), "poisoned")
    poison(model)
    server.load(model.name)
    return model.name


def check(server, model):
    found = greedy_alone(server, model, PROMPT["prompt_ids"], SequenceFace.ANSWERS)
    assert found == PROMPT["greedy_ids"][: SequenceFace.ANSWERS]


def test_the_neighbour_of_a_poisoned_sequence_is_right(server, model):
    with server.client() as client, client.sequence(model) as poisoned:
        row = poisoned.send([POISON], LOGITS)["LOGITS"]
        assert np.isnan(row).all()
        with client.sequence(model) as neighbour:
            assert neighbour.next_token(OTHER["prompt_ids"]) == OTHER["greedy_ids"][0]


@pytest.mark.xfail(strict=True, reason="docs/known-limits.md: values that are not numbers stay")
def test_the_next_on_poisoned_pages_is_right(server, model):
    with server.client() as client, client.sequence(model) as poisoned:
        poisoned.send([POISON] * 44, LOGITS)
    check(server, model)
