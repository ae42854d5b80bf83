"""Requests with any tensors, over HTTP or gRPC."""

import importlib
import threading
from contextlib import contextmanager

PROTOCOLS = ("http", "grpc")


class TensorClient:
    """A connection to a server. One that speaks HTTP stays with the thread that made it."""

    def __init__(self, server, protocol):
        self.protocol = protocol
        self.triton = importlib.import_module(f"tritonclient.{protocol}")
        port = server.http_port if protocol == "http" else server.grpc_port
        self.raw = self.triton.InferenceServerClient(f"127.0.0.1:{port}")

    def tensor(self, name, array):
        """An input."""
        from tritonclient.utils import np_to_triton_dtype

        tensor = self.triton.InferInput(name, array.shape, np_to_triton_dtype(array.dtype))
        tensor.set_data_from_numpy(array)
        return tensor

    def infer(self, model, inputs, outputs=None):
        """Arrays by output name, for arrays by input name."""
        given = [self.tensor(name, array) for name, array in inputs.items()]
        wanted = outputs and [self.triton.InferRequestedOutput(name) for name in outputs]
        result = self.raw.infer(model, given, outputs=wanted)
        response = result.get_response()
        if self.protocol == "http":
            names = [output["name"] for output in response.get("outputs", [])]
        else:
            names = [output.name for output in response.outputs]
        return {name: result.as_numpy(name) for name in names}

    def close(self):
        self.raw.close()


@contextmanager
def connected(server, protocol):
    client = TensorClient(server, protocol)
    try:
        yield client
    finally:
        client.close()


def at_once(server, model, requests, protocol="grpc", threads=None):
    """The answers to requests that threads send at the same time, in their order.

    Each of the `threads` (one per request if not given) sends every so many-th
    request over a connection of its own; the first ones go out together.
    """
    threads = threads or len(requests)
    answers = [None] * len(requests)
    barrier = threading.Barrier(threads)

    def send(first):
        with connected(server, protocol) as client:
            client.raw.is_server_live()
            barrier.wait()
            for index in range(first, len(requests), threads):
                try:
                    answers[index] = client.infer(model, requests[index])
                except Exception as error:  # told by the caller's checks
                    answers[index] = error

    workers = [threading.Thread(target=send, args=(first,)) for first in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer
    return answers
