"""Programs with axes of bounded size: every length, refusals, the log (B1 to B4)."""

import copy
import json
import re
import shutil

import numpy as np
import pytest
from harness import environment, examples
from harness.server import LoadError
from tritonclient.utils import InferenceServerException

MODELS = ("bounded_mean", "bounded_softmax")
UPSTREAM = environment.UPSTREAM / "model_repository"
LENGTHS = range(1, 17)


@pytest.fixture(scope="module", autouse=True)
def loaded(repository, server):
    for name in MODELS:
        examples.add(repository, name)
        server.load(name)


def rows(model, length):
    shape = (length, 4) if model == "bounded_mean" else (length,)
    return np.random.default_rng(length).normal(0, 3, shape).astype(np.float32)


def expected(model, x):
    x = x.astype(np.float64)
    if model == "bounded_mean":
        return x.mean(axis=0)
    weights = np.exp(x - x.max())
    return weights / weights.sum()


def assert_close(found, wanted):
    assert found.shape == wanted.shape and found.dtype == np.float32
    error = np.abs(found - wanted).max()
    assert error <= 1e-4 * max(1, np.abs(wanted).max()), f"{found} is not {wanted}"


def json_infer(server, model, x):
    data = {"name": "x0", "shape": x.shape, "datatype": "FP32", "data": x.ravel().tolist()}
    body = json.dumps({"inputs": [data]})
    status, text = server.request("POST", f"/v2/models/{model}/infer", body)
    assert status == 200, text
    (output,) = json.loads(text)["outputs"]
    assert (output["name"], output["datatype"]) == ("y0", "FP32")
    return np.array(output["data"], np.float32).reshape(output["shape"])


def check_lengths(infer, model):
    for length in LENGTHS:
        x = rows(model, length)
        assert_close(infer(x), expected(model, x))
        # Control: the values of another length are seen.
        with pytest.raises(AssertionError):
            assert_close(infer(x), expected(model, rows(model, length % 16 + 1)))


@pytest.mark.parametrize("model", MODELS)
def test_b1_every_length(server, client, model):
    check_lengths(lambda x: client.infer(model, {"x0": x})["y0"], model)


@pytest.mark.parametrize("model", MODELS)
def test_b1_every_length_in_json(server, model):
    check_lengths(lambda x: json_infer(server, model, x), model)


@pytest.mark.parametrize("model", MODELS)
def test_b2_more_than_the_bound(server, client, model):
    with pytest.raises(InferenceServerException) as error:
        client.infer(model, {"x0": rows(model, 17)})
    message = error.value.message()
    assert f"model '{model}': input 'x0' has size 17 in dim 0, outside 1..16" in message
    assert message.count(f"model '{model}'") == 1
    # Others are not hurt.
    x = rows(model, 16)
    assert_close(client.infer(model, {"x0": x})["y0"], expected(model, x))


def test_b3_another_fixed_size(client):
    with pytest.raises(InferenceServerException, match=re.escape("Expected [-1,4], got [3,5]")):
        client.infer("bounded_mean", {"x0": np.ones((3, 5), np.float32)})


def test_b4_the_log_tells_the_buckets(server):
    for model, program in (("bounded_mean", "masked_mean"), ("bounded_softmax", "masked_softmax")):
        line = (
            f"model '{model}': bounded program '{program}': 3 bodies for 3 bucket combinations of "
            "ExampleMaxSeq <= 16 (buckets 4 8 16)"
        )
        assert len(server.log.expect(re.escape(line))) == 1
        how = "(compiled|read from the compile cache) bounded entry"
        assert len(server.log.find(rf"model '{model}': {how} ExampleMaxSeq\d+ \(bodies/")) == 3


def test_nothing_at_all_is_refused(client):
    with pytest.raises(InferenceServerException, match="outside 1..16|greater than 0|positive"):
        client.infer("bounded_softmax", {"x0": np.ones(0, np.float32)})


def test_statistics(server, client):
    before = server.statistics("bounded_mean")
    for length in (1, 5, 16):
        client.infer("bounded_mean", {"x0": rows("bounded_mean", length)})
    grown = server.statistics("bounded_mean") - before
    assert (grown.inferences, grown.executions) == (3, 3)


@pytest.mark.skipif(not UPSTREAM.is_dir(), reason=f"the original models are not at {UPSTREAM}")
@pytest.mark.parametrize("model", MODELS)
def test_the_original_artifacts(repository, server, client, model):
    name = f"original_{model}"
    if not (repository.path / name).is_dir():
        original = repository.copy(UPSTREAM / model, name)
        original.substitute(f'name: "{model}"', f'name: "{name}"')
        original.substitute(r"instance_group.*", "instance_group [ { kind: KIND_MODEL count: 1 } ]")
    server.load(name)
    check_lengths(lambda x: client.infer(name, {"x0": x})["y0"], model)
    recorded = environment.UPSTREAM / "reference" / f"{model}.json"
    for case in json.loads(recorded.read_text())["cases"]:
        x, y = (
            np.array(case[name]["data"], np.float32).reshape(case[name]["shape"])
            for name in ("x0", "y0")
        )
        assert_close(client.infer(name, {"x0": x})["y0"], y)


# A program of our own with two bounds, integers and a padding that counts.

OWN, PADDING = "two_bounds", -2.75
SEQ, BATCH = (4, 8), (1, 2)


def own_body(seq, batch):
    """y[b,s] = the sum of all x[b], ids, mask, and lengths, plus what lies at b, s."""
    x, out = f"{batch}x{seq}x3", f"{batch}x{seq}"
    return f"""
func.func @served(%x: tensor<{x}xf32>, %ids: tensor<{seq}xi32>, %mask: tensor<{seq}xf32>,
                  %length: tensor<f32>) -> tensor<{out}xf32> {{
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %rows = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [2]
    : (tensor<{x}xf32>, tensor<f32>) -> tensor<{out}xf32>
  %all = stablehlo.reduce(%rows init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<{out}xf32>, tensor<f32>) -> tensor<{batch}xf32>
  %floats = stablehlo.convert %ids : (tensor<{seq}xi32>) -> tensor<{seq}xf32>
  %both = stablehlo.add %floats, %mask : tensor<{seq}xf32>
  %sum = stablehlo.reduce(%both init: %zero) applies stablehlo.add across dimensions = [0]
    : (tensor<{seq}xf32>, tensor<f32>) -> tensor<f32>
  %told = stablehlo.add %sum, %length : tensor<f32>
  %a = stablehlo.broadcast_in_dim %all, dims = [0] : (tensor<{batch}xf32>) -> tensor<{out}xf32>
  %b = stablehlo.broadcast_in_dim %told, dims = [] : (tensor<f32>) -> tensor<{out}xf32>
  %c = stablehlo.add %a, %b : tensor<{out}xf32>
  %d = stablehlo.add %c, %rows : tensor<{out}xf32>
  return %d : tensor<{out}xf32>
}}
"""


def own_expected(x, ids):
    batch, seq, _ = x.shape
    to_batch, to_seq = (
        min(b for b in sizes if b >= n) for sizes, n in ((BATCH, batch), (SEQ, seq))
    )
    padded = np.full((to_batch, to_seq, 3), PADDING)
    padded[:batch, :seq] = x
    # The padding of integers is cut to a whole number.
    told = ids.sum() + int(PADDING) * (to_seq - seq) + seq + batch
    sums = padded.sum(axis=2)
    return (sums.sum(axis=1, keepdims=True) + told + sums)[:batch, :seq]


@pytest.fixture(scope="module")
def own(repository, server):
    folder = repository.path / OWN
    (folder / "1" / "bodies").mkdir(parents=True)
    entries = []
    for seq in SEQ:
        for batch in BATCH:
            body = f"bodies/{seq}_{batch}.mlir"
            (folder / "1" / body).write_text(own_body(seq, batch))
            entries.append(
                {
                    "id": f"Seq{seq}_Batch{batch}",
                    "sizes": {"Seq": seq, "Batch": batch},
                    "entryPoint": "served",
                    "bodyPath": body,
                    "programPath": "programs/none.json",
                }
            )

    def tensor(name, role, dtype, *axes, **more):
        axes = [{"size": axis} if isinstance(axis, int) else {"bound": axis} for axis in axes]
        return {"name": name, "role": role, "dtype": dtype, "axes": axes, **more}

    manifest = {
        "schemaVersion": "tlaloc-bounded-v1",
        "name": "sums",
        "bounds": [
            {"name": "Seq", "max": 8, "buckets": SEQ},
            {"name": "Batch", "max": 2, "buckets": BATCH},
        ],
        "padding": {"value": PADDING},
        "inputs": [
            tensor("x0", "DATA", "f32", "Batch", "Seq", 3),
            tensor("ids", "DATA", "i32", "Seq"),
            tensor("validMask_Seq", "VALID_MASK", "f32", "Seq", bound="Seq"),
            tensor("validLength_Batch", "VALID_LENGTH", "f32", bound="Batch"),
        ],
        "outputs": [tensor("y0", "DATA", "f32", "Batch", "Seq")],
        "entries": entries,
        "paddingCheck": {"maxDifference": 0, "tolerance": 0},
    }
    (folder / "1" / "tlaloc-bounded.json").write_text(json.dumps(manifest))
    (folder / "config.pbtxt").write_text(
        f"""name: "{OWN}"
backend: "tlaloc"
input [
  {{ name: "x0" data_type: TYPE_FP32 dims: [ -1, -1, 3 ] }},
  {{ name: "ids" data_type: TYPE_INT32 dims: [ -1 ] }}
]
output [ {{ name: "y0" data_type: TYPE_FP32 dims: [ -1, -1 ] }} ]
instance_group [ {{ kind: KIND_MODEL count: 1 }} ]
parameters: {{ key: "bounded_manifest" value: {{ string_value: "tlaloc-bounded.json" }} }}
"""
    )
    server.load(OWN)
    return folder


def test_every_size_of_two_bounds(own, server, client):
    random = np.random.default_rng(3)
    for batch in (1, 2):
        for seq in range(1, 9):
            # Small whole numbers, so that every sum is exact.
            x = random.integers(-9, 9, (batch, seq, 3)).astype(np.float32)
            ids = random.integers(-9, 9, seq).astype(np.int32)
            y = client.infer(OWN, {"x0": x, "ids": ids})["y0"]
            wanted = own_expected(x, ids)
            assert y.shape == (batch, seq) and (y == wanted).all(), f"{batch}, {seq}: {y}, {wanted}"
    bounds = "Seq <= 8 (buckets 4 8) Batch <= 2 (buckets 1 2)"
    server.log.expect(re.escape(f"'sums': 4 bodies for 4 bucket combinations of {bounds}"))


def test_axes_of_one_bound_have_one_size(own, client):
    x, ids = np.ones((1, 5, 3), np.float32), np.ones(6, np.int32)
    with pytest.raises(InferenceServerException, match="every axis of one bound has one size"):
        client.infer(OWN, {"x0": x, "ids": ids})


# Loads.


def parameter(key, value):
    return lambda config: config["parameters"].update({key: {"string_value": value}})


def dims(*dims):
    return lambda config: config["input"][0].update(dims=list(dims))


CONFIGS = [
    *[
        (parameter(key, "x"), f"'bounded_manifest' parameter cannot be combined with '{key}'")
        for key in ("artifact", "entry", "arguments", "results", "serving_manifest")
    ],
    (parameter("bounded_manifest", "../1/tlaloc-bounded.json"), "must be a file inside the model"),
    (parameter("bounded_manifest", "none.json"), "bounded manifest: "),
    (lambda config: config.update(max_batch_size=4), "max_batch_size is 4, but bounded mode"),
    (dims(16, 4), "but the bounded program has input 'x0' TYPE_FP32 [-1, 4]"),
    (dims(-1, -1), "but the bounded program has input 'x0' TYPE_FP32 [-1, 4]"),
    (
        lambda config: config["input"][0].update(data_type="TYPE_FP64"),
        "declares input 'x0' TYPE_FP64",
    ),
    (lambda config: config["output"][0].update(name="y"), "declares output 'y' TYPE_FP32 [4]"),
]


@pytest.fixture(scope="module")
def flawed(repository, server):
    """A copy of the mean that must not load once its configuration, this one, is changed."""
    examples.add(repository, "bounded_mean", "flawed")
    return server.config("bounded_mean") | {"name": "flawed"}


@pytest.mark.parametrize(("change", "needle"), CONFIGS, ids=[needle for _, needle in CONFIGS])
def test_configurations_that_do_not_fit(server, flawed, change, needle):
    bad = copy.deepcopy(flawed)
    change(bad)
    with pytest.raises(LoadError) as error:
        server.load("flawed", bad)
    assert needle in error.value.message
    # Triton says which model failed, the backend why.
    assert error.value.message.count("model 'flawed': ") == 2


def test_control_the_unchanged_configuration_loads(server, flawed, client):
    server.load("flawed", flawed)
    x = rows("bounded_mean", 5)
    assert_close(client.infer("flawed", {"x0": x})["y0"], expected("bounded_mean", x))


def of_manifest(change):
    def apply(version):
        path = version / "tlaloc-bounded.json"
        manifest = json.loads(path.read_text())
        change(manifest)
        path.write_text(json.dumps(manifest))

    return apply


def of_body(change):
    def apply(version):
        path = next(iter(sorted((version / "bodies").iterdir())))
        path.write_text(change(path.read_text()))

    return apply


ARTIFACTS = [
    (of_manifest(lambda m: m.update(extra=1)), "bounded manifest: .*unknown field `extra`"),
    (of_manifest(lambda m: m["entries"].pop()), "entries has none for ExampleMaxSeq 16"),
    (
        of_manifest(lambda m: m["outputs"].append({**m["outputs"][0], "name": "y1"})),
        "'masked_mean' has 2 outputs",
    ),
    (
        of_manifest(lambda m: m["entries"][0].update(bodyPath=m["entries"][1]["bodyPath"])),
        r"argument 0 \('x0'\) of @main is tensor<8x4xf32>.* says tensor<4x4xf32>",
    ),
    (of_manifest(lambda m: m["entries"][0].update(bodyPath="none.mlir")), "cannot be read"),
    (
        of_body(lambda text: text.replace("@main", "@other")),
        "entry function @main is not in the body",
    ),
    (of_body(lambda text: text.replace("stablehlo.divide", "stablehlo.nothing")), "Compile"),
]


@pytest.mark.parametrize(("change", "needle"), ARTIFACTS, ids=[needle for _, needle in ARTIFACTS])
def test_artifacts_that_cannot_be_served(repository, server, change, needle):
    name = "broken"
    model = examples.add(repository, "bounded_mean", name)
    try:
        change(model.version)
        with pytest.raises(LoadError) as error:
            server.load(name)
        assert re.search(needle, error.value.message), error.value.message
        assert f"model '{name}': " in error.value.message
    finally:
        shutil.rmtree(model.path)
    assert server.live()
