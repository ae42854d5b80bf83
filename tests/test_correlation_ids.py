"""Text correlation ids, beside numbers and with no room for them in Triton."""

import re
import uuid

import pytest
from harness import fixtures, models
from harness.decoding import greedy
from tritonclient.utils import InferenceServerException

PROMPTS = fixtures.tiny_oracle("llama")["prompts"][1:3]


@pytest.fixture(scope="module", autouse=True)
def loaded(repository, server):
    checkpoint = fixtures.tiny_checkpoint("llama")
    artifact = models.export(checkpoint, "correlation-ids", contexts=[64], batches=[1, 2])
    repository.add(artifact, "with_controls")
    model = repository.add(artifact, "without_controls")
    model.config = re.sub(r"  control_input \[\n.*?\n  \]\n", "", model.config, flags=re.DOTALL)
    assert "control_input" not in model.config
    for name in ("with_controls", "without_controls"):
        server.load(name)


def together(server, protocol, model, ids):
    """Two prompts decoded in turns, as sequences of these ids."""
    with server.client(protocol) as client:
        with client.sequence(model, ids[0]) as one, client.sequence(model, ids[1]) as other:
            results = [greedy(one, PROMPTS[0]["prompt_ids"], 8)]
            results.append(greedy(other, PROMPTS[1]["prompt_ids"], 8))
            results[0].append(one.next_token(results[0][-1:]))
    return results


EXPECTED = [PROMPTS[0]["greedy_ids"][:9], PROMPTS[1]["greedy_ids"][:8]]


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_a_text_and_a_number_never_meet(server, protocol):
    assert together(server, protocol, "with_controls", [7, "7"]) == EXPECTED
    # The same id twice is one sequence.
    with pytest.raises((AssertionError, InferenceServerException)):
        assert together(server, protocol, "with_controls", [8, 8]) == EXPECTED


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_without_controls_a_text_may_be_long(server, protocol):
    ids = [str(uuid.uuid4()) for _ in range(2)]
    assert together(server, protocol, "without_controls", ids) == EXPECTED


def test_a_text_that_triton_has_no_room_for_is_refused(server):
    with server.client() as client:
        sequence = client.sequence("with_controls", "five5")
        with pytest.raises(InferenceServerException, match='the text correlation id "five5" is'):
            sequence.send(PROMPTS[0]["prompt_ids"], end=True)
