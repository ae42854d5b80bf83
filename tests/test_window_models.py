"""Windowed pools: rings that sliding layers read must compute what full pools do."""

import numpy as np
import pytest
from harness import examples
from harness import window_models as windows
from harness.decoding import assert_close, logits, together
from harness.example_models import Window
from tritonclient.utils import InferenceServerException

WINDOW, FULL, CHUNKED = "window_sequence", "window_sequence_full", "window_sequence_chunked"
RINGS = {WINDOW: windows.RING, FULL: 0, CHUNKED: windows.CHUNKED_RING}
OUTPUTS = ("LOGITS", "NEXT_TOKEN", "KV_PAGES")

IDS = np.random.default_rng(1).integers(0, windows.IMAGE, 60).tolist()
LENGTHS = [13, *[1] * 11, 9, *[1] * 27]
STARTS = np.cumsum([0, *LENGTHS[:-1]]).tolist()
REQUESTS = [IDS[start : start + length] for start, length in zip(STARTS, LENGTHS)]
assert sum(LENGTHS) == len(IDS)

# Prompts that are read together.
PROMPTS = [
    np.random.default_rng(seed).integers(0, windows.IMAGE, length).tolist()
    for seed, length in enumerate((13, 5, 21, 9))
]

SAME_CALLS = 1e-4
# Other entries ran.
OTHER_CALLS = 5e-3
PROTOCOLS = pytest.mark.parametrize("protocol", ["http", "grpc"])


@pytest.fixture(scope="module", autouse=True)
def loaded(repository, server):
    for name in RINGS:
        # Prompts that are sent at once are to share a call on a busy machine, too.
        examples.add(repository, name).set_parameter("prompt_wait_microseconds", "20000")
        server.load(name)


def run(server, model, requests, protocol="grpc"):
    """(rows of logits, pages after each request) of one sequence; the last request ends it."""
    rows, pages = [], []
    with server.client(protocol) as client:
        sequence = client.sequence(model)
        for number, tokens in enumerate(requests, 1):
            outputs = sequence.send(tokens, OUTPUTS, end=number == len(requests))
            rows.append(logits(outputs))
            pages.append(tuple(outputs["KV_PAGES"].ravel().tolist()))
    return rows, pages


def split(ring, chunk=None):
    """The schedule in the backend's own calls, and which of them end a request."""
    parts, last = [], []
    for start, tokens in zip(STARTS, REQUESTS):
        at = 0
        for count in windows.calls(start, len(tokens), ring, chunk):
            parts.append(tokens[at : at + count])
            at += count
        last.append(len(parts) - 1)
    return parts, last


def run_split(server, model, ring, chunk=None):
    parts, last = split(ring, chunk)
    rows, _ = run(server, model, parts)
    return [rows[number] for number in last]


def check_rows(row, rows, expected, bound, same_ids=True):
    """Every row of logits, and that the next request's row would not do."""
    for actual, want, other in zip(rows, expected, expected[1:] + expected[:1]):
        row.most("of the largest logit", assert_close(actual, want, bound))
        assert not same_ids or actual.argmax() == want.argmax()
        with row.control("the row of the next request"):
            assert_close(actual, other, bound)


def parameters(server, model):
    values = server.config(model)["parameters"]
    return {key: value["string_value"] for key, value in values.items()}


@pytest.mark.row("W1", "the configuration tells the window")
def test_w1_parameters(row, server):
    def check(model):
        told = parameters(server, model)
        assert told["kv_window"] == str(windows.WINDOW)
        assert told["kv_window_ring_pages"] == str(windows.RING)
        assert told["kv_window_num_blocks"] == str(windows.WINDOWED_BLOCKS)
        assert told["kv_window_layers"] == "0,1"
        assert told["kv_block_size"] == str(windows.BLOCK)

    check(WINDOW)
    row.figure(f"window {windows.WINDOW}, ring {windows.RING}, layers 0,1")
    with row.control("a model with another ring"):
        check(CHUNKED)
    assert not [key for key in parameters(server, FULL) if key.startswith("kv_window")]


def check_pages(pages, ring):
    lengths = [start + length for start, length in zip(STARTS, LENGTHS)]
    assert pages == [windows.pages(length, ring) for length in lengths]


@PROTOCOLS
@pytest.mark.row("W2", "pages held after each request")
def test_w2_pages(row, server, protocol):
    for model in (WINDOW, FULL):
        _, pages = run(server, model, REQUESTS, protocol)
        check_pages(pages, RINGS[model])
        row.figure(f"{model}: {pages[-1][0]} and {pages[-1][1]} at the end")
        with row.control("a ring of one page more"):
            check_pages(pages, RINGS[model] + 1)


@pytest.mark.parametrize("model", RINGS)
def test_the_logits_of_numpy(server, model):
    expected = Window().logits(IDS)
    rows, _ = run(server, model, REQUESTS)
    for row, start, length in zip(rows, STARTS, LENGTHS):
        assert_close(row, expected[start + length - 1], SAME_CALLS)
        assert row.argmax() == expected[start + length - 1].argmax()
    # Control: what lies before the window is seen through the layer without one.
    with pytest.raises(AssertionError):
        assert_close(rows[-1], Window().logits(IDS[-20:])[-1], SAME_CALLS)


@PROTOCOLS
@pytest.mark.row("W3", "as the full model does in the same calls")
def test_w3_same_calls(row, server, protocol):
    rows, _ = run(server, WINDOW, REQUESTS, protocol)
    check_rows(row, rows, run_split(server, FULL, windows.RING), SAME_CALLS)


@pytest.mark.row("W4", "as the full model does in whole requests")
def test_w4_whole_requests(row, server):
    rows, _ = run(server, WINDOW, REQUESTS)
    check_rows(row, rows, run(server, FULL, REQUESTS)[0], OTHER_CALLS)


@pytest.mark.row("W5", "pages and ring of the chunked model")
def test_w5_chunked_pages(row, server):
    _, pages = run(server, CHUNKED, REQUESTS)
    check_pages(pages, windows.CHUNKED_RING)
    told = parameters(server, CHUNKED)
    assert told["kv_window_ring_pages"] == str(windows.CHUNKED_RING)
    assert told["kv_window_num_blocks"] == str(windows.CHUNKED_WINDOWED_BLOCKS)
    row.figure(f"ring {windows.CHUNKED_RING}, {pages[-1][1]} pages of it at the end")
    with row.control("the ring of the model without chunks"):
        check_pages(pages, windows.RING)


@pytest.mark.row("W6", "the chunked model as the full one in the same calls")
def test_w6_chunked_same_calls(row, server):
    rows, _ = run(server, CHUNKED, REQUESTS)
    expected = run_split(server, FULL, windows.CHUNKED_RING, windows.CHUNK)
    check_rows(row, rows, expected, SAME_CALLS)


@pytest.mark.row("W7", "the chunked model as the full one in whole requests")
def test_w7_chunked_whole_requests(row, server):
    rows, _ = run(server, CHUNKED, REQUESTS)
    check_rows(row, rows, run(server, FULL, REQUESTS)[0], OTHER_CALLS)


@pytest.mark.row("W8", "three sequences at once as each alone")
def test_w8_three_at_once(row, server):
    schedules = [[tokens[shift:] + tokens[:shift] for tokens in REQUESTS] for shift in range(3)]
    schedules[1] = REQUESTS[::-1]

    def job(requests):
        def decode(client):
            sequence = client.sequence(WINDOW)
            rows = [logits(sequence.send(tokens, OUTPUTS)) for tokens in requests]
            sequence.end()
            return rows

        return decode

    at_once = together(server, [job(requests) for requests in schedules])
    for rows, requests in zip(at_once, schedules):
        check_rows(row, rows, run(server, WINDOW, requests)[0], OTHER_CALLS, same_ids=False)


@pytest.mark.row("W9", "a windowed pool that is full refuses a START")
def test_w9_exhausted(row, server):
    count = (windows.WINDOWED_BLOCKS - 1) // windows.RING
    with server.client() as client:
        held = [client.sequence(WINDOW) for _ in range(count)]
        for number, sequence in enumerate(held):
            sequence.send(IDS[number : number + 12])
        late = client.sequence(WINDOW)
        with pytest.raises(
            InferenceServerException, match="windowed KV page pool exhausted"
        ) as refusal:
            late.send(IDS[:12])
        assert "UNAVAILABLE" in refusal.value.status()
        late.end()
        held.pop().end()
        held.append(late)
        late.send(IDS[:12])
        row.figure(f"{count} sequences of {windows.RING} pages held")
        for sequence in held:
            sequence.end()


def refuses(server, token, key):
    with server.client() as client, client.sequence(WINDOW) as sequence:
        with pytest.raises(InferenceServerException) as refusal:
            sequence.send([*IDS[:3], token])
        assert f"is {token}, the model's {key} placeholder" in refusal.value.message()


@pytest.mark.row("W10", "a START with a placeholder token is refused")
def test_w10_placeholders(row, server):
    for token, key in ((windows.IMAGE, "image_token_id"), (windows.VIDEO, "video_token_id")):
        refuses(server, token, key)
        row.figure(f"{token} {key}")


@pytest.mark.row("W11", "a placeholder refused on the way changes nothing, bit for bit")
def test_w11_refused_on_the_way(row, server):
    rows = {}
    for sent in (None, [windows.VIDEO], [IDS[20]]):
        with server.client() as client, client.sequence(WINDOW) as sequence:
            sequence.send(IDS[:13])
            if sent == [windows.VIDEO]:
                with pytest.raises(InferenceServerException, match="video_token_id placeholder"):
                    sequence.send(sent)
            elif sent:
                sequence.send(sent)
            rows[str(sent)] = logits(sequence.send([IDS[13]], OUTPUTS))
    undisturbed, refused, accepted = rows.values()
    assert np.array_equal(undisturbed, refused)
    with row.control("a token that was accepted"):
        assert np.array_equal(undisturbed, accepted)


@pytest.mark.row("W12", "the token before the placeholders is accepted")
def test_w12_the_last_ordinary_token(row, server):
    with row.control("W10 with id 61"):
        try:
            refuses(server, windows.IMAGE - 1, "image_token_id")
        except pytest.fail.Exception as error:  # nothing was refused
            raise AssertionError(str(error)) from error


@pytest.mark.row("P1", "P2", "P4", "P5", "prompts that arrive together share a call")
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("model", [WINDOW, FULL, CHUNKED])
def test_p_batched_prefill(row, server, model, count):
    solo = [run(server, model, [prompt])[0][0] for prompt in PROMPTS]

    def read(prompt):
        def job(client):
            sequence = client.sequence(model)
            return sequence.id, logits(sequence.send(prompt, OUTPUTS))

        return job

    before = server.statistics(model)
    started = together(server, [read(prompt) for prompt in PROMPTS[:count]])
    executions = (server.statistics(model) - before).executions
    with server.client() as client:
        for sequence_id, _ in started:
            client.sequence(model, sequence_id).end()
    for (_, actual), want, other in zip(started, solo, solo[1:]):
        row.most("of the largest logit", assert_close(actual, want, OTHER_CALLS))
        best, second = np.sort(want)[:-3:-1]
        assert actual.argmax() == want.argmax() or best - second <= OTHER_CALLS * best
        with row.control("the logits of another prompt"):
            assert_close(actual, other, OTHER_CALLS)
    if count > 1:
        assert executions < count
        (entry, *_) = server.log.expect(
            rf"instance '{model}_0_0': (prefill_b2_c\d+\S*) ran 2 sequence"
        )
        row.figure(f"{model}: {count} prompts in {executions} batch, {entry}")


def line(server, pattern):
    """The log's one line about this."""
    lines = [text for text in server.log.text().splitlines() if pattern in text]
    assert len(lines) == 1, lines
    return lines[0]


def uploaded(server, model):
    return line(server, f"model '{model}': uploaded ")


@pytest.mark.row("W13", "the log tells the window, the ring and the refused tokens")
def test_w13_log(row, server):

    def check(model):
        loaded = uploaded(server, model)
        assert f"model '{model}': uploaded 30 weights" in loaded
        assert (
            "windowed KV pool for 2 sliding layers (window 8): 13 pages, "
            "a ring of at most 3 pages per sequence"
        ) in loaded
        assert "refuses token ids 62 (image_token_id) 63 (video_token_id)" in loaded
        assert "tokens per sequence in a prefill call" not in loaded
        made = line(server, f"instance '{model}_0_0': {windows.POOLS} KV pools (0 MiB) zeroed")
        assert (
            "64 pages for sequences (page 0 is the padding page); "
            "12 windowed pages, at most 3 per sequence"
        ) in made

    check(WINDOW)
    server.log.expect(
        f"instance '{WINDOW}_0_0': in 100 runs the {windows.POOLS} KV pools "
        "were updated in place 100 times and copied 0 times"
    )
    row.figure("30 weights, 13 pages, ring 3; 100 runs in place")
    with row.control("the chunked model"):
        check(CHUNKED)


@pytest.mark.row("W14", "the log tells the chunk")
def test_w14_log_chunked(row, server):
    def check(model):
        assert "at most 6 tokens per sequence in a prefill call" in uploaded(server, model)

    server.log.expect(
        rf"model '{CHUNKED}': uploaded \d+ weights.*largest prefill batch 2, at most 6 tokens "
        r"per sequence in a prefill call.*a ring of at most 4 pages per sequence"
    )
    row.figure("6 tokens, ring 4")
    check(CHUNKED)
    with row.control("the model without chunks"):
        check(WINDOW)
