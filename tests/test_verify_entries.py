"""Entries that give the logits of every token of a call, against other implementations' numbers.

They are run as a client-mode model, whose client fills the slots of each call itself.
"""

from dataclasses import dataclass

import numpy as np
import pytest
from harness import environment, fixtures, models
from harness.decoding import greedy_alone
from harness.tensors import connected
from harness.tiny import SLIDING, Comparison

DRAFTS = 3
WIDTH = DRAFTS + 1
# Of SmolLM2's logits, which the fixture has in float32.
TOLERANCE = 1e-3


@dataclass
class Row:
    """A sequence that the client keeps: its pages and how many tokens are in them."""

    pages: np.ndarray
    ring: np.ndarray
    fed: int = 0


class Client:
    """A client-mode model and the slots of its calls."""

    def __init__(self, server, client, name):
        self._client, self._name = client, name
        config = server.config(name)
        self.inputs = {slot["name"]: slot["dims"] for slot in config["input"]}
        self.parameters = {
            key: value["string_value"] for key, value in config["parameters"].items()
        }
        self.block = int(self.parameters["kv_block_size"])

    def rows(self, count, context):
        """Sequences with pages of their own, in no particular order."""
        columns = context // self.block
        ring = int(self.parameters.get("kv_window_ring_pages", 1))
        pages = 1 + np.random.default_rng(7).permutation(count * columns).reshape(count, columns)
        rings = 1 + np.random.default_rng(8).permutation(count * ring).reshape(count, ring)
        return [Row(p.astype(np.int32), r.astype(np.int32)) for p, r in zip(pages, rings)]

    def call(self, rows, news, width):
        """The logits of a call of `width` tokens a row, `news` at its end; keeps what it fed."""
        batch = len(rows)
        tokens, positions = np.zeros((2, batch, width), np.int32)
        slots, window_slots = np.full((2, batch, width), -1, np.int32)
        for index, (row, new) in enumerate(zip(rows, news)):
            at = np.arange(row.fed, row.fed + len(new))
            page, offset = np.divmod(at, self.block)
            tokens[index, width - len(new) :] = new
            positions[index, width - len(new) :] = at
            slots[index, width - len(new) :] = row.pages[page] * self.block + offset
            ring = row.ring[page % len(row.ring)]
            window_slots[index, width - len(new) :] = ring * self.block + offset
            row.fed += len(new)
        arrays = {
            "tokenIds": tokens,
            "positions": positions,
            "blockTables": np.stack([row.pages for row in rows]),
            "seqLens": np.array([row.fed for row in rows], np.int32),
            "slotMapping": slots.ravel(),
        }
        if "windowBlockTables" in self.inputs:
            arrays["windowBlockTables"] = np.stack(
                [np.resize(row.ring, len(row.pages)) for row in rows]
            )
            arrays["windowSlotMapping"] = window_slots.ravel()
        return self._client.infer(self._name, arrays)["logits"]


@pytest.fixture
def client(server):
    """By one protocol: this is about programs."""
    with connected(server, "grpc") as client:
        yield client


@pytest.fixture(scope="module")
def serve(repository, server):
    served = []

    def serve(artifact, name):
        repository.add(artifact, name, "--mode", "client")
        server.load(name)
        served.append(name)
        return name

    yield serve
    for name in served:
        server.unload(name)


@pytest.mark.parametrize("family", ["llama", "gemma3"])
@pytest.mark.parametrize("batch", [1, 2])
def test_every_columns_logits_are_the_oracles(serve, server, client, family, batch):
    oracle = fixtures.tiny_oracle(family)
    options = {**(SLIDING if family == "gemma3" else {}), "contexts": [64], "batches": [1, 2]}
    artifact = models.export(
        fixtures.tiny_checkpoint(family), f"verify-{family}", verify_chunk=DRAFTS, **options
    )
    model = Client(server, client, serve(artifact, f"{family}_{batch}"))
    # Longer than the window of 8 positions.
    prompts = [prompt for prompt in oracle["prompts"] if prompt["length"] in (13, 40)][:batch]
    comparison = Comparison(oracle)
    expected = [np.asarray(prompt["logits"]) for prompt in prompts]
    drafts = [prompt["greedy_ids"] for prompt in prompts]

    def check(rows, first):
        comparison.check(list(rows), [e[first : first + rows.shape[1]] for e in expected])

    rows = []
    for prompt, row in zip(prompts, model.rows(batch, 64)):
        # The prompts have different lengths, so each is fed by itself.
        for token in prompt["prompt_ids"][:-1]:
            model.call([row], [[token]], 1)
        rows.append(row)
    last = [prompt["prompt_ids"][-1] for prompt in prompts]

    # A wrong draft: what comes before it is right, what comes behind is not.
    wrong = [[p, d[0], (d[1] + 1) % 96, d[2]] for p, d in zip(last, drafts)]
    logits = model.call(rows, wrong, WIDTH)
    assert logits.shape[:2] == (batch, WIDTH)
    check(logits[:, :2], 0)
    behind = [e[2:4] for e in expected]
    assert comparison.distance(list(logits[:, 2:]), behind) > 10 * comparison.allowed

    # Taken back, and sent again behind padding.
    for row in rows:
        row.fed -= 2
    logits = model.call(rows, [d[1:3] for d in drafts], WIDTH)
    check(logits[:, -2:], 2)
    # A call of four right drafts, and one token by itself behind them.
    logits = model.call(rows, [d[3:7] for d in drafts], WIDTH)
    check(logits, 4)
    check(model.call(rows, [d[7:8] for d in drafts], 1), 8)


@pytest.mark.parametrize("name", ["short_english", "code", "unicode_emoji"])
def test_smollm2_continues_as_the_fixture(smollm2, server, client, name):
    prompt = fixtures.smollm2_prompts()[name]
    model = Client(server, client, smollm2)
    (row,) = model.rows(1, 128)
    ids = prompt["prompt_ids"] + prompt["greedy_ids"]
    # Four tokens a call; what does not fill one goes first.
    first = len(ids) % WIDTH or WIDTH
    columns = list(model.call([row], [ids[:first]], WIDTH)[0, -first:])
    while row.fed < len(ids):
        columns.extend(model.call([row], [ids[row.fed : row.fed + WIDTH]], WIDTH)[0])
    steps = columns[prompt["n_prompt"] - 1 :]
    worst = 0
    for logits, step, token in zip(steps, prompt["steps"], prompt["greedy_ids"]):
        assert logits.argmax() == token
        error = np.abs(logits[step["top5_ids"]] - step["top5_logits"]).max()
        worst = max(worst, error / max(step["top5_logits"]))
    assert worst <= TOLERANCE
    # Control: the next column's logits are not these.
    shifted = np.abs(steps[1][prompt["steps"][0]["top5_ids"]] - prompt["steps"][0]["top5_logits"])
    assert shifted.max() > 10 * TOLERANCE * max(prompt["steps"][0]["top5_logits"])


@pytest.fixture(scope="module")
def artifact():
    return models.export(
        environment.smollm2(),
        "smollm2-verify",
        contexts=[128],
        batches=[1],
        prefill_chunk=32,
        verify_chunk=DRAFTS,
    )


@pytest.fixture(scope="module")
def smollm2(serve, artifact):
    return serve(artifact, "smollm2_verify")


def test_sequence_mode_leaves_them_out(repository, server, artifact):
    """Prompts of four tokens, which would fit a verify entry, and of more."""
    repository.add(artifact, "sequence")
    server.load("sequence")
    server.log.expect(r"model 'sequence': uploaded .*; 2 entries, KV pool")
    for name in ["short_english", "code", "one_token"]:
        prompt = fixtures.smollm2_prompts()[name]
        ids = greedy_alone(server, "sequence", prompt["prompt_ids"], 8)
        assert ids == prompt["greedy_ids"][:8]
    server.unload("sequence")
