"""SmolLM2 in other number formats, against the same values in float32."""

import numpy as np
import pytest
from harness import environment, fixtures, models
from harness.decoding import LOGITS, assert_close, logits, prefill

PROMPTS = [fixtures.smollm2_prompts()[name] for name in ("short_english", "chat_template")]
IDS = 16
# Between the two best logits: below it the choice of an id is not compared.
CLEAR = 0.1
# Of the largest logit: activations are rounded to bfloat16 before each product.
TOLERANCE = 2e-2


class Run:
    """What a model made of SmolLM2's bfloat16 values computes, fed with the same ids."""

    def __init__(self, server, repository, weight_dtype):
        name = f"values_in_{weight_dtype}"
        artifact = models.export(
            environment.smollm2_bf16(), name, contexts=[64], weight_dtype=weight_dtype
        )
        repository.add(artifact, name)
        server.load(name)
        (mebibytes,) = server.log.find(rf"model '{name}': uploaded \d+ weights \((\d+) MiB\)")
        self.mebibytes = int(mebibytes)
        self.rows = []
        with server.client() as client:
            for prompt in PROMPTS:
                with client.sequence(name) as sequence:
                    self.rows.append(prefill(sequence, prompt["prompt_ids"]))
                    for token in prompt["greedy_ids"][: IDS - 1]:
                        self.rows.append(logits(sequence.send([token], LOGITS)))
        server.unload(name)


@pytest.mark.row("F4", "bfloat16 weights take half and give the same ids")
def test_bfloat16_weights(row, server, repository, all_rows):
    if not all_rows:
        pytest.skip("only with --all")
    exact, rounded = (Run(server, repository, dtype) for dtype in ("f32", "bf16"))
    row.figure(f"{rounded.mebibytes} of {exact.mebibytes} MiB")
    assert abs(2 * rounded.mebibytes - exact.mebibytes) <= 2
    errors, clear = [], 0
    for actual, expected in zip(rounded.rows, exact.rows):
        errors.append(assert_close(actual, expected, TOLERANCE))
        second, best = np.sort(expected)[-2:]
        if best - second > CLEAR:
            clear += 1
            assert actual.argmax() == expected.argmax()
    row.count("ids", clear)
    row.most("of the largest logit", max(errors))
    with row.control("a third of the tolerance: bfloat16 is used"):
        assert max(errors) <= TOLERANCE / 3
