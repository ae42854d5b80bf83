"""Measure all contestants that are named, in turns, and write down what they say.

    python -m rounds OUT.jsonl --rounds N [options]

`tlaloc-bench compare OUT.jsonl` makes ratios of it.
"""

import argparse
import contextlib
import signal
import sys

from . import options
from .series import Effort
from .turns import take_turns


def arguments():
    parser = argparse.ArgumentParser(prog="rounds", description=__doc__.splitlines()[0])
    parser.add_argument("out", help="one JSON object a line: round, series, value")
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--steps", type=int, required=True, help="decode steps of each measurement")
    parser.add_argument("--prefills", type=int, required=True)
    options.add(parser)
    return parser.parse_args()


def main():
    args = arguments()
    # An orderly exit, which ends the contestants that live on between rounds.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    effort = Effort(args.steps, args.prefills)
    with contextlib.ExitStack() as stack, open(args.out, "w", encoding="utf-8") as out:
        contestants = options.contestants(args, effort, stack)
        take_turns(contestants.values(), args.rounds, out)


if __name__ == "__main__":
    main()
