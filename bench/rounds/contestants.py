"""Contestants that are programs of their own.

A contestant's `measure()` yields (series, value) pairs. Values are milliseconds
per call where the series does not name another unit. Contestants that live on
between rounds are context managers.
"""

import json
import subprocess

from . import series
from .series import BEFORE_THE_END


def run(command):
    """What the command printed; its errors go where ours go."""
    return subprocess.run(
        [str(word) for word in command], check=True, stdout=subprocess.PIPE, text=True
    ).stdout


class Replay:
    """`tlaloc-bench replay`: our programs in a bare loop."""

    def __init__(self, bench, artifact, plugin, cache, effort):
        self._command = [bench, "replay", artifact, "--plugin", plugin, "--cache", cache, "--json"]
        self._effort = effort

    def measure(self):
        for batch, context in self._effort.decodes:
            size = ["--batch", batch, "--context", context]
            position = context - BEFORE_THE_END
            report = self._run(*size, "--position", position, "--steps", self._effort.steps)
            name = series.decode("replay", batch, context)
            yield name, report["milliseconds"]["median"]
            yield f"{name}, mean", report["milliseconds"]["mean"]
            yield f"weights read by {name} (GB/s)", report["gigabytes_per_s"]
        for tokens in self._effort.prompts:
            report = self._run(
                *("--kind", "prefill", "--tokens", tokens, "--context", tokens, "--position", 0),
                *("--steps", self._effort.prefills),
            )
            yield series.prefill("replay", tokens), report["milliseconds"]["median"]

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


class Worker:
    """A peer that stays between rounds and is asked as scripts/peers/answers.py says."""

    def __init__(self, command, environment=None):
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self.pid = self._process.pid

    def ask(self, *words):
        print(*words, file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"{self._process.args[1]} ended with {self._process.wait()}")
        return json.loads(answer)

    def end(self):
        self._process.stdin.close()
        self._process.wait()


class Peer:
    """A program of scripts/peers in one or several workers.

    Subclasses have `who` and say which worker is the fastest for a number of rows.
    """

    who = ""

    def __init__(self, effort, workers):
        self._effort = effort
        self._workers = workers

    def _for(self, rows):
        return self._workers[0]

    def measure(self):
        for batch, context in self._effort.decodes:
            words = ("decode", batch, context, context - BEFORE_THE_END, self._effort.steps)
            time = self._for(batch).ask(*words)["milliseconds"]
            yield series.decode(self.who, batch, context), time
        for tokens in self._effort.prompts:
            answer = self._workers[0].ask("prefill", tokens, self._effort.prefills)
            yield series.prefill(self.who, tokens), answer["milliseconds"]

    def ids(self, prompt, count):
        """Greedy ids after a prompt, of the worker that computes single rows."""
        return self._workers[0].ask("ids", count, *prompt)["ids"]

    @property
    def pids(self):
        """Of the worker that computes single rows."""
        return [self._workers[0].pid]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for worker in self._workers:
            worker.end()


class Jax(Peer):
    """`scripts/peers/jax_llama.py`, in the weight layout that each figure is best with."""

    who = "jax"

    def __init__(self, python, script, checkpoint, plugin, effort):
        command = [python, script, checkpoint, "--plugin", plugin, "--layout"]
        super().__init__(effort, [Worker([*command, name]) for name in ("out_in", "in_out")])

    def _for(self, rows):
        return self._workers[0 if rows == 1 else 1]


class Torch(Peer):
    """`scripts/peers/torch_llama.py`."""

    who = "torch"

    def __init__(self, python, script, checkpoint, threads, environment, effort):
        worker = Worker([python, script, checkpoint, "--threads", threads], environment)
        super().__init__(effort, [worker])


class LlamaCpp:
    """llama.cpp's own benchmarks on the same weights."""

    def __init__(self, bench, batched, gguf, threads, effort):
        self._bench = [bench, "--model", gguf, "--threads", threads, "--output", "json"]
        self._batched = [batched, "--model", gguf, "--threads", threads, "-pps"]
        self._effort = effort

    def measure(self):
        for batch, context in self._effort.decodes:
            time = self._alone(context) if batch == 1 else self._together(batch, context)
            yield series.decode("llama.cpp", batch, context), time
        for tokens in self._effort.prompts:
            size = ["--n-prompt", tokens, "--n-gen", 0, "--repetitions", self._effort.prefills]
            yield series.prefill("llama.cpp", tokens), 1e3 * tokens / self._rate(*size)

    def _alone(self, context):
        depth = context - BEFORE_THE_END
        size = ["--n-prompt", 0, "--n-gen", self._effort.steps, "--n-depth", depth]
        return 1e3 / self._rate(*size, "--repetitions", 1)

    def _rate(self, *options):
        """Tokens per second."""
        return json.loads(run([*self._bench, *options]))[0]["avg_ts"]

    def _together(self, batch, context):
        """Sequences side by side, each with a cache of its own of the same prompt."""
        prompt, steps = context - BEFORE_THE_END, self._effort.steps
        size = ["-npp", prompt, "-ntg", steps, "-npl", batch, "-c", batch * context]
        lines = run([*self._batched, *size, "--output-format", "jsonl"]).splitlines()
        (answer,) = (json.loads(line) for line in lines if line.startswith("{"))
        return 1e3 * answer["t_tg"] / steps
