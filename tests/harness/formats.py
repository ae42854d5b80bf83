"""What a model loses and saves in other number formats.

python -m harness.formats         Markdown tables of SmolLM2 and tiny models; run by
                                  scripts/number-formats.sh, minutes long
"""

import json
import sys
import tempfile
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np

from . import environment, fixtures, models
from .decoding import LOGITS, greedy_alone, together
from .server import running

FORMATS = {
    "float32": {},
    "bf16 weights": {"weight_dtype": "bf16"},
    "int8 weights": {"weight_quant": "int8"},
    "fp8 weights": {"weight_quant": "fp8"},
    "int8 weights, bf16 the rest": {"weight_quant": "int8", "weight_dtype": "bf16"},
    "bf16 KV": {"kv_dtype": "bf16"},
    "fp8 KV": {"kv_dtype": "fp8"},
    "int8 weights, fp8 KV": {"weight_quant": "int8", "kv_dtype": "fp8"},
}
# Of the text that SmolLM2 reads.
WINDOWS = 4
TINY = ["llama", "gemma3", "qwen3_moe", "qwen3_next"]
BYTES = {"f32": 4, "i32": 4, "bf16": 2, "i8": 1, "f8e4m3fn": 1}


@dataclass
class Reading:
    """What a model makes of a text."""

    # Of each token but a window's first, given those before it: minus its log probability.
    surprises: np.ndarray
    # The token that it expects most, after each token but a window's last.
    expected: np.ndarray

    @property
    def perplexity(self):
        return float(np.exp(self.surprises.mean()))

    def agreement(self, other):
        """The share of positions at which two models expect the same token."""
        return float((self.expected == other.expected).mean())


def read(server, model, windows):
    """Read several windows of a text, each token by token, side by side."""

    def job(ids):
        def read(client):
            surprises, expected = [], []
            with client.sequence(model) as sequence:
                for token, following in zip(ids, ids[1:]):
                    row = sequence.send([token], LOGITS)["LOGITS"].ravel().astype(np.float64)
                    largest = row.max()
                    total = largest + np.log(np.exp(row - largest).sum())
                    surprises.append(total - row[following])
                    expected.append(int(row.argmax()))
            return surprises, expected

        return read

    surprises, expected = zip(*together(server, [job(ids) for ids in windows]))
    return Reading(np.concatenate(surprises), np.concatenate(expected))


def text_ids(checkpoint, count):
    """The first `count` token ids of a text of our own."""
    from tokenizers import Tokenizer

    text = (environment.FIXTURES / "text" / "facts.txt").read_text(encoding="utf-8")
    tokenizer = Tokenizer.from_file(str(checkpoint / "tokenizer.json"))
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    assert len(ids) >= count
    return ids[:count]


def memory(artifact):
    """(bytes of weights, bytes of KV pools) of an artifact."""
    manifest = json.loads((artifact / "tlaloc-serving.json").read_text(encoding="utf-8"))
    weights = sum(row["byteLength"] for row in manifest["weights"]["table"])
    inputs = manifest["entries"][0]["inputs"]
    pools = [slot["type"] for slot in inputs if slot["role"].endswith("KV_POOL_IN")]
    return weights, sum(prod(pool["dims"]) * BYTES[pool["dtype"]] for pool in pools)


def swap_scale_axis(model):
    """Code a model's int8 projections anew, with a scale for each input instead of each output.

    The scales that the program multiplies by stay what they were: a mistake to be caught.
    """
    manifest = json.loads((model.version / "tlaloc-serving.json").read_text(encoding="utf-8"))
    rows = {row["name"]: row for row in manifest["weights"]["table"]}
    quantised = [name for name in rows if f"{name}Scale" in rows]
    assert quantised
    for name in quantised:
        row = rows[name]
        assert row["dtype"] == "i8"
        path = model.version / row["path"]
        codes = np.fromfile(path, np.int8).reshape(row["dims"])
        scales = np.fromfile(model.version / rows[f"{name}Scale"]["path"], "<f4")
        values = codes * scales[:, None]
        by_input = np.abs(values).max(axis=0) / np.float32(127)
        by_input[by_input == 0] = 1
        model.write(path, np.rint(values / by_input).astype(np.int8).tobytes())


def table(server, repository, label, checkpoint, windows, prompts, **options):
    """Markdown: one row for each format."""
    titles = ["weights, MB", "KV pools, MB", "perplexity", "same likeliest token", "greedy ids"]
    yield f"| {' | '.join([label, *titles])} |"
    yield "|---|---|---|---|---|---|"
    exact = None
    for name, choices in FORMATS.items():
        with tempfile.TemporaryDirectory(dir=environment.cache()) as folder:
            artifact = models.export_to(checkpoint, Path(folder) / "artifact", **options, **choices)
            weights, pools = (size / 1e6 for size in memory(artifact))
            # Its weights stay as hard links.
            repository.add(artifact, "reader")
        server.load("reader")
        reading = read(server, "reader", windows)
        exact = exact or reading
        right = 0
        for prompt in prompts:
            found = greedy_alone(server, "reader", prompt["prompt_ids"], len(prompt["greedy_ids"]))
            right += found == prompt["greedy_ids"]
        server.unload("reader")
        repository.drop("reader")
        yield (
            f"| {name} | {weights:.4g} | {pools:.4g} | {reading.perplexity:.4f} "
            f"| {100 * reading.agreement(exact):.2f} % | {right} of {len(prompts)} prompts |"
        )


def main():
    repository = models.Repository()
    try:
        with running(repository) as server:
            for family in TINY:
                checkpoint = fixtures.tiny_checkpoint(family)
                prompts = fixtures.tiny_oracle(family)["prompts"]
                vocabulary = len(prompts[0]["logits"][0])
                # Random models know no text: any ids do.
                ids = (np.arange(250) ** 2 * 7 % (vocabulary - 2)).tolist()
                options = {"contexts": [256], "prefill_chunk": 32}
                for line in table(server, repository, family, checkpoint, ids, prompts, **options):
                    print(line, flush=True)
                print()
            checkpoint = environment.smollm2()
            prompts = list(fixtures.smollm2_prompts().values())
            options = {"contexts": [768], "batches": [WINDOWS], "prefill_batches": [1]}
            count = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
            ids = text_ids(checkpoint, count)
            windows = [list(ids) for ids in np.array_split(ids, WINDOWS)]
            for line in table(
                server, repository, "SmolLM2-135M", checkpoint, windows, prompts, **options
            ):
                print(line, flush=True)
    finally:
        repository.remove()


if __name__ == "__main__":
    main()
