"""Fixtures of every test: one server per file, and its log where a test fails."""

import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
sys.path[:0] = [str(TESTS), str(TESTS.parent / "scripts")]

from harness.models import Repository  # noqa: E402
from harness.rows import Recorder, Table, lines  # noqa: E402
from harness.server import Server, running  # noqa: E402
from harness.tensors import PROTOCOLS, connected  # noqa: E402


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


@pytest.fixture(params=PROTOCOLS)
def client(server, request):
    """A client for tensors, by each protocol; files about sequences have one of their own."""
    with connected(server, request.param) as client:
        yield client


TABLE = pytest.StashKey()


def pytest_addoption(parser):
    parser.addoption("--all", action="store_true", help="run what takes minutes, too")
    parser.addoption("--every-row", action="store_true", help="fail when a row was not run")


def pytest_configure(config):
    config.addinivalue_line("markers", "row(id, ..., what): a row of the acceptance table")
    config.stash[TABLE] = Table()


@pytest.fixture(scope="session")
def all_rows(request):
    """Whether long checks run at their full length."""
    return request.config.getoption("--all")


@pytest.fixture
def row(request):
    """Takes what a test has found for its rows of the acceptance table."""
    return Recorder(request.config.stash[TABLE].of(request.node))


def pytest_terminal_summary(terminalreporter, config):
    table = config.stash[TABLE]
    every_row = config.getoption("--every-row")
    rows = [row for row in table.rows.values() if every_row or row.outcomes]
    if rows:
        terminalreporter.section("acceptance")
        for line in lines(rows):
            terminalreporter.write_line(line)


def pytest_sessionfinish(session, exitstatus):
    table = session.config.stash[TABLE]
    missing = [row.id for row in table.rows.values() if not row.outcomes]
    if session.config.getoption("--every-row") and missing and not exitstatus:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    item.config.stash[TABLE].report(item, report)
    if report.failed:
        for server in Server.running:
            report.sections.append((f"end of {server.log.path}", server.log.tail()))
    return report
