"""Everything that a report is made of, measured."""

import contextlib
import json
import sys
from pathlib import Path

from rounds import options
from rounds.series import CONTEXT
from rounds.turns import record, take_turns

from . import host, loading, memory

# Steps of a sequence while the host's parts are looked at.
HOST_STEPS = 25


def everything(args, plan, out):
    """Writes measurements to `out`."""
    # The loads come first: nothing else is in memory yet.
    for number, series, value in loading.measure(*args.load, plan.warm_loads):
        record(out, number, series, value)
    say("loads are measured")
    with contextlib.ExitStack() as stack:
        contestants = options.contestants(args, plan.effort, stack)
        check_ids(contestants, args.fixture, plan.checked, out)
        take_turns(contestants.values(), plan.rounds, out)
        host_parts(contestants["server"], out)
        memory_held(contestants, args.serve[1], out)


def say(text):
    print(f"bench: {text}", file=sys.stderr)


def check_ids(contestants, fixture, count, out):
    """How many prompts each continues with the ids of the fixture, all of them."""
    prompts = json.loads(Path(fixture).read_text())["prompts"]
    fitting = [p for p in prompts if len(p["prompt_ids"]) + len(p["greedy_ids"]) <= CONTEXT]
    for who, contestant in contestants.items():
        if not hasattr(contestant, "ids"):
            continue
        for prompt in fitting[:count]:
            ids = contestant.ids(prompt["prompt_ids"], len(prompt["greedy_ids"]))
            if ids != prompt["greedy_ids"]:
                raise SystemExit(
                    f"bench: {who} continues '{prompt['name']}' with {ids}, which should be "
                    f"{prompt['greedy_ids']}: it does not compute the same model"
                )
        record(out, 1, f"prompts that {who} continues as it should", len(fitting[:count]))


def host_parts(served, out):
    """What the backend tells of its host time, of one row and of four."""
    server = served.server
    server.control.update_log_settings({"log_verbose_level": 1})
    since = Path(server.log).stat().st_size
    batches = [batch for batch in (1, 4) if batch in served.batches]
    for batch in batches:
        for _ in range(host.RUNS // HOST_STEPS + 1):
            served.decode(batch, HOST_STEPS)
    with open(server.log, encoding="utf-8", errors="replace") as log:
        log.seek(since)
        found = host.medians(log.read())
    for batch in batches:
        entry = host.entry(batch, CONTEXT)
        for part, microseconds in found.get(entry, {}).items():
            # A part that takes less than a clock tick counts as one.
            record(out, 1, host.series(entry, part), max(microseconds, 1))
    say("the host's parts are measured")


def memory_held(contestants, repository, out):
    for who, contestant in contestants.items():
        if not hasattr(contestant, "pids"):
            continue
        held = memory.held(contestant.pids, Path(repository).resolve())
        record(out, 1, f"{who} resident (MB)", held.resident)
        record(out, 1, f"{who} private (MB)", held.private)
        if held.mapped:
            record(out, 1, f"{who} weights mapped (MB)", held.mapped)
    for kind, megabytes in memory.pools(contestants["server"].server.metrics(), "bench").items():
        if megabytes:
            record(out, 1, f"server says {kind} (MB)", megabytes)
