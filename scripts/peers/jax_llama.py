#!/usr/bin/env python3
"""A Llama decoder in plain JAX with paged KV, timed on request.

    jax_llama.py CHECKPOINT --plugin PLUGIN.so

What a JAX user would write and jit, on the same PJRT plugin as the served
programs: weights as arguments, fused q/k/v and gate/up, KV pages in donated
pools that a step writes and then reads through a block table, in place. Prefill
is one sequence into a dense cache.

Is asked as answers.py says.

--layout says how weights lie: out_in as in the checkpoint, in_out transposed.
"""

import argparse
import functools
import os
import time

import numpy as np
from answers import WARM_UP, serve
from checkpoint import Checkpoint

PAGE = 16
# Positions that the sequences of `ids` may attend over.
CONTEXT = 512


class Model:
    """A checkpoint's sizes and, on the device, its weights and rope tables."""

    def __init__(self, jax, folder, layout, longest):
        self.jax, self.jnp = jax, jax.numpy
        self.transposed = layout == "in_out"
        checkpoint = Checkpoint(folder)
        self.layers, self.head = checkpoint.layers, checkpoint.head
        self.heads, self.kv_heads = checkpoint.heads, checkpoint.kv_heads
        self.epsilon = checkpoint.epsilon
        cos, sin = map(self.jnp.asarray, checkpoint.rope(longest))
        weights = checkpoint.weights(self.jnp.asarray, self._matrix)
        if not self.transposed:
            weights["head"] = weights["embedding"]
        self.weights = {"cos": cos, "sin": sin, **weights}

    def _matrix(self, weight):
        return self.jnp.asarray(weight.T.copy() if self.transposed else weight)

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

    def fill(self, keys, values, cached_keys, cached_values, pages):
        """Pools with what `prefill` left in its caches, on the first of these pages."""
        length = cached_keys[0].shape[1]
        count = -(-length // PAGE)

        def fill(pool, cache):
            cache = self.jnp.pad(cache, ((0, 0), (0, count * PAGE - length), (0, 0)))
            cache = cache.reshape(self.kv_heads, count, PAGE, self.head).swapaxes(0, 1)
            return pool.at[pages[:count]].set(cache)

        filled = self.jax.tree.map(fill, (keys, values), (cached_keys, cached_values))
        return filled


class Sequences:
    """Sequences in the slots of common pools, each from its prompt on."""

    def __init__(self, alone, together, slots):
        """`alone` computes single rows and prompts, `together` several rows."""
        self._alone, self._jnp = alone, alone.jnp
        jit = alone.jax.jit
        self._prefill = jit(alone.prefill)
        self._fill = jit(alone.fill, donate_argnums=(0, 1))
        decodes = {model: jit(model.decode, donate_argnums=(1, 2)) for model in (alone, together)}
        self._decode = lambda rows: decodes[alone if rows == 1 else together]
        self._weights = lambda rows: (alone if rows == 1 else together).weights
        pages = CONTEXT // PAGE
        # The last one is for rows that are no sequence's.
        self._tables = np.arange((slots + 1) * pages, dtype="int32").reshape(slots + 1, pages)
        self._positions = np.zeros(slots + 1, "int32")
        self._pools = alone.zeros(len(self._tables) * pages, alone.kv_heads, PAGE, alone.head)

    def warm_up(self):
        """Compiles the steps of all numbers of rows."""
        rows = 1
        while rows < len(self._tables):
            self.step(dict.fromkeys(range(rows), 0))
            rows *= 2

    def start(self, slot, prompt):
        """The id that the prompt is most likely followed by."""
        tokens = self._jnp.asarray(prompt, "int32")
        cache = self._alone.zeros(self._alone.kv_heads, len(prompt), self._alone.head)
        logits, *cache = self._prefill(self._alone.weights, *cache, tokens)
        self._pools = self._fill(*self._pools, *cache, self._tables[slot])
        self._positions[slot] = len(prompt)
        return int(logits[0].argmax())

    def step(self, tokens):
        """The next id of each of the slots, of which `tokens` has the last one."""
        rows = 1
        while rows < len(tokens):
            rows *= 2
        padding = rows - len(tokens)
        slots = [*tokens, *[len(self._tables) - 1] * padding]
        last = np.array([*tokens.values(), *[0] * padding], "int32")
        ids, _, *self._pools = self._decode(rows)(
            self._weights(rows), *self._pools, last, self._positions[slots], self._tables[slots]
        )
        self._positions[list(tokens)] += 1
        return dict(zip(tokens, np.asarray(ids).tolist()))


class Worker:
    """What answers.py asks; a program is compiled when it is first wanted."""

    def __init__(self, model):
        self.model, self.jnp = model, model.jnp
        jit = functools.partial(model.jax.jit, donate_argnums=(1, 2))
        self._decode, self._prefill = jit(model.decode), jit(model.prefill)

    def ids(self, count, prompt):
        sequences = Sequences(self.model, self.model, slots=1)
        ids = [sequences.start(0, prompt)]
        while len(ids) < count:
            ids.append(sequences.step({0: ids[-1]})[0])
        return ids

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


def load(checkpoint, plugin, *layouts):
    """The checkpoint on the plugin's device, in each of these layouts."""
    os.environ["JAX_PLATFORMS"] = "plugin"
    import jax
    from jax._src import xla_bridge

    xla_bridge.register_plugin("plugin", library_path=plugin, priority=500)
    return [Model(jax, checkpoint, layout, longest=8192) for layout in layouts]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkpoint")
    parser.add_argument("--plugin", required=True, help="the PJRT plugin that runs the programs")
    parser.add_argument("--layout", choices=["out_in", "in_out"], default="out_in")
    arguments = parser.parse_args()
    serve(Worker(*load(arguments.checkpoint, arguments.plugin, arguments.layout)))


if __name__ == "__main__":
    main()
