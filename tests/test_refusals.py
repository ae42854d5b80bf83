"""Every bad input is refused by name; the server, the model and other sequences go on."""

import copy
import json
import re
import subprocess
import uuid

import numpy as np
import pytest
from harness import environment, examples, fixtures, models
from harness.decoding import assert_ids, greedy_alone
from harness.server import LoadError
from tritonclient.utils import InferenceServerException

NAME = "tiny"
VOCABULARY = 96
CONTEXT = 64
PROMPT = fixtures.tiny_oracle("llama")["prompts"][1]


@pytest.fixture(scope="module")
def artifact():
    # Pages for four sequences of the whole context.
    checkpoint = fixtures.tiny_checkpoint("llama")
    return models.export(checkpoint, "refusals", contexts=[CONTEXT], batches=[1], num_blocks=17)


@pytest.fixture(scope="module")
def serving(repository, server, artifact):
    """A model that stays loaded, for requests."""
    repository.add(artifact, NAME)
    server.load(NAME)


# The server never forgets a version that failed to load while another was
# served, and then exits with 1: models that fail are not loaded before.


@pytest.fixture(scope="module")
def broken(repository, artifact):
    """The model that must not load once it is changed."""
    return repository.add(artifact, "broken")


@pytest.fixture(scope="module")
def config(server, broken):
    """Its configuration while it is good, as the server reports it."""
    server.load(broken.name)
    config = server.config(broken.name)
    server.unload(broken.name)
    return config


def check_it_loads(server, model, config=None):
    """The model loads and computes the right ids."""
    assert server.live()
    server.load(model.name, config)
    assert_ids(greedy_alone(server, model.name, PROMPT["prompt_ids"], 4), PROMPT["greedy_ids"][:4])
    server.unload(model.name)


# Models that must not load: a change of the configuration, and what the refusal says.


def parameter(key, value):
    return lambda config: config["parameters"].update({key: {"string_value": value}})


def without_sequence_batching(config):
    del config["sequence_batching"]


def direct_strategy(config):
    del config["sequence_batching"]["oldest"]
    config["sequence_batching"]["direct"] = {}


def without_correlation_id(config):
    controls = config["sequence_batching"]["control_input"]
    controls[:] = [control for control in controls if control["name"] != "CORRID"]


def no_batch(config):
    config["max_batch_size"] = 0
    del config["sequence_batching"]["oldest"]["preferred_batch_size"]


def second_input(config):
    config["input"].append({**config["input"][0], "name": "MORE_TOKENS"})


def float_tokens(config):
    config["input"][0]["data_type"] = "TYPE_FP32"


def fixed_length(config):
    config["input"][0]["dims"] = ["4"]


def three_pages(config):
    next(output for output in config["output"] if output["name"] == "KV_PAGES")["dims"] = ["3"]


def narrow_logits(config):
    next(output for output in config["output"] if output["name"] == "LOGITS")["dims"] = ["95"]


BAD_CONFIGS = {
    "no sequence batching": (without_sequence_batching, "needs sequence_batching"),
    "direct strategy": (direct_strategy, "uses the direct strategy; use oldest"),
    "no correlation id": (without_correlation_id, "missing: CORRID"),
    "no batch": (no_batch, r"needs max_batch_size >= 1"),
    "artifact beside manifest": (
        parameter("artifact", "model.mlir"),
        "cannot be combined with 'artifact'",
    ),
    "manifest elsewhere": (
        parameter("serving_manifest", "../1/tlaloc-serving.json"),
        "must be a file inside the model version directory",
    ),
    "absolute manifest": (
        parameter("serving_manifest", "/tlaloc-serving.json"),
        "must be a file inside the model version directory",
    ),
    "manifest not there": (parameter("serving_manifest", "nope.json"), "nope.json"),
    "second input": (second_input, "declares exactly one input"),
    "tokens of another type": (float_tokens, "TOKENS"),
    "tokens of fixed length": (fixed_length, "TOKENS"),
    "three pages": (three_pages, r"the pages output is \[ 2 \]"),
    "another vocabulary": (
        narrow_logits,
        r"the vocabulary has 96 tokens, but config.pbtxt declares output 'LOGITS' with dims \[95\]",
    ),
    "switch neither true nor false": (parameter("donate_kv_pools", "yes"), "donate_kv_pools"),
    "wait not a number": (
        parameter("cohort_wait_microseconds", "soon"),
        "cohort_wait_microseconds",
    ),
    "wait out of range": (
        parameter("prompt_wait_microseconds", "10000001"),
        "prompt_wait_microseconds",
    ),
    "no plugin": (
        parameter("pjrt_plugin_path", "/nonexistent/plugin.so"),
        "cannot load the PJRT plugin /nonexistent/plugin.so",
    ),
}


@pytest.mark.parametrize("case", BAD_CONFIGS)
def test_a_bad_configuration_is_refused(server, broken, config, case):
    change, message = BAD_CONFIGS[case]
    bad = copy.deepcopy(config)
    change(bad)
    mark = server.log.mark()
    with pytest.raises(LoadError, match=message):
        server.load(broken.name, bad)
    check_it_loads(server, broken)
    # Triton finalizes the model that was never initialized.
    assert "is not initialized" not in server.log.text(mark)


def test_control_the_unchanged_configuration_loads(server, broken, config):
    check_it_loads(server, broken, config)


def library_without_a_plugin():
    """A shared library that is no PJRT plugin: the C++ runtime that the server uses."""
    needed = subprocess.run(
        ["ldd", environment.variables()["TLALOC_TRITONSERVER"]],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    return re.search(r"libstdc\+\+\S* => (\S+)", needed)[1]


@pytest.mark.parametrize("kind", ["text file", "library"])
def test_a_plugin_that_is_none_is_refused(server, broken, config, tmp_path, kind):
    if kind == "library":
        path = library_without_a_plugin()
    else:
        path = tmp_path / "plugin.so"
        path.write_text("not a library")
    bad = copy.deepcopy(config)
    parameter("pjrt_plugin_path", str(path))(bad)
    with pytest.raises(LoadError, match=re.escape(str(path))):
        server.load(broken.name, bad)
    check_it_loads(server, broken)


# Artifacts with one thing broken: which file, what becomes of it, what the refusal says.


def cut_short(data):
    return data[:-4]


def manifest_with(change):
    def rewrite(data):
        manifest = json.loads(data)
        change(manifest)
        return json.dumps(manifest).encode()

    return rewrite


BROKEN_FILES = {
    "weights cut short": ("weights/0003_*.bin", cut_short, r"weights/0003_\S+\.bin"),
    "weights too long": ("weights/0003_*.bin", lambda data: data + b"\0", r"weights/0003_\S+\.bin"),
    "no weights": ("weights/0003_*.bin", None, r"weights/0003_\S+\.bin"),
    "no body": ("bodies/*.mlir", None, r"bodies/[0-9a-f]{64}\.mlir"),
    "no program in the body": (
        "bodies/*.mlir",
        lambda _: b"module { this is not StableHLO }",
        r"bodies/[0-9a-f]{64}\.mlir",
    ),
    "manifest cut short": ("tlaloc-serving.json", cut_short, "tlaloc-serving.json"),
    "no manifest": ("tlaloc-serving.json", None, "tlaloc-serving.json"),
    "field of another type": (
        "tlaloc-serving.json",
        manifest_with(lambda manifest: manifest["model"].update(vocabSize="96")),
        "vocabSize",
    ),
    "unknown schema": (
        "tlaloc-serving.json",
        manifest_with(lambda manifest: manifest.update(schemaVersion="tlaloc-serving-v99")),
        "tlaloc-serving-v99",
    ),
    "quantised pools": (
        "tlaloc-serving.json",
        manifest_with(
            lambda manifest: manifest["model"].update(
                kvQuant={
                    "dtype": "int8",
                    "scaleStrategy": "PER_HEAD",
                    "codeMax": 127,
                    "codeDtype": "i32",
                }
            )
        ),
        "kvQuant",
    ),
    "body outside": (
        "tlaloc-serving.json",
        manifest_with(lambda manifest: manifest["entries"][0].update(bodyPath="../main.mlir")),
        r"\.\./main\.mlir",
    ),
}


@pytest.mark.parametrize("case", BROKEN_FILES)
def test_a_broken_artifact_is_refused(server, broken, case):
    pattern, rewrite, message = BROKEN_FILES[case]
    file = sorted(broken.version.glob(pattern))[0]
    good = file.read_bytes()
    if rewrite is None:
        file.unlink()
    else:
        broken.write(file, rewrite(good))
    try:
        with pytest.raises(LoadError, match=message):
            server.load(broken.name)
    finally:
        broken.write(file, good)
    check_it_loads(server, broken)


# Requests.


def test_a_ring_shorter_than_the_window_is_refused(repository, server):
    model = examples.add(repository, "window_sequence", "short_ring")
    path = model.version / "tlaloc-serving.json"
    whole = path.read_bytes()
    manifest = json.loads(whole)
    manifest["model"]["windowedKv"]["ringPages"] = 1
    models.Model.write(path, json.dumps(manifest).encode())
    with pytest.raises(LoadError) as refusal:
        server.load(model.name)
    needle = "so a decode step would read a position already written over"
    assert refusal.value.status == 400 and needle in refusal.value.message
    # The control: the manifest as it was is served.
    models.Model.write(path, whole)
    server.load(model.name)
    with server.client() as client, client.sequence(model.name) as sequence:
        assert sequence.send([1, 2, 3], ["LOGITS"])["LOGITS"].shape[-1] == 64
    server.unload(model.name)


@pytest.fixture(params=["http", "grpc"])
def client(server, serving, request):
    """A client; while it is used, another sequence decodes undisturbed."""
    with server.client() as other, other.sequence(NAME) as witness:
        ids = [witness.next_token(PROMPT["prompt_ids"])]
        with server.client(request.param) as client:
            yield client
        while len(ids) < len(PROMPT["greedy_ids"]):
            ids.append(witness.next_token(ids[-1:]))
    assert_ids(ids, PROMPT["greedy_ids"])
    assert server.live()


def refused(message):
    return pytest.raises(InferenceServerException, match=message)


def assert_invalid(error):
    assert error.value.status() in ("400", "StatusCode.INVALID_ARGUMENT")


RAW_REQUESTS = {
    "another type": (np.ones((1, 3), np.int64), "data-type|data type|INT64"),
    "three axes": (np.ones((1, 1, 3), np.int32), "shape"),
    "no batch axis": (np.ones(3, np.int32), "batch-size"),
    "two rows": (np.ones((2, 3), np.int32), "batch-size"),
}


@pytest.mark.parametrize("case", RAW_REQUESTS)
def test_tokens_of_another_shape_or_type(client, case):
    tokens, message = RAW_REQUESTS[case]
    sequence = client.sequence(NAME)
    with refused(message) as error:
        client.infer(NAME, tokens, sequence_id=sequence.id, sequence_start=True)
    assert_invalid(error)
    end_if_live(sequence)


def end_if_live(sequence):
    """The server's front refuses some requests before a sequence starts."""
    try:
        sequence.end()
    except InferenceServerException as error:
        assert "must specify the START flag" in error.message()


BAD_TOKENS = {
    "negative": ([3, -1], rf"outside the vocabulary \[0, {VOCABULARY}\)"),
    "smallest": ([-(2**31)], rf"outside the vocabulary \[0, {VOCABULARY}\)"),
    "one too large": ([VOCABULARY], rf"outside the vocabulary \[0, {VOCABULARY}\)"),
    "largest": ([2**31 - 1], rf"outside the vocabulary \[0, {VOCABULARY}\)"),
    "one too many": (
        [1] * (CONTEXT + 1),
        f"the largest context this model was compiled for is {CONTEXT}",
    ),
    "a million": (
        [1] * 10**6,
        f"the largest context this model was compiled for is {CONTEXT}",
    ),
    "none": ([], "a request without tokens only ends a sequence"),
}


@pytest.mark.parametrize("case", BAD_TOKENS)
def test_a_refused_start_holds_nothing(client, case):
    tokens, message = BAD_TOKENS[case]
    with client.sequence(NAME) as sequence:
        with refused(message) as error:
            sequence.send(tokens, outputs=None)
        assert_invalid(error)
        with refused("has no KV state") as error:
            sequence.send([1])
        assert_invalid(error)
        assert sequence.end() == {}


@pytest.mark.parametrize("case", BAD_TOKENS)
def test_a_refused_step_changes_nothing(client, case):
    tokens, message = BAD_TOKENS[case]
    with client.sequence(NAME) as sequence:
        ids = [sequence.next_token(PROMPT["prompt_ids"])]
        while len(ids) < 6:
            with refused(message) as error:
                sequence.send(tokens, outputs=None)
            assert_invalid(error)
            ids.append(sequence.next_token(ids[-1:]))
    assert_ids(ids, PROMPT["greedy_ids"][:6])


def test_the_whole_context_can_be_used(client):
    with client.sequence(NAME) as sequence:
        sequence.send([1] * CONTEXT)
        with refused("the largest context this model was compiled for is"):
            sequence.send([1])


def test_generation_parameters_need_a_model_that_generates(client):
    with client.sequence(NAME) as sequence:
        sequence.send(PROMPT["prompt_ids"])
        with refused("max_tokens") as error:
            client.infer(
                NAME,
                np.ones((1, 1), np.int32),
                sequence_id=sequence.id,
                parameters={"max_tokens": 4},
            )
        assert_invalid(error)


def test_id_0_is_no_sequence(client):
    with refused("correlation ID") as error:
        client.infer(NAME, np.ones((1, 1), np.int32), sequence_id=0, sequence_start=True)
    assert_invalid(error)


def test_start_twice_begins_anew(client):
    with client.sequence(NAME) as sequence:
        sequence.send([7, 7, 7])
        ids = [int(sequence.send(PROMPT["prompt_ids"], start=True)["NEXT_TOKEN"][0])]
        while len(ids) < 6:
            ids.append(sequence.next_token(ids[-1:]))
    assert_ids(ids, PROMPT["greedy_ids"][:6])


def test_a_step_or_end_of_an_unknown_sequence(client):
    sequence = client.sequence(NAME)
    with refused("must specify the START flag"):
        sequence.send([1], start=False)
    with refused("must specify the START flag"):
        sequence.end()


def test_a_failed_request_with_end_frees_the_sequence(client):
    sequence = client.sequence(NAME)
    sequence.send(PROMPT["prompt_ids"])
    with refused("outside the vocabulary"):
        sequence.send([VOCABULARY], end=True)
    with refused("must specify the START flag"):
        sequence.send([1], start=False)


def test_an_output_that_does_not_fit_leaves_the_step_done(server, serving):
    """The tokens are appended, which the refusal says: they are not to be sent again."""
    import tritonclient.grpc as triton
    from tritonclient.utils import shared_memory

    with triton.InferenceServerClient(f"127.0.0.1:{server.grpc_port}") as client:
        key = f"/tlaloc-{uuid.uuid4().hex}"
        region = shared_memory.create_shared_memory_region("logits", key, 4 * VOCABULARY)
        client.register_system_shared_memory("logits", key, 4 * VOCABULARY)
        try:
            with server.client() as other, other.sequence(NAME) as sequence:
                ids = [sequence.next_token(PROMPT["prompt_ids"])]

                def step(room):
                    tokens = triton.InferInput("TOKENS", [1, 1], "INT32")
                    tokens.set_data_from_numpy(np.array([ids[-1:]], np.int32))
                    output = triton.InferRequestedOutput("LOGITS")
                    output.set_shared_memory("logits", room)
                    client.infer(NAME, [tokens], outputs=[output], sequence_id=sequence.id)

                with refused(
                    "its tokens are appended, but its outputs cannot be delivered"
                ) as error:
                    step(4 * VOCABULARY - 4)
                assert f"model '{NAME}': " in error.value.message()
                ids.append(PROMPT["greedy_ids"][1])
                step(4 * VOCABULARY)
                logits = shared_memory.get_contents_as_numpy(region, np.float32, [VOCABULARY])
                ids.append(int(logits.argmax()))
                ids.append(sequence.next_token(ids[-1:]))
            assert_ids(ids, PROMPT["greedy_ids"][:4])
        finally:
            client.unregister_system_shared_memory("logits")
            shared_memory.destroy_shared_memory_region(region)


def test_text_ids_and_numbers_are_different_sequences(client):
    with client.sequence(NAME, 41) as number, client.sequence(NAME, "41") as text:
        ids = [number.next_token(PROMPT["prompt_ids"])]
        text.send([7, 7, 7])
        while len(ids) < 6:
            ids.append(number.next_token(ids[-1:]))
            text.send([7])
    assert_ids(ids, PROMPT["greedy_ids"][:6])


def test_the_largest_id(server, serving):
    # The Python gRPC client does not take it.
    with server.client("http") as client, client.sequence(NAME, 2**64 - 1) as sequence:
        assert sequence.next_token(PROMPT["prompt_ids"]) == PROMPT["greedy_ids"][0]
