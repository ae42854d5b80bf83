"""Configurations, bodies and requests that cannot be served are refused by name."""

import copy
import json

import numpy as np
import pytest
from harness import environment, examples
from harness.server import LoadError
from harness.tensors import PROTOCOLS, connected
from tritonclient.utils import InferenceServerException

A = np.array([[1, 2], [3, 4]], np.float32)
GRAD = np.array([[7, 11], [9, 13]], np.float32)


@pytest.fixture(scope="module")
def model(repository):
    """The model that must not load once it is changed."""
    return examples.add(repository, "matmul_sumsq")


@pytest.fixture(scope="module")
def config(server, model):
    """Its configuration while it is good, as the server reports it."""
    server.load(model.name)
    config = server.config(model.name)
    server.unload(model.name)
    return config


def check_it_loads(server, name="matmul_sumsq", config=None):
    assert server.live()
    server.load(name, config)
    with connected(server, "grpc") as client:
        outputs = client.infer(name, {"A": A})
    assert outputs["GRAD"].tobytes() == GRAD.tobytes()
    assert outputs["VALUE"].tolist() == [54]
    server.unload(name)


# Configurations: a change, and what the refusal says.


def parameter(key, value):
    return lambda config: config["parameters"].update({key: {"string_value": value}})


def parameters(**values):
    def change(config):
        for key, value in values.items():
            parameter(key, value)(config)

    return change


def of_input(**fields):
    return lambda config: config["input"][0].update(fields)


def of_output(index, **fields):
    return lambda config: config["output"][index].update(fields)


def without_parameters(config):
    config["parameters"] = {}


def second_input(config):
    config["input"].append({**config["input"][0], "name": "B"})


def batched(size):
    return lambda config: config.update(max_batch_size=size)


def both(*changes):
    def change(config):
        for one in changes:
            one(config)

    return change


MALFORMED = "argument 'A' in the 'arguments' parameter is not input:<name>, weight:<file> or state:"
BAD_CONFIGS = {
    # verification.md 4.1
    "no parameters": (without_parameters, "has no 'artifact' parameter"),
    "unknown entry": (
        parameter("entry", "nope"),
        "entry function @nope is not in the artifact; it defines @matmul_sumsq_grad",
    ),
    "another type": (
        of_input(data_type="TYPE_FP64"),
        "is tensor<2x2xf32> but config.pbtxt says FP64",
    ),
    "another shape": (
        of_input(dims=["4"]),
        "is tensor<2x2xf32> but config.pbtxt allows shape [4]",
    ),
    "no plugin": (
        parameter("pjrt_plugin_path", "/nonexistent/plugin.so"),
        "cannot load the PJRT plugin /nonexistent/plugin.so",
    ),
    "artifact elsewhere": (
        parameter("artifact", "../1/model.mlir"),
        "artifact '../1/model.mlir' leaves the model version directory",
    ),
    "strings": (of_input(data_type="TYPE_STRING"), "has data_type TYPE_STRING"),
    "malformed argument": (parameter("arguments", "A"), MALFORMED),
    "undeclared input": (
        parameter("arguments", "input:B"),
        "the 'arguments' parameter names input 'B', which config.pbtxt does not declare",
    ),
    "weight elsewhere": (
        parameter("arguments", "input:A, weight:../w.bin"),
        "weight file '../w.bin' leaves the model version directory",
    ),
    "state that nothing reads": (
        parameter("results", "output:VALUE, output:GRAD, state:kv"),
        "the 'results' parameter writes state 'kv', which no state: argument",
    ),
    "switch neither true nor false": (
        parameter("zero_copy", "yes"),
        "the 'zero_copy' parameter must be true or false, got 'yes'",
    ),
    # More of the same kinds.
    "switch in capitals": (
        parameter("group_by_shape", "True"),
        "the 'group_by_shape' parameter must be true or false, got 'True'",
    ),
    "empty artifact": (parameter("artifact", ""), "has no 'artifact' parameter"),
    "artifacts of commas": (parameter("artifact", " , ,"), "has no 'artifact' parameter"),
    "absolute artifact": (
        parameter("artifact", "/model.mlir"),
        "artifact '/model.mlir' is absolute",
    ),
    "artifact not there": (parameter("artifact", "nope.mlir"), "nope.mlir: cannot be read"),
    "artifact is a folder": (parameter("artifact", "."), "cannot be read"),
    "artifact twice": (
        parameter("artifact", "model.mlir, model.mlir"),
        "artifacts 'model.mlir' and 'model.mlir' take arguments of the same shapes",
    ),
    "bounded and artifact": (
        parameter("bounded_manifest", "m.json"),
        "the 'bounded_manifest' parameter cannot be combined with 'artifact'",
    ),
    "serving and artifact": (
        parameter("serving_manifest", "m.json"),
        "the 'serving_manifest' parameter cannot be combined with 'artifact'",
    ),
    "absolute weight": (
        parameter("arguments", "input:A, weight:/w.bin"),
        "weight file '/w.bin' is absolute",
    ),
    "empty argument": (parameter("arguments", "input:A,,"), "argument '' in the 'arguments'"),
    "argument without a name": (parameter("arguments", "input: "), "argument 'input:' in the"),
    "argument of another kind": (parameter("arguments", "output:A"), "argument 'output:A' in the"),
    "input twice": (parameter("arguments", "input:A, input:A"), "has input:A twice"),
    "input not bound": (
        parameter("arguments", "state:A"),
        "config.pbtxt declares input 'A', which the 'arguments' parameter does not bind",
    ),
    "state twice": (parameter("arguments", "input:A, state:s, state:s"), "has state 's' twice"),
    "state that nothing writes": (
        parameter("arguments", "input:A, state:s"),
        "the 'arguments' parameter reads state 's', which no state: result writes",
    ),
    "state and batches": (
        both(
            parameters(arguments="input:A, state:s", results="output:VALUE, output:GRAD, state:s"),
            batched(4),
        ),
        "state 's' cannot be combined with max_batch_size > 0",
    ),
    "malformed result": (
        parameter("results", "VALUE"),
        "result 'VALUE' in the 'results' parameter is not output:<name> or state:<name>",
    ),
    "undeclared output": (
        parameter("results", "output:VALUE, output:Z"),
        "the 'results' parameter names output 'Z', which config.pbtxt does not declare",
    ),
    "output twice": (
        parameter("results", "output:VALUE, output:VALUE"),
        "the 'results' parameter has output:VALUE twice",
    ),
    "output not bound": (
        parameter("results", "output:VALUE"),
        "config.pbtxt declares output 'GRAD', which the 'results' parameter does not bind",
    ),
    "more arguments than the function": (
        parameter("arguments", "input:A, weight:w.bin"),
        "@matmul_sumsq_grad has 1 arguments, but config.pbtxt binds 2",
    ),
    "more inputs than the function": (second_input, "has 1 arguments, but config.pbtxt binds 2"),
    "fewer outputs than the function": (
        lambda config: config["output"].pop(),
        "has 2 results, but config.pbtxt binds 1",
    ),
    "outputs the other way round": (
        parameter("results", "output:GRAD, output:VALUE"),
        "is tensor<f32> but config.pbtxt allows shape [2,2]",
    ),
    "output of another type": (
        of_output(0, data_type="TYPE_INT64"),
        "'VALUE' (result 0) of @matmul_sumsq_grad is tensor<f32> but config.pbtxt says INT64",
    ),
    "output of another shape": (
        of_output(1, dims=["2", "3"]),
        "is tensor<2x2xf32> but config.pbtxt allows shape [2,3]",
    ),
    "scalar of two": (of_output(0, dims=["2"]), "is tensor<f32> but config.pbtxt allows shape [2]"),
    "scalar of any size": (
        of_output(0, dims=["-1"]),
        "is tensor<f32> but config.pbtxt allows shape [-1]",
    ),
    "optional input": (of_input(optional=True), "'A'"),
    "batches of a scalar": (
        both(batched(2), of_input(dims=["2"]), of_output(1, dims=["2"])),
        "is tensor<f32> but needs a batch dimension",
    ),
    "text for a plugin": (
        parameter("pjrt_plugin_path", __file__),
        f"cannot load the PJRT plugin {__file__}",
    ),
}


@pytest.mark.parametrize("case", BAD_CONFIGS)
def test_a_bad_configuration_is_refused(server, model, config, case):
    change, needle = BAD_CONFIGS[case]
    bad = copy.deepcopy(config)
    change(bad)
    with pytest.raises(LoadError) as error:
        server.load(model.name, bad)
    assert needle in error.value.message
    assert error.value.status in (400, 404, 503)
    check_it_loads(server)


def test_control_the_unchanged_configuration_loads(server, model, config):
    check_it_loads(server, config=config)


def test_a_gpu_that_the_machine_lacks(server, model, config):
    bad = copy.deepcopy(config)
    bad["instance_group"] = [{"kind": "KIND_GPU", "count": 1, "gpus": [7]}]
    with pytest.raises(LoadError, match="gpu id 7|no GPUs are available"):
        server.load(model.name, bad)
    check_it_loads(server)


def test_the_largest_batch_must_be_there(server, repository):
    examples.add(repository, "grad_batched")
    server.load("grad_batched")
    config = server.config("grad_batched")
    server.unload("grad_batched")
    bad = copy.deepcopy(config)
    bad["max_batch_size"] = 16
    bad["dynamic_batching"]["preferred_batch_size"] = []
    with pytest.raises(LoadError) as error:
        server.load("grad_batched", bad)
    assert "max_batch_size is 16 but the largest artifact takes batch 8" in error.value.message
    server.load("grad_batched", config)
    server.unload("grad_batched")


def test_a_state_that_no_memory_holds(server, repository, model):
    """The host's allocator ends the process unless it is asked carefully."""
    counter = repository.copy(environment.FIXTURES / "tensor" / "counter", "counter")
    x, total, count = "tensor<4xf32>", f"tensor<{2**44}xf32>", "tensor<i32>"
    body = f"""
func.func @main(%x: {x}, %total: {total}, %count: {count}) -> ({x}, {total}, {count}, {count}) {{
  return %x, %total, %count, %count : {x}, {total}, {count}, {count}
}}
"""
    counter.write(counter.version / "model.mlir", body.encode())
    with pytest.raises(LoadError, match=f"there is no host memory for {2**46} bytes"):
        server.load(counter.name)
    check_it_loads(server)


def test_states_have_no_batches(server, repository):
    folder = environment.UPSTREAM / "model_repository" / "reference_decode"
    if not folder.is_dir():
        pytest.skip(f"the artifact reference_decode is not at {folder}")
    decode = repository.copy(folder, "reference_decode")
    decode.substitute(r"instance_group.*", "instance_group [ { kind: KIND_MODEL count: 1 } ]")
    decode.substitute("max_batch_size: 0", "max_batch_size: 4")
    with pytest.raises(LoadError) as error:
        server.load(decode.name)
    assert "state 'keyCache0' cannot be combined with max_batch_size > 0" in error.value.message
    decode.substitute("max_batch_size: 4", "max_batch_size: 0")
    server.load(decode.name)
    server.unload(decode.name)


# Bodies of the one file, and what the refusal says.

FUNCTION = "func.func @matmul_sumsq_grad"
BAD_BODIES = {
    "empty": (b"", "defines no function"),
    "not MLIR": (b"\x89PNG\r\n\x1a\n\xff\xfe", "is neither MLIR bytecode nor UTF-8 text"),
    "no function": (b"module {}", "defines no function"),
    "commented out": (f"// {FUNCTION}(%a: tensor<2x2xf32>)".encode(), "defines no function"),
    "cut short in the signature": (f"{FUNCTION}(%a: tensor<2x".encode(), "line 1: the signature"),
    "cut short in the body": (
        f"{FUNCTION}(%a: tensor<2x2xf32>) -> (tensor<f32>, tensor<2x2xf32>) {{".encode(),
        "model.mlir: ",
    ),
    "an unknown operation": (
        f"{FUNCTION}(%a: tensor<2x2xf32>) -> (tensor<f32>, tensor<2x2xf32>) "
        "{ %0 = stablehlo.nonsense %a : tensor<2x2xf32>\n return %0, %a : tensor<f32> }".encode(),
        "model.mlir: ",
    ),
    "types that do not fit": (
        f"{FUNCTION}(%a: tensor<2x2xf32>) -> (tensor<f32>, tensor<2x2xf32>) "
        "{ return %a, %a : tensor<2x2xf32>, tensor<2x2xf32> }".encode(),
        "model.mlir: ",
    ),
    "a dynamic dimension": (
        f"{FUNCTION}(%a: tensor<?x2xf32>) -> (tensor<f32>, tensor<2x2xf32>) {{}}".encode(),
        "is tensor<?x2xf32> with a dynamic dimension",
    ),
    "complex numbers": (
        f"{FUNCTION}(%a: tensor<2xcomplex<f32>>) -> (tensor<f32>, tensor<2x2xf32>) {{}}".encode(),
        "is tensor<2xcomplex<f32>> which is no ranked tensor of a supported element type",
    ),
    "no rank": (
        f"{FUNCTION}(%a: tensor<*xf32>) -> (tensor<f32>, tensor<2x2xf32>) {{}}".encode(),
        "is tensor<*xf32> which is no ranked tensor",
    ),
    "an 8-bit float": (
        f"{FUNCTION}(%a: tensor<2x2xf8E4M3FN>) -> (tensor<f32>, tensor<2x2xf32>) {{}}".encode(),
        "is tensor<2x2xf8E4M3FN> but config.pbtxt says FP32",
    ),
    "a token": (
        f"{FUNCTION}(%a: !stablehlo.token) -> (tensor<f32>, tensor<2x2xf32>) {{}}".encode(),
        "is !stablehlo.token which is no ranked tensor",
    ),
    "a size that no memory has": (
        f"{FUNCTION}(%a: tensor<{2**62}x4xf32>) -> (tensor<f32>, tensor<2x2xf32>) {{}}".encode(),
        "model.mlir: ",
    ),
    "our CUDA kernels": (
        f"{FUNCTION}(%a: tensor<2x2xf32>) -> (tensor<f32>, tensor<2x2xf32>) "
        "{ %0 = stablehlo.custom_call @tlaloc_attention(%a) }".encode(),
        "calls CUDA kernels",
    ),
    "an unknown custom call": (
        f"{FUNCTION}(%a: tensor<2x2xf32>) -> (tensor<f32>, tensor<2x2xf32>) "
        "{ %0 = stablehlo.custom_call @nowhere(%a) : (tensor<2x2xf32>) -> tensor<f32>\n"
        " return %0, %a : tensor<f32>, tensor<2x2xf32> }".encode(),
        "model.mlir: ",
    ),
    "bytecode cut short": (b"ML\xefR\x01", "model.mlir: "),
}


@pytest.mark.parametrize("case", BAD_BODIES)
def test_a_bad_body_is_refused(server, model, case):
    body, needle = BAD_BODIES[case]
    file = model.version / "model.mlir"
    good = file.read_bytes()
    model.write(file, body)
    try:
        with pytest.raises(LoadError) as error:
            server.load(model.name)
        assert needle in error.value.message
        assert "model 'matmul_sumsq': " in error.value.message
    finally:
        model.write(file, good)
    check_it_loads(server)


# Requests.


@pytest.fixture(scope="module")
def serving(repository, server):
    for name in ("int64_bool", "buckets", "ragged_batched"):
        examples.add(repository, name)
        server.load(name)


def json_request(server, model, *inputs, outputs=None):
    body = {"inputs": [dict(zip(("name", "shape", "datatype", "data"), one)) for one in inputs]}
    if outputs:
        body["outputs"] = [{"name": name} for name in outputs]
    return server.request("POST", f"/v2/models/{model}/infer", json.dumps(body))


FOUR = [1.0, 2.0, 3.0, 4.0]
BAD_REQUESTS = {
    "no inputs": ("buckets", [], "input"),
    "another name": ("buckets", [("Z", [4], "FP32", FOUR)], "Z"),
    "another type": ("buckets", [("X", [4], "INT32", [1, 2, 3, 4])], "INT32"),
    "two axes": ("buckets", [("X", [2, 2], "FP32", FOUR)], "unexpected shape"),
    "a length without a program": (
        "buckets",
        [("X", [3], "FP32", FOUR[:3])],
        "model 'buckets': no compiled artifact takes input shapes ([3])",
    ),
    "nothing": ("buckets", [("X", [0], "FP32", [])], "takes input shapes ([0])"),
    "too few values": ("buckets", [("X", [4], "FP32", FOUR[:3])], "data"),
    "too many values": ("buckets", [("X", [4], "FP32", [*FOUR, 5.0])], "data"),
    "input twice": ("buckets", [("X", [4], "FP32", FOUR)] * 2, "X"),
    "input missing": ("int64_bool", [("X", [4], "INT64", [1, 2, 3, 4])], "expected 2 inputs"),
    "no rows": ("ragged_batched", [("X", [0, 4], "FP32", [])], "batch"),
    "more rows than the largest batch": (
        "ragged_batched",
        [("X", [9, 4], "FP32", [0.0] * 36)],
        "batch",
    ),
    "a width without a program": (
        "ragged_batched",
        [("X", [1, 5], "FP32", [0.0] * 5)],
        "takes input shapes ([1,5]); the model serves ([1..8,4]), ([1..8,8])",
    ),
}


@pytest.mark.parametrize("case", BAD_REQUESTS)
def test_a_bad_request_is_refused(server, serving, case):
    name, inputs, needle = BAD_REQUESTS[case]
    status, text = json_request(server, name, *inputs)
    assert status >= 400 and needle in text, f"{status}: {text}"
    status, text = json_request(server, "buckets", ("X", [4], "FP32", FOUR))
    assert status == 200 and json.loads(text)["outputs"][0]["data"] == [2, 6, 12, 20]


def test_an_unknown_output_is_refused(server, serving):
    status, text = json_request(server, "buckets", ("X", [4], "FP32", FOUR), outputs=["Z"])
    assert status == 400 and "Z" in text


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_boolean_is_0_or_1(server, serving, protocol):
    with connected(server, protocol) as client:
        x = np.ones(4, np.int64)
        good = np.array([0, 1, 1, 0], np.uint8)
        for byte, refused in ((1, False), (2, True), (255, True)):
            b = client.tensor("B", np.where(good, byte, 0).astype(np.uint8).view(np.bool_))
            inputs = [client.tensor("X", x), b]
            if refused:
                message = f"input 'B' holds the byte {byte} where BOOL has 0 and 1"
                with pytest.raises(InferenceServerException, match=message):
                    client.raw.infer("int64_bool", inputs)
            else:
                found = client.raw.infer("int64_bool", inputs).as_numpy("NOT_B")
                assert found.tolist() == [True, False, False, True]


def test_refusals_hold_no_memory(server, model, config, serving):
    """One round of each kind of refusal warms up; more of them change nothing."""
    bad = copy.deepcopy(config)
    of_input(dims=["4"])(bad)
    file = model.version / "model.mlir"
    good, broken = file.read_bytes(), BAD_BODIES["types that do not fit"][0]

    def refuse():
        for change in (lambda: server.load(model.name, bad), lambda: server.load(model.name)):
            with pytest.raises(LoadError):
                change()
        for name, inputs, _ in BAD_REQUESTS.values():
            assert json_request(server, name, *inputs)[0] >= 400

    model.write(file, broken)
    try:
        for _ in range(10):
            refuse()
        before = server.resident_bytes()
        for _ in range(50):
            refuse()
        grown = server.resident_bytes() - before
    finally:
        model.write(file, good)
    assert grown < 8 << 20, f"{grown >> 10} KiB more than before"
    check_it_loads(server)
