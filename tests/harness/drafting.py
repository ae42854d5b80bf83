"""Tiny checkpoints with a draft head, and sequences of models that are exported with it."""

import queue
from dataclasses import dataclass, field

import numpy as np

from . import fixtures, models
from .checkpoints import Checkpoint
from .environment import cache

# Drafts of a step.
K = 3
OPTIONS = {
    "contexts": [64, 256],
    "batches": [1, 2],
    "prefill_batches": [1],
    "prefill_chunk": 32,
    "block_size": 16,
    "num_blocks": 64,
    "state_slots": 12,
}
DRAFTS = {**OPTIONS, "draft_tokens": K}
# How much of what the layers add to the residual stream is left in a predictable model.
LEFT = 0.3


def random_head():
    """The checkpoint of the oracle, with a draft head whose drafts are nearly always wrong."""
    checkpoint = Checkpoint.read(fixtures.tiny_checkpoint("qwen3_5"))
    numbers = np.random.default_rng(5)
    for name, shape in _shapes(checkpoint.text).items():
        checkpoint.tensors[name] = numbers.normal(0, 0.2, shape).astype(np.float32)
    checkpoint.text["mtp_num_hidden_layers"] = 1
    return checkpoint


def predictable():
    """A model whose next token mostly follows from the last one alone, as its head supposes."""
    checkpoint = random_head()
    for ending in ("o_proj.weight", "out_proj.weight", "mlp.down_proj.weight"):
        checkpoint.change(ending, lambda tensor: tensor * np.float32(LEFT))
    hidden = checkpoint.text["hidden_size"]
    for name in _shapes(checkpoint.text):
        if name.endswith(("o_proj.weight", "down_proj.weight")) or "pre_fc" in name:
            checkpoint.tensors[name] = np.zeros_like(checkpoint.tensors[name])
    # The embedding as it is, and nothing of the hidden state.
    embedding = np.concatenate([np.eye(hidden), np.zeros((hidden, hidden))], axis=1)
    checkpoint.tensors["mtp.fc.weight"] = embedding.astype(np.float32)
    checkpoint.tensors["mtp.norm.weight"] = checkpoint.tensors["model.norm.weight"]
    return checkpoint


def _shapes(text):
    hidden, wide = text["hidden_size"], text["intermediate_size"]
    heads, kv, size = text["num_attention_heads"], text["num_key_value_heads"], text["head_dim"]
    layer = {
        "input_layernorm": [hidden],
        "post_attention_layernorm": [hidden],
        "self_attn.q_proj": [2 * heads * size, hidden],
        "self_attn.k_proj": [kv * size, hidden],
        "self_attn.v_proj": [kv * size, hidden],
        "self_attn.o_proj": [hidden, heads * size],
        "self_attn.q_norm": [size],
        "self_attn.k_norm": [size],
        "mlp.gate_proj": [wide, hidden],
        "mlp.up_proj": [wide, hidden],
        "mlp.down_proj": [hidden, wide],
    }
    return {
        "mtp.pre_fc_norm_embedding.weight": [hidden],
        "mtp.pre_fc_norm_hidden.weight": [hidden],
        "mtp.fc.weight": [hidden, 2 * hidden],
        "mtp.norm.weight": [hidden],
        **{f"mtp.layers.0.{name}.weight": shape for name, shape in layer.items()},
    }


def artifact(checkpoint, label, **options):
    """The artifact of a checkpoint in memory."""
    folder = cache() / "test-checkpoints" / label
    if not folder.is_dir():
        checkpoint.write(folder)
    return models.export(folder, label, **options)


@dataclass
class Turn:
    """The answers to one request, as they came."""

    steps: list = field(default_factory=list)
    pages: list = field(default_factory=list)
    next_token: int | None = None

    @property
    def ids(self):
        return [token for step in self.steps for token in step]


class Streams:
    """Requests to decoupled models over one gRPC stream."""

    def __init__(self, server):
        import tritonclient.grpc as triton

        self._triton = triton
        self._client = triton.InferenceServerClient(f"127.0.0.1:{server.grpc_port}")
        self._answers = queue.Queue()
        self._client.start_stream(lambda result, error: self._answers.put((result, error)))
        self._asked = 0

    def ask(self, model, sequence_id, tokens, start=False, end=False, **parameters):
        """Send a request; its number, for `turns`."""
        self._asked += 1
        values = np.asarray(tokens, dtype=np.int32).reshape(1, -1)
        tensor = self._triton.InferInput("TOKENS", values.shape, "INT32")
        tensor.set_data_from_numpy(values)
        self._client.async_stream_infer(
            model,
            [tensor],
            request_id=str(self._asked),
            sequence_id=sequence_id,
            sequence_start=start,
            sequence_end=end,
            parameters=parameters or None,
            enable_empty_final_response=True,
        )
        return self._asked

    def turns(self, *asked, timeout=120):
        """The turns of these requests, once each has its last answer."""
        turns, open_ = {number: Turn() for number in asked}, set(asked)
        while open_:
            result, error = self._answers.get(timeout=timeout)
            if error is not None:
                raise error
            response = result.get_response()
            turn = turns[int(response.id)]
            for name in ("NEXT_TOKENS", "KV_PAGES", "NEXT_TOKEN"):
                values = result.as_numpy(name)
                if values is None:
                    continue
                values = values.ravel().tolist()
                if name == "NEXT_TOKENS":
                    turn.steps.append(values)
                elif name == "KV_PAGES":
                    turn.pages = values
                else:
                    turn.next_token = values[0]
            if response.parameters["triton_final_response"].bool_param:
                open_.discard(int(response.id))
        return [turns[number] for number in asked]

    def close(self):
        self._client.stop_stream()
        self._client.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
