"""Our own windowed artifact with small prefill chunks: rings that are longer for them."""

import numpy as np
import pytest
from harness import fixtures, models
from harness.decoding import LOGITS, assert_close, logits
from tritonclient.utils import InferenceServerException

MODEL = "ring_chunks"
BLOCK, WINDOW, CHUNK, CONTEXT, BLOCKS = 4, 8, 6, 128, 65
# Artifact format §8, "Writer's sizing", worked out by hand.
RING, WINDOWED = 4, 1 + 2 * 4
TOLERANCE = 1e-4
OUTPUTS = (*LOGITS, "KV_PAGES")
PROMPTS = {prompt["length"]: prompt for prompt in fixtures.tiny_oracle("gemma3")["prompts"]}


@pytest.fixture(scope="module", autouse=True)
def loaded(repository, server):
    artifact = models.export(
        fixtures.tiny_checkpoint("gemma3"),
        "gemma3-ring-chunks",
        contexts=[CONTEXT],
        batches=[1, 2],
        prefill_chunk=CHUNK,
        block_size=BLOCK,
        num_blocks=BLOCKS,
    )
    repository.add(artifact, MODEL)
    server.load(MODEL)


def pages(length):
    blocks = -(-length // BLOCK)
    return [blocks, min(RING, blocks)]


@pytest.mark.parametrize("sizes", [[90], [40, 50], [13] * 6 + [12], [1] * 90])
def test_w5_w6_pages_and_logits(server, sizes):
    prompt = PROMPTS[90]
    with server.client() as client, client.sequence(MODEL) as sequence:
        sent = 0
        for size in sizes:
            outputs = sequence.send(prompt["prompt_ids"][sent : sent + size], OUTPUTS)
            sent += size
            assert outputs["KV_PAGES"].ravel().tolist() == pages(sent)
        rows = [logits(outputs)]
        for token in prompt["greedy_ids"]:
            outputs = sequence.send([token], OUTPUTS)
            sent += 1
            rows.append(logits(outputs))
            assert outputs["KV_PAGES"].ravel().tolist() == pages(sent)
    assert_close(np.stack(rows), prompt["logits"], TOLERANCE)


def test_w14_log_and_parameters(server):
    parameters = server.config(MODEL)["parameters"]
    values = {name: value["string_value"] for name, value in parameters.items()}
    assert values["kv_window_ring_pages"] == str(RING)
    assert values["kv_window_num_blocks"] == str(WINDOWED)
    assert values["kv_window"] == str(WINDOW) and values["kv_window_layers"] == "0,1,3"
    server.log.expect(
        rf"model '{MODEL}': uploaded .*largest prefill batch 2, at most {CHUNK} tokens per "
        r"sequence in a prefill call.*windowed KV pool for 3 sliding layers "
        rf"\(window {WINDOW}\): {WINDOWED} pages, a ring of at most {RING} pages per sequence"
    )


def test_rings_run_out_before_pages(server):
    prompt = PROMPTS[40]["prompt_ids"]
    with server.client() as client:
        with client.sequence(MODEL) as one, client.sequence(MODEL) as two:
            one.send(prompt)
            two.send(prompt)
            with client.sequence(MODEL) as late:
                with pytest.raises(InferenceServerException, match="windowed KV page pool exhaust"):
                    late.send(prompt)
        # Both ended.
        with client.sequence(MODEL) as late:
            late.send(prompt)
