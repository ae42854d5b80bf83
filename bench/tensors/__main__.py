"""Measure tensor mode through a real server and print two tables.

    python -m tensors WORK --serve SERVE_SH --bench TLALOC_BENCH --rounds N --log FILE

WORK is a new folder for the models.
"""

import argparse
import json
import signal
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path
from statistics import median

import numpy as np
import tritonclient.grpc as grpc
import tritonclient.http as http
from serving import Server
from tritonclient.utils import InferenceServerException, shared_memory

from . import models

REQUESTS, THREADS = 512, 32


def bare(bench, file, *options):
    """Milliseconds of a call without a server."""
    command = [bench, "function", str(file), "--json", *options]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return json.loads(output.stdout)["milliseconds"]["median"]


X = (np.arange(models.LARGE) % 1024).astype(np.float32) * 0.5 - 256


class Shared:
    """4 Mi values in and out through system shared memory."""

    name = "system shared memory (gRPC)"

    def __init__(self, server):
        self._client = server.client(grpc)
        self._regions = {}
        for name in ("x", "y"):
            key = f"/tlaloc-{uuid.uuid4().hex}"
            self._regions[name] = shared_memory.create_shared_memory_region(name, key, X.nbytes)
            self._client.register_system_shared_memory(name, key, X.nbytes)
        shared_memory.set_shared_memory_region(self._regions["x"], [X])
        self._input = grpc.InferInput("X", X.shape, "FP32")
        self._input.set_shared_memory("x", X.nbytes)
        self._output = grpc.InferRequestedOutput("Y")
        self._output.set_shared_memory("y", X.nbytes)

    def send(self, model):
        self._client.infer(model, [self._input], outputs=[self._output])

    def answer(self):
        return shared_memory.get_contents_as_numpy(self._regions["y"], np.float32, X.shape)

    def close(self):
        self._client.unregister_system_shared_memory()
        for region in self._regions.values():
            shared_memory.destroy_shared_memory_region(region)


class Bytes:
    """The same in the messages themselves."""

    def __init__(self, server, protocol, name):
        self.name = name
        self._protocol = protocol
        self._client = server.client(protocol)
        self._answer = None

    def send(self, model):
        tensor = self._protocol.InferInput("X", X.shape, "FP32")
        tensor.set_data_from_numpy(X)
        self._answer = self._client.infer(model, [tensor]).as_numpy("Y")

    def answer(self):
        return self._answer

    def close(self):
        self._client.close()


def large_tensors(server, bench, file, rounds, calls=20):
    """Rows of the first table, medians of all rounds."""
    ways = [Shared(server), Bytes(server, grpc, "gRPC bytes"), Bytes(server, http, "HTTP bytes")]
    series = {}
    sent = dict.fromkeys(("large", "large_host"), 0)

    def add(name, *values):
        for column, value in zip(series.setdefault(name, ([], [])), values):
            column.append(value)

    for _ in range(rounds):
        add("bare execution", bare(bench, file), float("nan"))
        add("bare execution, output placed", bare(bench, file, "--place"), float("nan"))
        for way in ways:
            for model in sent:
                if model == "large_host" and way is not ways[0]:
                    continue
                label = way.name + (", zero_copy false" if model == "large_host" else "")
                busy, trips = [], []
                for call in range(-3, calls):
                    before = server.counters(model, sent[model])[2]
                    started = time.perf_counter()
                    way.send(model)
                    trip = 1e3 * (time.perf_counter() - started)
                    sent[model] += 1
                    if call >= 0:
                        busy.append(server.counters(model, sent[model])[2] - before)
                        trips.append(trip)
                assert (way.answer() == X * X + X).all(), f"{label}: another answer"
                add(label, median(busy), median(trips))
    for way in ways:
        way.close()
    return {name: [median(column) for column in columns] for name, columns in series.items()}


def throughput(server, model, rows, expected, tolerance):
    """Requests a second of one-row requests from threads, and rows of an execution."""
    counters = server.counters(model, 0)
    failures = []
    barrier = threading.Barrier(THREADS + 1)

    def send(first):
        client = server.client(grpc)
        client.is_server_live()
        barrier.wait()
        for index in range(first, REQUESTS, THREADS):
            tensor = grpc.InferInput("A", rows[index : index + 1].shape, "FP32")
            tensor.set_data_from_numpy(rows[index : index + 1])
            try:
                found = client.infer(model, [tensor]).as_numpy("GRAD")[0]
                error = np.abs(found - expected[index]).max() / np.abs(expected[index]).max()
                if not error <= tolerance:
                    failures.append(f"request {index} differs by {error:.1e}")
            except InferenceServerException as error:
                failures.append(str(error))
        client.close()

    threads = [threading.Thread(target=send, args=(first,)) for first in range(THREADS)]
    for thread in threads:
        thread.start()
    barrier.wait()
    started = time.perf_counter()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - started
    if failures:
        raise RuntimeError(f"{model}: {failures[0]} ({len(failures)} of {REQUESTS})")
    after = server.counters(model, counters[0] + REQUESTS)
    return REQUESTS / took, REQUESTS / (after[1] - counters[1])


def gradients(server, rounds):
    """Rows of the second table, medians of all rounds."""
    random = np.random.default_rng(1)
    a = random.normal(size=(REQUESTS, models.VARIABLES)).astype(np.float32)
    likelihood = -np.linalg.solve(models.covariance().astype(np.float64), a.T).T
    small = random.integers(1, 9, (REQUESTS, 2, 2)).astype(np.float32)
    gradient = small.sum(axis=2)[:, None, :] + small.sum(axis=1)[:, :, None]
    cases = {
        f"Gaussian log-likelihood of {models.VARIABLES}": ("likelihood", a, likelihood, 1e-4),
        "sum of A A, 2 x 2": ("gradient", small, gradient, 0),
    }
    table = {}
    for label, (name, *case) in cases.items():
        columns = ([], [], [])
        for _ in range(rounds):
            alone, _ = throughput(server, f"{name}_unbatched", *case)
            batched, rows = throughput(server, f"{name}_batched", *case)
            for column, value in zip(columns, (alone, batched, rows)):
                column.append(value)
        table[label] = [median(column) for column in columns]
    return table


def report(tensors, rates):
    floor = min(tensors["bare execution"][0], tensors["bare execution, output placed"][0])
    yield "| 4 Mi f32 in and out | server, ms | of the faster bare execution | client, ms |"
    yield "|---|---|---|---|"
    for name, (server, client) in tensors.items():
        trip = "" if np.isnan(client) else f"{client:.2f}"
        yield f"| {name} | {server:.2f} | {server / floor:.2f} | {trip} |"
    yield ""
    yield (
        f"| gradient, {REQUESTS} one-row requests of {THREADS} threads | unbatched, requests/s "
        "| batched, requests/s | ratio | rows an execution |"
    )
    yield "|---|---|---|---|---|"
    for label, (alone, batched, rows) in rates.items():
        yield f"| {label} | {alone:.0f} | {batched:.0f} | {batched / alone:.2f} | {rows:.1f} |"


def main():
    parser = argparse.ArgumentParser(prog="tensors", description=__doc__.splitlines()[0])
    parser.add_argument("work", type=Path)
    parser.add_argument("--serve", required=True)
    parser.add_argument("--bench", required=True)
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--log", required=True, help="the server's")
    args = parser.parse_args()
    # An orderly exit, which ends the server.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    repository = args.work
    file = models.large(repository)
    models.large(repository, "large_host", zero_copy="false")
    for batching, suffix in ((True, "batched"), (False, "unbatched")):
        models.likelihood(repository, f"likelihood_{suffix}", batching)
        models.gradient(repository, f"gradient_{suffix}", batching)
    with Server(args.serve, repository, args.log) as server:
        tensors = large_tensors(server, args.bench, file, args.rounds)
        rates = gradients(server, args.rounds)
    print("\n".join(report(tensors, rates)))


if __name__ == "__main__":
    main()
