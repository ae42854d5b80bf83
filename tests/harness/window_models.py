"""A small random decoder with sliding layers, and the arithmetic of its rings."""

import numpy as np

from . import models
from .checkpoints import Checkpoint

VOCABULARY = 64
WINDOW = 8
BLOCK = 4
CONTEXTS = [16, 32, 64]
NUM_BLOCKS = 65
IMAGE, VIDEO = 62, 63
HIDDEN, INTERMEDIATE = 32, 48
HEADS, KV_HEADS, HEAD_DIM = 4, 2, 8
# Layers by kind, and the pools of keys and values that they make.
LAYER_TYPES = ["sliding_attention", "sliding_attention", "full_attention"]
POOLS = 2 * len(LAYER_TYPES)
# Ring pages of a sequence, without a prefill chunk and with one of 6 tokens.
RING = 3
CHUNK, CHUNKED_RING = 6, 4
WINDOWED_BLOCKS, CHUNKED_WINDOWED_BLOCKS = 13, 17


def checkpoint():
    """Weights drawn at random, so that every position a query sees moves its logits."""
    draw = np.random.default_rng(20)
    prefix = "model.language_model"

    def matrix(rows, columns):
        return draw.normal(0, 1.5 / columns**0.5, (rows, columns)).astype(np.float32)

    def gain(size):
        return draw.normal(0, 0.1, size).astype(np.float32)

    tensors = {
        f"{prefix}.embed_tokens.weight": matrix(VOCABULARY, HIDDEN),
        f"{prefix}.norm.weight": 1 + gain(HIDDEN),
        "lm_head.weight": matrix(VOCABULARY, HIDDEN),
    }
    projections = {
        "self_attn.q_proj": (HEADS * HEAD_DIM, HIDDEN),
        "self_attn.k_proj": (KV_HEADS * HEAD_DIM, HIDDEN),
        "self_attn.v_proj": (KV_HEADS * HEAD_DIM, HIDDEN),
        "self_attn.gate_proj": (HEADS * HEAD_DIM, HIDDEN),
        "self_attn.o_proj": (HIDDEN, HEADS * HEAD_DIM),
        "mlp.gate_proj": (INTERMEDIATE, HIDDEN),
        "mlp.up_proj": (INTERMEDIATE, HIDDEN),
        "mlp.down_proj": (HIDDEN, INTERMEDIATE),
    }
    norms = ("input", "post_attention", "pre_feedforward", "post_feedforward")
    for layer in range(len(LAYER_TYPES)):
        for name, shape in projections.items():
            tensors[f"{prefix}.layers.{layer}.{name}.weight"] = matrix(*shape)
        for name in norms:
            tensors[f"{prefix}.layers.{layer}.{name}_layernorm.weight"] = gain(HIDDEN)

    theta = 10000.0
    text = {
        "attention_bias": False,
        "final_logit_softcapping": 30.0,
        "head_dim": HEAD_DIM,
        "hidden_activation": "silu",
        "hidden_size": HIDDEN,
        "intermediate_size": INTERMEDIATE,
        "layer_rope_theta": [theta if kind.startswith("sliding") else 0 for kind in LAYER_TYPES],
        "layer_types": LAYER_TYPES,
        "max_position_embeddings": CONTEXTS[-1],
        "model_type": "muse_glimmer_text",
        "num_attention_heads": HEADS,
        "num_hidden_layers": len(LAYER_TYPES),
        "num_key_value_heads": KV_HEADS,
        "output_multiplier": 1.0,
        "post_norm_eps": 1e-5,
        "qk_scale_factor": 1.5,
        "rms_norm_eps": 1e-5,
        "rope_parameters": {"rope_theta": theta, "rope_type": "default"},
        "sliding_window": WINDOW,
        "tie_word_embeddings": False,
        "vocab_size": VOCABULARY,
    }
    config = {
        "architectures": ["MuseGlimmerForConditionalGeneration"],
        "image_token_id": IMAGE,
        "model_type": "muse_glimmer",
        "text_config": text,
        "video_token_id": VIDEO,
    }
    return Checkpoint(config, tensors)


def export_all(folder):
    """The artifacts of the window model, by the name of the model to be made of it."""
    checkpoint().write(folder / "checkpoint")
    common = {
        "batches": [1, 2],
        "block_size": BLOCK,
        "num_blocks": NUM_BLOCKS,
    }
    options = {
        "window_sequence": {"contexts": CONTEXTS},
        "window_sequence_full": {"contexts": CONTEXTS[-1:], "windowed_kv": "false"},
        "window_sequence_chunked": {"contexts": CONTEXTS[-1:], "prefill_chunk": CHUNK},
    }
    return {
        name: models.export_to(folder / "checkpoint", folder / name, **common, **more)
        for name, more in options.items()
    }


def pages(length, ring):
    """KV pages and ring pages that a sequence of this length holds; a full pool has no ring."""
    held = -(-length // BLOCK)
    return held, min(ring, held)


def calls(start, tokens, ring, chunk=None):
    """How many tokens go into each call of a request that begins at this position.

    A call writes all its KV before a row attends, so it must not write over what its
    first row still sees.
    """
    counts = []
    while tokens:
        most = max(1, ring * BLOCK - min(start, WINDOW - 1))
        counts.append(min(tokens, most, chunk or most))
        start += counts[-1]
        tokens -= counts[-1]
    return counts
