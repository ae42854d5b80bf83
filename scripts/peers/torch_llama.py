#!/usr/bin/env python3
"""A Llama decoder in plain PyTorch with a KV cache, timed on request.

    torch_llama.py CHECKPOINT --threads N

What a PyTorch user would write, run eagerly: weights as in the checkpoint with fused q/k/v and
gate/up, a dense cache that a step writes in place, and PyTorch's own attention.

Is asked as answers.py says.
"""

import argparse
import time

import torch
from answers import WARM_UP, serve
from checkpoint import Checkpoint
from torch.nn.functional import linear, rms_norm, scaled_dot_product_attention, silu

# Positions that have rope tables.
LONGEST = 8192


class Model:
    """A checkpoint's sizes, its weights and rope tables."""

    def __init__(self, folder):
        self.checkpoint = Checkpoint(folder)
        self.cos, self.sin = map(torch.from_numpy, self.checkpoint.rope(LONGEST))
        self.weights = self.checkpoint.weights(torch.from_numpy, torch.from_numpy)
        self.weights["head"] = self.weights["embedding"]

    def cache(self, rows, context):
        """Keys and values of every layer, [rows, kv heads, positions, head]."""
        sizes = (rows, self.checkpoint.kv_heads, context, self.checkpoint.head)
        return [(torch.zeros(sizes), torch.zeros(sizes)) for _ in range(self.checkpoint.layers)]

    def rope(self, x, first):
        cos, sin = (table[first : first + x.shape[2]] for table in (self.cos, self.sin))
        low, high = x.chunk(2, -1)
        return torch.cat([low * cos - high * sin, high * cos + low * sin], -1)

    def norm(self, x, weight):
        return rms_norm(x, (self.checkpoint.width,), weight, self.checkpoint.epsilon)

    def __call__(self, tokens, cache, first):
        """Logits of each row's last token; `tokens`, [rows, tokens], begin at position `first`."""
        sizes = self.checkpoint
        rows, count = tokens.shape
        split = [size * sizes.head for size in (sizes.heads, sizes.kv_heads, sizes.kv_heads)]
        held = slice(0, first + count)
        x = self.weights["embedding"][tokens]
        for layer, (keys, values) in zip(self.weights["layers"], cache):
            fused = linear(self.norm(x, layer["norm1"]), layer["qkv"])
            q, k, v = (
                part.view(rows, count, -1, sizes.head).transpose(1, 2)
                for part in fused.split(split, -1)
            )
            keys[:, :, first : first + count] = self.rope(k, first)
            values[:, :, first : first + count] = v
            attended = scaled_dot_product_attention(
                self.rope(q, first),
                keys[:, :, held],
                values[:, :, held],
                is_causal=count > 1,
                enable_gqa=True,
            )
            x = x + linear(attended.transpose(1, 2).reshape(rows, count, -1), layer["o"])
            gate, up = linear(self.norm(x, layer["norm2"]), layer["gate_up"]).chunk(2, -1)
            x = x + linear(silu(gate) * up, layer["down"])
        return linear(self.norm(x[:, -1], self.weights["norm"]), self.weights["head"])


class Worker:
    """What answers.py asks."""

    def __init__(self, model):
        self.model = model

    def decode(self, rows, context, position, steps):
        cache = self.model.cache(rows, context)
        tokens = torch.arange(rows)[:, None] + 100
        times = []
        for step in range(WARM_UP + steps):
            started = time.perf_counter()
            logits = self.model(tokens, cache, position + step % (context - position))
            tokens = logits.argmax(-1, keepdim=True)
            times.append(time.perf_counter() - started)
        return times[WARM_UP:]

    def prefill(self, length, repeats):
        cache = self.model.cache(1, length)
        tokens = torch.arange(length)[None] % 97
        times = []
        for _ in range(1 + repeats):
            started = time.perf_counter()
            self.model(tokens, cache, 0)
            times.append(time.perf_counter() - started)
        return times[1:]

    def ids(self, count, prompt):
        cache = self.model.cache(1, len(prompt) + count)
        ids, tokens, position = [], torch.tensor([prompt]), 0
        while len(ids) < count:
            ids.append(int(self.model(tokens, cache, position).argmax()))
            position += tokens.shape[1]
            tokens = torch.tensor([ids[-1:]])
        return ids


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkpoint")
    parser.add_argument("--threads", type=int, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    with torch.inference_mode():
        serve(Worker(Model(arguments.checkpoint)))


if __name__ == "__main__":
    main()
