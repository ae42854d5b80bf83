"""Clients of generation mode: one response or many, over HTTP and gRPC."""

import http.client
import json
import queue
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from . import environment, models

TIMEOUT = 120
# The longest context of `smollm2`.
CONTEXT = 1024


def smollm2():
    """An artifact of SmolLM2 whose prompts run in several calls."""
    return models.export(
        environment.smollm2(),
        "smollm2-generation",
        contexts=[CONTEXT],
        batches=[1, 8],
        prefill_batches=[1],
        prefill_chunk=128,
    )


def add(repository, artifact, name, *arguments, tokenizer=None, **settings):
    """A generation-mode model; `settings` are parameters of its configuration."""
    if tokenizer is not None:
        arguments = ("--tokenizer", tokenizer, *arguments)
    model = repository.add(artifact, name, "--mode", "generate", *arguments)
    for key, value in settings.items():
        model.set_parameter(key, value)
    return model


class Refused(Exception):
    """An error in place of a response; `status` is that of HTTP or gRPC."""

    def __init__(self, status, message):
        super().__init__(f"{status}: {message}")
        self.status = status
        self.message = message


@dataclass
class Reply:
    """The responses to one request, each a dict of outputs."""

    chunks: list = field(default_factory=list)
    # Of gRPC: whether each said that it is the last.
    finals: list = field(default_factory=list)

    @property
    def text(self):
        return "".join(chunk["text_output"] for chunk in self.chunks)

    @property
    def ids(self):
        return [token for chunk in self.chunks for token in chunk["output_ids"]]

    @property
    def last(self):
        return self.chunks[-1]

    @property
    def finish_reason(self):
        """Only the last response has one."""
        assert all("finish_reason" not in chunk for chunk in self.chunks[:-1]), self.chunks
        return self.last["finish_reason"]

    @property
    def tokens(self):
        return sum(chunk["num_output_tokens"] for chunk in self.chunks)


def of_json(outputs):
    """The outputs of a JSON response; HTTP makes a number of a list of one."""
    for name in ("output_ids", "output_log_probs"):
        value = outputs.get(name)
        if value is not None and not isinstance(value, list):
            outputs[name] = [value]
    if "logprobs" in outputs:
        outputs["logprobs"] = json.loads(outputs["logprobs"])
    return outputs


class Http:
    """`/generate` and `/generate_stream` of a model."""

    def __init__(self, server, model):
        self.server = server
        self.path = f"/v2/models/{model}"

    def generate(self, **keys):
        """One response."""
        status, text = self.server.request("POST", f"{self.path}/generate", body(keys))
        if status != 200:
            raise Refused(status, json.loads(text)["error"])
        return Reply([of_json(json.loads(text))])

    def stream(self, **keys):
        """All responses of a stream."""
        with self.opened(stream=True, **keys) as events:
            return Reply(list(events))

    @contextmanager
    def opened(self, **keys):
        """The responses one by one; leaving the context closes the connection."""
        port = self.server.http_port
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)
        try:
            connection.request("POST", f"{self.path}/generate_stream", body(keys))
            response = connection.getresponse()
            if response.status != 200:
                raise Refused(response.status, json.loads(response.read())["error"])
            yield events(response)
        finally:
            connection.close()


def body(keys):
    """JSON of a request. Tensors of BYTES hold text, so JSON in them is text."""
    return json.dumps({name: as_text(name, value) for name, value in keys.items()})


def as_text(name, value):
    holds_json = name in ("messages", "sampling_parameters", "logit_bias")
    return json.dumps(value) if holds_json and not isinstance(value, str) else value


def events(response):
    """Server-sent events."""
    for line in response:
        if line.startswith(b"data:"):
            outputs = json.loads(line[5:])
            if "error" in outputs:
                raise Refused(200, outputs["error"])
            yield of_json(outputs)


# Types of tensors that Python's own do not tell.
UINT64 = ("seed", "priority", "timeout")
STRINGS = ("stop", "stop_words", "bad_words")


def tensor(name, value, batched):
    """An input of a request."""
    value = as_text(name, value)
    values = value if isinstance(value, list) else [value]
    if name in STRINGS or (values and isinstance(values[0], (str, bytes))):
        array, kind = (
            np.array([v.encode() if isinstance(v, str) else v for v in values], object),
            "BYTES",
        )
    elif values and isinstance(values[0], bool):
        array, kind = np.array(values, bool), "BOOL"
    elif values and isinstance(values[0], float):
        array, kind = np.array(values, np.float32), "FP32"
    elif name in UINT64:
        array, kind = np.array(values, np.uint64), "UINT64"
    else:
        array, kind = np.array(values, np.int32), "INT32"
    array = array.reshape([1, -1] if batched else [-1])
    made = triton.InferInput(name, array.shape, kind)
    made.set_data_from_numpy(array)
    return made


class Grpc:
    """A gRPC stream to a model, with any number of requests on it."""

    def __init__(self, server, model, batched=True):
        self.model = model
        self.batched = batched
        self.client = triton.InferenceServerClient(f"127.0.0.1:{server.grpc_port}")
        self.results = {}
        self.requests = 0
        self.client.start_stream(self._take)

    def _take(self, result, error):
        if error is None:
            self.results[result.get_response().id].put(result)
            return
        # The server names no request in an error; streams with errors carry one request.
        for waiting in self.results.values():
            waiting.put(error)

    def send(self, outputs=None, parameters=None, **keys):
        """Sends a request; its id is for `receive`."""
        self.requests += 1
        identity = str(self.requests)
        self.results[identity] = queue.Queue()
        self.client.async_stream_infer(
            self.model,
            [tensor(name, value, self.batched) for name, value in keys.items()],
            request_id=identity,
            outputs=outputs and [triton.InferRequestedOutput(name) for name in outputs],
            parameters=parameters,
        )
        return identity

    def receive(self, identity):
        """The next response: its outputs, and whether it is the last."""
        result = self.results[identity].get(timeout=TIMEOUT)
        if isinstance(result, InferenceServerException):
            raise Refused(result.status(), result.message())
        response = result.get_response()
        final = response.parameters["triton_final_response"].bool_param
        outputs = {output.name: value(result, output) for output in response.outputs}
        return outputs, final

    def finish(self, identity):
        """All responses up to the last."""
        reply, final = Reply(), False
        while not final:
            outputs, final = self.receive(identity)
            reply.chunks.append(outputs)
            reply.finals.append(final)
        return reply

    def run(self, **keys):
        return self.finish(self.send(**keys))

    def close(self, cancel=False):
        self.client.stop_stream(cancel_requests=cancel)
        self.client.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def value(result, output):
    array = result.as_numpy(output.name).reshape(-1)
    if output.datatype == "BYTES":
        text = array[0].decode()  # fails where a character is broken
        return json.loads(text) if output.name == "logprobs" else text
    if output.name in ("output_ids", "output_log_probs"):
        return array.tolist()
    return array[0].item()
