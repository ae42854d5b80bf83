"""Functions served as they are: values, element types, shapes, memory (T1 to T9, T13 to T16)."""

import json
import uuid
from functools import partial

import numpy as np
import pytest
from harness import examples
from harness.server import wait_until
from harness.tensors import connected
from ml_dtypes import bfloat16
from tritonclient.utils import InferenceServerException

MODELS = (
    "matmul_sumsq",
    "dtypes",
    "dtypes_small",
    "integers",
    "int64_bool",
    "buckets",
    "grad_batched",
    "grad_unbatched",
    "large_io",
    "large_io_host",
)
A = np.array([[1, 2], [3, 4]], np.float32)
# Closed forms: the sum of A A, and J A^T + A^T J where J is all ones.
VALUE = np.array([54], np.float32)
GRAD = np.array([[7, 11], [9, 13]], np.float32)


@pytest.fixture(scope="module", autouse=True)
def loaded(repository, server):
    for name in MODELS:
        examples.add(repository, name)
        server.load(name)


def assert_same(found, expected):
    """Equal to the bit, of one type and shape."""
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    # Compared before the assertion, which explains megabytes element by element.
    same = found.tobytes() == expected.tobytes()
    assert same, f"{found} is not {expected}"


def assert_differs(found, expected):
    """The control of `assert_same`."""
    wrong = expected.copy()
    wrong.flat[-1] += 1
    with pytest.raises(AssertionError):
        assert_same(found, wrong)


def gradient(rows):
    """J A^T + A^T J of each row."""
    sums = rows.sum(axis=2)[:, None, :] + rows.sum(axis=1)[:, :, None]
    return sums.astype(np.float32)


def test_t1_json(server):
    request = {
        "inputs": [{"name": "A", "shape": [2, 2], "datatype": "FP32", "data": A.ravel().tolist()}]
    }
    status, text = server.request("POST", "/v2/models/matmul_sumsq/infer", json.dumps(request))
    assert status == 200, text
    outputs = {output["name"]: output for output in json.loads(text)["outputs"]}
    assert outputs["VALUE"]["shape"] == [1] and outputs["VALUE"]["data"] == [54]
    assert outputs["GRAD"]["shape"] == [2, 2] and outputs["GRAD"]["data"] == [7, 11, 9, 13]
    assert {output["datatype"] for output in outputs.values()} == {"FP32"}


def test_t2_binary(client):
    outputs = client.infer("matmul_sumsq", {"A": A})
    assert_same(outputs["VALUE"], VALUE)
    assert_same(outputs["GRAD"], GRAD)
    assert_differs(outputs["GRAD"], GRAD)


def test_t3_another_type(server, client):
    with pytest.raises(InferenceServerException, match="FP64") as error:
        client.infer("matmul_sumsq", {"A": A.astype(np.float64)})
    assert error.value.status() in ("400", "StatusCode.INVALID_ARGUMENT")
    assert server.live()


def test_t4_another_shape(client):
    with pytest.raises(InferenceServerException, match="unexpected shape"):
        client.infer("matmul_sumsq", {"A": np.ones((3, 3), np.float32)})


def dtypes_inputs():
    floats = [1, 2, -0.5, 3]
    return {
        "X_F64": np.array(floats, np.float64),
        "X_BF16": np.array(floats, bfloat16),
        "X_I32": np.array([1, 2, -5, 30000], np.int32),
    }


def test_t5_element_types(client):
    outputs = client.infer("dtypes", dtypes_inputs())
    assert_same(outputs["Y_F64"], np.array([2, 6, -0.25, 12], np.float64))
    assert_same(outputs["Y_BF16"], np.array([2, 6, -0.25, 12], bfloat16))
    assert_same(outputs["Y_I32"], np.array([2, 6, 20, 900030000], np.int32))
    assert_differs(outputs["Y_I32"], np.array([2, 6, 20, 900030000], np.int32))


def test_t5_bfloat16_is_rounded_after_each_operation(client):
    x = np.array([1.0078125, 0.1, 3.14159, 100.5], bfloat16)
    outputs = client.infer("dtypes", dtypes_inputs() | {"X_BF16": x})
    assert_same(outputs["Y_BF16"], x * x + x)
    # Control: rounded once, at the end, another number comes out.
    wide = x.astype(np.float32)
    with pytest.raises(AssertionError):
        assert_same(outputs["Y_BF16"], (wide * wide + wide).astype(bfloat16))


def test_t6_one_output_of_three(client):
    outputs = client.infer("dtypes", dtypes_inputs(), ["Y_I32"])
    assert set(outputs) == {"Y_I32"}
    assert_same(outputs["Y_I32"], np.array([2, 6, 20, 900030000], np.int32))
    assert set(client.infer("dtypes", dtypes_inputs())) == {"Y_F64", "Y_BF16", "Y_I32"}


def test_t7_integers_and_booleans(client):
    x = np.array([1, 2, -5, 3_000_000_000], np.int64)
    b = np.array([True, True, False, True])
    outputs = client.infer("int64_bool", {"X": x, "B": b})
    assert_same(outputs["Y"], np.array([2, 6, 20, 9_000_000_003_000_000_000], np.int64))
    assert_same(outputs["ABOVE_AND_B"], np.array([False, True, False, True]))
    assert_same(outputs["NOT_B"], np.array([False, False, True, False]))
    assert_differs(outputs["Y"], np.array([2, 6, 20, 9_000_000_003_000_000_000], np.int64))


def test_t8_small_element_types(client):
    inputs = {
        "X_F16": np.array([1, 2, -0.5, 3], np.float16),
        "X_I8": np.array([1, 2, -5, 10], np.int8),
        "X_U8": np.array([1, 2, 5, 15], np.uint8),
    }
    outputs = client.infer("dtypes_small", inputs)
    assert_same(outputs["Y_F16"], np.array([2, 6, -0.25, 12], np.float16))
    assert_same(outputs["Y_I8"], np.array([2, 6, 20, 110], np.int8))
    assert_same(outputs["Y_U8"], np.array([2, 6, 30, 240], np.uint8))
    assert_differs(outputs["Y_U8"], np.array([2, 6, 30, 240], np.uint8))


def test_the_other_integers(client):
    values = {
        "I16": np.array([1, -2, 100, -181], np.int16),
        "U16": np.array([1, 2, 100, 255], np.uint16),
        "U32": np.array([1, 2, 100, 65535], np.uint32),
        "U64": np.array([1, 2, 100, 2**32 - 1], np.uint64),
    }
    outputs = client.infer("integers", {f"X_{name}": x for name, x in values.items()})
    for name, x in values.items():
        assert_same(outputs[f"Y_{name}"], x * x + x)
    assert outputs["Y_U64"][3] == (2**32 - 1) * 2**32


@pytest.mark.parametrize("model", ["grad_batched", "grad_unbatched"])
def test_t9_rows_of_one_request(client, model):
    rows = np.arange(32, dtype=np.float32).reshape(8, 2, 2) - 7
    assert_same(client.infer(model, {"A": rows})["GRAD"], gradient(rows))
    # Three rows run in a program for four.
    outputs = client.infer(model, {"A": rows[:3]})
    assert_same(outputs["GRAD"], gradient(rows[:3]))
    assert_differs(outputs["GRAD"], gradient(rows[:3]))


def test_t16_lengths(server, client):
    for length in (4, 8):
        x = np.arange(length, dtype=np.float32) - 1.5
        assert_same(client.infer("buckets", {"X": x})["Y"], x * x + x)
    with pytest.raises(InferenceServerException) as error:
        client.infer("buckets", {"X": np.ones(5, np.float32)})
    message = error.value.message()
    assert "model 'buckets': no compiled artifact takes input shapes ([5])" in message
    assert "([4]), ([8])" in message
    assert server.live()


# Memory.

LARGE = (np.arange(4_194_304) % 1024).astype(np.float32) * 0.5 - 256


class SharedMemory:
    """Regions of system shared memory, registered with a server."""

    def __init__(self, client):
        from tritonclient.utils import shared_memory

        self._client = client.raw
        self._shared_memory = shared_memory
        self._regions = {}

    def region(self, name, size):
        key = f"/tlaloc-{uuid.uuid4().hex}"
        handle = self._shared_memory.create_shared_memory_region(name, key, size)
        self._regions[name] = handle
        self._client.register_system_shared_memory(name, key, size)
        return handle

    def write(self, name, array, offset=0):
        self._shared_memory.set_shared_memory_region(self._regions[name], [array], offset)

    def read(self, name, dtype, shape, offset=0):
        region = self._regions[name]
        return self._shared_memory.get_contents_as_numpy(region, dtype, shape, offset).copy()

    def __enter__(self):
        return self

    def _unregistered(self, name):
        """A request is released, and its regions with it, just after its answer went out."""
        try:
            self._client.unregister_system_shared_memory(name)
        except InferenceServerException as error:
            if "currently in use" not in str(error):
                raise
            return False
        return True

    def __exit__(self, *_):
        for name, handle in self._regions.items():
            wait_until(partial(self._unregistered, name), 10, f"region {name} to be free")
            self._shared_memory.destroy_shared_memory_region(handle)


def infer_shared(client, model, size, offset=0):
    """x through one region of shared memory, y through another."""
    x = client.triton.InferInput("X", [size // 4], "FP32")
    x.set_shared_memory("x", size, offset)
    y = client.triton.InferRequestedOutput("Y")
    y.set_shared_memory("y", size, offset)
    client.raw.infer(model, [x], outputs=[y])


def test_t13_shared_memory(client, model="large_io"):
    with SharedMemory(client) as memory:
        memory.region("x", LARGE.nbytes)
        memory.region("y", LARGE.nbytes)
        memory.write("x", LARGE)
        infer_shared(client, model, LARGE.nbytes)
        y = memory.read("y", np.float32, LARGE.shape)
        assert_same(y, LARGE * LARGE + LARGE)
        assert_differs(y, LARGE * LARGE + LARGE)
        assert_same(memory.read("x", np.float32, LARGE.shape), LARGE)


def test_t14_without_shared_memory(client):
    assert_same(client.infer("large_io", {"X": LARGE})["Y"], LARGE * LARGE + LARGE)


@pytest.mark.parametrize("model", ["large_io", "large_io_host"])
def test_an_output_over_its_input(server, model):
    with connected(server, "grpc") as client, SharedMemory(client) as memory:
        memory.region("x", LARGE.nbytes)
        memory.write("x", LARGE)
        x = client.triton.InferInput("X", LARGE.shape, "FP32")
        x.set_shared_memory("x", LARGE.nbytes)
        y = client.triton.InferRequestedOutput("Y")
        y.set_shared_memory("x", LARGE.nbytes)
        client.raw.infer(model, [x], outputs=[y])
        assert_same(memory.read("x", np.float32, LARGE.shape), LARGE * LARGE + LARGE)


def test_unaligned_shared_memory_is_copied(server, client):
    x = LARGE[:8]
    with SharedMemory(client) as memory:
        memory.region("x", 256)
        memory.region("y", 256)
        memory.write("x", x, 20)
        infer_shared(client, "buckets", x.nbytes, 20)
        assert_same(memory.read("y", np.float32, x.shape, 20), x * x + x)
    server.log.expect(
        "model 'buckets': input 'X' is in host memory and is copied: it is not aligned to 64 bytes"
    )


def test_t15_the_log_tells_the_way(server):
    """CPU wording; verification.md has the GPU's."""
    with connected(server, "grpc") as client:
        test_t13_shared_memory(client, "large_io")
        test_t13_shared_memory(client, "large_io_host")
    read = r"model '%s': input 'X' is read in place from host memory \(no host copy\)"
    copied = r"model '%s': input 'X' is in host memory and is copied: zero_copy is false"
    written = r"model '%s': output 'Y' is written in place into host memory \(no host copy\)"
    fetched = r"model '%s': output 'Y' is copied from device memory into host memory"
    told = (read % "large_io", written % "large_io")
    for line in (*told, copied % "large_io_host", fetched % "large_io_host"):
        assert len(server.log.expect(line)) == 1, line
    for absent in (read % "large_io_host", written % "large_io_host", copied % "large_io"):
        assert not server.log.find(absent), absent


def test_an_output_that_does_not_fit_is_refused(server, client):
    with SharedMemory(client) as memory:
        memory.region("x", 32)
        memory.region("y", 32)
        memory.write("x", LARGE[:8])
        x = client.triton.InferInput("X", [8], "FP32")
        x.set_shared_memory("x", 32)
        y = client.triton.InferRequestedOutput("Y")
        y.set_shared_memory("y", 28)
        with pytest.raises(InferenceServerException, match="model 'buckets': "):
            client.raw.infer("buckets", [x], outputs=[y])
    x = LARGE[:4]
    assert_same(client.infer("buckets", {"X": x})["Y"], x * x + x)
