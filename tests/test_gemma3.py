"""Gemma 3 270M: sliding layers past their window of 512, two bases of rotation."""

import numpy as np
import pytest
from harness import environment, fixtures, models
from harness.decoding import LOGITS, logits, prefill
from tokenizers import Tokenizer

BLOCK = 16
CHUNK = 256
WINDOW = 512
# The longest prompt has 1,242 tokens.
CONTEXTS = [128, 1280]
# Sliding layers keep a window, and what a prefill call writes at once.
RING = -(-(WINDOW - 1 + CHUNK) // BLOCK)
# Between the two best logits: below it the choice of an id is not compared.
CLEAR = 1e-3
# Of the largest logit.
TOLERANCE = 1e-4
PROMPTS = fixtures.prompts("gemma3")
OUTPUTS = (*LOGITS, "KV_PAGES")

pytestmark = pytest.mark.row("G1", "Gemma 3 270M: greedy ids, logits and pages past the window")


@pytest.fixture(scope="module")
def checkpoint():
    checkpoint = environment.gemma3()
    if checkpoint is None:
        pytest.skip("no Gemma 3 270M here: TLALOC_GEMMA3 is empty")
    return checkpoint


@pytest.fixture(scope="module", params=["windowed", "full"])
def model(request, repository, server, checkpoint, all_rows):
    if request.param == "full" and not all_rows:
        pytest.skip("full pools only with --all")
    windowed = "true" if request.param == "windowed" else "false"
    artifact = models.export(
        checkpoint,
        f"gemma3_270m_{request.param}",
        contexts=CONTEXTS,
        prefill_chunk=CHUNK,
        block_size=BLOCK,
        windowed_kv=windowed,
    )
    repository.add(artifact, request.param)
    server.load(request.param)
    yield request.param
    server.unload(request.param)


def check(actual, step, expected):
    """The largest error among the fixture's top five logits, of the largest."""
    best = step["top5_logits"][0]
    error = np.abs(actual[step["top5_ids"]] - step["top5_logits"]).max() / best
    assert error <= TOLERANCE, f"a top-5 logit is {error:.1e} of the largest off"
    if step["margin"] > CLEAR:
        assert int(actual.argmax()) == expected
    return error


@pytest.mark.parametrize("name", PROMPTS)
def test_matches_the_fixture(row, server, model, name):
    prompt = PROMPTS[name]
    with server.client() as client, client.sequence(model) as sequence:
        rows = [prefill(sequence, prompt["prompt_ids"])]
        for token in prompt["greedy_ids"][:-1]:
            outputs = sequence.send([token], OUTPUTS)
            rows.append(logits(outputs))
    for actual, step, expected in zip(rows, prompt["steps"], prompt["greedy_ids"]):
        row.most("of the largest logit", check(actual, step, expected))
    row.count("ids", sum(step["margin"] > CLEAR for step in prompt["steps"]))
    with row.control("the step before"):
        check(rows[1], prompt["steps"][0], prompt["greedy_ids"][0])

    held = -(-(len(prompt["prompt_ids"]) + len(rows) - 1) // BLOCK)
    ring = min(held, RING) if model == "windowed" else 0
    assert outputs["KV_PAGES"].ravel().tolist() == [held, ring]
    if held > RING:
        row.figure(f"{model}: {held} pages, {ring} of a ring")


def test_the_tokenizer_gives_the_fixtures_ids(row, checkpoint):
    tokenizer = Tokenizer.from_file(str(checkpoint / "tokenizer.json"))
    for prompt in PROMPTS.values():
        encoded = tokenizer.encode(prompt["text"], add_special_tokens=prompt["add_special_tokens"])
        assert encoded.ids == prompt["prompt_ids"]
    row.figure(f"{len(PROMPTS)} texts tokenized")
