"""Thousands of short sequences, some of whose clients die: nothing that they held is lost."""

import random
import time
from contextlib import ExitStack
from typing import NamedTuple

import numpy as np
import pytest
from harness import fixtures, models
from harness.decoding import assert_close, together
from harness.server import wait_until
from tritonclient.utils import InferenceServerException

CLIENTS, DEATHS = 4, 0.01
DROPPED = ("must specify the START flag", "has no KV state")
OPTIONS = {"contexts": [64], "batches": [1, 2], "prefill_chunk": 16, "block_size": 4}


class Case(NamedTuple):
    """A model that runs out of one thing first."""

    family: str
    options: dict
    # Sequences of 24 tokens that it holds, and what one more is told.
    room: int
    needle: str


# Rings of 6 of 24 windowed pages (artifact format §8); 3 state slots.
CASES = {
    "rings": Case("gemma3", {"num_blocks": 65}, 4, "windowed KV page pool exhausted"),
    "slots": Case(
        "qwen3_5",
        {"num_blocks": 65, "state_slots": 3},
        3,
        "linear-attention state slots exhausted",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_lost(repository, server, name, all_rows):
    case = CASES[name]
    count = 10_000 if all_rows else 2_500
    checkpoint = fixtures.tiny_checkpoint(case.family)
    artifact = models.export(checkpoint, f"{case.family}-deaths", **OPTIONS, **case.options)
    model = repository.add(artifact, name)
    model.set_idle(50_000)
    # Triton would wait for room; the backend is to refuse.
    model.substitute("max_candidate_sequences: *[0-9]+", "max_candidate_sequences: 16")
    server.load(name)
    tokens, expected = positions(fixtures.tiny_oracle(case.family))
    news = (case.needle, *DROPPED)

    def job(seed):
        def run(client):
            chance, done, died = random.Random(seed), 0, 0
            while done < count // CLIENTS:
                try:
                    died += one_sequence(client.sequence(name), chance, tokens, expected)
                    done += 1
                except InferenceServerException as error:
                    assert any(part in error.message() for part in news), error.message()
                    # Until those that are left behind are idle for long enough.
                    time.sleep(0.01)
            return died

        return run

    died = sum(together(server, [job(seed) for seed in range(CLIENTS)]))
    assert died > count * DEATHS / 2
    assert len(server.log.find(f"instance '{name}_0_0': reclaimed sequence")) > died / 2
    with server.client() as client:

        def fits(sequences):
            return live_side_by_side(client, name, tokens[:24], sequences, case.needle)

        # Those that died last are not idle for long enough yet.
        wait_until(lambda: fits(case.room), 30, "everything to be free")
        # Control: this is all that there is.
        assert not fits(case.room + 1)
    server.unload(name)


def positions(oracle):
    """Tokens of a sequence and the logits after each."""
    prompt = next(prompt for prompt in oracle["prompts"] if "prompt_logits" in prompt)
    tokens = prompt["prompt_ids"] + prompt["greedy_ids"]
    return tokens, np.asarray(prompt["prompt_logits"] + prompt["logits"][1:])


def one_sequence(sequence, chance, tokens, expected):
    """A few requests, then an end, or none: true if the client dies before."""
    sent, dies = 0, chance.random() < DEATHS
    sizes = [chance.randint(1, 12) for _ in range(chance.randint(1, 2))]
    for index, size in enumerate(sizes):
        end = not dies and index == len(sizes) - 1
        outputs = sequence.send(tokens[sent : sent + size], ("LOGITS",), end=end)
        sent += size
        assert_close(outputs["LOGITS"].ravel(), expected[sent - 1], 1e-4)
    return dies


def live_side_by_side(client, name, tokens, count, needle):
    """Whether as many sequences of these tokens fit. They are ended."""
    with ExitStack() as stack:
        for _ in range(count):
            sequence = client.sequence(name)
            stack.callback(end, sequence)
            try:
                sequence.send(tokens)
            except InferenceServerException as error:
                assert needle in error.message()
                return False
    return True


def end(sequence):
    try:
        sequence.end()
    except InferenceServerException as error:
        assert DROPPED[0] in error.message()
