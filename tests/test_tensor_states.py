"""States of instances, several instances at once, and executions that fail."""

import os
import shutil

import numpy as np
import pytest
from harness import environment, examples
from harness.faults import Plan
from harness.server import running
from harness.tensors import at_once
from tritonclient.utils import InferenceServerException

X = np.array([1, 2, 3, 4], np.float32)
HIDDEN = ("buckets", "grad_batched", "large_io")


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    plan = Plan(tmp_path_factory.mktemp("faults") / "plan")
    plan.set()
    return plan


@pytest.fixture(scope="module")
def server(repository, plan):
    """Its plugin fails as planned; some models have one that shares no memory with the host."""
    plugin = environment.binary("libpjrt_fault.so")
    without_views = repository.path.with_name(f"{repository.path.name}-views.so")
    shutil.copyfile(plugin, without_views)
    counter = environment.FIXTURES / "tensor" / "counter"
    for name, count in (("counter", 1), ("two_counters", 2)):
        model = repository.copy(counter, name)
        model.substitute('name: "counter"', f'name: "{name}"')
        model.substitute("count: 1", f"count: {count}")
        model.set_parameter("pjrt_plugin_path", plugin)
    for name in HIDDEN:
        examples.add(repository, name).set_parameter("pjrt_plugin_path", without_views)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PJRT_FAULT_TARGET", environment.variables()["TLALOC_PJRT_PLUGIN_PATH"])
        patch.setenv("PJRT_FAULT_PLAN", str(plan.path))
        # The cache would know the plugin by the file that wraps it.
        patch.setenv("TLALOC_COMPILE_CACHE_DIR", "")
        with running(repository) as server:
            yield server
    os.unlink(without_views)


@pytest.fixture
def counter(server, plan):
    """A model with zeroed states, and no fault planned."""
    plan.set()
    server.load("counter")
    yield "counter"
    plan.set()
    server.unload("counter")


def check(outputs, count, total):
    assert outputs["COUNT"].tolist() == [count]
    assert outputs["TOTAL"].tolist() == total.tolist()


def test_a_state_is_kept_between_requests(server, counter, client):
    for count in range(1, 50):
        check(client.infer(counter, {"X": X}), count, count * X)
    # What is not asked for is kept nevertheless.
    assert set(client.infer(counter, {"X": X}, ["COUNT"])) == {"COUNT"}
    check(client.infer(counter, {"X": -X}), 51, 49 * X)
    server.log.expect(r"instance 'counter_\S*': 2 states \(1 KiB\) zeroed")


def test_a_refused_request_changes_no_state(counter, client):
    check(client.infer(counter, {"X": X}), 1, X)
    with pytest.raises(InferenceServerException):
        client.infer(counter, {"X": X.astype(np.float64)})
    check(client.infer(counter, {"X": X}), 2, 2 * X)


def test_a_launch_that_fails_changes_no_state(plan, counter, client):
    check(client.infer(counter, {"X": X}), 1, X)
    plan.set("execute refuse at 1")
    with pytest.raises(InferenceServerException) as error:
        client.infer(counter, {"X": X})
    assert "model 'counter': model.mlir: " in error.value.message()
    assert "states" not in error.value.message()
    assert error.value.status() in ("500", "StatusCode.INTERNAL")
    check(client.infer(counter, {"X": X}), 2, 2 * X)


def test_states_that_a_failed_execution_took_are_zero_again(plan, counter, client):
    for count in (1, 2, 3):
        check(client.infer(counter, {"X": X}), count, count * X)
    plan.set("execute lose at 1")
    with pytest.raises(InferenceServerException) as error:
        client.infer(counter, {"X": X})
    assert "model 'counter': model.mlir: " in error.value.message()
    assert "took the instance's states, which are zero again" in error.value.message()
    check(client.infer(counter, {"X": X}), 1, X)


def test_states_come_back_once_there_is_memory(plan, counter, client):
    check(client.infer(counter, {"X": X}), 1, X)
    plan.set("execute lose at 1", "upload refuse")
    for message in (
        "took the instance's states, and there is no memory for new ones",
        "the instance's states are lost, and there is no memory for new ones",
    ):
        with pytest.raises(InferenceServerException, match=message):
            client.infer(counter, {"X": X})
    plan.set()
    check(client.infer(counter, {"X": X}), 1, X)
    check(client.infer(counter, {"X": X}), 2, 2 * X)


def test_instances_run_at_once_with_states_of_their_own(server, plan):
    plan.set("execute delay 30")
    server.load("two_counters")
    answers = at_once(server, "two_counters", [{"X": X}] * 24, threads=8)
    counts = sorted(answer["COUNT"][0] for answer in answers)
    for answer in answers:
        assert answer["TOTAL"].tolist() == (answer["COUNT"][0] * X).tolist()
    # Each instance counts from 1 to its share.
    largest = [counts[-1], 24 - counts[-1]]
    assert counts == sorted([*range(1, largest[0] + 1), *range(1, largest[1] + 1)])
    assert min(largest) >= 6, f"one instance ran {largest} of 24 requests"
    plan.set()


def test_a_device_with_memory_of_its_own(server, plan, client):
    plan.set("hide PJRT_Client_CreateViewOfDeviceBuffer")
    for name in HIDDEN:
        server.load(name)
    plan.set()
    x = np.arange(8, dtype=np.float32)
    assert client.infer("buckets", {"X": x})["Y"].tolist() == (x * x + x).tolist()
    rows = np.arange(12, dtype=np.float32).reshape(3, 2, 2)
    expected = rows.sum(axis=2)[:, None, :] + rows.sum(axis=1)[:, :, None]
    assert client.infer("grad_batched", {"A": rows})["GRAD"].tolist() == expected.tolist()
    requests = [{"A": rows[index : index + 1]} for index in range(3)] * 8
    answers = at_once(server, "grad_batched", requests)
    for index, answer in enumerate(answers):
        assert answer["GRAD"][0].tolist() == expected[index % 3].tolist()
    large = (np.arange(4_194_304) % 1024).astype(np.float32) * 0.5 - 256
    found = client.infer("large_io", {"X": large})["Y"]
    assert (found == large * large + large).all()
    server.log.expect("tensors in host memory are copied to the device and back")
    for name in HIDDEN:
        assert not server.log.find(f"model '{name}': input '.' is read in place")
