"""Models of every mode behind a plugin that fails on demand, and what is asked of them.

A scenario asks for one thing while a fault is planned, then finds out what became of the
model: it answers with the outcome, a word of `OUTCOMES`, and the text of the error.
"""

import contextlib

import numpy as np
from tritonclient.utils import InferenceServerException

from . import examples, fixtures, models
from .tensors import connected

OUTCOMES = {
    "served": "the answer is right",
    "kept": "refused, and the request can be repeated",
    "advanced": "refused, though the model has taken the request in",
    "freed": "refused, and the sequence is freed",
    "lost": "refused, and every sequence or state of the instance is lost",
}


def asked(request):
    """(answer, error text) of a request."""
    try:
        return request(), None
    except InferenceServerException as error:
        return None, error.message()


class Face:
    """A model of one mode."""

    def __init__(self, name):
        self.name = name

    def scenario(self, server, plan, moment, *fault):
        """(outcome, error text) of a moment of this face under a fault."""
        with contextlib.ExitStack() as stack:
            return getattr(self, moment)(server, plan, stack, *fault)


class SequenceFace(Face):
    """A language model whose pages are just enough for what `serve` asks of it."""

    SHORT, LONG = (fixtures.tiny_oracle("llama")["prompts"][index] for index in (2, 3))
    BLOCK, ANSWERS = 4, 4
    PAGES = -(-(len(LONG["prompt_ids"]) + ANSWERS - 1) // BLOCK)

    @classmethod
    def artifact(cls):
        return models.export(
            fixtures.tiny_checkpoint("llama"),
            "llama-fault-suite",
            contexts=[64],
            batches=[1],
            prefill_chunk=16,
            block_size=cls.BLOCK,
            num_blocks=cls.PAGES + 1,
        )

    def add(self, repository, plugin):
        model = repository.add(self.artifact(), self.name)
        model.set_parameter("pjrt_plugin_path", plugin)
        return model

    def serve(self, server):
        """A sequence that takes every page: right ids show that all were free, and clean."""
        ids = self.LONG["greedy_ids"]
        with server.client() as client, client.sequence(self.name) as sequence:
            found = [sequence.next_token(self.LONG["prompt_ids"])]
            while len(found) < self.ANSWERS:
                found.append(sequence.next_token(found[-1:]))
        assert found == ids[: self.ANSWERS]

    def decode(self, server, plan, stack, *fault):
        """A step of one of two sequences."""
        prompt, ids = self.SHORT["prompt_ids"], self.SHORT["greedy_ids"]
        client = stack.enter_context(server.client())
        one, other = (stack.enter_context(client.sequence(self.name)) for _ in range(2))
        for sequence in (one, other):
            assert sequence.next_token(prompt) == ids[0]
        plan.set(*fault)
        token, text = asked(lambda: one.next_token(ids[:1]))
        report = plan.report()
        plan.set()
        state = self._state(one, ids)
        alone = self._state(other, ids)
        if state == "lost":
            assert alone in ("lost", "kept")
            state = "lost" if alone == "lost" else "freed"
        else:
            assert alone == "kept", f"the neighbour is {alone}"
        if text is None:
            assert token == ids[1] and state == "advanced"
            return "served", None, report
        return state, text, report

    @staticmethod
    def _state(sequence, ids):
        """How a sequence that held its prompt goes on: repeats the step, or goes on behind it."""
        token, text = asked(lambda: sequence.next_token(ids[:1]))
        if text is not None:
            assert "has no KV state" in text, text
            return "lost"
        if token == ids[1]:
            assert sequence.next_token(ids[1:2]) == ids[2]
            return "kept"
        return "advanced"

    def prompt(self, server, plan, stack, *fault):
        """A prompt of three calls."""
        prompt, ids = self.LONG["prompt_ids"], self.LONG["greedy_ids"]
        client = stack.enter_context(server.client())
        sequence = stack.enter_context(client.sequence(self.name))
        plan.set(*fault)
        token, text = asked(lambda: sequence.next_token(prompt))
        report = plan.report()
        plan.set()
        if text is None:
            assert token == ids[0]
            assert sequence.next_token(ids[:1]) == ids[1]
            return "served", None, report
        if "took the KV pools" in text:
            state = "lost"
        else:
            # What has appended nothing can be sent again as it is; two of it are too many.
            token, again = asked(
                lambda: sequence.send(prompt, start=False)["NEXT_TOKEN"].ravel()[0]
            )
            assert again or token == ids[0]
            state = "kept" if not again else "freed" if "has no KV state" in again else "advanced"
        # Whatever became of it, it can be started again.
        assert sequence.send(prompt, start=True)["NEXT_TOKEN"].ravel()[0] == ids[0]
        return state, text, report


class TensorFace(Face):
    """SCALED is W X and TOTAL the sum of them so far: a weight, a state, and an output that is
    written where the client wants it."""

    SIZE = 65536
    WEIGHTS = (np.arange(SIZE) % 7 + 1).astype(np.float32)
    X = (np.arange(SIZE) % 5 + 1).astype(np.float32)
    STEP = WEIGHTS * X

    MODULE = """module @scaled_sum {{
  func.func @main(%x: {t}, %w: {t}, %total: {t}) -> ({t}, {t}, {t}) {{
    %scaled = stablehlo.multiply %x, %w : {t}
    %sum = stablehlo.add %total, %scaled : {t}
    return %scaled, %sum, %sum : {t}, {t}, {t}
  }}
}}
"""
    CONFIG = """name: "{name}"
backend: "tlaloc"
max_batch_size: 0
input [ {{ name: "X" data_type: TYPE_FP32 dims: [ {size} ] }} ]
output [
  {{ name: "SCALED" data_type: TYPE_FP32 dims: [ {size} ] }},
  {{ name: "TOTAL" data_type: TYPE_FP32 dims: [ {size} ] }}
]
instance_group [ {{ kind: KIND_MODEL count: 1 }} ]
parameters: {{ key: "artifact" value: {{ string_value: "model.mlir" }} }}
parameters: {{ key: "arguments" value: {{ string_value: "input:X, weight:w.bin, state:total" }} }}
parameters: {{ key: "results" value: {{ string_value: "output:SCALED,output:TOTAL,state:total" }} }}
"""

    def add(self, repository, plugin):
        model = models.Model(repository.path / self.name)
        model.version.mkdir(parents=True)
        module = self.MODULE.format(t=f"tensor<{self.SIZE}xf32>")
        (model.version / "model.mlir").write_text(module)
        (model.version / "w.bin").write_bytes(self.WEIGHTS.tobytes())
        model.config = self.CONFIG.format(name=self.name, size=self.SIZE)
        model.set_parameter("pjrt_plugin_path", plugin)
        return model

    def _steps(self, client):
        """How many steps the state has taken in, this request's included."""
        outputs = client.infer(self.name, {"X": self.X})
        steps = round(float(outputs["TOTAL"][0] / self.STEP[0]))
        assert (outputs["SCALED"] == self.STEP).all()
        assert (outputs["TOTAL"] == steps * self.STEP).all()
        return steps

    def serve(self, server):
        with connected(server, "grpc") as client:
            first = self._steps(client)
            assert self._steps(client) == first + 1

    def request(self, server, plan, stack, *fault):
        """One more step, after some."""
        client = stack.enter_context(connected(server, "grpc"))
        while (before := self._steps(client)) < 2:
            pass
        plan.set(*fault)
        steps, text = asked(lambda: self._steps(client))
        report = plan.report()
        plan.set()
        if text is None:
            assert steps == before + 1 and self._steps(client) == before + 2
            return "served", None, report
        outcomes = {before + 1: "kept", before + 2: "advanced", 1: "lost"}
        return outcomes[self._steps(client)], text, report


class BoundedFace(Face):
    """The mean of rows."""

    X = np.arange(20, dtype=np.float32).reshape(5, 4)

    def add(self, repository, plugin):
        model = examples.add(repository, "bounded_mean", self.name)
        model.set_parameter("pjrt_plugin_path", plugin)
        return model

    def serve(self, server):
        with connected(server, "grpc") as client:
            self._check(client.infer(self.name, {"x0": self.X}))

    def _check(self, outputs):
        assert np.allclose(outputs["y0"], self.X.mean(axis=0), rtol=1e-6)

    def request(self, server, plan, stack, *fault):
        client = stack.enter_context(connected(server, "grpc"))
        plan.set(*fault)
        answer, text = asked(lambda: client.infer(self.name, {"x0": self.X}))
        report = plan.report()
        plan.set()
        if text is None:
            self._check(answer)
            return "served", None, report
        return "kept", text, report


FACES = {
    "sequence": SequenceFace,
    "copying_sequence": SequenceFace,
    "tensor": TensorFace,
    "copying_tensor": TensorFace,
    "bounded": BoundedFace,
}
FACES = {name: face(name) for name, face in FACES.items()}
