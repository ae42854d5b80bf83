"""Command line options that name contestants."""

import os

from .contestants import Bandwidth, Jax, LlamaCpp, Replay, Torch
from .served import Served


def add(parser):
    parser.add_argument("--bench", required=True, help="the binary tlaloc-bench")
    parser.add_argument("--artifact", required=True)
    parser.add_argument("--plugin", required=True)
    parser.add_argument("--cache", required=True, help="where compiled programs are kept")
    parser.add_argument("--serve", nargs=3, metavar=("SERVE_SH", "REPOSITORY", "LOG"))
    parser.add_argument("--jax", nargs=3, metavar=("PYTHON", "SCRIPT", "CHECKPOINT"))
    parser.add_argument(
        "--torch", nargs=5, metavar=("PYTHON", "LIBRARIES", "SCRIPT", "CHECKPOINT", "THREADS")
    )
    parser.add_argument("--llama", nargs=4, metavar=("BENCH", "BATCHED_BENCH", "GGUF", "THREADS"))
    parser.add_argument(
        "--python-backend",
        nargs=5,
        metavar=("SERVE_SH", "REPOSITORY", "LOG", "BACKENDS", "PACKAGES"),
    )


def contestants(args, effort, stack):
    """Those that were named, by the words that their series begin with.

    The ones that live on between rounds end with `stack`.
    """
    found = {
        "memory": Bandwidth(args.bench),
        "replay": Replay(args.bench, args.artifact, args.plugin, args.cache, effort),
    }
    if args.serve:
        served = Served(*args.serve, effort.steps, effort.batches)
        found["server"] = stack.enter_context(served)
    if args.jax:
        found["jax"] = stack.enter_context(Jax(*args.jax, args.plugin, effort))
    if args.torch:
        python, libraries, *rest = args.torch
        environment = {**os.environ, "LD_LIBRARY_PATH": libraries}
        found["torch"] = stack.enter_context(Torch(python, *rest, environment, effort))
    if args.llama:
        found["llama.cpp"] = LlamaCpp(*args.llama, effort)
    if args.python_backend:
        serve, repository, log, backends, packages = args.python_backend
        environment = {
            "TLALOC_BACKEND_DIR": backends,
            "PEERS_PACKAGES": packages,
            # The model runs from the source tree, which is to stay as it is.
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        served = Served(
            *(serve, repository, log, effort.steps, effort.batches),
            model="jax",
            who="python backend ",
            environment=environment,
        )
        found["python backend"] = stack.enter_context(served)
    return found
