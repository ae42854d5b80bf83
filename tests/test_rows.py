"""The acceptance table tells a check that failed, a control that passed, a row that is missing."""

import subprocess
import sys

import pytest
from harness import environment
from harness.rows import Recorder, Row, lines

TEST = """
import pytest

@pytest.mark.row("W1", "a check")
def test_a_check(row):
    row.figure("42 pages")
    with row.control("one page more"):
        assert {passes}
"""


@pytest.fixture
def run(tmp_path):
    """Runs a folder with one test of the row W1; (exit status, output)."""
    conftest = environment.ROOT / "tests" / "conftest.py"

    def run(*arguments, passes=False):
        (tmp_path / "test_it.py").write_text(TEST.format(passes=passes))
        command = [sys.executable, "-m", "pytest", "--confcutdir", tmp_path, "-c", "/dev/null"]
        command += ["-p", "conftest", tmp_path, *arguments]
        done = subprocess.run(
            command, cwd=conftest.parent, capture_output=True, text=True, timeout=60
        )
        return done.returncode, done.stdout

    return run


def test_a_row_has_its_figure_and_its_control(run):
    status, output = run()
    assert status == 0, output
    (line,) = [line for line in output.splitlines() if line.startswith("| W1")]
    assert line.startswith("| W1 | a check | 42 pages | one page more | ok |")


def test_a_control_that_passes_fails_the_row(run):
    status, output = run(passes=True)
    assert status == 1
    assert "the control passed: one page more" in output
    (line,) = [line for line in output.splitlines() if line.startswith("| W1")]
    assert "| FAILED |" in line


def test_a_row_that_was_not_run_fails_the_run(run):
    status, output = run("--every-row")
    assert status == 1
    assert "| W2 | windowed pool | – | – | not run |" in output


def test_figures_of_several_tests_come_together():
    row = Row("W1", "a check")
    recorder = Recorder([row])
    recorder.ids([1, 2], [1, 2])
    recorder.ids([3], [3])
    recorder.most("of the largest logit", 2e-6)
    recorder.most("of the largest logit", 1e-6)
    row.outcomes.add("skipped")
    row.skipped.add("no plugin")
    line = list(lines([row]))[-1]
    assert "| 3 ids; 2.0e-06 of the largest logit | one wrong id | skipped: no plugin |" in line
