"""What config.pbtxt leaves out is taken from the artifact, where the server allows for it."""

import numpy as np
import pytest
from harness import environment, examples
from harness.server import LoadError, running
from harness.tensors import connected

A = np.array([[1, 2], [3, 4]], np.float32)
GRAD = [[7, 11], [9, 13]]


def without_tensors(model):
    """Removes inputs and outputs from a configuration."""
    model.substitute(r"(?s)input \[.*?\n?\]\n(?=output)", "")
    model.substitute(r"(?s)output \[.*?\n\]\n", "")


def tensors(config, key):
    return [
        (tensor["name"], tensor["data_type"], list(map(int, tensor["dims"])))
        for tensor in config[key]
    ]


@pytest.fixture(scope="module")
def bare(repository):
    model = examples.add(repository, "matmul_sumsq")
    without_tensors(model)
    return model


def test_inputs_and_outputs(server, bare):
    server.load(bare.name)
    config = server.config(bare.name)
    assert tensors(config, "input") == [("INPUT__0", "TYPE_FP32", [2, 2])]
    assert tensors(config, "output") == [
        ("OUTPUT__0", "TYPE_FP32", [1]),
        ("OUTPUT__1", "TYPE_FP32", [2, 2]),
    ]
    with connected(server, "grpc") as client:
        outputs = client.infer(bare.name, {"INPUT__0": A})
    assert outputs["OUTPUT__0"].tolist() == [54] and outputs["OUTPUT__1"].tolist() == GRAD


def test_names_of_the_bindings_and_batches(repository, server):
    """JAX's function, whose weights are no inputs."""
    for form in ("text", "bytecode"):
        model = repository.copy(environment.FIXTURES / "jax" / f"jax_mlp_{form}", f"jax_mlp_{form}")
        model.substitute(r"input \[.*\n", "")
        model.substitute(r"(?s)output \[.*?\n\]\n", "")
        model.set_parameter("results", "output:PROBABILITIES, output:ENERGY")
        server.load(model.name)
        config = server.config(model.name)
        assert tensors(config, "input") == [("X", "TYPE_FP32", [16])]
        assert tensors(config, "output") == [
            ("PROBABILITIES", "TYPE_FP32", [5]),
            ("ENERGY", "TYPE_FP32", [1]),
        ]
        with connected(server, "http") as client:
            outputs = client.infer(model.name, {"X": np.zeros((3, 16), np.float32)})
        np.testing.assert_allclose(outputs["PROBABILITIES"].sum(axis=1), 1, rtol=1e-6)


def test_a_dimension_that_differs_is_any(repository, server):
    model = examples.add(repository, "buckets")
    model.substitute(r"data_type: TYPE_FP32 dims: \[ -1 \]", "")
    server.load(model.name)
    config = server.config(model.name)
    assert tensors(config, "input") == [("X", "TYPE_FP32", [-1])]
    assert tensors(config, "output") == [("Y", "TYPE_FP32", [-1])]


def test_artifacts_that_do_not_tell_are_refused(repository, server):
    model = examples.add(repository, "dtypes")
    without_tensors(model)
    model.substitute("model.mlir", "nope.mlir")
    with pytest.raises(LoadError, match="nope.mlir: cannot be read"):
        server.load(model.name)


def test_control_a_server_without_completion_refuses(repository, bare):
    with running(repository, "--disable-auto-complete-config") as server:
        with pytest.raises(LoadError, match="has 1 arguments, but config.pbtxt binds 0"):
            server.load(bare.name)
        model = examples.add(repository, "int64_bool")
        server.load(model.name)
