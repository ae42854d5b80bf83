"""Measure everything, and write tables and plots of it.

    python -m report measure OUT.jsonl [options]
    python -m report write OUT.jsonl --into DIR [options]
    python -m report exports

`exports` prints the options that the artifact to measure is exported with.
"""

import argparse
import json
import signal
import sys
from pathlib import Path

from rounds import options

from . import host, measure, write
from .plan import QUICK, WHOLE


def arguments():
    parser = argparse.ArgumentParser(prog="report", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a little of everything")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("exports")
    measured = commands.add_parser("measure")
    measured.add_argument("measurements", type=Path)
    measured.add_argument("--fixture", required=True, help="prompts and the ids that follow them")
    measured.add_argument(
        "--load", nargs=4, required=True, metavar=("SERVE_SH", "REPOSITORY", "MODEL", "LOG")
    )
    options.add(measured)
    written = commands.add_parser("write")
    written.add_argument("measurements", type=Path)
    written.add_argument("--into", type=Path, required=True)
    written.add_argument("--facts", type=Path, required=True, help="Markdown on the machine")
    written.add_argument("--goals", type=Path, required=True, help="Markdown of the goals")
    written.add_argument("--loaded", type=Path, required=True, help="the artifact that was loaded")
    written.add_argument("--host-work", type=Path, required=True, help="what the test said")
    written.add_argument("--missing", action="append", default=[], help="a peer, and why")
    return parser.parse_args()


def main():
    args = arguments()
    plan = QUICK if args.quick else WHOLE
    if args.command == "exports":
        print("\n".join(map(str, plan.export_options)))
    elif args.command == "measure":
        # An orderly exit, which ends the contestants that live on between rounds.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        with open(args.measurements, "w", encoding="utf-8") as out:
            measure.everything(args, plan, out)
    else:
        manifest = json.loads((args.loaded / "tlaloc-serving.json").read_text())
        write.report(
            args.measurements.read_text(encoding="utf-8").splitlines(),
            plan,
            args.into,
            facts=args.facts.read_text(encoding="utf-8"),
            goals=args.goals.read_text(encoding="utf-8"),
            entries=len(manifest["entries"]),
            instructions=host.instructions(args.host_work.read_text(encoding="utf-8")),
            missing=args.missing,
        )


if __name__ == "__main__":
    main()
