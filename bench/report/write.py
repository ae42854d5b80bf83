"""Writes report.md and its plots."""

from rounds import series
from rounds.series import CONTEXT

from . import host, peers, plots, sections
from .plan import LADDERS
from .results import Results


def report(lines, plan, folder, facts, goals, entries, instructions, missing):
    """Of the lines of a file of measurements."""
    results = Results(lines)
    folder.mkdir(parents=True, exist_ok=True)
    draw(results, plan, folder)
    parts = [
        f"# Benchmark report\n\n{facts}",
        sections.same_model(results, missing),
        sections.floor(results, plan),
        *(sections.contexts(results, plan, batch) for batch in LADDERS),
        sections.batches(results, plan),
        sections.prefills(results, plan),
        sections.ahead(results, plan),
        sections.host_time(results, plan, instructions),
        sections.load(results, entries),
        sections.memory(results),
        f"## Goals and all series\n\n{goals}",
    ]
    text = "\n".join(part.rstrip("\n") + "\n" for part in parts)
    (folder / "report.md").write_text(text, encoding="utf-8")


def draw(results, plan, folder):
    def curves(names, series_of):
        return {
            title: [results.median(name) for name in series_of(who)] for who, title in names.items()
        }

    for batch in LADDERS:
        plots.lines(
            folder / f"decode-context-b{batch}.svg",
            f"Decode step of {batch} row(s), ms",
            "context",
            None,
            plan.ladder(batch),
            curves(
                peers.PROGRAMS,
                lambda who, b=batch: [series.decode(who, b, c) for c in plan.ladder(b)],
            ),
        )
    plots.lines(
        folder / "decode-batches.svg",
        f"Decode step at context {CONTEXT}, ms",
        "rows",
        None,
        plan.effort.batches,
        curves(peers.NAMES, lambda who: [series.decode(who, b) for b in plan.effort.batches]),
    )
    plots.lines(
        folder / "prefill.svg",
        "Prefill, ms",
        "tokens",
        None,
        plan.effort.prompts,
        curves(peers.PROGRAMS, lambda who: [series.prefill(who, t) for t in plan.effort.prompts]),
    )
    shown = [batch for batch in LADDERS if batch in plan.effort.batches]
    plots.bars(
        folder / "host-time.svg",
        "Host time of a decode step beside the wait, µs",
        None,
        [f"{batch} row(s)" for batch in shown],
        {
            part: [results.median(host.series(host.entry(b, CONTEXT), part)) for b in shown]
            for part in host.PARTS
            if part != "logits"
        },
    )
