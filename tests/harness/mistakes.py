"""Mistakes that an exporter could make, made by changing the checkpoint it reads.

A right exporter computes from the changed checkpoint what a mistaken one would
compute from the unchanged one. The names are those of the oracles' `sensitivity`
tables; a mistake that no change of config or tensors expresses is not here.
"""

import numpy as np


class Geometry:
    """Head counts and widths that the changes need."""

    def __init__(self, text):
        self.heads = text["num_attention_heads"]
        self.kv_heads = text["num_key_value_heads"]
        self.head_dim = text.get("head_dim") or text["hidden_size"] // self.heads
        factor = text.get("rope_parameters", {}).get("partial_rotary_factor", 1.0)
        self.rotary = int(self.head_dim * factor)
        self.key_heads = text.get("linear_num_key_heads")
        self.value_heads = text.get("linear_num_value_heads")
        self.key_dim = text.get("linear_key_head_dim")
        self.value_dim = text.get("linear_value_head_dim")


def _blocks(tensor, count):
    """Rows in `count` equal blocks: a view [count, rows, ...]."""
    return tensor.reshape(count, -1, *tensor.shape[1:])


def _tiled(items, groups):
    """The order in which item i falls into group i % groups, by group."""
    return [item for group in range(groups) for item in range(items) if item % groups == group]


def _columns(tensor, count, order):
    """Reorder blocks of columns."""
    return _blocks(tensor.T, count)[order].reshape(tensor.T.shape).T


def _set(key, value):
    def change(checkpoint):
        assert key in checkpoint.text, key
        checkpoint.text[key] = value(checkpoint.text) if callable(value) else value

    return change


def _gains(step):
    """Move the gains of all norms that share one convention."""

    def change(checkpoint):
        # Those inside linear attention, and the final one here, are of the other kind.
        final_differs = checkpoint.text["model_type"].startswith("muse_glimmer")
        for name in checkpoint.named("norm.weight"):
            if "linear_attn" not in name and (".layers." in name or not final_differs):
                checkpoint.tensors[name] = checkpoint.tensors[name] + step

    return change


def rope_interleaved(checkpoint):
    shape = Geometry(checkpoint.text)
    lanes = np.arange(shape.rotary).reshape(-1, 2).T.ravel()
    lanes = np.concatenate([lanes, np.arange(shape.rotary, shape.head_dim)])

    def reorder(tensor, heads):
        blocks = _blocks(tensor, heads).copy()
        blocks[:, : shape.head_dim] = blocks[:, lanes]  # what follows is an output gate
        return blocks.reshape(tensor.shape)

    for part, heads in (("q", shape.heads), ("k", shape.kv_heads)):
        endings = (f"self_attn.{part}_proj.weight", f"self_attn.{part}_proj.bias")
        for name in checkpoint.named(*endings):
            checkpoint.tensors[name] = reorder(checkpoint.tensors[name], heads)
        for name in checkpoint.named(f"self_attn.{part}_norm.weight"):
            checkpoint.tensors[name] = reorder(checkpoint.tensors[name], 1)


def gqa_tiled(checkpoint):
    shape = Geometry(checkpoint.text)
    order = _tiled(shape.heads, shape.kv_heads)
    endings = ("self_attn.q_proj.weight", "self_attn.q_proj.bias", "self_attn.gate_proj.weight")
    for name in checkpoint.named(*endings):
        tensor = checkpoint.tensors[name]
        checkpoint.tensors[name] = _blocks(tensor, shape.heads)[order].reshape(tensor.shape)
    checkpoint.change("self_attn.o_proj.weight", lambda o: _columns(o, shape.heads, order))


def all_layers_slide(checkpoint):
    layers = len(checkpoint.text["layer_types"])
    checkpoint.text["layer_types"] = ["sliding_attention"] * layers


def swap_thetas(checkpoint):
    rope = checkpoint.text["rope_parameters"]
    full, sliding = rope["full_attention"], rope["sliding_attention"]
    full["rope_theta"], sliding["rope_theta"] = sliding["rope_theta"], full["rope_theta"]


def no_rope_scaling(checkpoint):
    rope = checkpoint.text["rope_parameters"]
    rope = rope.get("full_attention", rope)
    theta = rope["rope_theta"]
    rope.clear()
    rope.update(rope_theta=theta, rope_type="default")


def full_rotary(checkpoint):
    checkpoint.text["rope_parameters"]["partial_rotary_factor"] = 1.0


def rope_everywhere(checkpoint):
    text = checkpoint.text
    text["layer_rope_theta"] = [text["rope_parameters"]["rope_theta"]] * text["num_hidden_layers"]


def _scale_embedding(factor):
    """Scale what the embedding gives, and leave the tied head's logits as they are."""

    def change(checkpoint):
        scale = factor(checkpoint.text["hidden_size"] ** 0.5)
        checkpoint.change("embed_tokens.weight", lambda table: table * np.float32(scale))
        checkpoint.change("model.norm.weight", lambda gain: (1 + gain) / np.float32(scale) - 1)

    return change


def _to_bf16(value):
    bits = np.float32(value).view(np.uint32)
    return ((bits + 0x8000) & np.uint32(0xFFFF0000)).view(np.float32)


def head_is_embedding(checkpoint):
    (embedding,) = checkpoint.named("embed_tokens.weight")
    checkpoint.change("lm_head.weight", lambda head: checkpoint.tensors[embedding])


def no_bias(checkpoint):
    checkpoint.change("_proj.bias", np.zeros_like)


def flip_topk_norm(checkpoint):
    checkpoint.text["norm_topk_prob"] = not checkpoint.text["norm_topk_prob"]


def _each_fused_q(checkpoint, function):
    """Change q projections that hold a query and a gate per head: [heads, 2, head_dim, hidden]."""
    shape = Geometry(checkpoint.text)

    def change(tensor):
        parts = tensor.reshape(shape.heads, 2, shape.head_dim, -1)
        return function(parts.copy()).reshape(tensor.shape)

    checkpoint.change("self_attn.q_proj.weight", change)


def no_attn_gate(checkpoint):
    # sigmoid(0) is 1/2.
    if checkpoint.named("self_attn.gate_proj.weight"):
        checkpoint.change("self_attn.gate_proj.weight", np.zeros_like)
    else:
        _each_fused_q(checkpoint, lambda parts: parts * np.array([1, 0])[:, None, None])
    checkpoint.change("self_attn.o_proj.weight", lambda o: 2 * o)


def gate_split_flat(checkpoint):
    def change(parts):
        flat = parts.reshape(2, -1, *parts.shape[2:])
        return np.stack([flat[0], flat[1]], axis=1)

    _each_fused_q(checkpoint, change)


def no_conv(checkpoint):
    def change(taps):
        current = np.zeros_like(taps)
        current[..., -1] = 1
        return current

    checkpoint.change("conv1d.weight", change)


def conv_reversed(checkpoint):
    checkpoint.change("conv1d.weight", lambda taps: taps[..., ::-1])


def delta_heads_tiled(checkpoint):
    shape = Geometry(checkpoint.text)
    keys = 2 * shape.key_heads * shape.key_dim
    order = _tiled(shape.value_heads, shape.key_heads)

    def values(tensor):
        return _blocks(tensor, shape.value_heads)[order].reshape(tensor.shape)

    def after_keys(tensor):
        return np.concatenate([tensor[:keys], values(tensor[keys:])])

    def grouped(tensor, before):
        """Value heads stand in two runs per key head, after `before` rows."""
        blocks = _blocks(tensor, shape.key_heads).copy()
        middle = before + (blocks.shape[1] - before) // 2
        for run in (slice(before, middle), slice(middle, None)):
            part = blocks[:, run]
            blocks[:, run] = values(part.reshape(-1, part.shape[-1])).reshape(part.shape)
        return blocks.reshape(tensor.shape)

    if checkpoint.named("in_proj_qkvz.weight"):
        checkpoint.change("in_proj_qkvz.weight", lambda t: grouped(t, 2 * shape.key_dim))
        checkpoint.change("in_proj_ba.weight", lambda t: grouped(t, 0))
    else:
        checkpoint.change("in_proj_qkv.weight", after_keys)
        for part in ("z", "a", "b"):
            checkpoint.change(f"in_proj_{part}.weight", values)
    checkpoint.change("conv1d.weight", after_keys)
    checkpoint.change("linear_attn.A_log", values)
    checkpoint.change("linear_attn.dt_bias", values)
    checkpoint.change("out_proj.weight", lambda o: _columns(o, shape.value_heads, order))


def qkvz_flat(checkpoint):
    shape = Geometry(checkpoint.text)
    widths = [shape.key_heads * shape.key_dim] * 2 + [shape.value_heads * shape.value_dim] * 2

    def change(tensor):
        flat = np.split(tensor, np.cumsum(widths)[:-1])
        parts = [_blocks(part, shape.key_heads) for part in flat]
        return np.concatenate(parts, axis=1).reshape(tensor.shape)

    checkpoint.change("in_proj_qkvz.weight", change)


def no_decay(checkpoint):
    checkpoint.change("linear_attn.A_log", lambda rate: np.full_like(rate, -100))


def delta_norm_centered(checkpoint):
    checkpoint.change("linear_attn.norm.weight", lambda gain: gain + 1)


def no_shared_expert(checkpoint):
    checkpoint.change("shared_expert.down_proj.weight", np.zeros_like)


def no_shared_gate(checkpoint):
    checkpoint.change("shared_expert_gate.weight", np.zeros_like)
    checkpoint.change("shared_expert.down_proj.weight", lambda down: 2 * down)


MISTAKES = {
    "rope_interleaved": rope_interleaved,
    "gqa_tiled": gqa_tiled,
    "eps_1e-6": _set("rms_norm_eps", 1e-6),
    "gain_not_centered": _gains(-1),
    "gain_centered_wrongly": _gains(1),
    "no_window": _set("sliding_window", 512),
    "window_plus_1": _set("sliding_window", lambda text: text["sliding_window"] + 1),
    "all_layers_slide": all_layers_slide,
    "scale_head_dim": _set("query_pre_attn_scalar", lambda text: text["head_dim"]),
    "no_embed_scale": _scale_embedding(lambda scale: 1 / scale),
    "embed_scale_bf16": _scale_embedding(lambda scale: _to_bf16(scale) / scale),
    "no_attn_softcap": _set("attn_logit_softcapping", None),
    "no_final_softcap": _set("final_logit_softcapping", None),
    "swap_thetas": swap_thetas,
    "no_rope_scaling": no_rope_scaling,
    "full_rotary": full_rotary,
    "rope_everywhere": rope_everywhere,
    "head_is_embedding": head_is_embedding,
    "no_bias": no_bias,
    "flip_topk_norm": flip_topk_norm,
    "no_attn_gate": no_attn_gate,
    "gate_split_flat": gate_split_flat,
    "no_qk_scale": _set("qk_scale_factor", 1.0),
    "no_output_multiplier": _set("output_multiplier", 1.0),
    "final_norm_centered": lambda checkpoint: checkpoint.change(
        "language_model.norm.weight", lambda gain: gain + 1
    ),
    "post_eps_is_eps": _set("post_norm_eps", lambda text: text["rms_norm_eps"]),
    "no_conv": no_conv,
    "conv_reversed": conv_reversed,
    "delta_heads_tiled": delta_heads_tiled,
    "qkvz_flat": qkvz_flat,
    "no_decay": no_decay,
    "delta_norm_centered": delta_norm_centered,
    "no_shared_expert": no_shared_expert,
    "no_shared_gate": no_shared_gate,
}
