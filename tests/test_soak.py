"""The soak of scripts/soak.sh, for seconds: that it runs, and that it sees what it looks for."""

import dataclasses

import pytest
from harness.soak import MIB, soak


def test_a_short_soak_finds_nothing(repository):
    found = soak(repository, seconds=20)
    print("\n".join(found.lines()))
    # Memory still grows to its size in so short a time.
    found.check(most_slope=float("inf"))
    growing = [(second, second * MIB) for second in range(30)]
    for wrong in (
        {"wrong": [("one", [1])]},
        {"used": {"pages": 1}},
        {"deaths": 0},
        {"resident": growing},
    ):
        with pytest.raises(AssertionError):
            dataclasses.replace(found, **wrong).check()
