"""Clients that stream tokens."""

import asyncio
import random
import re
import time
from dataclasses import dataclass, field

import numpy as np
import tritonclient.grpc.aio as grpc

EXACT = {"temperature": 0.0, "ignore_eos": True, "stream": True}
TYPES = {int: ("INT32", np.int32), float: ("FP32", np.float32), bool: ("BOOL", bool)}


@dataclass
class Stream:
    """What a client saw: `times` are those of the responses, in seconds, each with a token."""

    prompt: int
    sent: float = 0.0
    times: list = field(default_factory=list)
    ids: list = field(default_factory=list)

    @property
    def first(self):
        return self.times[0] - self.sent

    @property
    def gaps(self):
        return [after - before for before, after in zip(self.times, self.times[1:])]


def tensor(name, value):
    if isinstance(value, str):
        kind, array = "BYTES", np.array([value.encode()], object)
    else:
        values = value if isinstance(value, list) else [value]
        kind, dtype = TYPES[type(values[0])]
        array = np.array(values, dtype)
    made = grpc.InferInput(name, [1, array.size], kind)
    made.set_data_from_numpy(array.reshape(1, -1))
    return made


async def stream(url, model, prompt, start=None, **keys):
    """One request of a client with a connection of its own; `start` is awaited before it."""
    inputs = [tensor(name, value) for name, value in {**EXACT, **keys}.items()]
    seen = Stream(prompt)
    async with grpc.InferenceServerClient(url) as client:
        await client.is_server_live()

        async def requests():
            yield {
                "model_name": model,
                "inputs": inputs,
                "outputs": [grpc.InferRequestedOutput(n) for n in ("output_ids", "text_output")],
            }

        if start is not None:
            await start()
        seen.sent = time.perf_counter()
        async for result, error in client.stream_infer(requests()):
            if error is not None:
                raise error
            seen.times.append(time.perf_counter())
            seen.ids += result.as_numpy("output_ids").reshape(-1).tolist()
            if result.get_response().parameters["triton_final_response"].bool_param:
                break
    return seen


def lengths(clients, longest, shortest=10):
    """Lengths of prompts: from `shortest` to `longest`, in equal ratios, shuffled."""
    ratio = (longest / shortest) ** (1 / max(clients - 1, 1))
    chosen = [round(shortest * ratio**number) for number in range(clients)]
    random.Random(4).shuffle(chosen)
    return chosen


async def crowd(url, model, clients, tokens, longest):
    """All clients at once, each with a prompt of another length, the last of `longest` tokens."""
    ready, go = asyncio.Semaphore(0), asyncio.Event()

    async def start():
        ready.release()
        await go.wait()

    chance = random.Random(7)
    prompts = [[chance.randrange(100, 40000) for _ in range(n)] for n in lengths(clients, longest)]
    streams = [
        asyncio.create_task(
            stream(url, model, len(prompt), start, input_ids=prompt, max_tokens=tokens)
        )
        for prompt in prompts
    ]
    for _ in streams:
        await ready.acquire()
    go.set()
    return await asyncio.gather(*streams)


CALL = re.compile(rb"(\w+) ran (\d+) sequence\(s\) in (\d+) us")


def calls(log, since):
    """(entry, rows, milliseconds) of the calls that a server's log has from byte `since` on."""
    with open(log, "rb") as file:
        file.seek(since)
        found = CALL.findall(file.read())
    return [(entry.decode(), int(rows), int(us) / 1e3) for entry, rows, us in found]


def pages_in_use(metrics, model):
    """KV pages that requests hold."""
    line = re.compile(
        r"^nv_tlaloc_kv_cache_block_metrics\{(?=.*model=\"%s\")(?=.*type=\"used\").*\} (\S+)$"
        % model,
        re.M,
    )
    found = line.findall(metrics)
    if not found:
        raise RuntimeError(f"the server's metrics do not tell the KV pages of '{model}'")
    return sum(float(value) for value in found)
