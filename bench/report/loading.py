"""How long a model takes to load, with an empty compile cache and with a filled one."""

import tempfile
import time

from serving import Server

COLD = "load, compile cache empty (s)"
WARM = "load, compile cache filled (s)"


def measure(serve, repository, model, log, warm):
    """Yields (round, series, seconds) of one cold load and of `warm` others.

    From the request to load until the answer that the model is ready, each in a new server.
    """
    with tempfile.TemporaryDirectory() as folder:
        for number in range(warm + 1):
            seconds = _load(serve, repository, model, log, folder)
            yield (1, COLD, seconds) if number == 0 else (number, WARM, seconds)


def _load(serve, repository, model, log, programs):
    environment = {"TLALOC_COMPILE_CACHE_DIR": programs}
    arguments = ("--model-control-mode", "explicit")
    with Server(serve, repository, log, *arguments, environment=environment) as server:
        started = time.monotonic()
        server.control.load_model(model)
        return time.monotonic() - started
