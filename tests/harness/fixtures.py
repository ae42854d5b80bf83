"""Expected numbers that our own code did not compute."""

import json

from . import environment


def prompts(model):
    """A model's prompts by name: ids, 24 greedy ids, top-5 logits of each step.

    Computed in float32 by another implementation.
    """
    path = environment.FIXTURES / f"{model}.json"
    prompts = json.loads(path.read_text(encoding="utf-8"))["prompts"]
    return {prompt["name"]: prompt for prompt in prompts}


def smollm2_prompts():
    return prompts("smollm2")


def tiny_checkpoint(family):
    """A random checkpoint of a few hundred kilobytes."""
    return environment.FIXTURES / "tiny" / family


def tiny_oracle(family):
    """All logits of its prompts, computed by another implementation."""
    return json.loads((tiny_checkpoint(family) / "oracle.json").read_text(encoding="utf-8"))
