"""Requests to a model in generation mode: a prompt goes in, text comes out as it is made."""

import json
import queue

import numpy as np
from tritonclient.utils import InferenceServerException, triton_to_np_dtype


class Client:
    """A gRPC stream to a server."""

    def __init__(self, url, timeout=120.0):
        import tritonclient.grpc as triton

        self._triton = triton
        self._client = triton.InferenceServerClient(url)
        self._timeout = timeout
        self._inputs = {}
        self._responses = queue.Queue()
        self._waiting = False
        self._client.start_stream(lambda result, error: self._responses.put((result, error)))

    def generate(self, model, **keys):
        """Yield the outputs of each response by name, up to the last.

        `keys` are those of docs/generation.md; the model's metadata tells the
        types and shapes of their tensors, so either dialect will do. Raises
        `InferenceServerException`. Leaving early needs `close`, which cancels.
        """
        declared = self._declared(model)
        tensors = [self._tensor(declared, name, value) for name, value in keys.items()]
        self._client.async_stream_infer(model, tensors)
        self._waiting = True
        while self._waiting:
            result, error = self._responses.get(timeout=self._timeout)
            if error is not None:
                self._waiting = False
                raise error
            response = result.get_response()
            self._waiting = not response.parameters["triton_final_response"].bool_param
            yield {output.name: _value(result, output.name) for output in response.outputs}

    def close(self):
        """Close the stream; the server gives up a request that is still on it.

        One that is done is not cancelled: that can make the server hold the
        model for good.
        """
        self._client.stop_stream(cancel_requests=self._waiting)
        self._client.close()

    def _declared(self, model):
        if model not in self._inputs:
            metadata = self._client.get_model_metadata(model)
            self._inputs[model] = {tensor.name: tensor for tensor in metadata.inputs}
        return self._inputs[model]

    def _tensor(self, declared, name, value):
        if name not in declared:
            raise InferenceServerException(
                f"the model takes no '{name}'; is it served in generation mode?"
            )
        kind, rank = declared[name].datatype, len(declared[name].shape)
        values = value if isinstance(value, list) and name != "messages" else [value]
        if kind == "BYTES":
            texts = [item if isinstance(item, str) else json.dumps(item) for item in values]
            array = np.array([text.encode() for text in texts], dtype=np.object_)
        else:
            array = np.array(values, dtype=triton_to_np_dtype(kind))
        array = array.reshape([1] * (rank - 1) + [-1])
        tensor = self._triton.InferInput(name, array.shape, kind)
        tensor.set_data_from_numpy(array)
        return tensor

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def _value(result, name):
    """A string, a number, or of `output_ids` and the like an array."""
    array = result.as_numpy(name).reshape(-1)
    if array.dtype == np.object_:
        return array[0].decode()
    return array[0].item() if array.size == 1 and not name.startswith("output_") else array
