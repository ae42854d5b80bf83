"""Number formats by their definitions, and what weights and KV become in them."""

import re

import numpy as np

# The finite magnitudes of e4m3fn, ascending: bias 7, three bits of mantissa, subnormals in
# steps of 2^-9. Those at even places have even codes.
_E4M3 = np.array(
    [m / 8 * 2.0**-6 for m in range(8)]
    + [(1 + m / 8) * 2.0 ** (e - 7) for e in range(1, 16) for m in range(8)][:-1]
)
assert _E4M3[-1] == 448


def to_e4m3(values):
    """The nearest 8-bit floats, even ones between two, no further out than 448."""
    magnitudes = np.abs(np.asarray(values, np.float64))
    upper = np.clip(np.searchsorted(_E4M3, magnitudes), 1, len(_E4M3) - 1)
    below, above = _E4M3[upper - 1], _E4M3[upper]
    middle = (below + above) / 2
    up = (magnitudes > middle) | ((magnitudes == middle) & (upper % 2 == 0))
    return np.copysign(np.where(up, above, below), values).astype(np.float32)


def to_bf16(values):
    """The nearest bfloat16 values, even ones between two."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16 << 16).astype(np.uint32).view(np.float32)


QUANTS = {"int8": (127, np.rint), "fp8": (448, to_e4m3)}
KV_DTYPES = {"bf16": to_bf16, "fp8": to_e4m3}


def quantised(matrix, quant):
    """The values that a projection [out, in] has as codes and a scale for each output."""
    most, rounded = QUANTS[quant]
    scales = np.abs(matrix).max(axis=1, keepdims=True) / np.float32(most)
    scales[scales == 0] = 1
    return rounded(matrix / scales) * scales


def quantise(checkpoint, quant):
    """Give a checkpoint's projections the values that they have when they are quantised."""
    # What a decay is made of is an exponent, and keeps its values.
    projection = re.compile(r"\.layers\.\d+\..*proj(?!_ba|_a|_b)(_\w+)?\.weight$")
    names = [name for name in checkpoint.named(".weight") if projection.search(name)]
    assert names
    for name in names:
        checkpoint.tensors[name] = quantised(checkpoint.tensors[name], quant)


def llama_logits(checkpoint, ids, kv=lambda values: values):
    """Logits [len(ids), vocabulary] of a llama checkpoint, by its formulas in float64.

    `kv` is what pools keep of keys and values.
    """
    config, tensors = checkpoint.config, checkpoint.tensors
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    size, count = config["head_dim"], len(ids)
    theta = config["rope_parameters"]["rope_theta"]

    def norm(x, gain):
        mean = (x**2).mean(axis=1, keepdims=True)
        return x / np.sqrt(mean + config["rms_norm_eps"]) * tensors[gain]

    angles = np.outer(np.arange(count), theta ** (-2 * np.arange(size // 2) / size))
    cos, sin = (f(angles)[:, None, :] for f in (np.cos, np.sin))

    def rotate(x):
        a, b = x[..., : size // 2], x[..., size // 2 :]
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)

    hidden = np.triu(np.full((count, count), -np.inf), 1)
    x = tensors["model.embed_tokens.weight"][ids].astype(np.float64)
    for layer in range(config["num_hidden_layers"]):
        name = f"model.layers.{layer}.{{}}.weight".format
        h = norm(x, name("input_layernorm"))
        q, k, v = (
            (h @ tensors[name(f"self_attn.{part}_proj")].T).reshape(count, -1, size)
            for part in "qkv"
        )
        q = rotate(q)
        k, v = (kv(pool.astype(np.float32)).astype(np.float64) for pool in (rotate(k), v))
        k, v = (np.repeat(pool, heads // kv_heads, axis=1) for pool in (k, v))
        scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(size) + hidden
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        mixed = np.einsum("hqk,khd->qhd", weights, v).reshape(count, -1)
        x = x + mixed @ tensors[name("self_attn.o_proj")].T
        h = norm(x, name("post_attention_layernorm"))
        gate, up = (h @ tensors[name(f"mlp.{part}_proj")].T for part in ("gate", "up"))
        x = x + (gate / (1 + np.exp(-gate)) * up) @ tensors[name("mlp.down_proj")].T
    return norm(x, "model.norm.weight") @ tensors["lm_head.weight"].T
