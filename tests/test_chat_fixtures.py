"""SmolLM2 against the logits of another implementation, over both protocols."""

import numpy as np
import pytest
from harness import environment, fixtures, models
from harness.decoding import LOGITS, greedy_alone, logits, prefill
from tokenizers import Tokenizer

MODEL = "smollm2"
TOLERANCE = 2e-4
PROMPTS = fixtures.smollm2_prompts()


@pytest.fixture(scope="module", autouse=True)
def model(repository, server):
    artifact = models.export(
        environment.smollm2(),
        MODEL,
        contexts=[128, 512, 2048],
        batches=[1, 2, 4],
        prefill_batches=[1, 2, 4],
        prefill_chunk=512,
    )
    repository.add(artifact, MODEL)
    server.load(MODEL)


def decode(server, protocol, prompt, piece=None):
    """The rows of logits of a greedy decode, one for each expected id."""
    with server.client(protocol) as client, client.sequence(MODEL) as sequence:
        rows = [prefill(sequence, prompt["prompt_ids"], piece)]
        while len(rows) < len(prompt["greedy_ids"]):
            rows.append(logits(sequence.send([int(rows[-1].argmax())], LOGITS)))
        return rows


def check(rows, prompt):
    """The largest error of a logit among the fixture's top five."""
    errors = []
    assert [int(row.argmax()) for row in rows] == prompt["greedy_ids"]
    for number, (row, step) in enumerate(zip(rows, prompt["steps"])):
        error = np.abs(row[step["top5_ids"]] - step["top5_logits"]).max()
        errors.append(error)
        assert error <= TOLERANCE, f"step {number}: a top-5 logit is {error:.1e} off"
        # Sees the logits outside the top five: this is how far their norm may move.
        norm = np.linalg.norm(row.astype(np.float64))
        assert abs(norm - step["l2"]) <= TOLERANCE * np.sqrt(row.size), f"step {number}: norm"
    return max(errors)


@pytest.mark.row("F1", "ids and logits of another implementation, HTTP and gRPC")
@pytest.mark.parametrize("piece", [None, 1], ids=["whole", "by_token"])
@pytest.mark.parametrize("protocol", ["http", "grpc"])
@pytest.mark.parametrize("name", PROMPTS)
def test_matches_the_fixture(row, server, name, protocol, piece):
    prompt = PROMPTS[name]
    rows = decode(server, protocol, prompt, piece)
    row.most("in a top-5 logit", check(rows, prompt))
    row.ids([int(logits_row.argmax()) for logits_row in rows], prompt["greedy_ids"])


@pytest.mark.row("F1", "ids and logits of another implementation, HTTP and gRPC")
@pytest.mark.parametrize("change", ["id", "logit", "prompt"])
def test_control_a_wrong_expectation_is_seen(row, server, change):
    prompt = dict(PROMPTS["chat_template"])
    if change == "id":
        prompt["greedy_ids"] = prompt["greedy_ids"][:-1] + [prompt["greedy_ids"][-1] + 1]
    elif change == "logit":
        last = dict(prompt["steps"][-1])
        last["top5_logits"] = last["top5_logits"][:-1] + [last["top5_logits"][-1] + 3 * TOLERANCE]
        prompt["steps"] = prompt["steps"][:-1] + [last]
    else:
        prompt["prompt_ids"] = prompt["prompt_ids"][:1] + prompt["prompt_ids"][2:]
    rows = decode(server, "grpc", prompt)
    with row.control(f"another {change}"):
        check(rows, prompt)


@pytest.mark.row("F2", "texts through the tokenizer")
@pytest.mark.parametrize("name", PROMPTS)
def test_a_text_through_the_tokenizer(row, server, name):
    prompt = PROMPTS[name]
    tokenizer = Tokenizer.from_file(str(environment.smollm2() / "tokenizer.json"))
    encoded = tokenizer.encode(prompt["text"], add_special_tokens=prompt["add_special_tokens"])
    assert encoded.ids == prompt["prompt_ids"]
    row.ids(greedy_alone(server, MODEL, encoded.ids, 16), prompt["greedy_ids"][:16])
