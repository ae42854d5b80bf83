"""What the host does for a step, part by part, as the server's log tells it."""

import re

# The backend tells the medians of as many runs of an entry (docs/operations.md).
RUNS = 100
PARTS = {
    "inputs": "step inputs written",
    "launch": "execution launched",
    "logits": "waited until the logits are on the host",
    "after": "pools taken back",
}
_LINE = re.compile(
    r"(\S+) host time per run, median of \d+ runs: inputs (\d+) us, launch (\d+) us, "
    r"until the logits are on the host (\d+) us, after (\d+) us"
)


def series(entry, part):
    return f"host {part} of {entry} (us)"


def entry(batch, context):
    return f"decode_b{batch}_c{context}"


def medians(log):
    """By entry the last times of each part that the log tells, in microseconds."""
    return {
        found[1]: dict(zip(PARTS, map(int, found.groups()[1:]))) for found in _LINE.finditer(log)
    }


def instructions(text):
    """By rows the instructions of a step, of what the test that counts them says."""
    found = re.search(r"instructions of a decode step by rows: (.*)", text)
    return dict(tuple(map(int, pair.split())) for pair in found[1].split(",")) if found else {}
