"""Rows of the acceptance table: each a check with a figure and a control that must fail.

A test carries `@pytest.mark.row("W3", "what is checked")` and tells what it found
through the fixture `row`. Several tests may carry one row, and one test several.
"""

from contextlib import contextmanager
from dataclasses import dataclass, field

# Every row that a run has to account for, and what it is about.
ROWS = {
    **{f"W{number}": "windowed pool" for number in range(1, 15)},
    **{f"P{number}": "batched prefill" for number in range(1, 6)},
    **{f"L{number}": "SmolLM2: pages and batches" for number in range(1, 17)},
    **{f"F{number}": "SmolLM2: number formats" for number in range(1, 6)},
    **{f"S{number}": "draft head" for number in range(1, 5)},
    "G1": "Gemma 3 270M",
    "M1": "memory",
    "M2": "nothing is lost",
    "M3": "64 sequences at once",
    "Q1": "injected faults",
    "Q2": "donated buffers",
    **{f"D{number}": "GPU: the device" for number in range(1, 9)},
    **{f"T{number}": "GPU: CUDA shared memory" for number in range(12, 16)},
}


@dataclass
class Row:
    """What the tests of one row have found."""

    id: str
    what: str = ""
    texts: list = field(default_factory=list)
    counts: dict = field(default_factory=dict)
    maxima: dict = field(default_factory=dict)
    controls: list = field(default_factory=list)
    outcomes: set = field(default_factory=set)
    skipped: set = field(default_factory=set)
    seconds: float = 0.0

    @property
    def figures(self):
        counts = [f"{number} {unit}" for unit, number in self.counts.items()]
        maxima = [f"{value:.1e} {unit}" for unit, value in self.maxima.items()]
        return [*counts, *maxima, *self.texts]

    @property
    def verdict(self):
        if "failed" in self.outcomes:
            return "FAILED"
        if not self.outcomes:
            return "not run"
        if self.outcomes == {"skipped"}:
            return "skipped: " + "; ".join(sorted(self.skipped))
        return "ok"


class Recorder:
    """The fixture `row`: collects figures and controls for a test's rows."""

    def __init__(self, rows):
        self._rows = rows

    def figure(self, text):
        for row in self._rows:
            if text not in row.texts:
                row.texts.append(text)

    def ids(self, actual, expected):
        """Greedy ids are the expected ones, and one wrong id would be seen."""
        assert actual == expected
        self.count("ids", len(expected))
        with self.control("one wrong id"):
            assert actual == [*expected[:-1], expected[-1] + 1]

    def count(self, unit, number):
        """Add to what was compared."""
        for row in self._rows:
            row.counts[unit] = row.counts.get(unit, 0) + number

    def most(self, unit, value):
        """The largest of several errors."""
        for row in self._rows:
            row.maxima[unit] = max(value, row.maxima.get(unit, 0))

    @contextmanager
    def control(self, what):
        """The body makes the check on something wrong: it must fail."""
        try:
            yield
        except AssertionError:
            for row in self._rows:
                if what not in row.controls:
                    row.controls.append(what)
        else:
            raise AssertionError(f"the control passed: {what}")


class Table:
    """All rows of a run."""

    def __init__(self):
        self.rows = {row_id: Row(row_id, what) for row_id, what in ROWS.items()}

    def of(self, item):
        """The rows that a test carries."""
        rows = []
        for mark in item.iter_markers("row"):
            *ids, what = mark.args
            for row_id in ids:
                row = self.rows[row_id]  # KeyError: list the row above
                row.what = what
                rows.append(row)
        return rows

    def report(self, item, report):
        for row in self.of(item):
            row.seconds += report.duration
            if report.failed:
                row.outcomes.add("failed")
            elif report.skipped:
                row.outcomes.add("skipped")
                row.skipped.add(_reason(report))
            elif report.when == "call":
                row.outcomes.add("passed")


def lines(rows):
    """The rows as a table in Markdown."""
    yield "| row | check | figure | control that failed, as it must | verdict | s |"
    yield "|---|---|---|---|---|---|"
    for row in rows:
        cells = (
            row.id,
            row.what,
            "; ".join(row.figures) or "–",
            "; ".join(row.controls) or "–",
            row.verdict,
            f"{row.seconds:.1f}",
        )
        yield "| " + " | ".join(cells) + " |"


def _reason(report):
    text = report.longrepr[-1] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ")
