"""Fixtures of every test: one server per file, and its log where a test fails."""

import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
sys.path[:0] = [str(TESTS), str(TESTS.parent / "scripts")]

from harness.models import Repository  # noqa: E402
from harness.server import Server, running  # noqa: E402


@pytest.fixture(scope="module")
def repository():
    """An empty model repository for the models of one file."""
    repository = Repository()
    yield repository
    repository.remove()


@pytest.fixture(scope="module")
def server(repository):
    """A server of the file's repository; tests load the models they want."""
    with running(repository) as server:
        yield server


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.failed:
        for server in Server.running:
            report.sections.append((f"end of {server.log.path}", server.log.tail()))
    return report
