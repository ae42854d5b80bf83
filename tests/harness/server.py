"""A real tritonserver process with our backend."""

import http.client
import json
import os
import re
import signal
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tlaloc_client.ports import free_ports
from tlaloc_client.sequence import Client

from . import environment
from .metrics import Metrics

STOP_TIMEOUT = 60


class LoadError(Exception):
    """The server refused to load a model; `status` is that of HTTP."""

    def __init__(self, status, message):
        super().__init__(f"{status}: {message}")
        self.status = status
        self.message = message


class Server:
    """Serves a repository with explicit model control until `stop`."""

    # Those whose log a failing test wants to see.
    running = []

    def __init__(
        self, repository, *arguments, script=environment.SCRIPTS / "serve.sh", settings=None
    ):
        """`script` and all of its environment, `settings`, are those of this tree unless given."""
        handle, path = tempfile.mkstemp(prefix="tritonserver-", suffix=".log")
        os.close(handle)
        self.log = Log(Path(path))
        self.http_port, self.grpc_port, self._metrics_port = free_ports(3)
        command = [
            script,
            *("--repository", repository.path),
            *("--http-port", str(self.http_port)),
            *("--grpc-port", str(self.grpc_port)),
            *("--metrics-port", str(self._metrics_port)),
            *("--", "--model-control-mode", "explicit", "--exit-timeout-secs", "10", *arguments),
        ]
        if settings is None:
            settings = {
                **os.environ,
                **environment.variables(),
                "TLALOC_BACKEND_DIR": str(environment.backend_directory()),
            }
        with open(self.log.path, "wb") as output:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=settings
            )
        Server.running.append(self)
        try:
            wait_until(self._ready, 60, "the server to become ready")
        except BaseException:
            self.process.kill()
            raise

    def _ready(self):
        if self.process.poll() is not None:
            raise AssertionError(
                f"the server exited with {self.process.returncode}\n{self.log.tail()}"
            )
        return self.get("/v2/health/ready") == 200

    # Control over HTTP.

    def request(self, method, path, body=None):
        """(status, body) of one HTTP request."""
        connection = http.client.HTTPConnection("127.0.0.1", self.http_port, timeout=600)
        try:
            connection.request(method, path, body)
            response = connection.getresponse()
            return response.status, response.read().decode(errors="replace")
        finally:
            connection.close()

    def get(self, path):
        """The status of a GET, 0 when nothing listens yet."""
        try:
            return self.request("GET", path)[0]
        except OSError:
            return 0

    def live(self):
        return self.get("/v2/health/live") == 200

    def load(self, model, config=None):
        """Load a model, with `config` (a dict) in place of its config.pbtxt if given."""
        body = {"parameters": {"config": json.dumps(config)}} if config is not None else {}
        status, text = self.request("POST", f"/v2/repository/models/{model}/load", json.dumps(body))
        if status != 200:
            raise LoadError(status, text)

    def unload(self, model):
        """Unload a model and wait until it is gone."""
        status, text = self.request("POST", f"/v2/repository/models/{model}/unload", "{}")
        assert status == 200, text

        def gone():
            index = json.loads(self.request("POST", "/v2/repository/index", "{}")[1])
            states = {entry["name"]: entry.get("state") for entry in index}
            return states.get(model) in (None, "UNAVAILABLE")

        wait_until(gone, 60, f"model {model} to unload")

    def config(self, model):
        status, text = self.request("GET", f"/v2/models/{model}/config")
        assert status == 200, text
        return json.loads(text)

    def statistics(self, model):
        """The model's counters while nothing is asked of it.

        A request is counted just after its answer went out: wait for the counters to rest.
        """
        counters, earlier = self._counters(model), None
        while counters != earlier:
            time.sleep(0.05)
            counters, earlier = self._counters(model), counters
        return counters

    def _counters(self, model):
        status, text = self.request("GET", f"/v2/models/{model}/stats")
        assert status == 200, text
        stats = json.loads(text)["model_stats"][0]
        times = stats["inference_stats"]
        return Statistics(
            stats["inference_count"],
            stats["execution_count"],
            times["queue"]["ns"],
            times["compute_input"]["ns"],
        )

    def metrics(self):
        """What the metrics port shows now."""
        connection = http.client.HTTPConnection("127.0.0.1", self._metrics_port, timeout=60)
        try:
            connection.request("GET", "/metrics")
            response = connection.getresponse()
            assert response.status == 200
            return Metrics(response.read().decode())
        finally:
            connection.close()

    # Inference.

    def client(self, protocol="grpc"):
        port = self.grpc_port if protocol == "grpc" else self.http_port
        return Client(f"127.0.0.1:{port}", protocol)

    # The process.

    def resident_bytes(self):
        return self._status("VmRSS") * 1024

    def private_bytes(self):
        """What is resident and not a file's."""
        return self._status("RssAnon") * 1024

    def threads(self):
        return self._status("Threads")

    def mapped_files(self, part):
        """How often each file whose path has this part is mapped from its start."""
        counts = {}
        for line in Path(f"/proc/{self.process.pid}/maps").read_text().splitlines():
            _, _, offset, _, _, *path = line.split(maxsplit=5)
            if path and part in path[0] and int(offset, 16) == 0:
                counts[path[0]] = counts.get(path[0], 0) + 1
        return counts

    def _status(self, field):
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(rf"^{field}:\s+(\d+)", text, re.MULTILINE)[1])

    def stop(self):
        """SIGTERM; the exit status, which is 0 when no sequence was open."""
        if self in Server.running:
            Server.running.remove(self)
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError(
                f"no exit {STOP_TIMEOUT} s after SIGTERM\n{self.log.tail()}"
            ) from None


@contextmanager
def running(repository, *arguments, **options):
    """A server that must have survived its tests and must stop with status 0."""
    server = Server(repository, *arguments, **options)
    try:
        yield server
        status = server.process.poll()
        assert status is None, f"the server exited with {status} during the tests"
        assert server.live(), "the server is not live after the tests"
    finally:
        status = server.stop()
    assert status == 0, f"the server exited with {status}\n{server.log.tail()}"
    server.log.path.unlink()


class Statistics(NamedTuple):
    """Counters of a model since it was loaded; times in nanoseconds. `after - before` works."""

    inferences: int
    executions: int
    queue: int
    input: int

    def __sub__(self, earlier):
        return Statistics(*(now - then for now, then in zip(self, earlier)))


class Log:
    """The server's log so far."""

    def __init__(self, path):
        self.path = path

    def text(self, since=0):
        with open(self.path, "rb") as file:
            file.seek(since)
            return file.read().decode(errors="replace")

    def mark(self):
        """A position for `since`: what is logged from here on."""
        return self.path.stat().st_size

    def find(self, pattern, since=0):
        """All matches of a regular expression, as `re.findall`."""
        return re.findall(pattern, self.text(since))

    def expect(self, pattern, since=0, timeout=10):
        """Wait until the expression matches; the log is written behind the answers."""
        wait_until(lambda: self.find(pattern, since), timeout, f"{pattern!r} in {self.path}")
        return self.find(pattern, since)

    def tail(self, lines=60):
        return "\n".join(self.text().splitlines()[-lines:])


def wait_until(condition, timeout, what):
    """Poll until the condition holds; an assertion fails after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"waited {timeout} s for {what}"
        time.sleep(0.02)
