"""A server that is measured."""

import os
import signal
import subprocess
import time
import urllib.request
from pathlib import Path

import tritonclient.grpc as grpc
from tlaloc_client.ports import free_ports
from tritonclient.utils import InferenceServerException


class Server:
    """A server of the repository's models."""

    def __init__(self, serve, repository, log, *arguments, environment=None):
        """`arguments` are tritonserver's; its log goes to the file `log`.

        `environment` comes on top of ours.
        """
        self._ports = free_ports(3)
        names = ("--http-port", "--grpc-port", "--metrics-port")
        ports = [str(word) for pair in zip(names, self._ports) for word in pair]
        with open(log, "wb") as file:
            self._process = subprocess.Popen(
                [serve, "--repository", str(repository), *ports, "--", *arguments],
                stdout=file,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
                # A Ctrl-C must not end it before its clients end.
                start_new_session=True,
            )
        self.log = log
        self.control = self.client(grpc)

    @property
    def grpc_url(self):
        return f"127.0.0.1:{self._ports[1]}"

    @property
    def pids(self):
        """Of the server and what it started."""
        pid = self._process.pid
        children = Path(f"/proc/{pid}/task").glob("*/children")
        return [pid, *(int(child) for file in children for child in file.read_text().split())]

    def client(self, protocol):
        port = self._ports[1 if protocol is grpc else 0]
        return protocol.InferenceServerClient(f"127.0.0.1:{port}")

    def metrics(self):
        """The page of metrics."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._ports[2]}/metrics") as page:
            return page.read().decode()

    def __enter__(self):
        try:
            self._wait_until_ready()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _wait_until_ready(self):
        deadline = time.monotonic() + 600
        while not self._is_ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the server did not become ready; see {self.log}")
            time.sleep(0.1)

    def _is_ready(self):
        try:
            return self.control.is_server_ready()
        except InferenceServerException:
            return False

    def __exit__(self, *_):
        self.control.close()
        self._process.send_signal(signal.SIGTERM)
        self._process.wait()

    def counters(self, model, requests):
        """(requests, executions, milliseconds without the queue) once so many are counted."""
        deadline = time.monotonic() + 10
        while True:
            stats = self.control.get_inference_statistics(model).model_stats[0]
            times = stats.inference_stats
            if times.success.count >= requests:
                busy = times.compute_input.ns + times.compute_infer.ns + times.compute_output.ns
                return times.success.count, stats.execution_count, busy / 1e6
            if time.monotonic() > deadline:
                raise RuntimeError(f"the server counts {times.success.count} of {requests}")
            time.sleep(0.001)
