"""Every call of the plugin that the backend makes goes wrong, at each moment and in each mode.

After each fault the same server answers the next request with the right values, on all of
its pages, and nothing that a refused load made is left.
"""

import contextlib
import itertools
import shutil

import pytest
from harness.fault_cases import CASES, ENDS
from harness.fault_faces import FACES, OUTCOMES
from harness.faults import Plan, Plugins, functions_in_use
from harness.server import LoadError, running

LEAST = 150
HIDE_VIEWS = "hide PJRT_Client_CreateViewOfDeviceBuffer"


class Bench:
    """A server with a model of every mode, each with a plugin and a client of its own."""

    def __init__(self, repository, folder):
        self.plan = Plan(folder / "plan")
        self.plan.set()
        self.plugins = Plugins(folder)
        self.cache = folder / "programs"
        self.cache.mkdir()
        self._kept = folder / "kept"
        self._loaded = set()
        self._calls = {}
        self.models = {
            name: face.add(repository, self.plugins.fresh()) for name, face in FACES.items()
        }
        self.server = None

    def start(self, server):
        """Loads each model once, so that its programs are in the cache and its calls known."""
        self.server = server
        for name in FACES:
            # The table is of the moment of the first load.
            self.plan.set(*[HIDE_VIEWS] if name.startswith("copying") else [])
            self.server.load(name)
            self.server.unload(name)
        shutil.copytree(self.cache, self._kept)
        for name in FACES:
            self.plan.set()
            self.server.load(name)
            self._calls[name, "load"] = self.plan.report()["calls"]
            self.server.unload(name)

    def loaded(self, name, wanted):
        """The model is loaded, or not, as wanted; nothing is to fail."""
        self.plan.set()
        if wanted and name not in self._loaded:
            self.server.load(name)
            self._loaded.add(name)
        if not wanted and name in self._loaded:
            self.unload(name)

    def unload(self, name):
        self.server.unload(name)
        self._loaded.discard(name)

    def calls(self, face, moment):
        """How often a moment without fault calls each function; it must be served then."""
        if moment not in ("decode", "prompt", "request"):
            return self._calls[face.name, "load"]
        outcome, _, report = face.scenario(self.server, self.plan, moment)
        assert outcome == "served"
        return report["calls"]

    def lines(self, case):
        """The case's lines, with the number of the last call where one is meant."""
        if not any("LAST" in line for line in case.fault):
            return case.fault
        calls = self.calls(FACES[case.face], case.moment)
        return [line.replace("LAST", str(calls.get(line.split()[0]))) for line in case.fault]

    def empty_cache(self):
        shutil.rmtree(self.cache)
        self.cache.mkdir()

    def fill_cache(self):
        shutil.rmtree(self.cache)
        shutil.copytree(self._kept, self.cache)

    def load(self, name, *fault):
        """(outcome, error text, report) of a load under a fault."""
        self.plan.set(*fault)
        try:
            self.server.load(name)
        except LoadError as refusal:
            return "refused", refusal.message, self.plan.report()
        self._loaded.add(name)
        return "served", "", self.plan.report()


@pytest.fixture(scope="module")
def bench(repository, tmp_path_factory):
    bench = Bench(repository, tmp_path_factory.mktemp("fault-suite"))
    with pytest.MonkeyPatch.context() as patch:
        bench.plan.environment(patch)
        patch.setenv("TLALOC_COMPILE_CACHE_DIR", str(bench.cache))
        with running(repository) as server:
            bench.start(server)
            yield bench


@contextlib.contextmanager
def another_plugin(bench, name):
    """The model has a plugin that was never loaded."""
    model = bench.models[name]
    config = model.config
    model.substitute(r'"[^"]*/libpjrt_fault_\d+\.so"', f'"{bench.plugins.fresh()}"')
    yield
    bench.loaded(name, False)
    model.config = config


@contextlib.contextmanager
def cold_cache(bench, name):
    """No program of the model is in the compile cache."""
    bench.empty_cache()
    yield
    bench.loaded(name, False)
    bench.fill_cache()


def during_load(bench, case, *conditions):
    face, fault = FACES[case.face], bench.lines(case)
    bench.loaded(case.face, False)
    before = bench.plan.live()
    with contextlib.ExitStack() as stack:
        for condition in conditions:
            stack.enter_context(condition(bench, case.face))
        outcome, text, report = bench.load(case.face, *fault)
        bench.plan.set()
        if outcome == "served":
            face.serve(bench.server)
        else:
            assert f"model '{case.face}': " in text, text
            if not any(function in line for function in ENDS for line in fault):
                left = bench.plan.live()
                assert all(left[kind] <= before[kind] for kind in left), f"{left}, not {before}"
    bench.loaded(case.face, True)
    return outcome, text, report


def during_unload(bench, case):
    bench.loaded(case.face, True)
    bench.plan.set(*bench.lines(case))
    bench.unload(case.face)
    report = bench.plan.report()
    bench.loaded(case.face, True)
    return "served", "", report


def during_request(bench, case):
    bench.loaded(case.face, True)
    face = FACES[case.face]
    lines = bench.lines(case)
    return face.scenario(bench.server, bench.plan, case.moment, *lines)


# Of moments other than those of requests.
CONDITIONS = {
    "load": [],
    "cold": [cold_cache],
    "plugin": [another_plugin],
    "cold_plugin": [another_plugin, cold_cache],
}


def run(bench, case):
    if case.moment in CONDITIONS:
        return during_load(bench, case, *CONDITIONS[case.moment])
    if case.moment == "unload":
        return during_unload(bench, case)
    return during_request(bench, case)


@pytest.mark.row("Q1", "injected faults: the expected reply, then right values, server alive")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_fault(row, bench, case):
    outcome, text, report = run(bench, case)
    assert outcome == case.outcome, text
    assert case.needle in (text or "")
    if not case.moment.endswith("plugin"):
        assert report["injected"] >= 1, "the fault was not met"
    FACES[case.face].serve(bench.server)
    assert bench.server.live()
    row.count("faults", 1)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("name", FACES)
def test_faults_drawn_by_a_seed(bench, name, seed):
    bench.loaded(name, True)
    face = FACES[name]
    functions = sorted(functions_in_use())
    drawn = [f"{function} refuse chance 4%" for function in functions if "_Error_" not in function]
    injected = 0
    for moment in ("decode", "prompt", "request"):
        if not hasattr(face, moment):
            continue
        outcome, _, report = face.scenario(bench.server, bench.plan, moment, f"seed {seed}", *drawn)
        assert outcome in OUTCOMES
        injected += report["injected"]
        face.serve(bench.server)


def test_there_are_enough_and_each_is_another():
    distinct = {(case.face, case.moment, case.fault) for case in CASES}
    print(f"{len(distinct)} distinct faults")
    assert len(distinct) == len(CASES) >= LEAST
    assert {case.outcome for case in CASES} == {*OUTCOMES, "refused"}


def test_every_function_in_use_goes_wrong():
    """Also a function that is called only since yesterday, but for those of GPUs."""
    lines = list(itertools.chain.from_iterable(case.fault for case in CASES))
    injected = {line.split()[0] for line in lines} | {line.split()[-1] for line in lines}
    assert functions_in_use() <= injected


@pytest.mark.row("Q2", "donated buffers are never touched again")
def test_no_handle_was_misused(row, bench):
    """Those who destroyed, donated or never made a handle did not use it, in all of the above."""
    report = bench.plan.report()
    assert report["misuse"] == []
    row.figure(f"{sum(report['live'].values())} handles alive, none misused")
