"""The contestant that is a real server, seen from a client over gRPC."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from statistics import mean, median

from serving import Server
from tlaloc_client.sequence import Client

from .contestants import POSITION

MODEL = "bench"


class Served:
    """A server of one model. Clients ask for NEXT_TOKEN only."""

    def __init__(self, serve, repository, log, effort):
        self._steps = effort.steps
        # Sent so far.
        self._requests = 0
        self._server = Server(serve, repository, log)

    def __enter__(self):
        self._server.__enter__()
        return self

    def __exit__(self, *_):
        self._server.__exit__()

    def measure(self):
        for count in (1, 4):
            times, counters = self._decode(count)
            yield f"client decode b{count}", median(times)
            above = mean(times) - counters.compute(count)
            yield f"client above server compute decode b{count}, mean", above
            yield f"server compute decode b{count}, mean", counters.compute(count)
            if count == 1:
                yield f"server queue and input decode b{count}, mean", counters.before
            share = counters.executions(count) * count / counters.requests
            yield f"requests of decode b{count} in batches of {count} (%)", 100 * share

    def _decode(self, count):
        """Steps of `count` sequences side by side, each at its own client's pace.

        Returns every request's time as its client saw it, and what the server
        counted meanwhile.
        """
        readings = []
        prompted = threading.Barrier(count, lambda: readings.append(self._statistics(count)))
        stepped = threading.Barrier(
            count, lambda: readings.append(self._statistics(count * self._steps))
        )

        def work(number):
            times = []
            prompt = [(7 * number + token) % 97 for token in range(POSITION)]
            with Client(self._server.grpc_url) as client, client.sequence(MODEL) as sequence:
                try:
                    token = sequence.next_token(prompt)
                    prompted.wait()
                    for _ in range(self._steps):
                        started = time.perf_counter()
                        token = sequence.next_token([token])
                        times.append(1e3 * (time.perf_counter() - started))
                    stepped.wait()
                except BaseException:
                    prompted.abort()
                    stepped.abort()
                    raise
            return times

        with ThreadPoolExecutor(count) as pool:
            times = [time for times in pool.map(work, range(count)) for time in times]
        self._statistics(count)  # the requests that ended the sequences
        before, after = readings
        return times, after - before

    def _statistics(self, requests):
        """The model's counters after `requests` more requests.

        The server counts a request after it has answered it, and its batch after that.
        """
        self._requests += requests
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            model = self._server.control.get_inference_statistics(MODEL).model_stats[0]
            statistics = Counters.of(model)
            if statistics.batched >= self._requests:
                return statistics
            time.sleep(0.001)
        raise RuntimeError(f"the server counts {statistics.batched} of {self._requests} requests")


class Counters:
    """A model's counters of successful requests, times in milliseconds; `after - before` works."""

    def __init__(self, requests, queue_and_input, batches):
        self.requests = requests
        self._queue_and_input = queue_and_input
        # (executions, milliseconds of compute) by batch size
        self._batches = batches

    @classmethod
    def of(cls, model):
        times = model.inference_stats
        return cls(
            times.success.count,
            (times.queue.ns + times.compute_input.ns) / 1e6,
            {
                batch.batch_size: (batch.compute_infer.count, batch.compute_infer.ns / 1e6)
                for batch in model.batch_stats
            },
        )

    def __sub__(self, earlier):
        return Counters(
            self.requests - earlier.requests,
            self._queue_and_input - earlier._queue_and_input,
            {
                size: tuple(
                    now - then for now, then in zip(new, earlier._batches.get(size, (0, 0)))
                )
                for size, new in self._batches.items()
            },
        )

    @property
    def before(self):
        """Mean time of a request between its arrival and its execution."""
        return self._queue_and_input / self.requests

    @property
    def batched(self):
        """Requests in the batches counted."""
        return sum(size * executions for size, (executions, _) in self._batches.items())

    def executions(self, size):
        """Executions of batches of this size."""
        return self._batches.get(size, (0, 0))[0]

    def compute(self, size):
        """Mean time of an execution of a batch of this size."""
        executions, time = self._batches[size]
        return time / executions
