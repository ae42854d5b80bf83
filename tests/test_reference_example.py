"""The example whose bodies hold its weights, against numpy (T18, T19, Q1 to Q3)."""

import numpy as np
import pytest
from harness import examples
from harness.decoding import LOGITS, assert_close, logits
from harness.example_models import Reference
from harness.tensors import PROTOCOLS

REFERENCE = Reference()
DECODE, SEQUENCE = "reference_decode", "reference_sequence"
TOKENS, LATER = [3, 7, 1, 9], [4, 10]
TOLERANCE = 1e-4


@pytest.fixture(scope="module", autouse=True)
def loaded(repository, server):
    for name in (DECODE, SEQUENCE):
        examples.add(repository, name)
        server.load(name)


def step(tokens, position, tables, slots):
    """The inputs of a decode step of one token a row."""
    rows = len(tokens)
    values = {
        "tokenIds": np.array(tokens).reshape(rows, 1),
        "positions": np.full((rows, 1), position),
        "blockTables": np.array(tables),
        "seqLens": np.full(rows, position + 1),
        "slotMapping": np.array(slots),
    }
    return {name: value.astype(np.int32) for name, value in values.items()}


# Four tokens on pages 1 and 2, then two sequences on pages 3 and 4.
STEPS = [
    *[step([token], at, [[1, 2]], [2 + at]) for at, token in enumerate(TOKENS)],
    step(LATER, 0, [[3], [4]], [6, 8]),
]
EXPECTED = [
    *[row.reshape(1, 1, -1) for row in REFERENCE.logits(TOKENS)],
    np.stack([REFERENCE.logits([token]) for token in LATER]),
]


def check(row, expected):
    assert_close(row, expected, TOLERANCE)
    assert (row.argmax(axis=-1) == expected.argmax(axis=-1)).all()


def test_t18_pages_of_the_client(client):
    for number, (inputs, expected) in enumerate(zip(STEPS, EXPECTED)):
        found = client.infer(DECODE, inputs)["logits"]
        check(found, expected)
        if number == 1:
            wrong = expected.copy()
            wrong.flat[0] += 1
            with pytest.raises(AssertionError):
                check(found, wrong)


def test_t19_control_a_page_that_nothing_wrote(client):
    for inputs in STEPS[:2]:
        client.infer(DECODE, inputs)
    elsewhere = step([TOKENS[1]], 1, [[5, 0]], [11])
    found = client.infer(DECODE, elsewhere)["logits"]
    bound = TOLERANCE * np.abs(EXPECTED[1]).max()
    assert np.abs(found - EXPECTED[1]).max() > 10 * bound


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_q1_q3_pages_of_the_backend(server, protocol):
    expected = REFERENCE.logits(TOKENS)
    with server.client(protocol) as client:
        with client.sequence(SEQUENCE) as sequence:
            for token, row in zip(TOKENS, expected):
                check(logits(sequence.send([token], LOGITS)), row)
        with client.sequence(SEQUENCE) as sequence:
            check(logits(sequence.send(TOKENS, LOGITS)), expected[-1])
        for token in LATER:
            with client.sequence(SEQUENCE) as sequence:
                check(logits(sequence.send([token], LOGITS)), REFERENCE.logits([token])[0])
    server.log.expect("decode_b1_c2 updated the 2 KV pools in place")
    assert not server.log.find("to new device memory")
