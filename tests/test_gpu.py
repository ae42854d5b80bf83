"""What needs an NVIDIA GPU: tensors in CUDA shared memory, and devices by themselves.

Skipped by name on other machines. These tests have not run on a GPU.
"""

import re
import shutil
import subprocess

import numpy as np
import pytest
from harness import environment, examples
from harness.tensors import connected

EXIT_WITHOUT_GPU = 77


def gpus():
    """Whether the machine lists a GPU."""
    if not shutil.which("nvidia-smi"):
        return False
    return subprocess.run(["nvidia-smi", "-L"], capture_output=True).returncode == 0


needs_gpu = pytest.mark.skipif(not gpus(), reason="no NVIDIA GPU on this machine")

MODELS = ("matmul_sumsq", "large_io", "large_io_host")
LARGE = (np.arange(1 << 22) % 1024 * 0.5 - 256).astype(np.float32)


@pytest.fixture(scope="module")
def client(repository, server):
    for name in MODELS:
        examples.add(repository, name)
        server.load(name)
    with connected(server, "grpc") as client:
        yield client


def infer(client, model, arrays, outputs):
    """Arrays by output name; every tensor is in a CUDA shared memory region of its own."""
    from tritonclient.utils import cuda_shared_memory as cuda
    from tritonclient.utils import np_to_triton_dtype

    regions = {}

    def region(name, byte_size):
        regions[name] = cuda.create_shared_memory_region(name, byte_size, 0)
        handle = cuda.get_raw_handle(regions[name])
        client.raw.register_cuda_shared_memory(name, handle, 0, byte_size)

    client.raw.unregister_cuda_shared_memory()
    try:
        inputs, wanted = [], []
        for name, array in arrays.items():
            region(name, array.nbytes)
            cuda.set_shared_memory_region(regions[name], [array])
            kind = np_to_triton_dtype(array.dtype)
            inputs.append(client.triton.InferInput(name, array.shape, kind))
            inputs[-1].set_shared_memory(name, array.nbytes)
        for name, shape in outputs.items():
            region(name, 4 * int(np.prod(shape)))
            wanted.append(client.triton.InferRequestedOutput(name))
            wanted[-1].set_shared_memory(name, 4 * int(np.prod(shape)))
        client.raw.infer(model, inputs, outputs=wanted)

        def read(name, shape):
            return cuda.get_contents_as_numpy(regions[name], np.float32, list(shape)).copy()

        for name, array in arrays.items():
            np.testing.assert_array_equal(read(name, array.shape), array)
        return {name: read(name, shape) for name, shape in outputs.items()}
    finally:
        client.raw.unregister_cuda_shared_memory()
        for handle in regions.values():
            cuda.destroy_shared_memory_region(handle)


def check(row, actual, expected):
    np.testing.assert_array_equal(actual, expected)
    row.count("values", expected.size)
    wrong = expected.copy()
    wrong.flat[-1] += 1
    with row.control("one value more by 1"):
        np.testing.assert_array_equal(actual, wrong)


@needs_gpu
@pytest.mark.row("T12", "a small model in CUDA shared memory")
def test_t12_small(row, client):
    a = np.array([[1, 2], [3, 4]], np.float32)
    outputs = infer(client, "matmul_sumsq", {"A": a}, {"VALUE": (1,), "GRAD": (2, 2)})
    np.testing.assert_array_equal(outputs["VALUE"], [54])
    check(row, outputs["GRAD"], np.array([[7, 11], [9, 13]], np.float32))


@needs_gpu
@pytest.mark.parametrize("model", ["large_io", "large_io_host"])
@pytest.mark.row("T13", "4 Mi values in CUDA shared memory")
def test_t13_large(row, client, model):
    outputs = infer(client, model, {"X": LARGE}, {"Y": LARGE.shape})
    check(row, outputs["Y"], LARGE * LARGE + LARGE)


@needs_gpu
@pytest.mark.row("T14", "4 Mi values without shared memory")
def test_t14_without_shared_memory(row, client):
    check(row, client.infer("large_io", {"X": LARGE})["Y"], LARGE * LARGE + LARGE)


@needs_gpu
@pytest.mark.row("T15", "the log tells which way tensors go")
def test_t15_log(row, server, client):
    infer(client, "matmul_sumsq", {"A": np.eye(2, dtype=np.float32)}, {"GRAD": (2, 2)})
    for model in ("large_io", "large_io_host"):
        infer(client, model, {"X": LARGE}, {"Y": LARGE.shape})
    in_place = r"model '%s': input '%s' is read in place from GPU memory \(no host copy\)"
    through = r"model '%s': input 'X' is in GPU memory and goes through the host"
    for line in (
        r"PJRT client created on platform 'cuda'.*preallocate=false",
        in_place % ("large_io", "X"),
        r"model 'large_io': output 'Y' is copied device to device into GPU memory",
        in_place % ("matmul_sumsq", "A"),
        through % "large_io_host",
        r"model 'large_io_host': output 'Y' was given GPU memory and goes through the host",
    ):
        server.log.expect(line)
        row.count("lines", 1)
    with row.control("the other model's lines"):
        assert server.log.find(through % "large_io") or server.log.find(
            in_place % ("large_io_host", "X")
        )


@needs_gpu
@pytest.mark.row(*(f"D{number}" for number in range(1, 9)), "the device by itself")
def test_d1_d8_device(row):
    command = ["cargo", "test", "--release", "--locked", "-p", "tlaloc-pjrt"]
    ran = subprocess.run(
        [*command, "--test", "gpu", "--", "--nocapture", "--test-threads", "1"],
        cwd=environment.ROOT,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    told = re.findall(r"^D\d: .*$", ran.stdout + ran.stderr, re.MULTILINE)
    assert {line[:2] for line in told} == {f"D{number}" for number in range(1, 9)}, told
    row.figure(f"{len(told)} checks")
    with row.control("a row that is not told"):
        assert "D9" in {line[:2] for line in told}


@pytest.mark.skipif(gpus(), reason="this machine has a GPU")
def test_without_a_gpu_the_script_says_so():
    ran = subprocess.run([environment.SCRIPTS / "verify-gpu.sh"], capture_output=True, text=True)
    assert ran.returncode == EXIT_WITHOUT_GPU
    assert "no NVIDIA GPU on this machine" in ran.stderr and not ran.stdout


def test_the_backend_needs_no_cuda_library():
    library = environment.backend_directory() / "tlaloc" / "libtriton_tlaloc.so"
    listed = subprocess.run(["readelf", "-d", library], capture_output=True, text=True, check=True)
    needed = re.findall(r"NEEDED.*\[(.*)\]", listed.stdout)
    assert "libc.so.6" in needed
    assert not [name for name in needed if re.match(r"lib(cu|nv)", name)], needed
