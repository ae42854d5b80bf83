"""Random checkpoints of each family against full logits of another implementation."""

import numpy as np
import pytest
from harness.decoding import LOGITS, logits
from harness.tiny import (
    BATCHED_CASES,
    CASES,
    Comparison,
    decode,
    decode_together,
    expected_rows,
    prefill_together,
)

# Tokens of a request when a prompt is sent in pieces; None is a whole prompt.
PIECES = {"whole": None, "pieces": 11, "by_token": 1}
# Long enough for requests that are sent at once to meet, as exactly as the machine can.
WAITS = {"prompt_wait_microseconds": "20000", "cohort_wait_microseconds": "2000000"}


class Loaded:
    """A case's model on the server, its oracle, and the rows it has given so far."""

    def __init__(self, server, case):
        self.server = server
        self.name = case.name
        self.oracle = case.oracle
        self.prompts = self.oracle["prompts"]
        self.expected = [expected_rows(prompt) for prompt in self.prompts]
        self.comparison = Comparison(self.oracle)
        self._rows = {}

    def rows(self, pieces="whole", protocol="grpc"):
        """The rows of every prompt, decoded alone."""
        key = pieces, protocol
        if key not in self._rows:
            with self.server.client(protocol) as client:
                self._rows[key] = [
                    decode(client, self.name, prompt, PIECES[pieces]) for prompt in self.prompts
                ]
        return self._rows[key]


@pytest.fixture(scope="module")
def loaded(repository, server):
    """Gives a case's model, loaded when it is first asked for."""
    known = {}

    def load(case):
        if case not in known:
            model = repository.add(case.artifact(), case.name)
            for key, value in WAITS.items():
                model.set_parameter(key, value)
            server.load(case.name)
            known[case] = Loaded(server, case)
        return known[case]

    return load


each_case = pytest.mark.parametrize("case", CASES, ids=str)


@each_case
def test_matches_the_oracle(loaded, case):
    model = loaded(case)
    for pieces in PIECES:
        rows = model.rows(pieces)
        model.comparison.check(rows, model.expected)
        model.comparison.check(rows, model.rows("whole"))
        for row, prompt in zip(rows, model.prompts):
            assert row[:-1].argmax(axis=1).tolist() == prompt["greedy_ids"]
    # The same entries ran on the same tokens.
    for grpc, http in zip(model.rows(), model.rows(protocol="http")):
        assert np.array_equal(grpc, http)


@each_case
def test_every_position_of_a_prompt_matches(server, loaded, case):
    model = loaded(case)
    (prompt,) = [prompt for prompt in model.prompts if "prompt_logits" in prompt]
    with server.client() as client, client.sequence(case.name) as sequence:
        rows = [logits(sequence.send([token], LOGITS)) for token in prompt["prompt_ids"]]
    model.comparison.check([np.stack(rows)], [np.asarray(prompt["prompt_logits"])])


@pytest.mark.parametrize("case", BATCHED_CASES, ids=str)
def test_two_at_once(server, loaded, case):
    model = loaded(case)
    pair = model.prompts[-2:]
    rows, batches = decode_together(server, case.name, pair)
    # The first of them to answer its prompt may take its first step alone.
    assert batches <= 2 + len(pair[0]["greedy_ids"])
    model.comparison.check(rows, model.expected[-2:])
    model.comparison.check(rows, model.rows()[-2:])


@pytest.mark.parametrize("case", BATCHED_CASES, ids=str)
def test_a_partner_changes_no_bit(server, loaded, case):
    model = loaded(case)
    partner, prompt = (prompt["prompt_ids"] for prompt in model.prompts[-2:])
    partners = [partner, partner[::-1], partner[5:] + partner[:5]]
    rows = [prefill_together(server, case.name, [prompt, partner]) for partner in partners]
    # The same entry ran, with the prompt in one of its two rows.
    assert len({row.tobytes() for row, _ in rows}) <= 2
    # They were different partners.
    assert len({row.tobytes() for _, row in rows}) == len(partners)
    model.comparison.check([rows[0][0][None]], [model.expected[-1][:1]])


@each_case
def test_control_another_prompt_is_seen(loaded, case):
    model = loaded(case)
    with pytest.raises(AssertionError, match="apart"):
        model.comparison.check([model.rows()[1]], [model.expected[2]])


@each_case
def test_control_a_shift_beyond_the_bound_is_seen(loaded, case):
    model = loaded(case)
    rows = model.rows()[0]
    shift = 2 * model.comparison.allowed
    if model.comparison.unit != "rms":
        shift *= np.abs(model.expected[0]).max()
    with pytest.raises(AssertionError, match="apart"):
        model.comparison.check([rows + shift], [model.expected[0]])
