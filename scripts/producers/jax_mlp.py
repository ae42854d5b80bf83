"""A JAX function as a Triton model: exported for several batches, weights in files of their own.

    python jax_mlp.py OUT --form text|bytecode

Writes OUT/config.pbtxt, OUT/1 and OUT/expected.json, inputs and outputs that JAX
computed. Needs the package jax (scripts/peers/setup.sh jax); docs/tensor-mode.md
goes through it.
"""

import argparse
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

NAME = "jax_mlp"
BATCHES = (1, 2, 4, 8)
INPUTS, HIDDEN, CLASSES = 16, 32, 5


def classify(params, x):
    """Class probabilities [B, CLASSES] and the energy [B, 1] of x [B, INPUTS]."""
    hidden = jnp.tanh(x @ params["hidden_w"] + params["hidden_b"])
    logits = hidden @ params["class_w"] + params["class_b"]
    return jax.nn.softmax(logits), -jax.nn.logsumexp(logits, axis=1, keepdims=True)


def parameters():
    random = np.random.default_rng(0)

    def normal(*shape):
        return (random.normal(size=shape) / 4).astype(np.float32)

    return {
        "hidden_w": normal(INPUTS, HIDDEN),
        "hidden_b": normal(HIDDEN),
        "class_w": normal(HIDDEN, CLASSES),
        "class_b": normal(CLASSES),
    }


def config(form, weights):
    suffix = {"text": "mlir", "bytecode": "mlirbc"}[form]
    artifacts = ", ".join(f"batch{batch}.{suffix}" for batch in BATCHES)
    arguments = ", ".join([*(f"weight:{file}" for file in weights), "input:X"])
    return f"""\
name: "{NAME}_{form}"
backend: "tlaloc"
max_batch_size: {max(BATCHES)}
input [ {{ name: "X" data_type: TYPE_FP32 dims: [ {INPUTS} ] }} ]
output [
  {{ name: "PROBABILITIES" data_type: TYPE_FP32 dims: [ {CLASSES} ] }},
  {{ name: "ENERGY" data_type: TYPE_FP32 dims: [ 1 ] }}
]
dynamic_batching {{ }}
parameters: {{ key: "artifact" value: {{ string_value: "{artifacts}" }} }}
parameters: {{ key: "arguments" value: {{ string_value: "{arguments}" }} }}
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--form", choices=("text", "bytecode"), required=True)
    args = parser.parse_args()
    # Source locations name the file without the machine's folders.
    jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*/")
    version = args.out / "1"
    version.mkdir(parents=True, exist_ok=True)

    params = parameters()
    # The order of a function's arguments: the leaves of its pytrees, one after the other.
    weights = []
    for name in sorted(params):
        weights.append(f"{name}.bin")
        (version / f"{name}.bin").write_bytes(params[name].tobytes())

    for batch in BATCHES:
        x = jax.ShapeDtypeStruct((batch, INPUTS), jnp.float32)
        if args.form == "text":
            text = jax.jit(classify).lower(params, x).as_text()
            (version / f"batch{batch}.mlir").write_text(text)
        else:
            exported = jax.export.export(jax.jit(classify), platforms=["cpu"])(params, x)
            (version / f"batch{batch}.mlirbc").write_bytes(exported.mlir_module_serialized)

    x = np.random.default_rng(1).normal(size=(max(BATCHES), INPUTS)).astype(np.float32)
    probabilities, energy = jax.jit(classify)(params, x)
    tensors = {"X": x, "PROBABILITIES": probabilities, "ENERGY": energy}
    expected = {name: np.asarray(tensor).tolist() for name, tensor in tensors.items()}
    (args.out / "expected.json").write_text(json.dumps(expected) + "\n")
    (args.out / "config.pbtxt").write_text(config(args.form, weights))


if __name__ == "__main__":
    main()
