#!/usr/bin/env python3
"""Turn a Llama or Gemma 3 GGUF file into Hugging Face checkpoints.

    convert.py FILE.gguf OUT [--float32-only]

writes OUT (float32) and OUT-bf16 (bfloat16), each with config.json,
generation_config.json, model.safetensors, tokenizer.json and
tokenizer_config.json. Quantised tensors are dequantised, so the float32
checkpoint holds exactly the values that a GGUF runtime computes with.
The output is a function of the input alone: same file, same bytes.
"""

import argparse
import json
import re
from pathlib import Path

import numpy as np
from gguf import GGUFReader, dequantize
from tokenizer import tokenizer, tokenizer_config

# GGUF tensor name -> Hugging Face tensor name, outside and inside the blocks.
MODEL_TENSORS = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
LLAMA_TENSORS = {
    "attn_norm.weight": "input_layernorm.weight",
    "attn_q.weight": "self_attn.q_proj.weight",
    "attn_k.weight": "self_attn.k_proj.weight",
    "attn_v.weight": "self_attn.v_proj.weight",
    "attn_output.weight": "self_attn.o_proj.weight",
    "ffn_norm.weight": "post_attention_layernorm.weight",
    "ffn_gate.weight": "mlp.gate_proj.weight",
    "ffn_up.weight": "mlp.up_proj.weight",
    "ffn_down.weight": "mlp.down_proj.weight",
}
# Four norms a layer, and one per head for q and for k.
GEMMA3_TENSORS = {
    **LLAMA_TENSORS,
    "attn_q_norm.weight": "self_attn.q_norm.weight",
    "attn_k_norm.weight": "self_attn.k_norm.weight",
    "post_attention_norm.weight": "post_attention_layernorm.weight",
    "ffn_norm.weight": "pre_feedforward_layernorm.weight",
    "post_ffw_norm.weight": "post_feedforward_layernorm.weight",
}
BLOCK_TENSORS = {"llama": LLAMA_TENSORS, "gemma3": GEMMA3_TENSORS}

# What a Gemma 3 GGUF leaves to the runtime: every sixth layer attends to all
# positions, the others rotate by this base.
GEMMA3_PATTERN = 6
GEMMA3_LOCAL_ROPE_THETA = 10000.0

STORAGE = {"F32": ("float32", 4), "BF16": ("bfloat16", 2)}


def metadata(reader):
    """The GGUF key-value pairs as plain Python values."""
    values = {}
    for key, field in reader.fields.items():
        if not key.startswith("GGUF."):
            value = field.contents()
            values[key] = value.item() if isinstance(value, np.generic) else value
    return values


class Keys:
    """The metadata of the file's own architecture, by what follows its name."""

    def __init__(self, meta):
        self.architecture = meta["general.architecture"]
        self._meta = meta

    def __getitem__(self, name):
        return self._meta[f"{self.architecture}.{name}"]

    def get(self, name, default):
        return self._meta.get(f"{self.architecture}.{name}", default)


def hugging_face_name(gguf_name, architecture):
    """`blk.3.attn_q.weight` -> `model.layers.3.self_attn.q_proj.weight`."""
    if gguf_name in MODEL_TENSORS:
        return MODEL_TENSORS[gguf_name]
    blocks = BLOCK_TENSORS[architecture]
    match = re.fullmatch(r"blk\.(\d+)\.(.+)", gguf_name)
    if not match or match[2] not in blocks:
        raise SystemExit(f"convert: tensor '{gguf_name}' is not one of a {architecture} model")
    return f"model.layers.{match[1]}.{blocks[match[2]]}"


def rotary_halves(weight, heads):
    """Undo the row order that GGUF uses for Llama's q and k projections.

    GGUF interleaves the two lanes of each rotary pair; Hugging Face keeps the
    first lanes of a head in its first half and the second lanes in the other.
    """
    rows = weight.shape[0] // heads // 2
    pairs = weight.reshape(heads, rows, 2, *weight.shape[1:])
    return pairs.swapaxes(1, 2).reshape(weight.shape)


def load_tensor(tensor, keys):
    """One GGUF tensor as float32, laid out as Hugging Face has it."""
    weight = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
    if keys.architecture == "gemma3":
        # Hugging Face stores how far a gain is from 1.
        return weight - np.float32(1) if tensor.name.endswith("norm.weight") else weight
    if tensor.name.endswith("attn_q.weight"):
        return rotary_halves(weight, keys["attention.head_count"])
    if tensor.name.endswith("attn_k.weight"):
        return rotary_halves(weight, keys["attention.head_count_kv"])
    return weight


def to_bfloat16(values):
    """Float32 to bfloat16 bit patterns, rounding to nearest even."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    round_up = ((bits >> 16) & 1) + np.uint32(0x7FFF)
    return ((bits + round_up) >> 16).astype("<u2")


def to_bytes(values, storage):
    if storage == "BF16":
        return to_bfloat16(values).tobytes()
    return np.ascontiguousarray(values, dtype="<f4").tobytes()


def safetensors_header(shapes, storage):
    """The length-prefixed header of a file holding `shapes` in their order."""
    width = STORAGE[storage][1]
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in shapes.items():
        end = offset + int(np.prod(shape)) * width
        header[name] = {"dtype": storage, "shape": shape, "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def write_weights(reader, keys, folders):
    """Write the weights to each folder, holding one tensor in memory at a time."""
    tensors = {hugging_face_name(t.name, keys.architecture): t for t in reader.tensors}
    names = sorted(tensors)
    # GGUF lists the fastest-varying axis first.
    shapes = {name: [int(n) for n in reversed(tensors[name].shape)] for name in names}
    for storage, folder in folders.items():
        with open(folder / "model.safetensors", "wb") as file:
            file.write(safetensors_header(shapes, storage))
    for name in names:
        weight = load_tensor(tensors[name], keys)
        for storage, folder in folders.items():
            with open(folder / "model.safetensors", "ab") as file:
                file.write(to_bytes(weight, storage))
    return shapes


def shortest_float(value):
    """The shortest decimal of a float32: 1e-05 rather than 9.99999974e-06."""
    return float(str(np.float32(value)))


def common_config(meta, keys, shapes):
    """What config.json says of every model."""
    hidden = keys["embedding_length"]
    heads = keys["attention.head_count"]
    return {
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": meta["tokenizer.ggml.bos_token_id"],
        "eos_token_id": meta["tokenizer.ggml.eos_token_id"],
        "head_dim": keys.get("attention.key_length", hidden // heads),
        "hidden_size": hidden,
        "initializer_range": 0.02,
        "intermediate_size": keys["feed_forward_length"],
        "max_position_embeddings": keys["context_length"],
        "num_attention_heads": heads,
        "num_hidden_layers": keys["block_count"],
        "num_key_value_heads": keys["attention.head_count_kv"],
        "pad_token_id": meta["tokenizer.ggml.padding_token_id"],
        "rms_norm_eps": shortest_float(keys["attention.layer_norm_rms_epsilon"]),
        "rope_scaling": None,
        "rope_theta": float(keys["rope.freq_base"]),
        "tie_word_embeddings": "lm_head.weight" not in shapes,
        "use_cache": True,
        "vocab_size": shapes["model.embed_tokens.weight"][0],
    }


def llama_config(keys):
    return {
        "architectures": ["LlamaForCausalLM"],
        "hidden_act": "silu",
        "mlp_bias": False,
        "model_type": "llama",
        "pretraining_tp": 1,
    }


def gemma3_config(keys):
    layers = range(1, keys["block_count"] + 1)
    return {
        "architectures": ["Gemma3ForCausalLM"],
        "attn_logit_softcapping": None,
        "final_logit_softcapping": None,
        "hidden_activation": "gelu_pytorch_tanh",
        "layer_types": [
            "sliding_attention" if layer % GEMMA3_PATTERN else "full_attention" for layer in layers
        ],
        "model_type": "gemma3_text",
        "query_pre_attn_scalar": keys["attention.key_length"],
        "rope_local_base_freq": GEMMA3_LOCAL_ROPE_THETA,
        "sliding_window": keys["attention.sliding_window"],
        "sliding_window_pattern": GEMMA3_PATTERN,
    }


CONFIGS = {"llama": llama_config, "gemma3": gemma3_config}


def write_json(path, value, **options):
    path.write_text(json.dumps(value, **options), encoding="utf-8")


def convert(gguf_path, out, storages):
    """Write the checkpoints `out` and `out`-bf16, as far as `storages` has them."""
    reader = GGUFReader(gguf_path)
    meta = metadata(reader)
    keys = Keys(meta)
    if keys.architecture not in CONFIGS:
        raise SystemExit(
            f"convert: {gguf_path}: general.architecture is '{keys.architecture}', "
            f"not one of {', '.join(CONFIGS)}"
        )

    folders = {"F32": out, "BF16": out.with_name(out.name + "-bf16")}
    folders = {storage: folders[storage] for storage in storages}
    for folder in folders.values():
        folder.mkdir(parents=True, exist_ok=True)
    shapes = write_weights(reader, keys, folders)

    config = {**common_config(meta, keys, shapes), **CONFIGS[keys.architecture](keys)}
    config = dict(sorted(config.items()))
    special_ids = {key: config[key] for key in ("bos_token_id", "eos_token_id", "pad_token_id")}
    for storage, folder in folders.items():
        dtype = STORAGE[storage][0]
        write_json(folder / "config.json", {**config, "torch_dtype": dtype}, indent=2)
        write_json(folder / "generation_config.json", special_ids, indent=2)
        write_json(folder / "tokenizer.json", tokenizer(meta), ensure_ascii=False)
        write_json(
            folder / "tokenizer_config.json",
            tokenizer_config(meta, config["max_position_embeddings"]),
            indent=2,
            ensure_ascii=False,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("gguf", type=Path, metavar="FILE.gguf")
    parser.add_argument("out", type=Path, metavar="OUT")
    parser.add_argument("--float32-only", action="store_true", help="write no OUT-bf16")
    arguments = parser.parse_args()
    convert(arguments.gguf, arguments.out, ["F32"] if arguments.float32_only else STORAGE)


if __name__ == "__main__":
    main()
