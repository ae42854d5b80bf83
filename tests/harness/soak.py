"""Many clients of every kind for long: what is wrong, lost or grown at the end.

`python -m harness.soak --minutes N` prints it (scripts/soak.sh).
"""

import argparse
import itertools
import json
import random
import threading
import time
from dataclasses import dataclass, field

import numpy as np
from tritonclient.utils import InferenceServerException

from . import examples, fixtures, generation, models
from .generation import Http
from .metrics import of_instance
from .server import Server, wait_until

CLIENTS = 32
# The model in sequence mode, the same in generation mode, and another one.
MODEL, STREAMED, OTHER = "soaked", "streamed", "reloaded"
# A model with pages and rings, and ids that another implementation found.
CHECKPOINT = "gemma3"
CONTEXT = 128
OPTIONS = {
    "contexts": [CONTEXT],
    "batches": [1, 2, 4],
    "prefill_chunk": 16,
    "block_size": 4,
    "num_blocks": 1025,
}
# Pages of a ring: of a window of 8 and a chunk of 16 (artifact format §8, "Writer's sizing").
RING = -(-(8 - 1 + 16) // 4)
VOCABULARY = 96
# Sequences of the dead are given up after so many seconds.
IDLE = 2.0
# What a client may be told without anything being wrong: there is no room now, or its sequence was
# idle for too long.
NEWS = ("exhausted", "must specify the START flag", "has no KV state")
MIB = 2**20


@dataclass
class Found:
    """What a soak has found."""

    minutes: float
    sequences: int = 0
    ids: int = 0
    wrong: list = field(default_factory=list)
    deaths: int = 0
    cancels: int = 0
    refused: int = 0
    turned_away: int = 0
    reloads: int = 0
    # (seconds, bytes) of the server's resident memory.
    resident: list = field(default_factory=list)
    # Used and usable pages and ring pages of both models at the end.
    used: dict = field(default_factory=dict)
    usable: dict = field(default_factory=dict)
    # With which the server ended.
    status: int = 0

    def slope(self):
        """MiB a minute of resident memory after the first third, by least squares."""
        warm = self.resident[len(self.resident) // 3 :]
        seconds, found = np.asarray(warm, dtype=float).T
        return float(np.polyfit(seconds / 60, found / MIB, 1)[0])

    def check(self, most_slope=1.0):
        assert not self.wrong, f"wrong ids: {self.wrong[:3]}"
        assert min(self.sequences, self.deaths, self.cancels, self.refused, self.reloads) > 0
        assert all(used == 0 for used in self.used.values()), f"not free at the end: {self.used}"
        assert self.slope() < most_slope, f"{self.slope():.2f} MiB a minute"

    def lines(self):
        resident = [found // MIB for _, found in self.resident]
        return [
            f"{self.minutes:g} minutes, {CLIENTS} clients: {self.sequences} sequences compared, "
            f"{self.ids} ids, {len(self.wrong)} wrong",
            f"{self.deaths} clients died, {self.cancels} requests were cancelled, {self.refused} "
            f"bad ones refused, {self.turned_away} sequences found no room, {self.reloads} reloads "
            f"of a second model",
            "used at the end: "
            + ", ".join(f"{kind} {n} of {self.usable[kind]}" for kind, n in self.used.items()),
            f"exit status of the server: {self.status}",
            f"resident memory: {resident[0]} MiB at first, {resident[-1]} MiB at the end, "
            f"{self.slope():+.2f} MiB a minute after the first third",
        ]


class Soak:
    def __init__(self, server, seconds, seed=0):
        self._server = server
        self._begin = time.monotonic()
        self._deadline = self._begin + seconds
        self._lock = threading.Lock()
        self._errors = []
        self._seed = seed
        self._prompts = fixtures.tiny_oracle(CHECKPOINT)["prompts"]
        self.found = Found(minutes=seconds / 60)

    def run(self):
        threads = [threading.Thread(target=self._client, args=(n,)) for n in range(CLIENTS)]
        for thread in threads:
            thread.start()
        last_reload = self._begin
        while time.monotonic() < self._deadline and not self._errors:
            now = time.monotonic()
            self.found.resident.append((now - self._begin, self._server.resident_bytes()))
            if now - last_reload >= 3:
                last_reload = now
                self._server.unload(OTHER)
                self._server.load(OTHER)
                self.found.reloads += 1
            # Nothing is awaited: this is how often memory is looked at.
            time.sleep(0.5)
        for thread in threads:
            thread.join()
        if self._errors:
            raise self._errors[0]
        self._settle()
        return self.found

    def _settle(self):
        """The dead are given up when others want their place: sequences that take everything."""
        wait_until(self._take_everything, 60, "a sequence for every page and ring page")
        for model in (MODEL, STREAMED):
            for kind, pages in self._pages("used", model).items():
                self.found.used[f"{model} {kind}"] = pages
            for kind, pages in self._pages("max", model).items():
                self.found.usable[f"{model} {kind}"] = pages

    def _take_everything(self):
        rings = self._pages("max")["ring pages"] / RING
        pages = self._pages("max")["pages"] / (CONTEXT / OPTIONS["block_size"])
        assert rings == pages == int(pages)
        with self._server.client() as client:
            sequences = [client.sequence(MODEL) for _ in range(int(pages))]
            try:
                for sequence in sequences:
                    sequence.send([3] * CONTEXT)
                taken = self._pages("used") == self._pages("max")
            except InferenceServerException as error:
                assert NEWS[0] in error.message(), error
                taken = False
            for sequence in sequences:
                if sequence.open:
                    give_up(sequence)
        return taken

    def _pages(self, kind, model=MODEL):
        metrics = self._server.metrics()
        labels = {"kv_cache_block": "pages", "ring_page": "ring pages"}
        return {
            name: int(of_instance(metrics, model, f"{label}_metrics", **{f"{label}_type": kind}))
            for label, name in labels.items()
        }

    def _count(self, **counts):
        with self._lock:
            for name, count in counts.items():
                setattr(self.found, name, getattr(self.found, name) + count)

    def _turned_away(self, sequence, error):
        assert any(word in str(error) for word in NEWS), error
        self._count(turned_away=1)
        give_up(sequence)

    def _client(self, number):
        draw = random.Random(self._seed * CLIENTS + number)
        kinds = [self._decode, self._die, self._mistake, self._cancel]
        try:
            client = self._server.client()
            while time.monotonic() < self._deadline and not self._errors:
                kind = draw.choices(kinds, weights=[14, 1, 3, 1])[0]
                client = kind(client, draw) or client
            client.close()
        except BaseException as error:  # noqa: BLE001 - carried to the caller
            self._errors.append(error)

    def _decode(self, client, draw):
        """A sequence of some of the oracle's ids, in any pieces."""
        prompt = draw.choice(self._prompts)
        expected = prompt["greedy_ids"][: draw.randint(1, 16)]
        tokens = prompt["prompt_ids"]
        sequence = client.sequence(MODEL)
        ids = []
        try:
            cut = draw.randrange(len(tokens))
            if cut:
                sequence.send(tokens[:cut])
            tokens = tokens[cut:]
            while len(ids) < len(expected):
                ids.append(sequence.next_token(tokens))
                tokens = ids[-1:]
            sequence.end()
        except InferenceServerException as error:
            self._turned_away(sequence, error)
        wrong = ids != expected[: len(ids)]
        self._count(
            sequences=bool(ids), ids=len(ids), wrong=[(prompt["name"], ids)] if wrong else []
        )

    def _die(self, client, draw):
        """A client that goes without a word; another one comes in its place."""
        sequence = client.sequence(MODEL)
        try:
            sequence.send([draw.randrange(3, VOCABULARY) for _ in range(draw.randint(1, 40))])
            self._count(deaths=1)
        except InferenceServerException as error:
            self._turned_away(sequence, error)
        client.close()
        return self._server.client()

    def _mistake(self, client, draw):
        """A request that has to be refused."""
        sequence = client.sequence(MODEL)
        bad = draw.choice(
            [
                lambda: sequence.send([VOCABULARY]),
                lambda: sequence.send([-1]),
                lambda: sequence.send([3] * 129),
                lambda: client.infer(
                    MODEL,
                    np.zeros((1, 2), np.float32),
                    sequence_id=sequence.id,
                    sequence_start=True,
                ),
                lambda: client.infer(
                    MODEL, np.zeros((2, 2), np.int32), sequence_id=sequence.id, sequence_start=True
                ),
                lambda: sequence.send([3], start=False),
            ]
        )
        try:
            bad()
        except InferenceServerException:
            self._count(refused=1)
        else:
            raise AssertionError("a request that is wrong was answered")
        give_up(sequence)

    def _cancel(self, client, draw):
        """A stream that is closed in its middle. (Cancelled gRPC requests end this server now and
        then, whatever the backend: docs/operations.md.)"""
        prompt = draw.choice(self._prompts)
        tokens = prompt["prompt_ids"]
        keys = {"input_ids": tokens, "max_tokens": CONTEXT + 1 - len(tokens), "stream": True}
        ids = []
        http = Http(self._server, STREAMED)
        with http.opened(**keys, temperature=0.0, ignore_eos=True) as events:
            for event in itertools.islice(events, draw.randint(0, 6)):
                ids += event["output_ids"]
        self._count(cancels=1, ids=len(ids))
        if ids != prompt["greedy_ids"][: len(ids)]:
            self._count(wrong=[(prompt["name"], ids)])


def give_up(sequence):
    """End a sequence that the server may not have, or not have any more."""
    try:
        sequence.end()
    except InferenceServerException as error:
        assert any(word in str(error) for word in NEWS), error


def soak(repository, seconds, seed=0):
    """Sets the models up, and soaks a server of theirs."""
    artifact = models.export(fixtures.tiny_checkpoint(CHECKPOINT), "gemma3-soak", **OPTIONS)
    repository.add(artifact, MODEL).set_idle(int(IDLE * 1e6))
    generation.add(repository, artifact, STREAMED)
    examples.add(repository, "reference_sequence", OTHER)
    server = Server(repository)
    try:
        for model in (MODEL, STREAMED, OTHER):
            server.load(model)
        found = Soak(server, seconds, seed).run()
        assert server.process.poll() is None and server.live(), "the server has ended"
    finally:
        status = server.stop()
    found.status = status
    return found


def main():
    parser = argparse.ArgumentParser(prog="soak.sh")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    repository = models.Repository()
    try:
        found = soak(repository, options.minutes * 60, options.seed)
    finally:
        repository.remove()
    print("\n".join(found.lines()))
    print(json.dumps({"resident": [[round(s), n // MIB] for s, n in found.resident[::60]]}))
    found.check()


if __name__ == "__main__":
    main()
