"""A windowed KV pool: rings, call splitting, exhaustion, reclaim, refused tokens, two instances."""

import re
import time
from contextlib import ExitStack

import numpy as np
import pytest
from harness import window
from harness.decoding import LOGITS, assert_close, together
from harness.decoding import logits as row
from harness.server import LoadError
from tritonclient.utils import InferenceServerException

MODEL = window.NAME
TOLERANCE = 1e-4
OUTPUTS = (*LOGITS, "KV_PAGES")
TOKENS = np.random.default_rng(1).integers(0, window.IDS, 60).tolist()
# The requests of 13 and of 9 tokens take two calls each.
SCHEDULE = [13, *[1] * 11, 9, *[1] * 27]

pytestmark = pytest.mark.skipif(
    not window.FOLDER.is_dir(), reason=f"the artifact {MODEL} is not at {window.FOLDER}"
)


@pytest.fixture(scope="module")
def weights(repository, server):
    weights = window.add(repository)[1]
    server.load(MODEL)
    return weights


@pytest.fixture(scope="module")
def expected(weights):
    """The logits of every token of TOKENS."""
    return window.logits(weights, TOKENS)


def refused(message):
    return pytest.raises(InferenceServerException, match=message)


def step(sequence, tokens, expected, **flags):
    """Send tokens and check the row that comes back."""
    outputs = sequence.send(tokens, OUTPUTS, **flags)
    assert_close(row(outputs), expected, TOLERANCE)
    return outputs


def replay(sequence, sizes, expected):
    """Send TOKENS in requests of these sizes; every row and page count is checked."""
    sent = 0
    for size in sizes:
        outputs = sequence.send(TOKENS[sent : sent + size], OUTPUTS, end=sent + size == len(TOKENS))
        sent += size
        assert_close(row(outputs), expected[sent - 1], TOLERANCE)
        assert outputs["KV_PAGES"].ravel().tolist() == window.pages(sent)


def test_w1_parameters(server, weights):
    parameters = server.config(MODEL)["parameters"]
    values = {name: value["string_value"] for name, value in parameters.items()}
    assert values["kv_window"] == "8" and values["kv_window_ring_pages"] == "3"
    assert values["kv_window_layers"] == "0,1" and values["kv_window_num_blocks"] == "13"


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_w2_w3_pages_and_logits_of_every_request(server, expected, protocol):
    with server.client(protocol) as client, client.sequence(MODEL) as sequence:
        replay(sequence, SCHEDULE, expected)


@pytest.mark.parametrize("sizes", [[60], [1] * 60, [5] * 12, [31, 29]])
def test_a_prompt_may_be_cut_anywhere(server, expected, sizes):
    with server.client() as client, client.sequence(MODEL) as sequence:
        replay(sequence, sizes, expected)


def test_control_a_longer_window_gives_other_logits(weights, expected, monkeypatch):
    monkeypatch.setattr(window, "WINDOW", window.WINDOW + 1)
    with pytest.raises(AssertionError):
        assert_close(window.logits(weights, TOKENS)[-1], expected[-1], TOLERANCE)


def test_w8_sequences_side_by_side(server, expected):
    def job(client):
        with client.sequence(MODEL) as sequence:
            replay(sequence, SCHEDULE, expected)

    together(server, [job] * 3)


def started(stack, client, model, tokens, count):
    """Live sequences that have read the tokens."""
    sequences = [stack.enter_context(client.sequence(model)) for _ in range(count)]
    for sequence in sequences:
        sequence.send(tokens)
    return sequences


def test_w9_a_start_without_ring_pages_is_refused(server, expected):
    with server.client() as client, ExitStack() as stack:
        held = started(stack, client, MODEL, TOKENS[:12], 4)
        late = stack.enter_context(client.sequence(MODEL))
        with refused("windowed KV page pool exhausted.*is refused at START and holds nothing"):
            late.send(TOKENS[:12])
        late.end()
        held[0].end()
        step(late, TOKENS[:12], expected[11], start=True)
        # Those that hold a ring need no further page of it.
        step(held[1], TOKENS[12:20], expected[19])


def test_a_step_without_ring_pages_keeps_its_sequence(server, expected):
    with server.client() as client, ExitStack() as stack:
        held = started(stack, client, MODEL, TOKENS[:12], 3)
        (growing,) = started(stack, client, MODEL, TOKENS[:8], 1)
        started(stack, client, MODEL, TOKENS[:4], 1)
        for _ in range(2):
            with refused(
                "windowed KV page pool exhausted.*keeps its 2 windowed pages and the KV of its 8 "
                "tokens"
            ):
                growing.send(TOKENS[8:9])
        held[0].end()
        outputs = step(growing, TOKENS[8:9], expected[8])
        assert outputs["KV_PAGES"].ravel().tolist() == [3, 3]


def test_w10_w12_placeholders_are_refused(server, weights):
    with server.client() as client:
        for token, key in ((62, "image_token_id"), (63, "video_token_id")):
            with client.sequence(MODEL) as sequence:
                needle = f"token 1 of the request is {token}, the model's {key} placeholder"
                with refused(needle):
                    sequence.send([1, token])
                with refused("has no KV state"):
                    sequence.send([1])
        with client.sequence(MODEL) as sequence:
            assert sequence.send([61])


def test_w11_a_refused_placeholder_leaves_the_sequence_as_it_was(server, weights):
    with server.client() as client:
        rows = []
        for token in (None, 63):
            with client.sequence(MODEL) as sequence:
                sequence.send(TOKENS[:13])
                if token is not None:
                    with refused("video_token_id placeholder"):
                        sequence.send([token])
                rows.append(row(sequence.send(TOKENS[13:14], LOGITS)))
    assert rows[0].tobytes() == rows[1].tobytes()


def test_w13_log(server, expected):
    with server.client() as client:
        for _ in range(2):
            with client.sequence(MODEL) as sequence:
                replay(sequence, [1] * 60, expected)
    server.log.expect(
        f"instance '{MODEL}_0_0': in 100 runs the 6 KV pools were updated in place 100 times and "
        "copied 0 times"
    )
    text = server.log.text()
    load = re.search(f"model '{MODEL}': (uploaded 30 weights.*)\"", text)[1]
    assert load.endswith(
        "; refuses token ids 62 (image_token_id) 63 (video_token_id)"
        "; windowed KV pool for 2 sliding layers (window 8): 13 pages, a ring of at most 3 pages "
        "per sequence"
    )
    assert "largest prefill batch 2, sequence idle timeout 60000000 us" in load
    assert "tokens per sequence in a prefill call" not in load
    assert (
        f"instance '{MODEL}_0_0': 6 KV pools (0 MiB) zeroed; 64 pages for sequences (page 0 is the "
        "padding page); 12 windowed pages, at most 3 per sequence; each execution is handed the "
        "pools to update in place"
    ) in text
    assert re.search(
        rf"model '{MODEL}': temporary memory of an execution: at most \d+ bytes .*, of prefill_b2",
        text,
    )
    for entry in ("prefill_b1_c16", "decode_b1_c64"):
        assert f"{entry} updated the 6 KV pools in place" in text
    assert "to new device memory" not in text


def test_a_ring_shorter_than_the_window_is_refused(repository, server, expected):
    name = "short_ring"
    model = window.add(repository, name)[0]
    config = model.config
    model.substitute("tlaloc-serving.json", "tlaloc-serving-short-ring.json")
    with pytest.raises(LoadError) as refusal:
        server.load(name)
    needle = "so a decode step would read a position already written over"
    assert refusal.value.status == 400 and needle in refusal.value.message
    # Control: the whole manifest beside it is served.
    model.config = config
    server.load(name)
    with server.client() as client, client.sequence(name) as sequence:
        step(sequence, TOKENS[:13], expected[12])
    server.unload(name)


def test_an_older_configuration_is_served(repository, server, expected):
    name = "older_window"
    model = window.add(repository, name)[0]
    text = window.OLDER_CONFIG.read_text().replace(f'name: "{MODEL}"', f'name: "{name}"')
    model.config = text.replace("kind: KIND_GPU count: 1 gpus: [ 0 ]", "kind: KIND_MODEL count: 1")
    mark = server.log.mark()
    server.load(name)
    server.log.expect("max_queue_delay_microseconds is 1000", mark)
    with server.client() as client, client.sequence(name) as sequence:
        # It has no NEXT_TOKEN.
        outputs = sequence.send(TOKENS[:13], ("LOGITS", "KV_PAGES"))
        assert_close(outputs["LOGITS"].ravel(), expected[12], TOLERANCE)
        assert outputs["KV_PAGES"].ravel().tolist() == window.pages(13)
    server.unload(name)


def test_idle_sequences_give_their_rings_back(repository, server, expected):
    name = "idle_window"
    window.add(repository, name)[0].set_idle(200_000)
    server.load(name)
    with server.client() as client:
        abandoned = [client.sequence(name) for _ in range(4)]
        for sequence in abandoned:
            sequence.send(TOKENS[:12])
        deadline = time.monotonic() + 30
        while True:
            late = client.sequence(name)
            try:
                step(late, TOKENS[:8], expected[7])
                break
            except InferenceServerException as error:
                # Still within twice the idle time.
                assert "windowed KV page pool exhausted" in error.message()
                assert "is not preempted" in error.message()
                assert time.monotonic() < deadline
                late.end()
        step(late, TOKENS[8:12], expected[11], end=True)
        # Three ring pages were needed, of which one sequence had enough.
        reclaimed = server.log.find(r"reclaimed sequence (\d+) \(the least recently active")
        assert reclaimed == [str(abandoned[0].id)]
        for sequence in abandoned:
            with refused("has no KV state|must specify the START flag"):
                sequence.send(TOKENS[12:13])
    server.unload(name)


def test_two_instances_share_weights_and_programs(repository, server, expected):
    name = "two_windows"
    window.add(repository, name)[0].substitute("count: 1", "count: 2")
    mark = server.log.mark()
    server.load(name)
    assert len(server.log.find(f"model '{name}': uploaded 30 weights", mark)) == 1
    assert len(server.log.find(f"model '{name}': (?:compiled|read from)", mark)) == 12
    for instance in (f"{name}_0_0", f"{name}_0_1"):
        assert server.log.find(f"instance '{instance}': 6 KV pools .* zeroed", mark)
    # Each weight file is in memory once.
    mapped = server.mapped_files(f"/{name}/1/weights/")
    assert len(mapped) == 30 and set(mapped.values()) == {1}
    with server.client() as client, ExitStack() as stack:
        # Twice as many as the pools of one instance hold.
        held = started(stack, client, name, TOKENS[:12], 8)
        late = stack.enter_context(client.sequence(name))
        with refused("windowed KV page pool exhausted"):
            late.send(TOKENS[:12])
        for sequence in held:
            step(sequence, TOKENS[12:13], expected[12])

    def job(client):
        with client.sequence(name) as sequence:
            replay(sequence, SCHEDULE, expected)

    together(server, [job] * 4)
    for instance in (f"{name}_0_0", f"{name}_0_1"):
        assert server.log.find(f"instance '{instance}': decode_b._c64 updated the 6 KV pools in")
    server.unload(name)
    assert not server.mapped_files(f"/{name}/1/weights/")
