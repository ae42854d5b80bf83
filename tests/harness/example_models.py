"""What the examples' language models compute: in float64, without pages, rings or calls."""

import numpy as np


class Random:
    """The numbers that the examples' weights are drawn from (Knuth's MMIX generator)."""

    def __init__(self, seed):
        self._state = seed

    def draw(self, *dims):
        """Numbers in [-1, 1)."""
        values = np.empty(int(np.prod(dims)))
        for index in range(len(values)):
            self._state = (6364136223846793005 * self._state + 1442695040888963407) % 2**64
            values[index] = (self._state >> 40) / 2**23 - 1
        return values.reshape(dims)


def causal(queries, keys, values, scale, window=None):
    """Softmax attention of each position over those before it; `[n, heads, head_dim]` each, with
    fewer heads of keys and values."""
    count, heads, _ = queries.shape
    keys, values = (np.repeat(kv, heads // kv.shape[1], axis=1) for kv in (keys, values))
    behind = np.arange(count)[:, None] - np.arange(count)[None, :]
    seen = (behind >= 0) & (behind < (window or count))
    scores = np.where(seen, scale * np.einsum("ihd,jhd->hij", queries, keys), -np.inf)
    shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
    shares /= shares.sum(axis=-1, keepdims=True)
    return np.einsum("hij,jhd->ihd", shares, values).reshape(count, -1)


class Reference:
    """One layer of attention between an embedding and an output matrix."""

    VOCABULARY, BLOCK = 11, 2

    def __init__(self):
        random = Random(1)
        self._embedding = random.draw(11, 8)
        self._query = random.draw(8, 8)
        self._key = random.draw(8, 4)
        self._value = random.draw(8, 4)
        self._head = random.draw(8, 11)

    def logits(self, tokens):
        """Those of every token."""
        x = self._embedding[np.asarray(tokens)]
        queries = (x @ self._query).reshape(-1, 4, 2)
        keys, values = ((x @ w).reshape(-1, 2, 2) for w in (self._key, self._value))
        return causal(queries, keys, values, 2**-0.5) @ self._head


class Window:
    """Two sliding layers with and a full one without rotary positions."""

    HIDDEN, INTERMEDIATE, VOCABULARY = 32, 48, 64
    HEADS, KV_HEADS, HEAD_DIM, WINDOW = 4, 2, 8, 8
    SLIDING = (True, True, False)
    THETA, EPS, SCORE_FACTOR, CAP = 10000.0, 1e-5, 1.5, 30.0

    def __init__(self):
        random = Random(2)
        queries, keys = self.HEADS * self.HEAD_DIM, self.KV_HEADS * self.HEAD_DIM
        hidden, inner = self.HIDDEN, self.INTERMEDIATE

        def matrix(rows, columns):
            return (2.5 / columns**0.5 * random.draw(rows, columns)).astype(np.float32).T

        def vector(size, centre=0.0):
            return centre + (0.2 * random.draw(size)).astype(np.float32)

        self._embedding = matrix(self.VOCABULARY, hidden).T
        self._norm = vector(hidden, 1.0)
        self._head = matrix(self.VOCABULARY, hidden)
        self._layers = []
        for _ in self.SLIDING:
            layer = {
                "q": matrix(queries, hidden),
                "k": matrix(keys, hidden),
                "v": matrix(keys, hidden),
                "gate": matrix(queries, hidden),
                "o": matrix(hidden, queries),
                "mlp_gate": matrix(inner, hidden),
                "mlp_up": matrix(inner, hidden),
                "mlp_down": matrix(hidden, inner),
            }
            layer |= {"q_bias": vector(queries), "k_bias": vector(keys), "v_bias": vector(keys)}
            for norm in ("before", "after", "before_mlp", "after_mlp"):
                layer[norm] = 1 + vector(hidden)
            self._layers.append(layer)

    def logits(self, tokens):
        """Those of every token."""
        x = self._normed(self._embedding[np.asarray(tokens)].astype(np.float64))
        for layer, sliding in zip(self._layers, self.SLIDING):
            h = self._normed(x) * layer["before"]
            x = x + self._normed(self._attention(layer, sliding, h)) * layer["after"]
            h = self._normed(x) * layer["before_mlp"]
            gate = h @ layer["mlp_gate"]
            mixed = (gate * sigmoid(gate) * (h @ layer["mlp_up"])) @ layer["mlp_down"]
            x = x + self._normed(mixed) * layer["after_mlp"]
        logits = self._normed(x) * self._norm @ self._head
        return self.CAP * np.tanh(logits / self.CAP)

    def _attention(self, layer, sliding, h):
        q, k, v = (
            (h @ layer[name] + layer[f"{name}_bias"]).reshape(len(h), -1, self.HEAD_DIM)
            for name in "qkv"
        )
        q, k = self._normed(q), self._normed(k)
        if sliding:
            q, k = self._rotated(q), self._rotated(k)
        scale = self.SCORE_FACTOR / self.HEAD_DIM**0.5
        mixed = causal(q, k, v, scale, self.WINDOW if sliding else None)
        return (mixed * sigmoid(h @ layer["gate"])) @ layer["o"]

    def _normed(self, x):
        return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + self.EPS)

    def _rotated(self, x):
        half = self.HEAD_DIM // 2
        angles = np.arange(len(x))[:, None, None] * self.THETA ** (-np.arange(half) / half)
        low, high = x[..., :half], x[..., half:]
        turned = (
            low * np.cos(angles) - high * np.sin(angles),
            high * np.cos(angles) + low * np.sin(angles),
        )
        return np.concatenate(turned, axis=-1)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))
