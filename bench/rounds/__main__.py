"""Measure all contestants that are named, in turns, and write down what they say.

    python -m rounds OUT.jsonl --rounds N [options]

Every round asks each contestant once, odd rounds in the order below and even
rounds in the opposite one. `tlaloc-bench compare OUT.jsonl` makes ratios of it.
"""

import argparse
import contextlib
import json
import signal
import sys
import time

from .contestants import Bandwidth, Effort, Jax, LlamaCpp, Replay
from .served import Served


def arguments():
    parser = argparse.ArgumentParser(prog="rounds", description=__doc__.splitlines()[0])
    parser.add_argument("out", help="one JSON object a line: round, series, value")
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--steps", type=int, required=True, help="decode steps of each measurement")
    parser.add_argument("--prefills", type=int, required=True)
    parser.add_argument("--bench", required=True, help="the binary tlaloc-bench")
    parser.add_argument("--artifact", required=True)
    parser.add_argument("--plugin", required=True)
    parser.add_argument("--cache", required=True, help="where compiled programs are kept")
    parser.add_argument("--serve", nargs=3, metavar=("SERVE_SH", "REPOSITORY", "LOG"))
    parser.add_argument("--jax", nargs=3, metavar=("PYTHON", "SCRIPT", "CHECKPOINT"))
    parser.add_argument("--llama", nargs=3, metavar=("BENCH", "GGUF", "THREADS"))
    return parser.parse_args()


def main():
    args = arguments()
    # An orderly exit, which ends the contestants that live on between rounds.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    effort = Effort(args.steps, args.prefills)
    with contextlib.ExitStack() as stack, open(args.out, "w", encoding="utf-8") as out:
        contestants = [
            Bandwidth(args.bench),
            Replay(args.bench, args.artifact, args.plugin, args.cache, effort),
        ]
        if args.serve:
            contestants.append(stack.enter_context(Served(*args.serve, effort)))
        if args.jax:
            contestants.append(stack.enter_context(Jax(*args.jax, args.plugin, effort)))
        if args.llama:
            contestants.append(LlamaCpp(*args.llama, effort))
        for number in range(1, args.rounds + 1):
            started = time.monotonic()
            for contestant in contestants:
                for series, value in contestant.measure():
                    line = {"round": number, "series": series, "value": value}
                    print(json.dumps(line), file=out, flush=True)
            contestants.reverse()
            took = time.monotonic() - started
            print(f"bench: round {number} of {args.rounds}, {took:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
