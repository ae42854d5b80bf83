"""Ten thousand short sequences, some of whose clients die: nothing that they held is lost."""

import random
import time
from contextlib import ExitStack

import numpy as np
import pytest
from harness import window
from harness.decoding import assert_close, together
from harness.server import wait_until
from tritonclient.utils import InferenceServerException

MODEL = "deaths"
SEQUENCES, CLIENTS, DEATHS = 10_000, 4, 0.01
TOKENS = np.random.default_rng(3).integers(0, window.IDS, 24).tolist()
# What a client may be told: there is no room now, or the server dropped its idle sequence.
NEWS = ("KV page pool exhausted", "must specify the START flag", "has no KV state")

pytestmark = [
    pytest.mark.skipif(
        not window.FOLDER.is_dir(), reason=f"the artifact {window.NAME} is not at {window.FOLDER}"
    ),
    pytest.mark.row("M2", "after sequences of dying clients all pages, rings and slots are free"),
]


@pytest.fixture(scope="module")
def expected(repository, server):
    model, weights = window.add(repository, MODEL)
    model.set_idle(50_000)
    server.load(MODEL)
    return window.logits(weights, TOKENS)


def one_sequence(client, chance, expected):
    """A few requests, then an end, or none: true if the client dies before."""
    sequence, sent = client.sequence(MODEL), 0
    dies = chance.random() < DEATHS
    sizes = [chance.randint(1, 12) for _ in range(chance.randint(1, 2))]
    for index, size in enumerate(sizes):
        end = not dies and index == len(sizes) - 1
        outputs = sequence.send(TOKENS[sent : sent + size], ("LOGITS",), end=end)
        sent += size
        assert_close(outputs["LOGITS"].ravel(), expected[sent - 1], 1e-4)
    return dies


def test_nothing_is_lost(row, server, expected):
    def job(seed):
        def run(client):
            chance, done, died = random.Random(seed), 0, 0
            while done < SEQUENCES // CLIENTS:
                try:
                    died += one_sequence(client, chance, expected)
                    done += 1
                except InferenceServerException as error:
                    assert any(part in error.message() for part in NEWS), error.message()
                    # Until those that are left behind are idle for long enough.
                    time.sleep(0.01)
            return died

        return run

    died = sum(together(server, [job(seed) for seed in range(CLIENTS)]))
    assert died > SEQUENCES * DEATHS / 2
    assert len(server.log.find("reclaimed sequence")) > died / 2

    with server.client() as client:
        rings = window.WINDOWED_PAGES // window.RING
        # Those that died last are not idle for long enough yet.
        wait_until(lambda: fits(client, rings), 30, "everything to be free")
        row.figure(f"{window.NAME}: {SEQUENCES} sequences, {died} of them died")
        with row.control("one sequence more than fits"):
            assert fits(client, rings + 1)


def fits(client, count):
    """Whether as many sequences with whole rings can live side by side. They are ended."""
    with ExitStack() as stack:
        for _ in range(count):
            sequence = client.sequence(MODEL)
            stack.callback(end, sequence)
            try:
                sequence.send(TOKENS[: window.RING * window.BLOCK])
            except InferenceServerException as error:
                assert NEWS[0] in error.message()
                return False
    return True


def end(sequence):
    try:
        sequence.end()
    except InferenceServerException as error:
        assert NEWS[1] in error.message()
