"""Executions, uploads and compilations that fail, on a plugin that fails on demand."""

import contextlib
import itertools
import os
import shutil

import pytest
from harness import environment, fixtures, models
from harness.decoding import greedy_alone
from harness.faults import Plan
from harness.server import LoadError, running
from tritonclient.utils import InferenceServerException

PROMPT = fixtures.tiny_oracle("llama")["prompts"][2]
EXPECTED = PROMPT["greedy_ids"]
WINDOWED = fixtures.tiny_oracle("gemma3")["prompts"][3]
HYBRID = fixtures.tiny_oracle("qwen3_5")["prompts"][2]


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    plan = Plan(tmp_path_factory.mktemp("faults") / "plan")
    plan.set()
    return plan


@pytest.fixture(scope="module")
def server(repository, plan):
    artifact = models.export(
        fixtures.tiny_checkpoint("llama"),
        "llama-faults",
        contexts=[64],
        batches=[1, 2],
        prefill_chunk=16,
    )
    plugin = environment.binary("libpjrt_fault.so")
    repository.add(artifact, "faulty").set_parameter("pjrt_plugin_path", plugin)
    # A plugin reads what it is to hide when it is loaded, so each such model has its own copy.
    for hidden in ("views", "memory-stats"):
        copy = repository.path.with_name(f"{repository.path.name}-{hidden}.so")
        shutil.copyfile(plugin, copy)
        repository.add(artifact, f"without_{hidden}").set_parameter("pjrt_plugin_path", copy)
    # Room for four rings of 6 pages (artifact format §8).
    windowed = models.export(
        fixtures.tiny_checkpoint("gemma3"),
        "gemma3-faults",
        contexts=[64],
        batches=[1],
        prefill_chunk=16,
        block_size=4,
        num_blocks=65,
    )
    repository.add(windowed, "faulty_window").set_parameter("pjrt_plugin_path", plugin)
    hybrid = models.export(
        fixtures.tiny_checkpoint("qwen3_5"),
        "qwen3_5-faults",
        contexts=[64],
        batches=[1],
        prefill_chunk=16,
        num_blocks=33,
        state_slots=2,
    )
    repository.add(hybrid, "faulty_hybrid").set_parameter("pjrt_plugin_path", plugin)
    copy = repository.path.with_name(f"{repository.path.name}-views.so")
    repository.add(hybrid, "hybrid_without_views").set_parameter("pjrt_plugin_path", copy)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PJRT_FAULT_TARGET", os.environ["TLALOC_PJRT_PLUGIN_PATH"])
        patch.setenv("PJRT_FAULT_PLAN", str(plan.path))
        # The cache would know the plugin by the file that wraps it, and hide compilations.
        patch.setenv("TLALOC_COMPILE_CACHE_DIR", "")
        with running(repository) as server:
            yield server
    for hidden in ("views", "memory-stats"):
        repository.path.with_name(f"{repository.path.name}-{hidden}.so").unlink()


@pytest.fixture
def model(server, plan):
    """The model, loaded, and no fault planned."""
    plan.set()
    server.load("faulty")
    yield "faulty"
    plan.set()


def refused(call):
    with pytest.raises(InferenceServerException) as refusal:
        call()
    return str(refusal.value)


def test_a_launch_that_fails_appends_nothing(server, plan, model):
    with server.client() as client, client.sequence(model) as one, client.sequence(model) as other:
        assert one.next_token(PROMPT["prompt_ids"]) == EXPECTED[0]
        assert other.next_token(PROMPT["prompt_ids"]) == EXPECTED[0]
        plan.set("execute refuse at 1")
        text = refused(lambda: one.next_token(EXPECTED[:1]))
        assert "model 'faulty': execution of decode_b1_c64 failed and appended nothing" in text
        assert "pjrt-fault" in text
        for sequence in (one, other):
            assert [sequence.next_token([token]) for token in EXPECTED[:-1]] == EXPECTED[1:]


def test_the_control_without_a_fault_decodes(server, model):
    assert greedy_alone(server, model, PROMPT["prompt_ids"], 16) == EXPECTED


@pytest.mark.parametrize("fault", ["execute lose at 1", "execute fail at 1"])
def test_lost_pools_end_every_sequence_and_the_instance_serves_on(server, plan, model, fault):
    mark = server.log.mark()
    with server.client() as client, client.sequence(model) as one, client.sequence(model) as other:
        for sequence in (one, other):
            assert sequence.next_token(PROMPT["prompt_ids"]) == EXPECTED[0]
        plan.set(fault)
        text = refused(lambda: one.next_token(EXPECTED[:1]))
        assert "took the KV pools with it, so every sequence of instance 'faulty_0_0'" in text
        assert "has no KV state" in refused(lambda: other.next_token(EXPECTED[:1]))
        server.log.expect(
            r"E\d+ .*a failed execution took the KV pools: freed 2 sequence\(s\); the pools are "
            "zeroed anew",
            mark,
        )
    assert greedy_alone(server, model, PROMPT["prompt_ids"], 16) == EXPECTED


def test_lost_pools_of_a_windowed_model_give_rings_back(server, plan):
    plan.set()
    server.load("faulty_window")
    ids = WINDOWED["greedy_ids"]
    with server.client() as client, contextlib.ExitStack() as stack:

        def start():
            sequence = stack.enter_context(client.sequence("faulty_window"))
            assert sequence.next_token(WINDOWED["prompt_ids"]) == ids[0]
            return sequence

        held = [start() for _ in range(4)]
        assert "windowed KV page pool exhausted" in refused(start)
        plan.set("execute lose at 1")
        text = refused(lambda: held[0].next_token(ids[:1]))
        assert "took the KV pools with it, so every sequence of instance" in text
        for sequence in held[1:]:
            text = refused(lambda sequence=sequence: sequence.next_token(ids[:1]))
            assert "has no KV state" in text
        for sequence in [start() for _ in range(4)]:
            assert sequence.next_token(ids[:1]) == ids[1]
    server.unload("faulty_window")


def test_lost_pools_of_a_hybrid_model_give_state_slots_back(server, plan):
    plan.set()
    server.load("faulty_hybrid")
    with server.client() as client, contextlib.ExitStack() as stack:

        def start():
            sequence = stack.enter_context(client.sequence("faulty_hybrid"))
            assert sequence.next_token(HYBRID["prompt_ids"]) == HYBRID["greedy_ids"][0]
            return sequence

        one, other = start(), start()
        plan.set("execute lose at 1")
        text = refused(lambda: one.next_token(HYBRID["greedy_ids"][:1]))
        assert "took the KV pools with it, so every sequence of instance" in text
        assert "has no KV state" in refused(lambda: other.next_token([1]))
        # A launch that fails has not touched the state: the request can be repeated.
        one.end(), other.end()
        one, _ = start(), start()
        plan.set("execute refuse at 1")
        assert "appended nothing" in refused(lambda: one.next_token(HYBRID["greedy_ids"][:1]))
        for token, following in itertools.pairwise(HYBRID["greedy_ids"]):
            assert one.next_token([token]) == following
    server.unload("faulty_hybrid")


def test_pools_that_cannot_be_zeroed_are_tried_again(server, plan, model):
    mark = server.log.mark()
    with server.client() as client, client.sequence(model) as one, client.sequence(model) as other:
        assert one.next_token(PROMPT["prompt_ids"]) == EXPECTED[0]
        plan.set("execute lose at 1", "upload refuse")
        refused(lambda: one.next_token(EXPECTED[:1]))
        server.log.expect("zeroing the pools failed, the next batch tries again", mark)
        assert "not executed: an earlier execution that failed took the KV pools" in refused(
            lambda: other.next_token(PROMPT["prompt_ids"])
        )
    plan.set()
    assert greedy_alone(server, model, PROMPT["prompt_ids"], 16) == EXPECTED


def test_a_prompt_of_several_calls_that_fails_midway_is_freed(server, plan, model):
    long = fixtures.tiny_oracle("llama")["prompts"][3]  # 40 tokens: calls of 16, 16 and 8
    with server.client() as client, client.sequence(model) as sequence:
        plan.set("execute refuse at 2")
        text = refused(lambda: sequence.next_token(long["prompt_ids"]))
        assert "an earlier call of the same request had run, so the sequence is freed" in text
        assert "has no KV state" in refused(lambda: sequence.next_token([1]))
        # Where no call had run before, the request can be repeated.
        plan.set()
        assert sequence.send(PROMPT["prompt_ids"], start=True)
        plan.set("execute refuse at 1")
        text = refused(lambda: sequence.next_token(EXPECTED[:1]))
        assert "the sequence is freed" not in text
        assert sequence.next_token(EXPECTED[:1]) == EXPECTED[1]
    plan.set()
    assert greedy_alone(server, model, long["prompt_ids"], 16) == long["greedy_ids"]


@pytest.mark.parametrize(
    ("fault", "needle"),
    [
        ("compile refuse at 1", "PJRT_Client_Compile failed: pjrt-fault"),
        ("upload refuse at 1", "PJRT_Client_BufferFromHostBuffer failed: pjrt-fault"),
        ("execute refuse at 1", "compiles, but its trial run failed"),
        ("execute lose at 1", "compiles, but its trial run failed"),
    ],
)
def test_a_load_that_fails_says_why_and_can_be_repeated(server, plan, fault, needle):
    server.unload("faulty")
    plan.set(fault)
    with pytest.raises(LoadError) as refusal:
        server.load("faulty")
    assert "model 'faulty': " in refusal.value.message
    assert needle in refusal.value.message
    plan.set()
    server.load("faulty")
    assert greedy_alone(server, "faulty", PROMPT["prompt_ids"], 16) == EXPECTED


def test_a_plugin_without_views_is_served_by_copies(server, plan):
    plan.set("hide PJRT_Client_CreateViewOfDeviceBuffer")
    mark = server.log.mark()
    server.load("without_views")
    plan.set()
    log = server.log.expect(r"instance 'without_views_0_0': (.*)", mark)[0]
    assert "step inputs are uploaded one by one (the device does not read host memory)" in log
    assert "the copy of the logits is queued behind the execution" in log
    assert greedy_alone(server, "without_views", PROMPT["prompt_ids"], 16) == EXPECTED

    with server.client() as client, client.sequence("without_views") as sequence:
        assert sequence.next_token(PROMPT["prompt_ids"]) == EXPECTED[0]
        plan.set("read refuse at 1")
        text = refused(lambda: sequence.next_token(EXPECTED[:1]))
        assert "decode_b1_c64 ran, but its results could not be copied to the host" in text
        plan.set()
        assert [sequence.next_token([token]) for token in EXPECTED[:-1]] == EXPECTED[1:]
    server.unload("without_views")


def test_a_copy_that_fails_frees_a_sequence_with_state(server, plan):
    plan.set("hide PJRT_Client_CreateViewOfDeviceBuffer")
    server.load("hybrid_without_views")
    plan.set()
    with server.client() as client, client.sequence("hybrid_without_views") as sequence:
        assert sequence.next_token(HYBRID["prompt_ids"]) == HYBRID["greedy_ids"][0]
        plan.set("read refuse at 1")
        text = refused(lambda: sequence.next_token(HYBRID["greedy_ids"][:1]))
        assert "results could not be copied to the host" in text
        # The state has taken the token in, so it cannot be sent again.
        assert "sequence is freed" in text
        assert "has no KV state" in refused(lambda: sequence.next_token([1]))
        plan.set()
    assert (
        greedy_alone(server, "hybrid_without_views", HYBRID["prompt_ids"], 16)
        == (HYBRID["greedy_ids"])
    )
    server.unload("hybrid_without_views")


def test_a_plugin_that_does_not_tell_its_memory_is_served(server, plan):
    plan.set("hide PJRT_Executable_GetCompiledMemoryStats")
    mark = server.log.mark()
    server.load("without_memory-stats")
    plan.set()
    text = server.log.text(mark)
    assert "MiB of temporary memory" not in text
    assert "temporary memory of an execution: unknown, the plugin does not tell" in text
    assert greedy_alone(server, "without_memory-stats", PROMPT["prompt_ids"], 16) == EXPECTED
    server.unload("without_memory-stats")
