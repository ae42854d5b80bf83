#!/usr/bin/env python3
"""Turn a Llama-family GGUF file into two Hugging Face checkpoints.

    convert.py FILE.gguf OUT

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

# GGUF tensor name -> Hugging Face tensor name, outside and inside the blocks.
MODEL_TENSORS = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
BLOCK_TENSORS = {
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

# Values of `tokenizer.ggml.token_type`.
CONTROL_TOKEN = 3

# SmolLM2's pre-tokenizer: digits one by one, then GPT-2's byte-level split.
# GGUF stores only its name, not its rules.
BYTE_LEVEL = {"add_prefix_space": False, "trim_offsets": True, "use_regex": True}
PRE_TOKENIZER = {
    "type": "Sequence",
    "pretokenizers": [
        {"type": "Digits", "individual_digits": True},
        {"type": "ByteLevel", **BYTE_LEVEL},
    ],
}

STORAGE = {"F32": ("float32", 4), "BF16": ("bfloat16", 2)}


def metadata(reader):
    """The GGUF key-value pairs as plain Python values."""
    values = {}
    for key, field in reader.fields.items():
        if not key.startswith("GGUF."):
            value = field.contents()
            values[key] = value.item() if isinstance(value, np.generic) else value
    return values


def hugging_face_name(gguf_name):
    """`blk.3.attn_q.weight` -> `model.layers.3.self_attn.q_proj.weight`."""
    if gguf_name in MODEL_TENSORS:
        return MODEL_TENSORS[gguf_name]
    match = re.fullmatch(r"blk\.(\d+)\.(.+)", gguf_name)
    if not match or match[2] not in BLOCK_TENSORS:
        raise SystemExit(f"convert: tensor '{gguf_name}' is not one of a Llama model")
    return f"model.layers.{match[1]}.{BLOCK_TENSORS[match[2]]}"


def rotary_halves(weight, heads):
    """Undo the row order that GGUF uses for Llama's q and k projections.

    GGUF interleaves the two lanes of each rotary pair; Hugging Face keeps the
    first lanes of a head in its first half and the second lanes in the other.
    """
    rows = weight.shape[0] // heads // 2
    pairs = weight.reshape(heads, rows, 2, *weight.shape[1:])
    return pairs.swapaxes(1, 2).reshape(weight.shape)


def load_tensor(tensor, meta):
    """One GGUF tensor as float32, laid out as Hugging Face has it."""
    weight = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
    if tensor.name.endswith("attn_q.weight"):
        return rotary_halves(weight, meta["llama.attention.head_count"])
    if tensor.name.endswith("attn_k.weight"):
        return rotary_halves(weight, meta["llama.attention.head_count_kv"])
    return weight


def to_bfloat16(values):
    """Float32 to bfloat16 bit patterns, rounding to nearest even."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    round_up = ((bits >> 16) & 1) + np.uint32(0x7FFF)
    return ((bits + round_up) >> 16).astype("<u2")


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


def write_weights(reader, meta, float32_path, bfloat16_path):
    """Write both weight files, holding one tensor in memory at a time."""
    tensors = {hugging_face_name(t.name): t for t in reader.tensors}
    names = sorted(tensors)
    # GGUF lists the fastest-varying axis first.
    shapes = {name: [int(n) for n in reversed(tensors[name].shape)] for name in names}
    with open(float32_path, "wb") as float32, open(bfloat16_path, "wb") as bfloat16:
        float32.write(safetensors_header(shapes, "F32"))
        bfloat16.write(safetensors_header(shapes, "BF16"))
        for name in names:
            weight = load_tensor(tensors[name], meta)
            float32.write(np.ascontiguousarray(weight, dtype="<f4").tobytes())
            bfloat16.write(to_bfloat16(weight).tobytes())
    return shapes


def shortest_float(value):
    """The shortest decimal of a float32: 1e-05 rather than 9.99999974e-06."""
    return float(str(np.float32(value)))


def model_config(meta, shapes):
    """config.json without `torch_dtype`, keys in alphabetical order."""
    hidden = meta["llama.embedding_length"]
    heads = meta["llama.attention.head_count"]
    config = {
        "architectures": ["LlamaForCausalLM"],
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": meta["tokenizer.ggml.bos_token_id"],
        "eos_token_id": meta["tokenizer.ggml.eos_token_id"],
        "head_dim": meta.get("llama.attention.key_length", hidden // heads),
        "hidden_act": "silu",
        "hidden_size": hidden,
        "initializer_range": 0.02,
        "intermediate_size": meta["llama.feed_forward_length"],
        "max_position_embeddings": meta["llama.context_length"],
        "mlp_bias": False,
        "model_type": "llama",
        "num_attention_heads": heads,
        "num_hidden_layers": meta["llama.block_count"],
        "num_key_value_heads": meta["llama.attention.head_count_kv"],
        "pad_token_id": meta["tokenizer.ggml.padding_token_id"],
        "pretraining_tp": 1,
        "rms_norm_eps": shortest_float(meta["llama.attention.layer_norm_rms_epsilon"]),
        "rope_scaling": None,
        "rope_theta": float(meta["llama.rope.freq_base"]),
        "tie_word_embeddings": "lm_head.weight" not in shapes,
        "use_cache": True,
        "vocab_size": shapes["model.embed_tokens.weight"][0],
    }
    return dict(sorted(config.items()))


def tokenizer(meta):
    """tokenizer.json of the byte-level BPE tokenizer."""
    tokens = meta["tokenizer.ggml.tokens"]
    types = meta["tokenizer.ggml.token_type"]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": token_id,
                "content": token,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for token_id, token in enumerate(tokens)
            if types[token_id] == CONTROL_TOKEN
        ],
        "normalizer": None,
        "pre_tokenizer": PRE_TOKENIZER,
        "post_processor": None,
        "decoder": {"type": "ByteLevel", **BYTE_LEVEL, "add_prefix_space": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: token_id for token_id, token in enumerate(tokens)},
            "merges": [merge.split(" ") for merge in meta["tokenizer.ggml.merges"]],
        },
    }


def tokenizer_config(meta, config):
    """tokenizer_config.json, with the chat template where the file has one."""

    def token(role):
        return meta["tokenizer.ggml.tokens"][meta[f"tokenizer.ggml.{role}_token_id"]]

    result = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": token("bos"),
        "eos_token": token("eos"),
        "unk_token": token("unknown"),
        "pad_token": token("padding"),
        "add_bos_token": bool(meta.get("tokenizer.ggml.add_bos_token")),
        "clean_up_tokenization_spaces": False,
        "model_max_length": config["max_position_embeddings"],
    }
    if "tokenizer.chat_template" in meta:
        result["chat_template"] = meta["tokenizer.chat_template"]
    return result


def write_json(path, value, **options):
    path.write_text(json.dumps(value, **options), encoding="utf-8")


def convert(gguf_path, out):
    """Write the checkpoints `out` and `out`-bf16."""
    reader = GGUFReader(gguf_path)
    meta = metadata(reader)
    for key, expected in (("general.architecture", "llama"), ("tokenizer.ggml.model", "gpt2")):
        if meta[key] != expected:
            raise SystemExit(f"convert: {gguf_path}: {key} is '{meta[key]}', not '{expected}'")

    folders = {"F32": out, "BF16": out.with_name(out.name + "-bf16")}
    for folder in folders.values():
        folder.mkdir(parents=True, exist_ok=True)
    shapes = write_weights(reader, meta, *(f / "model.safetensors" for f in folders.values()))

    config = model_config(meta, shapes)
    special_ids = {key: config[key] for key in ("bos_token_id", "eos_token_id", "pad_token_id")}
    for storage, folder in folders.items():
        dtype = STORAGE[storage][0]
        write_json(folder / "config.json", {**config, "torch_dtype": dtype}, indent=2)
        write_json(folder / "generation_config.json", special_ids, indent=2)
        write_json(folder / "tokenizer.json", tokenizer(meta), ensure_ascii=False)
        write_json(
            folder / "tokenizer_config.json",
            tokenizer_config(meta, config),
            indent=2,
            ensure_ascii=False,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("gguf", type=Path, metavar="FILE.gguf")
    parser.add_argument("out", type=Path, metavar="OUT")
    arguments = parser.parse_args()
    convert(arguments.gguf, arguments.out)


if __name__ == "__main__":
    main()
