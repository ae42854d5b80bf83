"""Contestants that are programs of their own.

A contestant's `measure()` yields (series, value) pairs. Values are milliseconds
per call where the series does not name another unit. Contestants that live on
between rounds are context managers.
"""

import json
import subprocess
from dataclasses import dataclass

CONTEXT = 512
# Decode steps begin here and stay inside the context.
POSITION = 480
PREFILL = 512


@dataclass(frozen=True)
class Effort:
    """How much of everything is measured in a round."""

    steps: int
    prefills: int


def run(command):
    """What the command printed; its errors go where ours go."""
    return subprocess.run(
        [str(word) for word in command], check=True, stdout=subprocess.PIPE, text=True
    ).stdout


class Replay:
    """`tlaloc-bench replay`: our programs in a bare loop."""

    def __init__(self, bench, artifact, plugin, cache, effort):
        self._command = [bench, "replay", artifact, "--plugin", plugin, "--cache", cache, "--json"]
        self._command += ["--context", CONTEXT]
        self._effort = effort

    def measure(self):
        for batch in (1, 4):
            report = self._run(
                "--batch", batch, "--position", POSITION, "--steps", self._effort.steps
            )
            yield f"replay decode b{batch}", report["milliseconds"]["median"]
            yield f"replay decode b{batch}, mean", report["milliseconds"]["mean"]
            yield f"weights read by replay decode b{batch} (GB/s)", report["gigabytes_per_s"]
        report = self._run("--kind", "prefill", "--steps", self._effort.prefills)
        yield f"replay prefill {PREFILL}", report["milliseconds"]["median"]

    def _run(self, *options):
        return json.loads(run([*self._command, *options]))


class Bandwidth:
    """`tlaloc-bench bandwidth`: how fast the machine reads memory."""

    def __init__(self, bench):
        self._command = [bench, "bandwidth", "--json"]

    def measure(self):
        for reading in json.loads(run(self._command)):
            threads, rate = reading["threads"], reading["gigabytes_per_s"]["median"]
            yield f"memory read by {threads} thread(s) (GB/s)", rate


class Jax:
    """`scripts/peers/jax_llama.py`, which stays between rounds with its programs compiled.

    Each figure comes from the weight layout that JAX computes it fastest with.
    """

    def __init__(self, python, script, checkpoint, plugin, effort):
        self._effort = effort
        command = [python, script, checkpoint, "--plugin", plugin, "--layout"]
        self._workers = {
            layout: subprocess.Popen(
                [*command, layout], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            for layout in ("out_in", "in_out")
        }

    def measure(self):
        for batch, layout in ((1, "out_in"), (4, "in_out")):
            time = self._ask(layout, "decode", batch, CONTEXT, POSITION, self._effort.steps)
            yield f"jax decode b{batch}", time
        time = self._ask("out_in", "prefill", PREFILL, self._effort.prefills)
        yield f"jax prefill {PREFILL}", time

    def _ask(self, layout, *words):
        worker = self._workers[layout]
        print(*words, file=worker.stdin, flush=True)
        answer = worker.stdout.readline()
        if not answer:
            raise RuntimeError(f"the JAX peer ended with {worker.wait()}")
        return json.loads(answer)["milliseconds"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for worker in self._workers.values():
            worker.stdin.close()
            worker.wait()


class LlamaCpp:
    """llama.cpp's own benchmark on the same weights."""

    def __init__(self, bench, gguf, threads, effort):
        self._command = [bench, "--model", gguf, "--threads", threads, "--output", "json"]
        self._effort = effort

    def measure(self):
        steps = ["--n-prompt", 0, "--n-gen", self._effort.steps, "--n-depth", POSITION]
        yield "llama.cpp decode b1", 1e3 / self._rate(*steps, "--repetitions", 1)
        prompt = ["--n-prompt", PREFILL, "--n-gen", 0]
        rate = self._rate(*prompt, "--repetitions", self._effort.prefills)
        yield f"llama.cpp prefill {PREFILL}", 1e3 * PREFILL / rate

    def _rate(self, *options):
        """Tokens per second."""
        return json.loads(run([*self._command, *options]))[0]["avg_ts"]
