"""The report's sections: each is Markdown of what was measured."""

from rounds import series
from rounds.series import CONTEXT

from . import host, loading, peers
from .markdown import number, spread, table


def floor(results, plan):
    """What the machine's memory allows, and how near the replay is."""
    rows = [
        [name, spread(results.spread(name))]
        for name in (
            "memory read by 1 thread(s) (GB/s)",
            "memory read by 2 thread(s) (GB/s)",
            f"weights read by {series.decode('replay', 1)} (GB/s)",
        )
    ]
    rows += [
        [f"replay decode b{batch} (ms)", spread(results.spread(series.decode("replay", batch)))]
        for batch in plan.effort.batches
    ]
    return (
        "## Replay floor\n\n"
        "A decode step reads all weights once; a bare loop over PJRT runs our programs.\n\n"
        + table(["", "median (smallest to largest)"], rows)
    )


def _side_by_side(results, head, columns, contestants):
    """One row for each contestant that has values: medians, then ratios to ours."""
    rows = []
    for who, name in contestants.items():
        cells = [
            (results.median(of(who)), results.ratio(of(who), of(peers.OURS))) for of in columns
        ]
        if all(median is None for median, _ in cells):
            continue
        row = [name]
        for median, ratio in cells:
            times = f" ({number(ratio.median)})" if ratio and who != peers.OURS else ""
            row.append(number(median) + times)
        rows.append(row)
    return table(head, rows)


def contexts(results, plan, batch):
    head = ["ms a step (times ours)", *(f"context {c}" for c in plan.ladder(batch))]
    columns = [lambda who, c=c: series.decode(who, batch, c) for c in plan.ladder(batch)]
    return (
        f"## Decode by context, {batch} row(s)\n\n"
        + _side_by_side(results, head, columns, peers.PROGRAMS)
        + f"\n![decode by context](decode-context-b{batch}.svg)\n"
    )


def batches(results, plan):
    head = ["ms a step (times ours)", *(f"{b} row(s)" for b in plan.effort.batches)]
    columns = [lambda who, b=b: series.decode(who, b) for b in plan.effort.batches]
    ours, jax = ("server queue and input", "python backend server queue and input")
    waits = [
        [name, spread(results.spread(f"{series.decode(who, 1)}, mean"))]
        for name, who in (("ours", ours), ("Python backend", jax))
    ]
    return (
        f"## Decode by batch, context {CONTEXT}\n\n"
        + _side_by_side(results, head, columns, peers.NAMES)
        + "\n![decode by batch](decode-batches.svg)\n\n"
        "Between a lone request's arrival and its execution, ms:\n\n"
        + table(["server", "queue and input"], waits)
    )


def prefills(results, plan):
    head = ["ms a prompt (times ours)", *(f"{t} tokens" for t in plan.effort.prompts)]
    columns = [lambda who, t=t: series.prefill(who, t) for t in plan.effort.prompts]
    return (
        "## Prefill\n\n"
        + _side_by_side(results, head, columns, peers.PROGRAMS)
        + "\n![prefill](prefill.svg)\n"
    )


def ahead(results, plan):
    rows = [[who, point, spread(ratio)] for who, point, ratio in peers.ahead(results, plan)]
    text = table(["peer", "where", "its time / ours"], rows) if rows else "Nowhere.\n"
    return "## Where a peer is faster\n\n" + text


def host_time(results, plan, instructions):
    shown = [b for b in (1, 4) if b in plan.effort.batches]
    entries = [host.entry(batch, CONTEXT) for batch in shown]
    rows = [
        [text, *(number(results.median(host.series(entry, part))) for entry in entries)]
        for part, text in host.PARTS.items()
    ]
    text = (
        "## Host time of a step\n\n"
        "As the backend's log tells it, medians of 100 runs, µs. The wait is the execution.\n\n"
        + table(["part", *(f"{batch} row(s)" for batch in shown)], rows)
        + "\n![host time](host-time.svg)\n"
    )
    if instructions:
        counted = [[count, f"{found:,}"] for count, found in instructions.items()]
        text += (
            "\nInstructions that the host spends on a step, which CI keeps below 60,000 and 15,000 "
            "for each further row:\n\n" + table(["rows", "instructions"], counted)
        )
    return text


def load(results, entries):
    rows = [[name, spread(results.spread(name))] for name in (loading.COLD, loading.WARM)]
    cold, warm = results.median(loading.COLD), results.median(loading.WARM)
    rows.append(["empty / filled", number(cold / warm)])
    return (
        f"## Load time\n\nSmolLM2 with {entries} entries, in a new server each time, from the "
        "request until the model is ready.\n\n" + table(["", "median (smallest to largest)"], rows)
    )


MEMORY = {
    "server": "our server",
    "python backend": "Python backend with JAX (weights in two layouts)",
    "jax": "jitted JAX (one layout)",
    "torch": "PyTorch",
}


def memory(results):
    rows = []
    for who, name in MEMORY.items():
        cells = [
            results.median(f"{who} {what} (MB)")
            for what in ("resident", "private", "weights mapped")
        ]
        if cells[0] is not None:
            rows.append([name, *map(number, cells)])
    kinds = [
        [kind, number(results.median(f"server says {kind} (MB)"))]
        for kind in ("weights", "pools", "step_inputs", "temporary")
    ]
    return (
        "## Memory\n\nMB after the rounds.\n\n"
        + table(["process", "resident", "private", "weights mapped from files"], rows)
        + "\nOur server's own account (`nv_tlaloc_runtime_memory_metrics`):\n\n"
        + table(["", "MB"], kinds)
    )


def same_model(results, missing):
    rows = []
    for who in ("server", "jax", "torch", "python backend"):
        count = results.median(f"prompts that {who} continues as it should")
        if count is not None:
            rows.append([who, f"{count:.0f} of {count:.0f}"])
    text = (
        "## The same model\n\nPrompts that each continues with the fixture's 24 greedy ids; the "
        "run ends where one does not. llama.cpp's benchmarks take no prompts.\n\n"
        + table(["contestant", "prompts"], rows)
    )
    for who in missing:
        text += f"\nNot measured: {who}\n"
    return text
