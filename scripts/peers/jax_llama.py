#!/usr/bin/env python3
"""A Llama decoder in plain JAX with paged KV, timed on request.

    jax_llama.py CHECKPOINT --plugin PLUGIN.so

What a JAX user would write and jit, on the same PJRT plugin as the served
programs: weights as arguments, fused q/k/v and gate/up, KV pages in donated
pools that a step reads through a block table. The new token's key and value
take part in attention directly and are written to their page afterwards,
which is the form of a paged step that XLA:CPU runs fastest from JAX. Prefill
is one sequence into a dense cache.

Reads requests from standard input, one a line, and answers each with one line
of JSON, {"milliseconds": median}:

    decode ROWS CONTEXT POSITION STEPS
    prefill TOKENS REPEATS
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

    def __init__(self, jax, folder, longest):
        self.jax, self.jnp = jax, jax.numpy
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

            def tensor(*names):
                parts = [file.get_tensor(f"model.{name}.weight") for name in names]
                return self.jnp.asarray(np.concatenate(parts))

            def layer(index):
                attention, mlp = f"layers.{index}.self_attn", f"layers.{index}.mlp"
                return {
                    "norm1": tensor(f"layers.{index}.input_layernorm"),
                    "qkv": tensor(*(f"{attention}.{part}_proj" for part in "qkv")),
                    "o": tensor(f"{attention}.o_proj"),
                    "norm2": tensor(f"layers.{index}.post_attention_layernorm"),
                    "gate_up": tensor(f"{mlp}.gate_proj", f"{mlp}.up_proj"),
                    "down": tensor(f"{mlp}.down_proj"),
                }

            return {
                "layers": [layer(index) for index in range(self.layers)],
                "embedding": tensor("embed_tokens"),
                "norm": tensor("norm"),
            }

    def zeros(self, *shape):
        """Keys and values of every layer."""
        pool = functools.partial(self.jnp.zeros, shape, "float32")
        return [pool() for _ in range(self.layers)], [pool() for _ in range(self.layers)]

    # The parts that decode and prefill share. `x` is [tokens, features].

    def dot(self, x, weight):
        return self.jax.lax.dot_general(x, weight, (((1,), (1,)), ((), ())))

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
        q, k, v = (
            part.reshape(len(x), -1, self.head) for part in self.jnp.split(fused, split, -1)
        )
        return self.rope(q, cos, sin) * self.head**-0.5, self.rope(k, cos, sin), v

    def after_attention(self, x, attended, layer):
        x = x + self.dot(attended, layer["o"])
        fused = self.dot(self.rms(x, layer["norm2"]), layer["gate_up"])
        gate, up = self.jnp.split(fused, 2, -1)
        return x + self.dot(self.jax.nn.silu(gate) * up, layer["down"])

    def logits(self, x, weights):
        return self.dot(self.rms(x, weights["norm"]), weights["embedding"])

    # The two programs.

    def decode(self, weights, keys, values, tokens, positions, pages):
        """One token of each row. Pools are [kv_heads, pages, PAGE, head]."""
        jnp, lax = self.jnp, self.jax.lax
        rows, context = len(tokens), pages.shape[1] * PAGE
        cos, sin = weights["cos"][positions], weights["sin"][positions]
        held = jnp.arange(context)[None] < positions[:, None]
        page = jnp.take_along_axis(pages, (positions // PAGE)[:, None], 1)[:, 0]
        x = weights["embedding"][tokens]
        new_keys, new_values = [], []
        for layer, K, V in zip(weights["layers"], keys, values):
            q, k, v = self.qkv(x, layer, cos, sin)
            gather = functools.partial(jnp.take, indices=pages.ravel(), axis=1, mode="clip")
            past_k = gather(K).reshape(self.kv_heads, rows, context, self.head)
            past_v = gather(V).reshape(self.kv_heads, rows, context, self.head)
            q = q.reshape(rows, self.kv_heads, -1, self.head).transpose(1, 0, 2, 3)
            k, v = k.transpose(1, 0, 2), v.transpose(1, 0, 2)
            past = jnp.einsum("kbgd,kbsd->kbgs", q, past_k)
            past = jnp.where(held[None, :, None], past, -1e30)
            own = jnp.sum(q * k[:, :, None], -1, keepdims=True)
            largest = jnp.maximum(past.max(-1, keepdims=True), own)
            past, own = jnp.exp(past - largest), jnp.exp(own - largest)
            total = past.sum(-1, keepdims=True) + own
            a = (jnp.einsum("kbgs,kbsd->kbgd", past, past_v) + own * v[:, :, None]) / total
            # Writes wait for the reads; otherwise XLA copies the pools.
            after = a[:, :, 0] * 0.0
            for row in range(rows):
                at = (0, page[row], positions[row] % PAGE, 0)
                K = lax.dynamic_update_slice(K, (k + after)[:, row][:, None, None], at)
                V = lax.dynamic_update_slice(V, (v + after)[:, row][:, None, None], at)
            new_keys.append(K)
            new_values.append(V)
            x = self.after_attention(x, a.transpose(1, 0, 2, 3).reshape(rows, -1), layer)
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
        pools = self.model.zeros(self.model.kv_heads, rows * pages, PAGE, self.model.head)
        tokens = self.jnp.arange(rows, dtype="int32") + 100
        times = []
        for step in range(WARM_UP + steps):
            now = position + step % (context - position)
            positions = self.jnp.full((rows,), now, "int32").block_until_ready()
            started = time.perf_counter()
            tokens, _, *pools = self._decode(
                self.model.weights, *pools, tokens, positions, table
            )
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
    arguments = parser.parse_args()

    os.environ["JAX_PLATFORMS"] = "plugin"
    import jax
    from jax._src import xla_bridge

    xla_bridge.register_plugin("plugin", library_path=arguments.plugin, priority=500)
    worker = Worker(Model(jax, arguments.checkpoint, longest=8192))
    for line in sys.stdin:
        print(json.dumps(worker.answer(*line.split())), flush=True)


if __name__ == "__main__":
    main()
