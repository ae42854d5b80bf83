"""KV pools are updated where they are: by address, by memory, and against a control."""

import pytest
from harness import environment, fixtures, models
from harness.decoding import greedy

PROMPT = fixtures.smollm2_prompts()["short_english"]
POOLS = 60  # K and V of 30 layers


@pytest.fixture(scope="module")
def decoded(repository, server):
    """Two generations of 50 ids and the log lines of each model, by name."""
    artifact = models.export(
        environment.smollm2(), "smollm2-small", contexts=[64], batches=[1, 2, 4], num_blocks=64
    )
    repository.add(artifact, "in_place")
    repository.add(artifact, "copied").set_parameter("donate_kv_pools", "false")
    results = {}
    for name in ("in_place", "copied"):
        server.load(name)
        ids = []
        with server.client() as client:
            for _ in range(2):
                with client.sequence(name) as sequence:
                    ids += greedy(sequence, PROMPT["prompt_ids"], 50)
        server.log.expect(f"instance '{name}_0_0': in 100 runs")
        server.unload(name)
        lines = [line for line in server.log.text().splitlines() if f"'{name}" in line]
        results[name] = ids, "\n".join(lines)
    return results


@pytest.mark.row("L1", "greedy ids of another implementation")
def test_ids_are_right(row, decoded):
    ids = decoded["in_place"][0]
    row.ids(ids[:24], PROMPT["greedy_ids"])
    assert ids[:50] == ids[50:]


def check_they_stay(log):
    assert f"decode_b1_c64 updated the {POOLS} KV pools in place" in log
    assert f"the {POOLS} KV pools were updated in place 100 times and copied 0 times" in log
    assert "to new device memory" not in log


@pytest.mark.row("L2", "donated pools stay where they are")
def test_donated_pools_keep_their_address(row, decoded):
    check_they_stay(decoded["in_place"][1])
    row.figure(f"{POOLS} pools, 100 runs in place")
    with row.control("pools that are not donated"):
        check_they_stay(decoded["copied"][1])


@pytest.mark.row("L3", "pools that are not donated move, and the ids are equal")
def test_control_pools_that_are_not_donated_move(row, decoded):
    row.ids(decoded["copied"][0], decoded["in_place"][0])
    log = decoded["copied"][1]
    assert "executions are not handed the pools (donate_kv_pools is false)" in log
    assert f"the {POOLS} KV pools were updated in place 0 times and copied 100 times" in log
    assert "KV pools in place" not in log


@pytest.mark.row("L2", "donated pools stay where they are")
def test_no_program_needs_memory_for_a_pool(server, decoded):
    # A pool is 0.75 MiB. The address alone would not show a copy made on the way.
    needed = server.log.find(
        r"model 'in_place': (?:compiled|read from the compile cache) decode_b1_c64 .*"
        r"needs (\d+) MiB of temporary memory"
    )
    assert needed == ["0"]
