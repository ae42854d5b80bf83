"""Greedy decoding, alone and together, and how results are compared."""

import threading

import numpy as np
from tlaloc_client.sequence import NEXT_TOKEN

LOGITS = ("LOGITS", "NEXT_TOKEN")


def greedy(sequence, prompt, count):
    """The `count` ids that follow the prompt, asking for NEXT_TOKEN only."""
    ids = [sequence.next_token(prompt)]
    while len(ids) < count:
        ids.append(sequence.next_token(ids[-1:]))
    return ids


def greedy_alone(server, model, prompt, count, protocol="grpc"):
    """`greedy` on a sequence of its own, ended afterwards."""
    with server.client(protocol) as client, client.sequence(model) as sequence:
        return greedy(sequence, prompt, count)


def prefill(sequence, prompt, piece=None):
    """The row of logits after the prompt, sent whole or in pieces of so many tokens."""
    last = len(prompt) if piece is None else (len(prompt) - 1) % piece + 1
    for at in range(0, len(prompt) - last, piece or 1):
        sequence.send(prompt[at : at + piece], NEXT_TOKEN)
    return logits(sequence.send(prompt[-last:], LOGITS))


def logits(outputs):
    """The logits of a response; its NEXT_TOKEN must be their first maximum."""
    row = outputs["LOGITS"].ravel()
    assert int(outputs["NEXT_TOKEN"].ravel()[0]) == int(row.argmax())
    return row


def assert_close(actual, expected, relative):
    """Every element within `relative` times the largest expected magnitude; the most found."""
    expected = np.asarray(expected)
    assert actual.shape == expected.shape, f"shape {actual.shape}, not {expected.shape}"
    error = np.abs(actual - expected).max() / np.abs(expected).max()
    assert error <= relative, f"{error:.2e} of the largest logit apart, {relative:.0e} allowed"
    return error


def assert_ids(actual, expected):
    assert actual == expected
    # The comparison sees one wrong id.
    assert actual != [*expected[:-1], expected[-1] + 1]


def together(server, jobs):
    """Run each `job(client)` in a thread of its own, all released at once.

    Connections are open before the release. Returns the results in order;
    the first error is raised.
    """
    barrier = threading.Barrier(len(jobs))
    results, errors = [None] * len(jobs), []

    def work(index, job):
        try:
            with server.client() as client:
                client.connect()
                barrier.wait(60)
                results[index] = job(client)
        except BaseException as error:  # noqa: BLE001 - carried to the caller
            errors.append(error)

    threads = [threading.Thread(target=work, args=pair) for pair in enumerate(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results
