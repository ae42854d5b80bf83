"""What the metrics port shows, against what was sent."""

import json

import pytest
from harness import fixtures, models
from harness.decoding import greedy_alone
from harness.metrics import of_instance
from harness.server import running, wait_until
from tritonclient.utils import InferenceServerException

BLOCK, BLOCKS, CONTEXT = 16, 9, 64
PROMPT = fixtures.tiny_oracle("llama")["prompts"][2]
IDS = PROMPT["greedy_ids"][:6]


@pytest.fixture(scope="module")
def artifact():
    return models.export(
        fixtures.tiny_checkpoint("llama"),
        "llama-metrics",
        contexts=[CONTEXT],
        batches=[1, 2],
        prefill_chunk=16,
        num_blocks=BLOCKS,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("programs")


@pytest.fixture(scope="module")
def server(repository, artifact, folder):
    for name in ("counted", "other", "dying"):
        repository.add(artifact, name)
    repository.add(artifact, "generating", "--mode", "generate")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TLALOC_TEST_INSTANCE_PANIC", "dying")
        patch.setenv("TLALOC_COMPILE_CACHE_DIR", str(folder))
        with running(repository) as server:
            yield server


@pytest.fixture
def loaded(server):
    """Loads models, and unloads them at the end."""
    names = []

    def load(name):
        server.load(name)
        names.append(name)

    yield load
    for name in names:
        server.unload(name)


def executions(metrics, model):
    """Executions of each kind."""
    found = {"prefill": 0, "decode": 0}
    for (name, labels), value in metrics.values.items():
        labels = dict(labels)
        if name == "nv_tlaloc_executions_total" and labels["model"] == model:
            found[labels["entry"].split("_")[0]] += value
    return found


def traffic(server, prompts):
    """Prompts of these lengths, each followed by two decoded tokens, one after the other."""
    for length in prompts:
        with server.client() as client, client.sequence("counted") as sequence:
            ids = [sequence.next_token([3 + i % 90 for i in range(length)])]
            for _ in range(2):
                ids.append(sequence.next_token(ids[-1:]))


# A prompt of one token is decoded, longer ones are prefilled in chunks of 16. Two kinds of traffic:
# each is the other's control.
@pytest.mark.parametrize("prompts", [[5, 20, 1], [40, 2]])
def test_tokens_and_executions_are_counted(server, loaded, prompts):
    loaded("counted")
    traffic(server, prompts)
    metrics = server.metrics()
    long = [length for length in prompts if length > 1]
    prefilled = sum(long)
    chunks = sum(-(-length // 16) for length in long)
    decoded = 2 * len(prompts) + prompts.count(1)
    assert of_instance(metrics, "counted", "prefill_tokens_total") == prefilled
    assert of_instance(metrics, "counted", "decode_tokens_total") == decoded
    assert executions(metrics, "counted") == {"prefill": chunks, "decode": decoded}
    for kind, count in (("prefill", chunks), ("decode", decoded)):
        assert of_instance(metrics, "counted", "batch_size_count", kind=kind) == count
        assert of_instance(metrics, "counted", "batch_size_bucket", kind=kind, le="1") == count
    seconds = sum(
        value
        for (name, labels), value in metrics.values.items()
        if name == "nv_tlaloc_execution_seconds_total" and ("model", "counted") in labels
    )
    assert 0 < seconds < 60


def test_pages_and_requests_are_shown(server, loaded):
    def pages(kind):
        metrics = server.metrics()
        return of_instance(metrics, "counted", "kv_cache_block_metrics", kv_cache_block_type=kind)

    loaded("counted")
    usable = BLOCKS - 1
    assert [pages(kind) for kind in ("used", "free", "max", "fraction")] == [0, usable, usable, 0]
    assert pages("tokens_per") == BLOCK
    with server.client() as client, client.sequence("counted") as sequence:
        sequence.next_token([3] * 33)
        # 33 tokens are on three pages.
        assert [pages(kind) for kind in ("used", "free", "fraction")] == [3, 5, 3 / 8]
        assert of_instance(server.metrics(), "counted", "live_sequences") == 1
        for kind in ("running", "waiting"):
            assert (
                of_instance(server.metrics(), "counted", "request_metrics", request_type=kind) == 0
            )
    assert [pages(kind) for kind in ("used", "free", "max")] == [0, usable, usable]
    assert of_instance(server.metrics(), "counted", "live_sequences") == 0


def test_memory_is_shown_and_reported(server, loaded, artifact):
    loaded("counted")
    manifest = json.loads((artifact / "tlaloc-serving.json").read_text())
    weights = sum(row["byteLength"] for row in manifest["weights"]["table"])
    model = manifest["model"]
    pool = BLOCKS * BLOCK * model["numKvHeads"] * model["headDim"] * 4
    pools = 2 * model["numLayers"] * pool

    def memory(kind):
        return of_instance(server.metrics(), "counted", "runtime_memory_metrics", memory_type=kind)

    assert (memory("weights"), memory("pools")) == (weights, pools)
    inputs = memory("step_inputs")
    status, text = server.request("GET", "/v2/models/counted/stats")
    assert status == 200
    usage = json.loads(text)["model_stats"][0]["memory_usage"]
    assert usage == [{"type": "CPU", "id": 0, "byte_size": weights + pools + inputs}]


def test_refusals_are_counted_by_reason(server, loaded):
    loaded("counted")

    def refused(reason):
        return of_instance(server.metrics(), "counted", "refusals_total", reason=reason)

    with server.client() as client:
        for tokens in ([10_000], [3] * (CONTEXT + 1)):
            with pytest.raises(InferenceServerException), client.sequence("counted") as sequence:
                sequence.next_token(tokens)
        # Two of four pages each leave none for a third sequence.
        with client.sequence("counted") as one, client.sequence("counted") as two:
            one.next_token([3] * CONTEXT)
            two.next_token([3] * CONTEXT)
            with (
                pytest.raises(InferenceServerException, match="exhausted"),
                client.sequence("counted") as third,
            ):
                third.next_token([3])
    found = {reason: refused(reason) for reason in ("token", "context", "pages", "copy")}
    assert found == {"token": 1, "context": 1, "pages": 1, "copy": 0}


def test_cohort_waits_are_counted(server, loaded):
    loaded("counted")

    def waits():
        metrics = server.metrics()
        names = ("cohort_waits_total", "cohort_timeouts_total")
        return [of_instance(metrics, "counted", name) for name in names]

    with (
        server.client() as client,
        client.sequence("counted") as one,
        client.sequence("counted") as two,
    ):
        # Prompts are in no cohort; after them, whoever decoded last is waited for.
        for sequence, tokens, expected in (
            (one, [3, 4], 0),
            (two, [3, 4], 0),
            (one, [5], 0),
            (two, [5], 1),
            (two, [5], 1),
            (one, [5], 2),
        ):
            sequence.next_token(tokens)
            assert waits() == [expected, expected]


def test_programs_are_counted_by_where_they_came_from(server, loaded, artifact, folder):
    bodies = len(list((artifact / "bodies").iterdir()))

    def found():
        server.load("counted")
        metrics = server.metrics()
        server.unload("counted")
        names = ("hits", "misses")
        values = [f"nv_tlaloc_compile_cache_{name}_total" for name in names]
        return [metrics.get(name, model="counted") for name in values]

    found()
    assert found() == [bodies, 0]
    for file in folder.iterdir():
        if file.is_file():
            file.unlink()
    assert found() == [0, bodies]


# Prompt and tokens of each request; two kinds of traffic are each other's control.
@pytest.mark.parametrize("requests", [[(5, 4), (20, 1)], [(7, 3)]])
def test_generated_tokens_are_counted(server, loaded, requests):
    name = "generating"
    loaded(name)

    def generate(status, **keys):
        body = json.dumps({"temperature": 0.0, "ignore_eos": True, **keys})
        found, text = server.request("POST", f"/v2/models/{name}/generate", body)
        assert found == status, text

    for prompt, tokens in requests:
        generate(200, input_ids=[3 + i % 90 for i in range(prompt)], max_tokens=tokens)
    generate(400, input_ids=[3], max_tokens=10 * CONTEXT)
    metrics = server.metrics()

    def value(metric, **labels):
        return of_instance(metrics, name, metric, **labels)

    later = sum(tokens - 1 for _, tokens in requests)
    assert value("time_to_first_token_seconds_count") == len(requests)
    assert value("inter_token_latency_seconds_count") == later
    assert value("decode_tokens_total") == later
    assert value("prefill_tokens_total") == sum(prompt for prompt, _ in requests)
    assert value("requests_finished_total", finish_reason="length") == len(requests)
    assert value("requests_finished_total", finish_reason="error") == 0
    assert value("refusals_total", reason="malformed") == 1
    assert value("preemptions_total", preemption_type="swap") == 0
    assert value("kv_cache_block_metrics", kv_cache_block_type="used") == 0
    for kind in ("running", "waiting", "preempted", "swapped"):
        assert value("request_metrics", request_type=kind) == 0


def test_server_8663_a_reload_takes_no_metric_from_others(server, loaded):
    loaded("counted")
    loaded("other")
    assert greedy_alone(server, "other", PROMPT["prompt_ids"], len(IDS)) == IDS
    names = server.metrics().of("other")
    before = of_instance(server.metrics(), "other", "decode_tokens_total")
    assert before == len(IDS) - 1
    server.unload("counted")
    assert server.metrics().of("counted") == set()
    server.load("counted")
    assert server.metrics().of("counted") == names
    # Loaded over itself, which changes nothing, and while it serves.
    server.load("other")
    assert greedy_alone(server, "other", PROMPT["prompt_ids"], len(IDS)) == IDS
    assert server.metrics().of("other") == names
    assert of_instance(server.metrics(), "other", "decode_tokens_total") == 2 * before
    # The control.
    assert of_instance(server.metrics(), "counted", "decode_tokens_total") == 0


def test_server_6658_a_dead_instance_is_not_ready(server, loaded):
    loaded("other")
    server.load("dying")

    def ready(name):
        return server.get(f"/v2/models/{name}/ready") == 200

    assert ready("dying") and ready("other")
    with pytest.raises(InferenceServerException, match="dying.*has ended"):
        greedy_alone(server, "dying", PROMPT["prompt_ids"], 1)
    server.log.expect(r"instance 'dying_0_0': the instance thread panicked")
    wait_until(lambda: not ready("dying"), 10, "the dead instance's model not to be ready")
    assert ready("other")
    assert greedy_alone(server, "other", PROMPT["prompt_ids"], len(IDS)) == IDS
    # Loaded again, it is ready again.
    server.load("dying")
    assert ready("dying")
    server.unload("dying")
