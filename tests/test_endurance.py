"""Many sequences, one after another and at once: nothing is lost, nothing is mixed up."""

import json
import random
import threading
import time

import numpy as np
import pytest
from harness import environment, examples, fixtures, models
from harness import window_models as windows
from harness.decoding import LOGITS, logits, prefill, together
from tritonclient.utils import InferenceServerException

# Clients that die.

IDLE = 1.0
# What a client may be told: there is no room now, or its sequence was idle for too long.
NEWS = ("exhausted", "must specify the START flag", "has no KV state")
CLIENTS = 8


def end(sequence):
    """End a sequence that the server may have dropped."""
    try:
        sequence.end()
    except InferenceServerException as error:
        assert NEWS[1] in error.message(), error


def live_and_die(server, model, sequences, vocabulary, longest, seed):
    """Short sequences one after another, of which some are left without an END."""
    draw = random.Random(seed)
    deaths = 0
    client = server.client()
    for _ in range(sequences):
        sequence = client.sequence(model)
        tokens = [draw.randrange(vocabulary) for _ in range(draw.randint(1, longest))]
        try:
            sequence.send(tokens)
            for _ in range(draw.randrange(3)):
                sequence.send([draw.randrange(vocabulary)])
            if draw.random() < 0.05:
                # Dies: its connection is gone, nobody says END.
                deaths += 1
                client.close()
                client = server.client()
            else:
                sequence.end()
        except InferenceServerException as error:
            # The dead still hold what they have; the living come back later.
            assert any(news in error.message() for news in NEWS), error
            end(sequence)
            time.sleep(draw.uniform(0, IDLE))
    client.close()
    return deaths


def take_everything(client, model, prompts):
    """Sequences that need all of a model's pages and slots at once; refusals are raised."""
    sequences = [client.sequence(model) for _ in prompts]
    try:
        for sequence, prompt in zip(sequences, prompts):
            sequence.send(prompt)
    finally:
        for sequence in sequences:
            if sequence.open:
                end(sequence)


def window_model(_):
    """A model with pages and rings; four sequences of 64 tokens take all of both."""
    artifact = examples.FOLDER / "window_sequence" / "1"
    count = (windows.NUM_BLOCKS - 1) * windows.BLOCK // 64
    assert count * windows.RING == windows.WINDOWED_BLOCKS - 1
    return artifact, windows.IMAGE, [[token] * 64 for token in range(count)]


def linear_model(folder):
    """A model with state slots; a sequence in each slot takes them all."""
    slots = 8
    artifact = models.export_to(
        fixtures.tiny_checkpoint("qwen3_5"),
        folder / "artifact",
        contexts=[64],
        batches=[1, 2],
        state_slots=slots,
    )
    return artifact, 96, [[3, 4, 5]] * slots


@pytest.mark.row("M2", "after sequences of dying clients all pages, rings and slots are free")
@pytest.mark.parametrize("make", [window_model, linear_model], ids=["window", "linear"])
def test_nothing_is_lost(row, server, repository, tmp_path, all_rows, make):
    artifact, vocabulary, prompts = make(tmp_path)
    name = make.__name__
    repository.add(artifact, name).set_idle(int(IDLE * 1e6))
    server.load(name)
    total = 10_000 if all_rows else 400

    deaths = [0] * CLIENTS

    def job(number):
        def live(_):
            deaths[number] = live_and_die(
                server, name, total // CLIENTS, vocabulary, 12, seed=number
            )

        return live

    together(server, [job(number) for number in range(CLIENTS)])
    # Time is what makes the sequences of the dead reclaimable: there is nothing to wait for.
    time.sleep(2 * IDLE + 2)
    assert sum(deaths) > 0
    row.figure(f"{name}: {total} sequences, {sum(deaths)} of them died")
    with server.client() as client:
        take_everything(client, name, prompts)
        one_more = client.sequence(name)
        one_more.send([1])
        with row.control("with one sequence alive"):
            try:
                take_everything(client, name, prompts)
            except InferenceServerException as error:
                assert NEWS[0] in error.message(), error
                raise AssertionError(error.message()) from error
        end(one_more)
    server.unload(name)


# Many at once.

SEQUENCES = 64
PROMPTS = fixtures.smollm2_prompts()
TEXT = PROMPTS["long"]["prompt_ids"]
# Below this distance between its two best logits the choice of an id is not compared.
CLEAR = 1e-3


class Load:
    """What 64 clients do to a model, and what came of it."""

    def __init__(self, server, model, seconds, longest_prompt, longest_reply):
        self._server, self._model = server, model
        self._deadline = time.monotonic() + seconds
        self._longest = longest_prompt, longest_reply
        self._lock = threading.Lock()
        self.finished = []
        self.refused = 0

    def run(self):
        together(self._server, [self._client(number) for number in range(SEQUENCES)])

    def _client(self, number):
        draw = random.Random(number)

        def work(client):
            while time.monotonic() < self._deadline:
                at = draw.randrange(len(TEXT) - self._longest[0])
                # Many short prompts, few long ones.
                prompt = TEXT[at : at + int(self._longest[0] ** draw.random()) + 1]
                self._sequence(client.sequence(self._model), prompt, draw)

        return work

    def _sequence(self, sequence, prompt, draw):
        ids, tokens = [], prompt
        try:
            for _ in range(draw.randint(2, self._longest[1])):
                tokens = [sequence.next_token(tokens)]
                ids += tokens
        except InferenceServerException as error:
            assert "KV page pool exhausted" in error.message(), error
            with self._lock:
                self.refused += 1
        sequence.end()
        with self._lock:
            self.finished.append((prompt, ids))


def clear_ids(server, model, prompt, ids):
    """How many ids are the ones that the sequence gives alone; all, up to a near tie."""
    with server.client() as client, client.sequence(model) as sequence:
        row = prefill(sequence, prompt)
        for number, token in enumerate(ids):
            second, best = np.sort(row)[-2:]
            if best - second < CLEAR:
                return number
            assert row.argmax() == token, f"id {number} after {prompt}"
            row = logits(sequence.send([token], LOGITS))
    return len(ids)


def histogram(server, model):
    status, text = server.request("GET", f"/v2/models/{model}/stats")
    assert status == 200, text
    sizes = json.loads(text)["model_stats"][0]["batch_stats"]
    return {size["batch_size"]: size["compute_infer"]["count"] for size in sizes}


@pytest.mark.row("M3", "64 sequences at once on SmolLM2")
def test_many_at_once(row, server, repository, all_rows):
    if all_rows:
        name, seconds, prompt, reply = "crowd", 300, 256, 32
        artifact = models.export(
            environment.smollm2(),
            "smollm2-crowd",
            contexts=[128, 512],
            batches=[1, 2, 4, 8],
            prefill_batches=[1, 2, 4],
            prefill_chunk=128,
            num_blocks=SEQUENCES * 18 + 1,
        )
    else:
        # Pages for fewer than that: some are refused.
        name, seconds, prompt, reply = "small_crowd", 8, 24, 12
        artifact = models.export(
            environment.smollm2(), "smollm2-small", contexts=[64], batches=[1, 2, 4], num_blocks=64
        )
    # Triton's clock runs while a request waits for the batch before it: on a slow machine
    # a batch of 64 prompts takes long.
    repository.add(artifact, name).set_idle(600_000_000)
    server.load(name)
    load = Load(server, name, seconds, prompt, reply)
    load.run()
    sizes = histogram(server, name)
    row.figure(f"{len(load.finished)} sequences in {seconds} s, {load.refused} refused a page")
    row.figure("batches by size " + " ".join(f"{size}:{count}" for size, count in sizes.items()))
    assert max(sizes) > 4
    sampled = random.Random(0).sample([pair for pair in load.finished if pair[1]], 10)
    compared = sum(clear_ids(server, name, *pair) for pair in sampled)
    row.figure(f"{compared} of {sum(len(ids) for _, ids in sampled)} ids as alone")
    assert compared
    with row.control("the ids of another prompt"):
        for (prompt, _), (_, ids) in zip(sampled, sampled[1:]):
            clear_ids(server, name, prompt, ids)
    server.unload(name)
