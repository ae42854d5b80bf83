"""The random checkpoints of each family, as models, and how their logits are compared."""

from dataclasses import dataclass, field

import numpy as np

from . import fixtures, models
from .decoding import LOGITS, logits, prefill, together

# Of the largest logit, for computations in float32.
BOUND = 1e-4

# Prompts of 1 to 90 tokens and 16 more, the longer ones in several calls.
OPTIONS = {"contexts": [128], "batches": [1, 2], "prefill_chunk": 32}
# Pages and calls so short that a ring of a window of 8 goes round many times.
SLIDING = {**OPTIONS, "prefill_chunk": 16, "block_size": 4}
# A call of 128 tokens takes two chunks of the linear recurrence.
LINEAR = {key: value for key, value in OPTIONS.items() if key != "prefill_chunk"}

FAMILIES = {
    "llama": {**OPTIONS, "contexts": [16, 64, 128]},
    "llama3": OPTIONS,
    "llama_bf16": {**OPTIONS, "weight_dtype": "bf16"},
    "qwen2": OPTIONS,
    "qwen3": OPTIONS,
    "mistral": SLIDING,
    "gemma2": SLIDING,
    "gemma3": SLIDING,
    "gemma3_linear": SLIDING,
    "muse_glimmer": SLIDING,
    "qwen3_moe": OPTIONS,
    "qwen3_moe_dense": OPTIONS,
    "qwen3_next": LINEAR,
    "qwen3_5": LINEAR,
    "qwen3_5_vl": LINEAR,
    "qwen3_5_moe": LINEAR,
    "qwen3_5_moe_vl": LINEAR,
}
# Other numbers in the same checkpoint: bfloat16 values, computed with in float32.
BF16 = ["qwen3", "gemma3", "muse_glimmer", "qwen3_moe", "qwen3_5"]
SLIDING_FAMILIES = [name for name, options in FAMILIES.items() if options is SLIDING]


@dataclass(frozen=True)
class Case:
    """A model made from a tiny checkpoint."""

    name: str
    checkpoint: str
    options: dict = field(compare=False)

    def __str__(self):
        return self.name

    @property
    def oracle(self):
        return fixtures.tiny_oracle(self.checkpoint)

    def artifact(self):
        folder = fixtures.tiny_checkpoint(self.checkpoint)
        return models.export(folder, self.name, **self.options)


def full(family):
    """The options of a model that is never batched and has no windowed pool."""
    windowed = {"windowed_kv": "false"} if family in SLIDING_FAMILIES else {}
    return {**FAMILIES[family], **windowed, "contexts": [128], "batches": [1]}


BATCHED_CASES = [Case(name, name, options) for name, options in FAMILIES.items()]
CASES = [
    *BATCHED_CASES,
    *(Case(f"{name}_full", name, full(name)) for name in SLIDING_FAMILIES),
    *(Case(f"{name}_bf16", f"{name}/bf16", full(name)) for name in BF16),
]


class Comparison:
    """Whether two computations of one checkpoint are the same, and how far they are apart."""

    def __init__(self, oracle):
        noise = oracle["summary"].get("noise")
        # Rounding of activations to bfloat16 is a step function: single elements of two
        # right implementations may differ, so the distance is then one over all of them.
        self._rms = noise and 3 * noise["float32_vs_float64_sums"]["rms"]
        self.unit = "rms" if noise else "of the largest logit"
        self.allowed = self._rms or BOUND

    def distance(self, rows, expected):
        """Between lists of arrays [steps, vocabulary], one for each prompt."""
        assert [r.shape for r in rows] == [e.shape for e in expected]
        differences = [r - e for r, e in zip(rows, expected)]
        if self._rms:
            return float(np.sqrt(np.mean(np.concatenate(differences) ** 2)))
        return max(float(np.abs(d).max() / np.abs(e).max()) for d, e in zip(differences, expected))

    def check(self, rows, expected):
        distance = self.distance(rows, expected)
        assert distance <= self.allowed, (
            f"{distance:.1e} {self.unit} apart, {self.allowed:.1e} allowed"
        )


def expected_rows(prompt):
    return np.asarray(prompt["logits"])


def decode(client, model, prompt, piece=None):
    """All rows of logits after the prompt, fed with the expected ids.

    The prompt goes whole, or in pieces of so many tokens.
    """
    with client.sequence(model) as sequence:
        rows = [prefill(sequence, prompt["prompt_ids"], piece)]
        rows += [logits(sequence.send([token], LOGITS)) for token in prompt["greedy_ids"]]
        return np.stack(rows)


def decode_together(server, model, prompts):
    """(rows, batches) of sequences that start at once and decode in step."""

    def job(prompt):
        def decode(client):
            sequence = client.sequence(model)
            rows = [logits(sequence.send(prompt["prompt_ids"], LOGITS))]
            *tokens, last = prompt["greedy_ids"]
            rows += [logits(sequence.send([token], LOGITS)) for token in tokens]
            rows.append(logits(sequence.send([last], LOGITS, end=True)))
            return np.stack(rows)

        return decode

    before = server.statistics(model)
    rows = together(server, [job(prompt) for prompt in prompts])
    return rows, (server.statistics(model) - before).executions


def prefill_together(server, model, prompts):
    """The rows of logits after prompts that ran in one call."""

    def job(prompt):
        def read(client):
            sequence = client.sequence(model)
            return sequence, logits(sequence.send(prompt, LOGITS))

        return read

    for _ in range(10):  # on a busy machine they may not meet at the first try
        before = server.statistics(model)
        sequences, rows = zip(*together(server, [job(prompt) for prompt in prompts]))
        batches = (server.statistics(model) - before).executions
        with server.client() as client:
            for sequence in sequences:
                client.sequence(model, sequence.id).end()
        if batches == 1:
            return rows
    raise AssertionError(f"{len(prompts)} prompts sent at once never shared a call")
