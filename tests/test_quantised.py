"""Quantised weights and narrower KV pools, against the same values computed with otherwise."""

import numpy as np
import pytest
from harness import environment, fixtures, formats, models
from harness.checkpoints import Checkpoint
from harness.decoding import greedy_alone
from harness.rounding import KV_DTYPES, llama_logits, quantise
from harness.tiny import BOUND, decode

OPTIONS = {"contexts": [128], "batches": [1], "prefill_chunk": [32, 8]}


def distance(rows, expected):
    """The largest difference, as a part of the largest expected logit."""
    return max(float(np.abs(r - e).max() / np.abs(e).max()) for r, e in zip(rows, expected))


@pytest.fixture(scope="module")
def rows(repository, server):
    """Gives the rows of logits of a model's prompts, each sent whole and in pieces."""

    def load(artifact, name, prompts):
        repository.add(artifact, name)
        server.load(name)
        with server.client() as client:
            found = [
                [decode(client, name, prompt, piece) for prompt in prompts] for piece in (None, 11)
            ]
        server.unload(name)
        assert distance(*found) <= BOUND
        return found[0]

    return load


@pytest.mark.parametrize(
    "family, quant, layout",
    [
        ("llama", "int8", "out-in"),
        ("llama", "int8", "in-out"),
        ("llama", "fp8", "out-in"),
        ("qwen3_moe", "int8", "out-in"),
        ("qwen3_next", "fp8", "out-in"),
    ],
)
def test_quantised_weights_compute_as_their_values(rows, tmp_path, family, quant, layout):
    prompts = fixtures.tiny_oracle(family)["prompts"][:4]
    folder = fixtures.tiny_checkpoint(family)
    artifact = models.export_to(
        folder, tmp_path / "codes", weight_quant=quant, weight_layout=layout, **OPTIONS
    )
    found = rows(artifact, "codes", prompts)

    values = Checkpoint.read(folder)
    quantise(values, quant)
    values.write(tmp_path / "checkpoint")
    exact = models.export_to(tmp_path / "checkpoint", tmp_path / "values", **OPTIONS)
    expected = rows(exact, "values", prompts)
    assert distance(found, expected) <= BOUND
    # Codes are used.
    assert distance(found, [np.asarray(prompt["logits"]) for prompt in prompts]) > BOUND


@pytest.mark.parametrize("kv_dtype", KV_DTYPES)
def test_kv_pools_hold_rounded_values(rows, tmp_path, kv_dtype):
    prompts = fixtures.tiny_oracle("llama")["prompts"]
    checkpoint = Checkpoint.read(fixtures.tiny_checkpoint("llama"))

    def reference(**options):
        return [
            llama_logits(checkpoint, [*prompt["prompt_ids"], *prompt["greedy_ids"]], **options)[
                len(prompt["prompt_ids"]) - 1 :
            ]
            for prompt in prompts
        ]

    oracle = [np.asarray(prompt["logits"]) for prompt in prompts]
    assert distance(reference(), oracle) <= BOUND, "the reference itself"
    artifact = models.export_to(
        fixtures.tiny_checkpoint("llama"), tmp_path / "kv", kv_dtype=kv_dtype, **OPTIONS
    )
    found = rows(artifact, f"kv_{kv_dtype}", prompts)
    rounded = reference(kv=KV_DTYPES[kv_dtype])
    # Where a value lies nearly between two, either may be taken.
    allowed = {"bf16": 5e-4, "fp8": 5e-3}[kv_dtype]
    assert distance(found, rounded) <= allowed
    assert distance(found, oracle) > allowed


@pytest.mark.parametrize(
    "family, kv_dtype", [("gemma3", "bf16"), ("gemma3", "fp8"), ("qwen3_next", "fp8")]
)
def test_rings_and_states_beside_narrow_pools(server, repository, tmp_path, family, kv_dtype):
    prompt = fixtures.tiny_oracle(family)["prompts"][2]
    folder = fixtures.tiny_checkpoint(family)
    name = f"{family}_{kv_dtype}"
    repository.add(models.export_to(folder, tmp_path / "kv", kv_dtype=kv_dtype, **OPTIONS), name)
    server.load(name)
    with server.client() as client:
        found = decode(client, name, prompt)
    server.unload(name)
    expected = np.asarray(prompt["logits"])
    assert BOUND < distance([found], [expected]) <= {"bf16": 2e-2, "fp8": 0.2}[kv_dtype]


def test_pools_of_bfloat16_are_updated_in_place(server, repository, tmp_path):
    prompt = fixtures.tiny_oracle("llama")["prompts"][2]
    logs = {}
    for kv_dtype in KV_DTYPES:
        # Large enough for a copy to be told of.
        options = {**OPTIONS, "num_blocks": 8192, "kv_dtype": kv_dtype}
        folder = fixtures.tiny_checkpoint("llama")
        name = f"large_{kv_dtype}"
        repository.add(models.export_to(folder, tmp_path / kv_dtype, **options), name)
        server.load(name)
        with server.client() as client:
            decode(client, name, prompt)
        server.unload(name)
        lines = [line for line in server.log.text().splitlines() if f"'{name}" in line]
        logs[kv_dtype] = "\n".join(lines)
    assert "decode_b1_c128 updated the 6 KV pools in place" in logs["bf16"]
    assert "to new device memory" not in logs["bf16"]
    assert "copies KV pools" not in logs["bf16"]
    # The compiler cannot write to a part of a pool of 8-bit floats, which is told of.
    assert "decode_b1_c128 needs" in logs["fp8"] and "copies KV pools" in logs["fp8"]


@pytest.mark.row("F5", "int8 projections take at most 70 % of bfloat16 and give the same ids")
def test_int8_projections(row, server, repository):
    prompts = [fixtures.smollm2_prompts()[name] for name in ("chat_template", "one_token")]
    artifact = models.export(
        environment.smollm2(),
        "smollm2-int8",
        contexts=[128],
        weight_quant="int8",
        weight_dtype="bf16",
    )
    weights, _ = formats.memory(artifact)
    bfloat16 = 2 * 134_515_008  # SmolLM2's parameters
    row.figure(f"{weights >> 20} of {bfloat16 >> 20} MiB")
    assert weights <= 0.7 * bfloat16

    model = repository.add(artifact, "int8")
    server.load("int8")
    for prompt in prompts:
        ids = greedy_alone(server, "int8", prompt["prompt_ids"], len(prompt["greedy_ids"]))
        row.ids(ids, prompt["greedy_ids"])
    server.unload("int8")

    formats.swap_scale_axis(model)
    server.load("int8")
    for prompt in prompts:
        ids = greedy_alone(server, "int8", prompt["prompt_ids"], len(prompt["greedy_ids"]))
        with row.control("codes made along the inputs"):
            assert ids == prompt["greedy_ids"]
    server.unload("int8")
