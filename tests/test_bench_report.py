"""The benchmark report's own arithmetic, tables and plots, against closed forms."""

import json
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "bench"))

from report import host, loading, markdown, memory, peers, write  # noqa: E402
from report.plan import QUICK, WHOLE, Plan  # noqa: E402
from report.results import Results, Spread  # noqa: E402
from rounds import series  # noqa: E402

SVG = "{http://www.w3.org/2000/svg}"


def lines(*measurements):
    return [json.dumps(dict(zip(("round", "series", "value"), m))) for m in measurements]


def test_a_ratio_is_the_median_of_quotients_within_rounds():
    # The second round is twice as slow for both; the fourth has only one of them.
    results = Results(
        lines(
            *((1, "a", 20.0), (2, "a", 40.0), (3, "a", 20.0), (4, "a", 1.0)),
            *((1, "b", 25.0), (2, "b", 50.0), (3, "b", 40.0)),
        )
    )
    assert results.ratio("a", "b") == Spread(0.8, 0.5, 0.8)
    assert results.spread("b") == Spread(40.0, 25.0, 50.0)
    assert results.median("a") == 20.0
    assert results.median("c") is None and results.ratio("a", "c") is None


@pytest.mark.parametrize(
    "value, text",
    [(538.06, "538"), (21.94, "21.9"), (0.1488, "0.149"), (44637, "44637"), (None, "–"), (0, "0")],
)
def test_numbers_have_three_digits(value, text):
    assert markdown.number(value) == text


def test_tables_are_markdown():
    assert markdown.table(["a", "b"], [[1, "x"]]) == "| a | b |\n| --- | --- |\n| 1 | x |\n"


def test_series_of_a_ladder_are_told_apart():
    names = [series.decode("jax", batch, context) for batch, context in WHOLE.effort.decodes]
    assert len(set(names)) == len(names)
    # What `tlaloc-bench compare` has goals of.
    assert {"jax decode b1", "jax decode b4"} < set(names)
    assert series.prefill("jax", 512) == "jax prefill 512"


def test_the_export_has_every_point():
    options = dict(zip(WHOLE.export_options[::2], WHOLE.export_options[1::2]))
    assert options["--contexts"] == "128,512,1024,2048"
    assert options["--batches"] == "1,2,4,8"
    assert options["--prefill-chunk"] == "16,64,128,512"


def test_host_times_are_read_from_the_log():
    log = (
        "decode_b1_c512 host time per run, median of 100 runs: inputs 9 us, launch 90 us, until "
        "the logits are on the host 20000 us, after 30 us\n"
        "decode_b1_c512 host time per run, median of 100 runs: inputs 8 us, launch 80 us, until "
        "the logits are on the host 21000 us, after 31 us\n"
    )
    # The last one counts.
    told = {"inputs": 8, "launch": 80, "logits": 21000, "after": 31}
    assert host.medians(log) == {"decode_b1_c512": told}
    assert host.instructions("x\ninstructions of a decode step by rows: 1 44637, 4 52120\n") == {
        1: 44637,
        4: 52120,
    }
    assert host.instructions("SKIPPED: there is no valgrind") == {}


def test_memory_is_that_of_the_kernel():
    smaps = """\
7f00-7f10 r--s 00000000 fe:00 17    /models/a/weights.bin
Rss:                2000 kB
Private_Clean:      2000 kB
Private_Dirty:         0 kB
7f20-7f30 rw-p 00000000 00:00 0     [heap]
Rss:                1000 kB
Private_Clean:         0 kB
Private_Dirty:       500 kB
"""
    held = memory.parse(smaps, "/models")
    assert held == memory.Held(3000 * 1024 / 1e6, 500 * 1024 / 1e6, 2000 * 1024 / 1e6)
    # A folder whose name merely begins alike holds nothing of it.
    assert memory.parse(smaps, "/model").mapped == 0


def measured(plan, who, milliseconds):
    """The same time at every point of a plan."""
    points = [series.decode(who, *point) for point in plan.effort.decodes]
    points += [series.prefill(who, tokens) for tokens in plan.effort.prompts]
    return [(1, point, milliseconds) for point in points]


@pytest.fixture
def run():
    """Lines of a quick run in which torch is as fast as ours and llama.cpp is twice as fast."""
    return lines(
        *measured(QUICK, "replay", 20.0),
        *measured(QUICK, "torch", 20.0),
        *measured(QUICK, "llama.cpp", 10.0),
        (1, loading.COLD, 40.0),
        (1, loading.WARM, 4.0),
    )


def test_who_is_faster_is_said(run):
    found = peers.ahead(Results(run), QUICK)
    assert len(found) == len(QUICK.effort.decodes) + len(QUICK.effort.prompts)
    assert {who for who, *_ in found} == {"llama.cpp"}
    assert all(ratio.median == 0.5 for *_, ratio in found)


def test_a_report_is_tables_and_plots(run, tmp_path):
    write.report(
        run,
        QUICK,
        tmp_path,
        facts="* a machine",
        goals="| goal |",
        entries=18,
        instructions={1: 44637},
        missing=["jax (no network)"],
    )
    text = (tmp_path / "report.md").read_text()
    assert "| ours, replay | 20.0 | 20.0 |" in text
    assert "| llama.cpp | 10.0 (0.500) | 10.0 (0.500) |" in text
    assert "| empty / filled | 10.0 |" in text
    assert "| 1 | 44,637 |" in text
    assert "Not measured: jax (no network)" in text
    # One that was not measured has no row.
    assert "jitted JAX |" not in text
    plots = {file.name for file in tmp_path.glob("*.svg")}
    assert plots and all(f"]({name})" in text for name in plots)
    for name in plots:
        assert ElementTree.parse(tmp_path / name).getroot().tag == f"{SVG}svg"
    drawn = (tmp_path / "decode-context-b1.svg").read_text()
    assert "llama.cpp" in drawn and "jitted JAX" not in drawn
    # Nothing is fetched to show it.
    assert "xlink:href" not in drawn and "src=" not in drawn


def test_more_steps_than_a_context_has_are_refused():
    with pytest.raises(AssertionError, match="do not fit"):
        series.Effort(steps=series.BEFORE_THE_END + 1, prefills=1)


def test_plans_say_what_they_measure():
    assert isinstance(WHOLE, Plan) and WHOLE.ladder(1) == [128, 512, 1024, 2048]
    assert WHOLE.effort.batches == [1, 2, 4, 8]
