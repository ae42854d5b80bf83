"""Mistakes that a family's exporter could make are told from the right computation."""

import numpy as np
import pytest
from harness import fixtures, models
from harness.checkpoints import Checkpoint
from harness.mistakes import MISTAKES
from harness.tiny import (
    BF16,
    FAMILIES,
    Comparison,
    decode,
    expected_rows,
    full,
)

# Families that share most of their formulas with another: in the short form only the
# mistakes that are not the other's too are made.
LIKE = {
    "gemma3_linear": "gemma3",
    "qwen3_moe_dense": "qwen3_moe",
    "qwen3_next": "qwen3_5",
    "qwen3_5_moe": "qwen3_5",
    "qwen3_5_vl": "qwen3_5",
    "qwen3_5_moe_vl": "qwen3_5_moe",
}
# The configuration of these has no such field.
NOT_MADE = {("qwen3_5_moe", "flip_topk_norm"), ("qwen3_5_moe_vl", "flip_topk_norm")}
# A layer that slides also takes the other rope, which here moves logits further.
MORE_THAN_LISTED = {
    ("gemma3_linear", "all_layers_slide"),
    # Another writing of the mistake, in float64, moves them as far as this one.
    ("qwen3_moe", "gain_centered_wrongly"),
}
# The longest prompt reaches past every window and chunk.
PROMPT = -1


@pytest.fixture(params=FAMILIES)
def family(request):
    return request.param


def rows_of(checkpoint, server, repository, name, folder, options, prompt):
    """What a model made from a changed checkpoint computes."""
    checkpoint.write(folder / "checkpoint")
    artifact = models.export_to(folder / "checkpoint", folder / "artifact", **options)
    repository.add(artifact, name)
    server.load(name)
    with server.client() as client:
        rows = decode(client, name, prompt)
    server.unload(name)
    return rows


def made_mistakes(family, every):
    """The mistakes of a family's table that a change of the checkpoint expresses."""
    table = fixtures.tiny_oracle(family)["sensitivity"]
    others = fixtures.tiny_oracle(LIKE[family])["sensitivity"] if family in LIKE else {}
    return [
        mistake
        for mistake in table
        if mistake in MISTAKES
        and (family, mistake) not in NOT_MADE
        and (every or mistake not in others)
    ]


def test_mistakes_are_seen(family, server, repository, tmp_path, all_rows):
    oracle = fixtures.tiny_oracle(family)
    comparison = Comparison(oracle)
    prompt = oracle["prompts"][PROMPT]
    expected = expected_rows(prompt)
    made = made_mistakes(family, all_rows)
    if not made:
        pytest.skip(f"all of them are made in {LIKE[family]}; here with --all")
    seen, unseen = {}, {}
    for mistake in [None, *made]:
        checkpoint = Checkpoint.read(fixtures.tiny_checkpoint(family))
        if mistake:
            MISTAKES[mistake](checkpoint)
        name = f"{family}.{mistake or 'none'}"
        rows = rows_of(checkpoint, server, repository, name, tmp_path / name, full(family), prompt)
        distance = comparison.distance([rows], [expected])
        (seen if distance > comparison.allowed else unseen)[mistake] = distance
        change = float(np.abs(rows - expected).max())
        print(f"{name}: {distance:.1e} {comparison.unit}; a logit moved by {change:.3g}")
        if mistake:
            # It is the mistake of the table, which has the most over all prompts.
            listed = oracle["sensitivity"][mistake]["max_abs_logit_change"]
            most = np.inf if (family, mistake) in MORE_THAN_LISTED else 1.05 * listed
            assert change < most, f"{name}: a logit moved by {change}, not by {listed}"
    # Writing and exporting alone changes nothing.
    assert list(unseen) == [None], unseen
    assert list(seen) == made


@pytest.mark.parametrize("checkpoint", [*FAMILIES, *(f"{family}/bf16" for family in BF16)])
def test_listed_mistakes_are_larger_than_the_bound(checkpoint):
    """For those that no change of a checkpoint expresses."""
    oracle = fixtures.tiny_oracle(checkpoint)
    comparison = Comparison(oracle)
    largest = max(np.abs(expected_rows(prompt)).max() for prompt in oracle["prompts"])
    assert oracle["sensitivity"]
    for mistake, effect in oracle["sensitivity"].items():
        if comparison.unit == "rms":
            assert mistake in MISTAKES, mistake
        else:
            assert effect["max_abs_logit_change"] / largest > 10 * comparison.allowed, mistake
