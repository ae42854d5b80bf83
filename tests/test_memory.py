"""What a model with sliding layers takes at context 8192, against the formulas."""

import json
import re
import shutil

import pytest
from harness import fixtures, models
from harness.decoding import LOGITS, logits

MIB = 2**20
CONTEXT, BLOCK, CHUNK, BLOCKS = 8192, 16, 512, 16385
# Of the checkpoint: keys and values of 2 heads of 16 features; layers 0, 1 and 3 slide over 8.
SLIDING, FULL, WINDOW, TOKEN_BYTES = 3, 1, 8, 2 * 16 * 4
# Artifact format §8, "Writer's sizing".
RING = -(-(WINDOW - 1 + CHUNK) // BLOCK)
WINDOWED = 1 + (BLOCKS - 1) // (CONTEXT // BLOCK) * RING
# Of a server beside weights, pools and temporary memory: its code and the plugin's, and what the
# compiler leaves to the allocator.
CONSTANT = 320 * MIB


def pool_bytes(windowed):
    pages = [WINDOWED if windowed else BLOCKS] * SLIDING + [BLOCKS] * FULL
    return 2 * sum(pages) * BLOCK * TOKEN_BYTES


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """The checkpoint, for longer contexts."""
    folder = tmp_path_factory.mktemp("checkpoints") / "gemma3-long"
    shutil.copytree(fixtures.tiny_checkpoint("gemma3"), folder)
    config = json.loads((folder / "config.json").read_text())
    config["max_position_embeddings"] = CONTEXT
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def load(repository, server, checkpoint, name, **options):
    """The model, loaded, with the bytes of its pools and of the largest temporary memory."""
    artifact = models.export(
        checkpoint,
        name,
        contexts=[CONTEXT],
        batches=[1],
        prefill_chunk=CHUNK,
        block_size=BLOCK,
        num_blocks=BLOCKS,
        **options,
    )
    repository.add(artifact, name)
    server.load(name)
    text = server.log.text()
    pools = re.search(rf"instance '{name}_0_0': \d+ KV pools \((\d+) MiB\) zeroed", text)
    temporary = re.search(rf"model '{name}': temporary memory .* at most (\d+) bytes", text)
    return int(pools[1]), int(temporary[1])


@pytest.mark.row("M1", "pools and memory at a context of 8192, most layers sliding")
def test_pools_and_resident_memory(row, repository, server, checkpoint):
    tokens = [3 + i % 90 for i in range(CONTEXT - 1)]
    rows = []
    for name, windowed in (("long_windowed", True), ("long_whole", False)):
        options = {} if windowed else {"windowed_kv": "false"}
        pools, temporary = load(repository, server, checkpoint, name, **options)
        assert pools == pool_bytes(windowed) // MIB
        with server.client() as client, client.sequence(name) as sequence:
            rows.append(logits(sequence.send(tokens, LOGITS)))
            sequence.send([5])
        resident = server.resident_bytes()
        row.figure(f"{name}: pools {pools} MiB, {resident // MIB} MiB resident")
        assert resident <= 1.05 * (pool_bytes(windowed) + temporary) + CONSTANT
        server.unload(name)
    assert abs(rows[0] - rows[1]).max() <= 1e-4 * abs(rows[1]).max()
    with row.control("pools without rings in the place of those with them"):
        assert resident <= 1.05 * (pool_bytes(True) + temporary) + CONSTANT


def test_a_program_that_copies_a_pool_is_told_of(repository, server):
    """Its address does not tell: the pool is written in place and read as it was before."""
    artifact = models.export(
        fixtures.tiny_checkpoint("llama"),
        "llama-copies",
        contexts=[64],
        batches=[1],
        prefill_chunk=16,
        num_blocks=2049,
    )
    repository.add(artifact, "in_place")
    model = repository.add(artifact, "copying")
    for body in (model.version / "bodies").iterdir():
        text, count = re.subn(
            r"\n( *)return (%\S+), (%\S+), (.* : tensor<\S+>, (tensor<2049\S+>))",
            r"\n\1%both = stablehlo.add \3, %keyCache0 : \5\n\1return \2, %both, \4",
            body.read_text(),
            count=1,
        )
        assert count == 1
        model.write(body, text.encode())
    for name in ("in_place", "copying"):
        server.load(name)
        server.unload(name)
    warned = (
        r"model '(\w+)': (\w+) needs \d+ bytes of temporary memory, \d+ more .* copies KV pools"
    )
    assert sorted(server.log.find(warned)) == [
        ("copying", "decode_b1_c64"),
        ("copying", "prefill_b1_c64_t16"),
    ]
