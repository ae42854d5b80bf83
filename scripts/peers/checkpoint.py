"""What the peers read of a Llama checkpoint, as numpy arrays."""

import json
from pathlib import Path

import numpy as np
from safetensors import safe_open


class Checkpoint:
    """Sizes and weights of a checkpoint in Hugging Face layout with a tied head."""

    def __init__(self, folder):
        self._folder = Path(folder)
        config = json.loads((self._folder / "config.json").read_text())
        self.layers = config["num_hidden_layers"]
        self.heads = config["num_attention_heads"]
        self.kv_heads = config["num_key_value_heads"]
        self.width = config["hidden_size"]
        self.head = config.get("head_dim") or self.width // self.heads
        self.epsilon = config["rms_norm_eps"]
        self._theta = config.get("rope_theta") or config["rope_parameters"]["rope_theta"]

    def rope(self, longest):
        """Cosines and sines of all positions, [longest, head / 2] each."""
        frequencies = self._theta ** -(np.arange(0, self.head, 2) / self.head)
        angles = np.arange(longest)[:, None] * frequencies
        return np.cos(angles).astype("float32"), np.sin(angles).astype("float32")

    def weights(self, vector, matrix):
        """All weights as a tree, q/k/v and gate/up fused.

        `vector` and `matrix`, [out, in], make of an array what the framework wants.
        """
        with safe_open(self._folder / "model.safetensors", "np") as file:

            def tensor(name):
                return file.get_tensor(f"model.{name}.weight")

            def fused(*names):
                return matrix(np.concatenate([tensor(name) for name in names]))

            def layer(index):
                attention, mlp = f"layers.{index}.self_attn", f"layers.{index}.mlp"
                return {
                    "norm1": vector(tensor(f"layers.{index}.input_layernorm")),
                    "qkv": fused(*(f"{attention}.{part}_proj" for part in "qkv")),
                    "o": fused(f"{attention}.o_proj"),
                    "norm2": vector(tensor(f"layers.{index}.post_attention_layernorm")),
                    "gate_up": fused(f"{mlp}.gate_proj", f"{mlp}.up_proj"),
                    "down": fused(f"{mlp}.down_proj"),
                }

            return {
                "layers": [layer(index) for index in range(self.layers)],
                "embedding": vector(tensor("embed_tokens")),
                "head": fused("embed_tokens"),
                "norm": vector(tensor("norm")),
            }
