#!/usr/bin/env python3
"""Write a Llama checkpoint in float32 as a GGUF file for speed tests.

    llama_gguf.py CHECKPOINT OUT.gguf

The tensors are the checkpoint's own, so that llama.cpp computes with the same
numbers. There is no vocabulary in the file: only token ids can be fed to it.
"""

import argparse
import json
from pathlib import Path

from gguf import GGUFWriter, LlamaFileType
from safetensors import safe_open

OUTSIDE = {
    "token_embd": "embed_tokens",
    "output_norm": "norm",
}
LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def interleaved(tensor, heads):
    """llama.cpp pairs neighbouring rope features, checkpoints those half a head apart."""
    rows, columns = tensor.shape
    halves = tensor.reshape(heads, 2, rows // heads // 2, columns)
    return halves.swapaxes(1, 2).reshape(rows, columns)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    config = json.loads((arguments.checkpoint / "config.json").read_text())
    if not config.get("tie_word_embeddings"):
        parser.error(f"{arguments.checkpoint} has a head of its own, which is not written")
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}

    writer = GGUFWriter(arguments.out, "llama")
    writer.add_file_type(LlamaFileType.ALL_F32)
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config.get("rope_theta") or config["rope_parameters"]["rope_theta"])
    writer.add_rope_dimension_count(config["hidden_size"] // config["num_attention_heads"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_tokenizer_model("no_vocab")

    with safe_open(arguments.checkpoint / "model.safetensors", "np") as file:

        def add(name, source, rope_heads=None):
            tensor = file.get_tensor(f"model.{source}.weight")
            if rope_heads is not None:
                tensor = interleaved(tensor, rope_heads)
            writer.add_tensor(f"{name}.weight", tensor)

        for name, source in OUTSIDE.items():
            add(name, source)
        for layer in range(config["num_hidden_layers"]):
            for name, source in LAYER.items():
                add(f"blk.{layer}.{name}", f"layers.{layer}.{source}", heads.get(name))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
