"""Loading and unloading again and again, and leaving."""

import pytest
from harness import fixtures, models
from harness.server import LoadError, Server

MEBIBYTE = 1 << 20
# What a cycle may leave behind on the average, beyond noise.
GROWTH = 0.5 * MEBIBYTE
PROMPT = fixtures.tiny_oracle("llama")["prompts"][1]


@pytest.fixture(scope="module")
def model(repository):
    artifact = models.export(
        fixtures.tiny_checkpoint("llama"), "lifecycle", contexts=[64], batches=[1]
    )
    return repository.add(artifact, "tiny")


def assert_flat(samples):
    """Threads and memory after the tenth cycle; samples are (threads, bytes)."""
    threads = [sample[0] for sample in samples[9:]]
    sizes = [sample[1] for sample in samples[9:]]
    assert max(threads) <= threads[0], f"threads grew: {threads}"
    # Halves are compared: a single reading says little about an allocator.
    half = len(sizes) // 2
    growth = sum(sizes[-half:]) / half - sum(sizes[:half]) / half
    per_cycle = growth / (len(sizes) - half)
    assert per_cycle < GROWTH, f"{per_cycle / MEBIBYTE:.2f} MiB per cycle: {sizes}"


def test_thirty_loads_and_unloads(server, model):
    samples = []
    for _ in range(30):
        server.load(model.name)
        with server.client("http") as client, client.sequence(model.name) as sequence:
            assert sequence.next_token(PROMPT["prompt_ids"]) == PROMPT["greedy_ids"][0]
        server.unload(model.name)
        samples.append((server.threads(), server.resident_bytes()))
    assert_flat(samples)


def test_twenty_failed_loads(server, model):
    body = next((model.version / "bodies").iterdir())
    text = body.read_bytes()
    # Fails after the client is made and other bodies are compiled.
    model.write(body, b"module { this is not StableHLO }")
    samples = []
    for _ in range(20):
        with pytest.raises(LoadError, match=body.name):
            server.load(model.name)
        samples.append((server.threads(), server.resident_bytes()))
    assert_flat(samples)
    model.write(body, text)
    server.load(model.name)
    server.unload(model.name)


def test_control_growth_is_seen():
    with pytest.raises(AssertionError):
        assert_flat([(20, 100 * MEBIBYTE + cycle * MEBIBYTE) for cycle in range(30)])
    with pytest.raises(AssertionError):
        assert_flat([(20 + cycle, 100 * MEBIBYTE) for cycle in range(30)])


def test_sigterm_without_open_sequences_exits_with_0(repository, model):
    server = Server(repository)
    server.load(model.name)
    with server.client() as client, client.sequence(model.name) as sequence:
        sequence.next_token(PROMPT["prompt_ids"])
    assert server.stop() == 0
