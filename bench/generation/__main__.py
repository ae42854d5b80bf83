"""Measure generation mode through a real server and print tables.

    python -m generation REPOSITORY --artifact A --copying C [options]

REPOSITORY has the models `crowd` (of the artifact A), `plain` and `lookup` (of the
artifact C, without and with prompt lookup).
"""

import argparse
import asyncio
import json
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import mean, median

import numpy as np
from serving import Server

from . import load

PARAGRAPH = (
    "The harbour master keeps a ledger of every boat that enters the bay: its name, the hour at "
    "which it came, how deep it lies in the water, and what it carries. On Tuesdays he reads the "
    "whole ledger aloud to the fishermen, who correct him where he is wrong. Nobody remembers "
    "when this began, but in forty years not one crate of oranges has been lost, and the bay has "
    "not seen a single quarrel about who was first at the pier."
)
# A text that is half repeated already.
COPIED = 64  # tokens
COPYING = f"{PARAGRAPH}\n\n{PARAGRAPH}\n\n{PARAGRAPH[:60]}"


class Bench:
    """The bare loop."""

    def __init__(self, binary, plugin, cache):
        self._command = [binary, "--plugin", plugin, "--cache", cache, "--json"]

    def run(self, what, *options):
        binary, *common = self._command
        command = [str(word) for word in (binary, what, *options, *common)]
        output = subprocess.run(command, check=True, stdout=subprocess.PIPE)
        return json.loads(output.stdout)

    def calls(self, artifact, calls):
        with tempfile.NamedTemporaryFile("w", suffix=".calls") as file:
            file.writelines(f"{entry} {rows}\n" for entry, rows, _ in calls)
            file.flush()
            return self.run("calls", artifact, file.name)


def goal(name, found, bound, unit="", at_least=False):
    reached = found >= bound if at_least else found <= bound
    relation = "at least" if at_least else "at most"
    verdict = "reached" if reached else "**missed**"
    return f"| {name} | {relation} {bound:.4g}{unit} | {found:.4g}{unit} | {verdict} |"


def settled(server, model):
    """KV pages in use, once the last request is released."""
    deadline = time.monotonic() + 5
    while (pages := load.pages_in_use(server.metrics(), model)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return pages


def crowd(server, log, bench, artifact, clients, tokens, longest):
    """Rows of goals and of figures: many clients at once against the replay of their calls."""
    since = Path(log).stat().st_size
    streams = asyncio.run(load.crowd(server.grpc_url, "crowd", clients, tokens, longest))
    pages = settled(server, "crowd")
    calls = load.calls(log, since)
    for stream in streams:
        assert len(stream.ids) == tokens, f"{len(stream.ids)} of {tokens} tokens"
    took = max(s.times[-1] for s in streams) - min(s.sent for s in streams)
    in_calls = sum(milliseconds for *_, milliseconds in calls) / 1e3
    replay = bench.calls(artifact, calls)
    bare = replay["total_milliseconds"] / 1e3

    of_kind = {"decode": [0, 0.0, 0], "prefill": [0, 0.0, 0]}
    for entry in replay["entries"]:
        totals = of_kind[entry["kind"]]
        totals[0] += entry["calls"]
        totals[1] += entry["calls"] * entry["milliseconds"]["mean"]
        totals[2] += entry["rows"]
    step = of_kind["decode"][1] / of_kind["decode"][2] * clients
    chunk = max(
        (e["tokens"] * e["batch"], e["milliseconds"]["mean"])
        for e in replay["entries"]
        if e["kind"] == "prefill"
    )
    chunk = chunk[1]
    gaps = sorted(1e3 * gap for stream in streams for gap in stream.gaps)
    first = sorted(stream.first for stream in streams)
    p99 = float(np.percentile(gaps, 99))
    total = clients * tokens
    goals = [
        goal("tokens/s of the server / tokens/s of the replay", bare / took, 0.9, at_least=True),
        goal("time between tokens, p99", p99, 1.5 * (step + chunk), " ms"),
        goal("KV pages held at the end", pages, 0),
    ]
    (decodes, decode_ms, decode_rows), (prefills, prefill_ms, _) = of_kind.values()
    figures = {
        "clients, tokens of each, tokens of all prompts": (
            f"{clients}, {tokens}, {sum(stream.prompt for stream in streams)}"
        ),
        "server, tokens/s": f"{total / took:.2f}",
        "replay of its calls, tokens/s": f"{total / bare:.2f}",
        "server: all, calls alone, s": f"{took:.2f}, {in_calls:.2f}",
        "share of the server's time between calls": f"{1 - in_calls / took:.2%}",
        "replay of the same calls, s": f"{bare:.2f}",
        "decode calls, rows of one, s": (
            f"{decodes}, {decode_rows / decodes:.1f}, {decode_ms / 1e3:.2f}"
        ),
        "prefill calls, s": f"{prefills}, {prefill_ms / 1e3:.2f}",
        "replay: decode step of all clients, largest prefill chunk, ms": (
            f"{step:.1f}, {chunk:.1f}"
        ),
        "time between tokens: median, p90, p99, largest, ms": ", ".join(
            f"{np.percentile(gaps, p):.1f}" for p in (50, 90, 99, 100)
        ),
        "time to first token: shortest, median, p90, longest, s": ", ".join(
            f"{np.percentile(first, p):.2f}" for p in (0, 50, 90, 100)
        ),
    }
    return goals, figures


def speculation(server, log, bench, artifact, rounds, tokens):
    """The same of a copying task with one client, without and with prompt lookup."""
    rates, ids, steps, used = {}, {}, [], {}
    for number in range(rounds + 1):
        for model in ("plain", "lookup"):
            since = Path(log).stat().st_size
            seen = asyncio.run(
                load.stream(server.grpc_url, model, 0, text_input=COPYING, max_tokens=tokens)
            )
            assert ids.setdefault(model, seen.ids) == seen.ids, f"{model}: other tokens"
            assert len(seen.ids) == tokens, f"{model}: {len(seen.ids)} of {tokens} tokens"
            if number == 0:
                continue
            used[model] = load.calls(log, since)
            rates.setdefault(model, []).append(tokens / (seen.times[-1] - seen.sent))
            if model == "plain":
                steps.append(1e3 * mean(seen.gaps))
        if number > 0:
            replay = bench.calls(artifact, used["plain"])
            bare = next(e for e in replay["entries"] if e["kind"] == "decode")
            rates.setdefault("replay", []).append(bare["milliseconds"]["mean"])
    ratio = median(on / off for on, off in zip(rates["lookup"], rates["plain"]))
    cost = median(step / bare for step, bare in zip(steps, rates["replay"]))
    copied = "the same" if ids["plain"] == ids["lookup"] else "**other ones**"
    goals = [
        goal(
            "copying, one client: tokens/s with prompt lookup / without", ratio, 1.5, at_least=True
        ),
        goal("without it: time between tokens / replay of the decode calls", cost, 1.1),
        f"| copying: greedy tokens with prompt lookup | those without | {copied} | "
        f"{'reached' if ids['plain'] == ids['lookup'] else '**missed**'} |",
    ]
    figures = {
        "copying, whole request without and with prompt lookup, tokens/s": (
            f"{median(rates['plain']):.2f}, {median(rates['lookup']):.2f}"
        ),
        "calls without and with": f"{len(used['plain'])}, {len(used['lookup'])}",
        "without: time between tokens, replay of the decode calls, ms": (
            f"{median(steps):.2f}, {median(rates['replay']):.2f}"
        ),
    }
    return goals, figures


def main():
    parser = argparse.ArgumentParser(prog="generation", description=__doc__.splitlines()[0])
    parser.add_argument("repository")
    parser.add_argument("--artifact", required=True)
    parser.add_argument("--copying", required=True)
    parser.add_argument("--serve", required=True)
    parser.add_argument("--bench", required=True, help="the binary tlaloc-bench")
    parser.add_argument("--plugin", required=True)
    parser.add_argument("--cache", required=True, help="where compiled programs are kept")
    parser.add_argument("--log", required=True, help="the server's")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=128, help="of each client")
    parser.add_argument("--longest", type=int, default=1500, help="tokens of a prompt")
    parser.add_argument("--rounds", type=int, default=3, help="of the copying task")
    args = parser.parse_args()
    # An orderly exit, which ends the server.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    bench = Bench(args.bench, args.plugin, args.cache)
    # Calls are told of in the verbose log. One model after the other: the last takes its programs
    # from where the one before it left them.
    options = ("--log-verbose", "1", "--model-load-thread-count", "1")
    with Server(args.serve, args.repository, args.log, *options) as server:
        tables = [
            speculation(server, args.log, bench, args.copying, args.rounds, COPIED),
            crowd(server, args.log, bench, args.artifact, args.clients, args.tokens, args.longest),
        ]
    print("| goal | | measured | |\n|---|---|---|---|")
    for goals, _ in reversed(tables):
        print("\n".join(goals))
    print("\n| figure | |\n|---|---|")
    for _, figures in reversed(tables):
        print("\n".join(f"| {name} | {value} |" for name, value in figures.items()))


if __name__ == "__main__":
    main()
