"""Sequences of a served model: token ids in, outputs of the last token out."""

import secrets

import numpy as np

NEXT_TOKEN = ("NEXT_TOKEN",)


class Client:
    """A connection to a server over `grpc` or `http`.

    One that speaks HTTP stays with the thread that made it.
    """

    def __init__(self, url, protocol="grpc", timeout=120.0):
        if protocol == "grpc":
            import tritonclient.grpc as triton

            self._client = triton.InferenceServerClient(url)
            self._limits = {"client_timeout": timeout}
        else:
            import tritonclient.http as triton

            self._client = triton.InferenceServerClient(
                url, connection_timeout=timeout, network_timeout=timeout
            )
            self._limits = {}
        self._triton = triton

    def connect(self):
        """Open the connection, which otherwise waits for the first request."""
        return self._client.is_server_live()

    def _request(self, tokens, outputs):
        """The input and the outputs of a request."""
        from tritonclient.utils import np_to_triton_dtype

        request = self._triton.InferInput("TOKENS", tokens.shape, np_to_triton_dtype(tokens.dtype))
        request.set_data_from_numpy(tokens)
        return [request], outputs and [self._triton.InferRequestedOutput(name) for name in outputs]

    def infer_later(self, model, tokens, outputs=None, **sequence):
        """One request over gRPC that is not waited for: it can be cancelled (`cancel()`)."""
        request, wanted = self._request(tokens, outputs)
        return self._client.async_infer(
            model, request, lambda result, error: None, outputs=wanted, **sequence, **self._limits
        )

    def infer(self, model, tokens, outputs=None, **sequence):
        """One request. `tokens` is an array of any shape and type, sent as it is.

        Returns the outputs that came back by name: of those asked for, or of
        all when `outputs` is None. Raises `InferenceServerException`.
        """
        request, wanted = self._request(tokens, outputs)
        result = self._client.infer(model, request, outputs=wanted, **sequence, **self._limits)
        names = outputs or ("LOGITS", "NEXT_TOKENS", "KV_PAGES", "NEXT_TOKEN")
        arrays = {name: result.as_numpy(name) for name in names}
        return {name: array for name, array in arrays.items() if array is not None}

    def sequence(self, model, sequence_id=None):
        """A new sequence; without an id it gets a random one."""
        return Sequence(self, model, sequence_id)

    def close(self):
        self._client.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Sequence:
    """One sequence and its KV on the server. As a context manager it ends itself."""

    def __init__(self, client, model, sequence_id=None):
        self.id = sequence_id or secrets.randbelow(2**63 - 1) + 1
        self.open = False
        self._client = client
        self._model = model

    def send(self, tokens, outputs=NEXT_TOKEN, start=None, end=False):
        """Append token ids to the sequence, starting it if it is not open.

        Returns the outputs by name, without their batch axis.
        """
        start = not self.open if start is None else start
        # A refused START is still a live sequence for Triton: it wants an END.
        self.open = True
        result = self._client.infer(
            self._model,
            np.asarray(tokens, dtype=np.int32).reshape(1, -1),
            outputs,
            sequence_id=self.id,
            sequence_start=start,
            sequence_end=end,
        )
        self.open = not end
        return {name: array.reshape(array.shape[1:] or (-1,)) for name, array in result.items()}

    def next_token(self, tokens, end=False):
        """Append token ids; the id that the model finds most likely to follow."""
        return int(self.send(tokens, end=end)["NEXT_TOKEN"].ravel()[0])

    def end(self):
        """Give the KV back. Sends no tokens and gets no outputs."""
        return self.send([], outputs=None, start=False, end=True)

    def __enter__(self):
        return self

    def __exit__(self, exception_type, *_):
        from tritonclient.utils import InferenceServerException

        if not self.open:
            return
        try:
            self.end()
        except InferenceServerException:
            # The server is gone or dropped the sequence. Only news when nothing else failed.
            if exception_type is None:
                raise
