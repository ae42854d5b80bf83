"""Artifacts of the original exporter, served as they are but for their instance groups."""

import json

import numpy as np
import pytest
from harness import environment
from harness.tensors import PROTOCOLS, connected

FOLDER = environment.UPSTREAM / "model_repository"
REFERENCE = environment.UPSTREAM / "reference"

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason=f"there are no artifacts at {FOLDER}")


def serve(repository, server, name):
    model = repository.copy(FOLDER / name, name)
    model.substitute(r"instance_group.*", "instance_group [ { kind: KIND_MODEL count: 1 } ]")
    server.load(name)


def tensors(recorded):
    return {
        name: np.array(tensor["data"], np.float32).reshape(tensor["shape"] or [1])
        for name, tensor in recorded.items()
    }


@pytest.fixture(scope="module", params=["matmul_sumsq", "grad_batched"])
def recorded(repository, server, request):
    serve(repository, server, request.param)
    text = (REFERENCE / f"{request.param}.json").read_text(encoding="utf-8")
    return request.param, json.loads(text)


def assert_same(outputs, expected):
    assert set(outputs) == set(expected)
    for name, array in expected.items():
        assert outputs[name].shape == array.shape
        assert outputs[name].tobytes() == array.tobytes(), name


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_reference_values(server, recorded, protocol):
    name, values = recorded
    with connected(server, protocol) as client:
        outputs = client.infer(name, tensors(values["inputs"]))
    expected = tensors(values["outputs"])
    assert_same(outputs, expected)
    # Control: one changed number is seen.
    expected["GRAD"].flat[3] += 1
    with pytest.raises(AssertionError):
        assert_same(outputs, expected)


X = np.array([1, 2, -0.5, 3])
OTHERS = {
    "buckets": {"X": np.array([1, 2, -0.5, 3, 4, -4, 7, 0], np.float32)},
    "dtypes": {"X_F64": X, "X_BF16": None, "X_I32": np.array([1, 2, -5, 30000], np.int32)},
    "dtypes_small": {
        "X_F16": X.astype(np.float16),
        "X_I8": np.array([1, 2, -5, 10], np.int8),
        "X_U8": np.array([1, 2, 5, 15], np.uint8),
    },
    "grad_unbatched": None,
    "large_io": {"X": (np.arange(4_194_304) % 1024).astype(np.float32)},
    "ragged_batched": {"X": np.arange(24, dtype=np.float32).reshape(3, 8)},
    "ragged_consecutive": {"X": np.arange(8, dtype=np.float32).reshape(2, 4)},
}


@pytest.mark.parametrize("name", OTHERS)
def test_squares(repository, server, name):
    """x x + x of every style and element type; the numbers are exact."""
    from ml_dtypes import bfloat16

    serve(repository, server, name)
    if OTHERS[name] is None:
        return
    inputs = {
        key: X.astype(bfloat16) if array is None else array for key, array in OTHERS[name].items()
    }
    with connected(server, "grpc") as client:
        outputs = client.infer(name, inputs)
    assert_same(outputs, {key.replace("X", "Y"): x * x + x for key, x in inputs.items()})


def test_integers_and_truth_values(repository, server):
    serve(repository, server, "int64_bool")
    x, b = np.array([1, 2, -5, 3_000_000_000]), np.array([True, True, False, True])
    with connected(server, "http") as client:
        outputs = client.infer("int64_bool", {"X": x, "B": b})
    expected = {"Y": x * x + x, "ABOVE_AND_B": (x * x > x) & b, "NOT_B": ~b}
    assert_same(outputs, expected)
