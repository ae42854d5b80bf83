"""Measurements of a run, by series and round."""

import json
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Spread:
    """A figure of several rounds."""

    median: float
    smallest: float
    largest: float

    @classmethod
    def of(cls, values):
        values = list(values)
        return cls(median(values), min(values), max(values))


class Results:
    """What was measured; what was not is None."""

    def __init__(self, lines):
        """`lines` are those that `rounds` writes."""
        self._series = {}
        for line in lines:
            found = json.loads(line)
            self._series.setdefault(found["series"], {})[found["round"]] = found["value"]

    def spread(self, series):
        """Of a series over its rounds."""
        rounds = self._series.get(series)
        return Spread.of(rounds.values()) if rounds else None

    def median(self, series):
        found = self.spread(series)
        return found.median if found else None

    def ratio(self, series, other):
        """Of the quotients within a round: a slow phase of the machine is in both."""
        above, below = self._series.get(series, {}), self._series.get(other, {})
        quotients = [above[number] / below[number] for number in above if number in below]
        return Spread.of(quotients) if quotients else None
