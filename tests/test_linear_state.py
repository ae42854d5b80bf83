"""Linear-attention state: slots, their reuse, exhaustion, reclaim, and pools beside KV pages."""

import time
from contextlib import ExitStack

import numpy as np
import pytest
from harness import fixtures, models
from harness.decoding import LOGITS, assert_close, together
from harness.decoding import logits as row
from tritonclient.utils import InferenceServerException

MODEL = "hybrid"
SLOTS = 3
# Keys and values of one layer, convolution and recurrent state of three.
POOLS = 8
BLOCK = 16
TOLERANCE = 1e-4
OUTPUTS = (*LOGITS, "KV_PAGES")
PROMPTS = fixtures.tiny_oracle("qwen3_5")["prompts"]
LONG = next(prompt for prompt in PROMPTS if prompt["length"] == 40)
SHORT = next(prompt for prompt in PROMPTS if prompt["length"] == 5)


@pytest.fixture(scope="module")
def artifact():
    return models.export(
        fixtures.tiny_checkpoint("qwen3_5"),
        "qwen3_5-state",
        contexts=[64],
        batches=[1, 2],
        prefill_chunk=16,
        block_size=BLOCK,
        num_blocks=64,
        state_slots=SLOTS,
    )


def add(repository, artifact, name):
    """A model that Triton hands more sequences than there are slots."""
    model = repository.add(artifact, name)
    assert f"max_candidate_sequences: {SLOTS}\n" in model.config
    model.substitute("max_candidate_sequences: *[0-9]+", "max_candidate_sequences: 16")
    return model


@pytest.fixture(scope="module")
def model(repository, server, artifact):
    add(repository, artifact, MODEL)
    server.load(MODEL)
    return MODEL


def refused(message):
    return pytest.raises(InferenceServerException, match=message)


def replay(sequence, prompt, sizes, count=16):
    """Send the prompt in requests of these sizes, then `count` of its ids; check every answer."""
    assert sum(sizes) == len(prompt["prompt_ids"])
    sent = 0
    for size in sizes:
        outputs = sequence.send(prompt["prompt_ids"][sent : sent + size], OUTPUTS)
        sent += size
        assert outputs["KV_PAGES"].ravel().tolist() == [-(-sent // BLOCK), 0]
    rows = [row(outputs)]
    for token in prompt["greedy_ids"][:count]:
        rows.append(row(sequence.send([token], LOGITS)))
    expected = np.asarray(prompt["logits"])[: len(rows)]
    assert_close(np.stack(rows), expected, TOLERANCE)
    assert [int(r.argmax()) for r in rows[:count]] == prompt["greedy_ids"][:count]


@pytest.mark.parametrize("sizes", [[40], [16, 16, 8], [7] * 5 + [5], [1] * 40])
def test_a_prompt_may_be_cut_anywhere(server, model, sizes):
    with server.client() as client, client.sequence(model) as sequence:
        replay(sequence, LONG, sizes)


def test_control_another_sequences_state_is_seen(server, model):
    with server.client() as client, client.sequence(model) as sequence:
        sequence.send(SHORT["prompt_ids"])
        with pytest.raises(AssertionError):
            assert_close(
                row(sequence.send(LONG["prompt_ids"], LOGITS)), LONG["logits"][0], TOLERANCE
            )


def test_sequences_side_by_side(server, model):
    def job(prompt):
        def run(client):
            for _ in range(3):
                with client.sequence(model) as sequence:
                    replay(sequence, prompt, [len(prompt["prompt_ids"])])

        return run

    together(server, [job(LONG), job(SHORT), job(LONG)])


def test_a_start_without_a_slot_is_refused_and_slots_are_used_again(server, model):
    with server.client() as client, ExitStack() as stack:
        held = [stack.enter_context(client.sequence(model)) for _ in range(SLOTS)]
        for sequence in held:
            sequence.send(LONG["prompt_ids"])
        late = stack.enter_context(client.sequence(model))
        with refused("linear-attention state slots exhausted.*is refused at START"):
            late.send(SHORT["prompt_ids"])
        late.end()
        held[1].end()
        # The slot still holds the state of the sequence that had it.
        replay(late, SHORT, [5])
        # A second START on a live sequence begins anew in a slot.
        late.open = False
        replay(late, LONG, [40])


def test_an_idle_sequence_gives_its_slot_back(repository, server, artifact):
    name = "idle_hybrid"
    add(repository, artifact, name).set_idle(200_000)
    server.load(name)
    with server.client() as client:
        abandoned = [client.sequence(name) for _ in range(SLOTS)]
        for sequence in abandoned:
            sequence.send(SHORT["prompt_ids"])
        deadline = time.monotonic() + 30
        while True:
            late = client.sequence(name)
            try:
                replay(late, SHORT, [5], count=2)
                break
            except InferenceServerException as error:
                # Still within twice the idle time.
                assert "linear-attention state slots exhausted" in error.message()
                assert time.monotonic() < deadline
                late.end()
        late.end()
        reclaimed = server.log.find(r"reclaimed sequence (\d+) \(the least recently active")
        assert reclaimed == [str(abandoned[0].id)]
    server.unload(name)


def test_log(server, model):
    text = server.log.text()
    assert (
        f"instance '{MODEL}_0_0': {POOLS} KV pools (0 MiB) zeroed; 63 pages for sequences (page 0 "
        f"is the padding page); {SLOTS} linear-attention state slots, one per live sequence; each "
        "execution is handed the pools to update in place"
    ) in text
    server.log.expect(
        f"instance '{MODEL}_0_0': in 100 runs the {POOLS} KV pools were updated in place 100 times "
        "and copied 0 times"
    )
    assert "to new device memory" not in text
