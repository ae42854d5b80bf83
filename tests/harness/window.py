"""The original exporter's window model, with weights of our own, and what it computes."""

import json

import numpy as np

from . import environment

NAME = "window_sequence"
FOLDER = environment.UPSTREAM / "model_repository" / NAME
# An older config.pbtxt of it.
OLDER_CONFIG = environment.UPSTREAM / "alt" / "window_sequence@7bd68a77" / "config.pbtxt"

LAYERS, SLIDING, WINDOW = 3, (0, 1), 8
HEADS, KV_HEADS, HEAD_DIM = 4, 2, 8
BLOCK, RING, MAX_CONTEXT = 4, 3, 64
WINDOWED_PAGES = 12
# Token ids below this one may be sent.
IDS = 62


def pages(length):
    """KV pages and ring pages of a sequence."""
    blocks = -(-length // BLOCK)
    return [blocks, min(RING, blocks)]


def add(repository, name=NAME):
    """The model, and its weights by name: the folder has none, so they are drawn here."""
    model = repository.copy(FOLDER, name)
    model.substitute(r"instance_group.*", "instance_group [ { kind: KIND_MODEL count: 1 } ]")
    model.substitute(r'name: "window_sequence"', f'name: "{name}"')
    model.version.chmod(0o755)
    (model.version / "weights").mkdir()
    random = np.random.default_rng(11)
    weights = {}
    manifest = json.loads((model.version / "tlaloc-serving.json").read_text())
    for slot in manifest["weights"]["table"]:
        values = random.standard_normal(slot["dims"])
        if len(slot["dims"]) == 1:
            values = 1 + values / 10
        elif slot["name"] != "embedTokens":
            values *= 1.5 / np.sqrt(slot["dims"][0])
        values = values.astype("<f4")
        (model.version / slot["path"]).write_bytes(values.tobytes())
        weights[slot["name"]] = values.astype(np.float64)
    return model, weights


def logits(weights, tokens):
    """The logits of every token, in float64, without pages, rings or calls: by masks alone."""
    positions = np.arange(len(tokens))
    behind = positions[:, None] - positions[None, :]
    x = weights["embedTokens"][np.asarray(tokens)]
    for layer in range(LAYERS):

        def weight(name, layer=layer):
            return weights[f"{name}{layer}"]

        h = _norm(x) * weight("inputNorm")
        q = _rotated(h @ weight("qProj"), HEADS)
        k = _rotated(h @ weight("kProj"), KV_HEADS)
        v = (h @ weight("vProj")).reshape(-1, KV_HEADS, HEAD_DIM)
        k, v = (np.repeat(kv, HEADS // KV_HEADS, axis=1) for kv in (k, v))
        scores = np.einsum("ihd,jhd->hij", q, k) / np.sqrt(HEAD_DIM)
        seen = (behind >= 0) & (behind < (WINDOW if layer in SLIDING else len(tokens)))
        scores = np.where(seen, scores, -np.inf)
        shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
        shares /= shares.sum(axis=-1, keepdims=True)
        mixed = np.einsum("hij,jhd->ihd", shares, v).reshape(len(tokens), -1)
        x = x + mixed @ weight("oProj")
        h = _norm(x) * weight("postAttnNorm")
        gate = h @ weight("gateProj")
        x = x + (gate / (1 + np.exp(-gate)) * (h @ weight("upProj"))) @ weight("downProj")
    return _norm(x) * weights["finalNorm"] @ weights["lmHead"]


def _norm(x):
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-6)


def _rotated(x, heads):
    """Rotary positions on pairs of the two halves, theta 10000."""
    x = x.reshape(len(x), heads, HEAD_DIM)
    half = HEAD_DIM // 2
    angles = np.arange(len(x))[:, None, None] * 10000.0 ** (-np.arange(half) / half)
    low, high = x[..., :half], x[..., half:]
    turned = (
        (low * np.cos(angles) - high * np.sin(angles)),
        (high * np.cos(angles) + low * np.sin(angles)),
    )
    return np.concatenate(turned, axis=-1)
