"""The contestant that is a real server, seen from a client over gRPC."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from statistics import mean, median

from serving import Server
from tlaloc_client.sequence import Client

from . import series

# Tokens of a prompt, which decode steps follow.
POSITION = series.CONTEXT - series.BEFORE_THE_END


class Served:
    """A server of one model. Clients ask for NEXT_TOKEN only."""

    def __init__(
        self, serve, repository, log, steps, batches, model="bench", who="", environment=None
    ):
        """`who` begins the series' names; `environment` comes on top of the server's."""
        self._steps, self.batches = steps, batches
        self._model, self._who = model, who
        # Sent so far.
        self._requests = 0
        self.server = Server(serve, repository, log, environment=environment)

    def __enter__(self):
        self.server.__enter__()
        return self

    def __exit__(self, *_):
        self.server.__exit__()

    @property
    def pids(self):
        return self.server.pids

    def measure(self):
        for count in self.batches:
            for name, value in self._measure(count):
                yield self._who + name, value

    def _measure(self, count):
        times, counters = self.decode(count, self._steps)
        name = series.decode("server compute", count)
        yield series.decode("client", count), median(times)
        share = counters.executions(count) * count / counters.requests
        if share > 0:
            compute = counters.compute(count)
            yield f"{name}, mean", compute
            yield f"requests of decode b{count} in batches of {count} (%)", 100 * share
            # Where many ran in smaller batches, which take less time, it would tell nothing.
            if (above := mean(times) - compute) > 0:
                yield series.decode("client above server compute", count) + ", mean", above
        if count == 1:
            yield series.decode("server queue and input", count) + ", mean", counters.before

    def ids(self, prompt, count):
        """Greedy ids after a prompt."""
        with Client(self.server.grpc_url) as client, client.sequence(self._model) as sequence:
            ids = [sequence.next_token(prompt)]
            while len(ids) < count:
                ids.append(sequence.next_token(ids[-1:]))
        self._statistics(count + 1)
        return ids

    def decode(self, count, steps):
        """`steps` of `count` sequences side by side, each at its own client's pace.

        Returns every request's time as its client saw it, and what the server
        counted meanwhile.
        """
        readings = []
        prompted = threading.Barrier(count, lambda: readings.append(self._statistics(count)))
        stepped = threading.Barrier(count, lambda: readings.append(self._statistics(count * steps)))

        def work(number):
            times = []
            prompt = [(7 * number + token) % 97 for token in range(POSITION)]
            with Client(self.server.grpc_url) as client, client.sequence(self._model) as sequence:
                try:
                    token = sequence.next_token(prompt)
                    prompted.wait()
                    for _ in range(steps):
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
            model = self.server.control.get_inference_statistics(self._model).model_stats[0]
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
