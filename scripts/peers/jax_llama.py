#!/usr/bin/env python3
"""A Llama decoder in plain JAX with paged KV, timed on request.

    jax_llama.py CHECKPOINT --plugin PLUGIN.so

What a JAX user would write and jit, on the same PJRT plugin as the served
programs: weights as arguments, fused q/k/v and gate/up, KV pages in donated
pools that a step writes and then reads through a block table, in place. Prefill
is one sequence into a dense cache.

Reads requests from standard input, one a line, and answers each with one line
of JSON, {"milliseconds": median}:

    decode ROWS CONTEXT POSITION STEPS
    prefill TOKENS REPEATS

--layout says how weights lie: out_in as in the checkpoint, in_out transposed.
"""

import argparse
import functools
import json
import os
import statistics
import sys
import time
from pathlib import Path

import numpy as np
from safetensors import safe_open

PAGE = 16
WARM_UP = 3


class Model:
    """A checkpoint's sizes and, on the device, its weights and rope tables."""

    def __init__(self, jax, folder, layout, longest):
        self.jax, self.jnp = jax, jax.numpy
        self.transposed = layout == "in_out"
        config = json.loads((folder / "config.json").read_text())
        self.layers = config["num_hidden_layers"]
        self.heads = config["num_attention_heads"]
        self.kv_heads = config["num_key_value_heads"]
        self.width = config["hidden_size"]
        self.head = config.get("head_dim") or self.width // self.heads
        self.epsilon = config["rms_norm_eps"]
        theta = config.get("rope_theta") or config["rope_parameters"]["rope_theta"]
        angles = np.arange(longest)[:, None] * theta ** -(np.arange(0, self.head, 2) / self.head)
        self.weights = {
            "cos": self.jnp.asarray(np.cos(angles), "float32"),
            "sin": self.jnp.asarray(np.sin(angles), "float32"),
            **self._read(folder),
        }

    def _read(self, folder):
        with safe_open(folder / "model.safetensors", "np") as file:

            def tensor(name):
                return file.get_tensor(f"model.{name}.weight")

            def vector(name):
                return self.jnp.asarray(tensor(name))

            def matrix(*names):
                weight = np.concatenate([tensor(name) for name in names])
                return self.jnp.asarray(weight.T.copy() if self.transposed else weight)

            def layer(index):
                attention, mlp = f"layers.{index}.self_attn", f"layers.{index}.mlp"
                return {
                    "norm1": vector(f"layers.{index}.input_layernorm"),
                    "qkv": matrix(*(f"{attention}.{part}_proj" for part in "qkv")),
                    "o": matrix(f"{attention}.o_proj"),
                    "norm2": vector(f"layers.{index}.post_attention_layernorm"),
                    "gate_up": matrix(f"{mlp}.gate_proj", f"{mlp}.up_proj"),
                    "down": matrix(f"{mlp}.down_proj"),
                }

            embedding = vector("embed_tokens")
            return {
                "layers": [layer(index) for index in range(self.layers)],
                "embedding": embedding,
                "head": matrix("embed_tokens") if self.transposed else embedding,
                "norm": vector("norm"),
            }

    def zeros(self, *shape):
        """Keys and values of every layer."""
        pool = functools.partial(self.jnp.zeros, shape, "float32")
        return [pool() for _ in range(self.layers)], [pool() for _ in range(self.layers)]

    # The parts that decode and prefill share. `x` is [tokens, features].

    def dot(self, x, weight):
        features = 0 if self.transposed else 1
        return self.jax.lax.dot_general(x, weight, (((1,), (features,)), ((), ())))

    def rms(self, x, weight):
        mean = self.jnp.mean(x * x, -1, keepdims=True)
        return x * self.jax.lax.rsqrt(mean + self.epsilon) * weight

    def rope(self, x, cos, sin):
        low, high = self.jnp.split(x, 2, -1)
        cos, sin = cos[:, None], sin[:, None]
        return self.jnp.concatenate([low * cos - high * sin, high * cos + low * sin], -1)

    def qkv(self, x, layer, cos, sin):
        """q [tokens, heads, head], k and v [tokens, kv_heads, head]."""
        split = (self.heads * self.head, (self.heads + self.kv_heads) * self.head)
        fused = self.dot(self.rms(x, layer["norm1"]), layer["qkv"])
        q, k, v = (part.reshape(len(x), -1, self.head) for part in self.jnp.split(fused, split, -1))
        return self.rope(q, cos, sin) * self.head**-0.5, self.rope(k, cos, sin), v

    def after_attention(self, x, attended, layer):
        x = x + self.dot(attended, layer["o"])
        fused = self.dot(self.rms(x, layer["norm2"]), layer["gate_up"])
        gate, up = self.jnp.split(fused, 2, -1)
        return x + self.dot(self.jax.nn.silu(gate) * up, layer["down"])

    def logits(self, x, weights):
        return self.dot(self.rms(x, weights["norm"]), weights["head"])

    # The two programs.

    def decode(self, weights, keys, values, tokens, positions, pages):
        """One token of each row. Pools are [pages, kv_heads, PAGE, head]."""
        jnp, lax = self.jnp, self.jax.lax
        rows, context = len(tokens), pages.shape[1] * PAGE
        cos, sin = weights["cos"][positions], weights["sin"][positions]
        held = (jnp.arange(context)[None] <= positions[:, None])[:, None, None]
        page = jnp.take_along_axis(pages, (positions // PAGE)[:, None], 1)[:, 0]

        def write(pool, new):
            for row in range(rows):
                at = (page[row], 0, positions[row] % PAGE, 0)
                pool = lax.dynamic_update_slice(pool, new[row][None, :, None], at)
            return pool

        def read(pool):
            return pool[pages].transpose(0, 2, 1, 3, 4).reshape(rows, -1, context, self.head)

        x = weights["embedding"][tokens]
        new_keys, new_values = [], []
        for layer, K, V in zip(weights["layers"], keys, values):
            q, k, v = self.qkv(x, layer, cos, sin)
            K, V = write(K, k), write(V, v)
            new_keys.append(K)
            new_values.append(V)
            q = q.reshape(rows, self.kv_heads, -1, self.head)
            scores = jnp.einsum("bkgd,bksd->bkgs", q, read(K))
            weight = self.jax.nn.softmax(jnp.where(held, scores, -1e30), -1)
            a = jnp.einsum("bkgs,bksd->bkgd", weight, read(V))
            x = self.after_attention(x, a.reshape(rows, -1), layer)
        logits = self.logits(x, weights)
        return jnp.argmax(logits, -1).astype("int32"), logits, new_keys, new_values

    def prefill(self, weights, keys, values, tokens):
        """A prompt from position 0 on. Caches are [kv_heads, positions, head]."""
        jnp, lax = self.jnp, self.jax.lax
        length = len(tokens)
        cos, sin = weights["cos"][:length], weights["sin"][:length]
        causal = jnp.tril(jnp.ones((length, length), bool))
        x = weights["embedding"][tokens]
        new_keys, new_values = [], []
        for layer, K, V in zip(weights["layers"], keys, values):
            q, k, v = (part.transpose(1, 0, 2) for part in self.qkv(x, layer, cos, sin))
            new_keys.append(lax.dynamic_update_slice(K, k, (0, 0, 0)))
            new_values.append(lax.dynamic_update_slice(V, v, (0, 0, 0)))
            scores = jnp.einsum("ktd,ksd->kts", q.reshape(self.kv_heads, -1, self.head), k)
            scores = scores.reshape(self.kv_heads, -1, length, length)
            weight = self.jax.nn.softmax(jnp.where(causal, scores, -1e30), -1)
            a = jnp.einsum("kts,ksd->ktd", weight.reshape(self.kv_heads, -1, length), v)
            a = a.reshape(self.heads, length, self.head).transpose(1, 0, 2)
            x = self.after_attention(x, a.reshape(length, -1), layer)
        return self.logits(x[-1:], weights), new_keys, new_values


class Worker:
    """Answers requests; a program is compiled when it is first asked for."""

    def __init__(self, model):
        self.model, self.jnp = model, model.jnp
        jit = functools.partial(model.jax.jit, donate_argnums=(1, 2))
        self._decode, self._prefill = jit(model.decode), jit(model.prefill)

    def answer(self, request, *numbers):
        measure = {"decode": self.decode, "prefill": self.prefill}[request]
        return {"milliseconds": 1e3 * statistics.median(measure(*map(int, numbers)))}

    def decode(self, rows, context, position, steps):
        pages = -(-context // PAGE)
        table = np.random.default_rng(0).permutation(rows * pages).reshape(rows, pages)
        table = self.jnp.asarray(table, "int32")
        pools = self.model.zeros(rows * pages, self.model.kv_heads, PAGE, self.model.head)
        tokens = self.jnp.arange(rows, dtype="int32") + 100
        times = []
        for step in range(WARM_UP + steps):
            now = position + step % (context - position)
            positions = self.jnp.full((rows,), now, "int32").block_until_ready()
            started = time.perf_counter()
            tokens, _, *pools = self._decode(self.model.weights, *pools, tokens, positions, table)
            tokens.block_until_ready()
            times.append(time.perf_counter() - started)
        return times[WARM_UP:]

    def prefill(self, length, repeats):
        cache = self.model.zeros(self.model.kv_heads, length, self.model.head)
        tokens = self.jnp.arange(length, dtype="int32") % 97
        times = []
        for _ in range(1 + repeats):
            started = time.perf_counter()
            logits, *cache = self._prefill(self.model.weights, *cache, tokens)
            logits.block_until_ready()
            times.append(time.perf_counter() - started)
        return times[1:]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--plugin", required=True, help="the PJRT plugin that runs the programs")
    parser.add_argument("--layout", choices=["out_in", "in_out"], default="out_in")
    arguments = parser.parse_args()

    os.environ["JAX_PLATFORMS"] = "plugin"
    import jax
    from jax._src import xla_bridge

    xla_bridge.register_plugin("plugin", library_path=arguments.plugin, priority=500)
    worker = Worker(Model(jax, arguments.checkpoint, arguments.layout, longest=8192))
    for line in sys.stdin:
        print(json.dumps(worker.answer(*line.split())), flush=True)


if __name__ == "__main__":
    main()
