"""Contestants take turns."""

import json
import sys
import time


def record(out, number, series, value):
    """Writes one measurement, a line of JSON that `tlaloc-bench compare` reads."""
    print(json.dumps({"round": number, "series": series, "value": value}), file=out, flush=True)


def take_turns(contestants, rounds, out):
    """Asks each contestant once a round, and in the opposite order every other round."""
    contestants = list(contestants)
    for number in range(1, rounds + 1):
        started = time.monotonic()
        for contestant in contestants:
            for series, value in contestant.measure():
                record(out, number, series, value)
        contestants.reverse()
        took = time.monotonic() - started
        print(f"bench: round {number} of {rounds}, {took:.0f} s", file=sys.stderr)
