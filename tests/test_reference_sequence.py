"""A real artifact of the original exporter, served as it is but for its instance group."""

import json

import numpy as np
import pytest
from harness import environment
from harness.decoding import LOGITS, assert_close, logits
from tritonclient.utils import InferenceServerException

MODEL = "reference_sequence"
FOLDER = environment.UPSTREAM / "model_repository" / MODEL
EXPECTED = environment.UPSTREAM / "reference" / "reference_decode.json"
TOKENS = [3, 7, 1, 9]
TOLERANCE = 1e-4

pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason=f"the artifact {MODEL} is not at {FOLDER}"
)


@pytest.fixture(scope="module", autouse=True)
def model(repository, server):
    model = repository.copy(FOLDER, MODEL)
    model.substitute(r"instance_group.*", "instance_group [ { kind: KIND_MODEL count: 1 } ]")
    server.load(MODEL)


@pytest.fixture(scope="module")
def steps():
    """Logits of the recorded steps: four of one sequence, then two first steps at once."""
    recorded = json.loads(EXPECTED.read_text())["steps"]
    return [np.asarray(step["outputs"]["logits"]["data"]).reshape(-1, 11) for step in recorded]


@pytest.fixture(params=["http", "grpc"])
def client(server, request):
    with server.client(request.param) as client:
        yield client


def refused(message):
    return pytest.raises(InferenceServerException, match=message)


def check(row, expected):
    assert_close(row, expected, TOLERANCE)
    assert row.argmax() == expected.argmax()


def test_q1_one_token_per_request(client, steps):
    with client.sequence(MODEL) as sequence:
        rows = [logits(sequence.send([token], LOGITS, end=token == TOKENS[-1])) for token in TOKENS]
    for row, expected in zip(rows, steps):
        check(row, expected[0])
    # Control: one changed number is seen.
    wrong = steps[1][0].copy()
    wrong[0] += 1
    with pytest.raises(AssertionError):
        check(rows[1], wrong)


def test_q2_all_tokens_in_one_request(client, steps):
    with client.sequence(MODEL) as sequence:
        check(logits(sequence.send(TOKENS, LOGITS)), steps[3][0])


def test_q3_other_first_tokens(client, steps):
    for token, expected in zip([4, 10], steps[4]):
        with client.sequence(MODEL) as sequence:
            check(logits(sequence.send([token], LOGITS)), expected)


def test_q4_q9_more_tokens_than_the_largest_context(client):
    with client.sequence(MODEL) as sequence:
        with refused("the largest context this model was compiled for is 4"):
            sequence.send([1, 2, 3, 4, 5])
        assert sequence.end() == {}


def test_q5_q9_a_token_outside_the_vocabulary(client):
    with client.sequence(MODEL) as sequence:
        with refused(r"outside the vocabulary \[0, 11\)"):
            sequence.send([11])
        assert sequence.end() == {}


def test_q6_steps_outside_a_sequence(client):
    sequence = client.sequence(MODEL)
    with refused("must specify the START flag"):
        sequence.send([1], start=False)
    sequence.send([1], start=True, end=True)
    with refused("must specify the START flag"):
        sequence.send([1], start=False)


def test_q7_an_empty_end_has_no_outputs(client):
    with client.sequence(MODEL) as sequence:
        assert set(sequence.send([1], outputs=None)) == {"LOGITS", "KV_PAGES", "NEXT_TOKEN"}
        assert sequence.end() == {}


def test_q8_q9_an_empty_start(client):
    with client.sequence(MODEL) as sequence:
        with refused("a request without tokens only ends a sequence"):
            sequence.send([], outputs=None)
        assert sequence.end() == {}


def test_q10_pools_are_updated_in_place(server, client):
    with client.sequence(MODEL) as sequence:
        sequence.send([1])
    server.log.expect("decode_b1_c2 updated the 2 KV pools in place")
    assert not server.log.find("to new device memory")


@pytest.mark.parametrize(
    ("config", "outputs"),
    [("40bb4940", {"LOGITS"}), ("4104dd21", {"LOGITS", "KV_PAGES"})],
)
def test_older_configurations_are_served(repository, server, steps, config, outputs):
    name = f"reference_{config}"
    model = repository.copy(FOLDER, name)
    model.config = (environment.UPSTREAM / "alt" / f"{MODEL}@{config}" / "config.pbtxt").read_text()
    serve_and_check(model, server, steps, outputs)


def test_a_v1_manifest_is_served(repository, server, steps):
    model = repository.copy(FOLDER, "reference_v1")
    older = environment.UPSTREAM / "alt" / "reference_decode@89d09e20" / "1" / "tlaloc-serving.json"
    assert json.loads(older.read_text())["schemaVersion"] == "tlaloc-serving-v1"
    model.write(model.version / "tlaloc-serving.json", older.read_bytes())
    serve_and_check(model, server, steps, {"LOGITS", "KV_PAGES", "NEXT_TOKEN"})


def serve_and_check(model, server, steps, outputs):
    model.substitute(f'name: "{MODEL}"', f'name: "{model.name}"')
    model.substitute(r"instance_group.*", "instance_group [ { kind: KIND_MODEL count: 1 } ]")
    server.load(model.name)
    with server.client() as client, client.sequence(model.name) as sequence:
        answers = [sequence.send([token], outputs=None) for token in TOKENS]
    for answer, step in zip(answers, steps):
        assert set(answer) == outputs
        check(answer["LOGITS"].ravel(), step[0])
    server.unload(model.name)
