"""Requests that share executions: each gets its rows, executions are saved (T10, T11, T17)."""

import threading

import numpy as np
import pytest
from harness import examples
from harness.tensors import PROTOCOLS, at_once, connected

MODELS = ("grad_batched", "grad_unbatched", "ragged_batched", "ragged_consecutive")


@pytest.fixture(scope="module", autouse=True)
def loaded(repository, server):
    for name in MODELS:
        examples.add(repository, name)
        server.load(name)


def assert_rows(answers, requests, output, expected):
    for index, (answer, request) in enumerate(zip(answers, requests)):
        wanted = expected(next(iter(request.values())))
        found = answer[output]
        assert found.shape == wanted.shape and found.dtype == wanted.dtype
        assert found.tobytes() == wanted.tobytes(), f"request {index}: {found} is not {wanted}"


def check_control(answers, requests, output, expected, index):
    """One changed number of one request is seen."""
    wrong = {name: array.copy() for name, array in requests[index].items()}
    next(iter(wrong.values())).flat[0] += 1
    with pytest.raises(AssertionError, match=f"request {index}:"):
        changed = [*requests[:index], wrong, *requests[index + 1 :]]
        assert_rows(answers, changed, output, expected)


def gradient(rows):
    return (rows.sum(axis=2)[:, None, :] + rows.sum(axis=1)[:, :, None]).astype(np.float32)


def square_plus(x):
    return x * x + x


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_t10_rows_of_many_clients(server, protocol):
    random = np.random.default_rng(10)
    requests = [{"A": random.integers(-9, 9, (1, 2, 2)).astype(np.float32)} for _ in range(512)]
    grown, answers = {}, {}
    for model in ("grad_batched", "grad_unbatched"):
        before = server.statistics(model)
        answers[model] = at_once(server, model, requests, protocol, threads=32)
        grown[model] = server.statistics(model) - before
        assert_rows(answers[model], requests, "GRAD", gradient)
        check_control(answers[model], requests, "GRAD", gradient, 17)
    assert [grown[model].inferences for model in grown] == [512, 512]
    assert grown["grad_batched"].executions < 512
    # Control: without dynamic batching every request is an execution.
    assert grown["grad_unbatched"].executions == 512
    for batched, alone in zip(*answers.values()):
        assert batched["GRAD"].tobytes() == alone["GRAD"].tobytes()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_t11_rows_of_two_widths(server, protocol):
    random = np.random.default_rng(11)
    executions, answers = {}, {}
    rounds = [
        [
            {"X": random.integers(-99, 99, (rows, width)).astype(np.float32)}
            for rows, width in zip(random.integers(1, 3, 72), random.choice([4, 8], 72))
        ]
        for _ in range(3)
    ]
    for model in ("ragged_batched", "ragged_consecutive"):
        before = server.statistics(model)
        answers[model] = []
        for requests in rounds:
            found = at_once(server, model, requests, protocol)
            assert_rows(found, requests, "Y", square_plus)
            check_control(found, requests, "Y", square_plus, 29)
            answers[model] += [answer["Y"].tobytes() for answer in found]
        grown = server.statistics(model) - before
        executions[model] = grown.executions
    assert answers["ragged_batched"] == answers["ragged_consecutive"]
    assert 2 * executions["ragged_batched"] <= 216
    # Control: joining only neighbours saves less.
    assert executions["ragged_batched"] < executions["ragged_consecutive"]


def test_t17_the_log_tells_how_requests_are_batched(server):
    ready = (
        "model '{}': device 0 ready; tensors in host memory are read in place and written once; "
    )
    batched = "requests are batched along dim 0 up to batch 8, "
    grouped = "grouped by the shape of their rows"
    consecutive = r"only consecutive requests of one shape together \(group_by_shape is false\)"
    assert server.log.expect(ready.format("ragged_batched") + batched + grouped)
    assert server.log.expect(ready.format("ragged_consecutive") + batched + consecutive)
    assert not server.log.find(ready.format("ragged_batched") + batched + consecutive)
    assert not server.log.find(ready.format("ragged_consecutive") + batched + grouped)


def test_a_bad_request_in_a_batch_hurts_no_other(server):
    good = [{"X": np.full((1, 4), index, np.float32)} for index in range(16)]

    def refused():
        with connected(server, "grpc") as client:
            for _ in range(4):
                with pytest.raises(Exception, match=r"takes input shapes \(\[1,5\]\)"):
                    client.infer("ragged_batched", {"X": np.ones((1, 5), np.float32)})

    worker = threading.Thread(target=refused)
    worker.start()
    answers = at_once(server, "ragged_batched", good)
    worker.join()
    assert_rows(answers, good, "Y", square_plus)
