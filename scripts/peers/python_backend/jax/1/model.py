"""The JAX program of jax_llama.py as a model of Triton's Python backend.

Each sequence has a slot of the KV pools from its START to its END.
"""

import os
import sys
from pathlib import Path

# The interpreter inside the backend ignores PYTHONPATH.
sys.path[:0] = [str(Path(__file__).resolve().parents[3]), os.environ["PEERS_PACKAGES"]]

import jax_llama  # noqa: E402
import numpy as np  # noqa: E402
import triton_python_backend_utils as pb_utils  # noqa: E402

SLOTS = 8


# Tensors cross by DLPack: the backend's own conversion reads numpy 1's structures, and JAX wants
# numpy 2.
def read(request, name):
    return np.from_dlpack(pb_utils.get_input_tensor_by_name(request, name)).ravel()


class TritonPythonModel:
    def initialize(self, args):
        checkpoint, plugin = (
            os.environ[name] for name in ("TLALOC_SMOLLM2", "TLALOC_PJRT_PLUGIN_PATH")
        )
        # The layouts that JAX is fastest with, as measured without a server.
        alone, together = jax_llama.load(checkpoint, plugin, "out_in", "in_out")
        self._sequences = jax_llama.Sequences(alone, together, SLOTS)
        self._sequences.warm_up()
        self._slots = {}
        self._free = list(range(SLOTS))

    def execute(self, requests):
        answers, steps = {}, {}
        for index, request in enumerate(requests):
            tokens, sequence = read(request, "TOKENS"), int(read(request, "CORRID")[0])
            if read(request, "START")[0]:
                slot = self._slots[sequence] = self._free.pop()
                answers[index] = self._sequences.start(slot, tokens)
            elif len(tokens):
                steps[self._slots[sequence]] = (index, int(tokens[0]))
        if steps:
            ids = self._sequences.step({slot: token for slot, (_, token) in steps.items()})
            answers.update((steps[slot][0], token) for slot, token in ids.items())
        return [self._respond(request, answers.get(n, -1)) for n, request in enumerate(requests)]

    def _respond(self, request, token):
        if read(request, "END")[0]:
            self._free.append(self._slots.pop(int(read(request, "CORRID")[0])))
        answer = pb_utils.Tensor.from_dlpack("NEXT_TOKEN", np.array([[token]], "int32"))
        return pb_utils.InferenceResponse([answer])
