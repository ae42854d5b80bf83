"""Clients that users already run, against generation mode in both dialects.

What Triton's front end for OpenAI's API and genai-perf send was read in their sources; the tests
send the same tensors, byte for byte, and read replies the way those clients do.
"""

import json
import os
import re
import struct
import subprocess
import sys

import numpy as np
import pytest
import tritonclient.grpc as triton
from harness import environment, fixtures, generation
from harness.server import running
from tlaloc_client.generation import Client
from tritonclient.utils import InferenceServerException

PROMPTS = fixtures.smollm2_prompts()
FOX, CHAT = PROMPTS["short_english"], PROMPTS["chat_template"]
QUESTION = "What is the capital of France? Answer in one sentence."
REPLY = "The capital of France is Paris."
DIALECTS = ["trtllm", "vllm"]


@pytest.fixture(scope="module")
def server(repository):
    artifact = generation.smollm2()
    for dialect in DIALECTS:
        generation.add(
            repository,
            artifact,
            dialect,
            *("--dialect", dialect),
            tokenizer=environment.smollm2(),
        )
    with running(repository, "--log-verbose", "1") as server:
        for dialect in DIALECTS:
            server.load(dialect)
        yield server


# scripts/chat.py


def chat(server, model, *arguments, questions):
    command = [sys.executable, environment.ROOT / "scripts/chat.py", "--mode", "generate"]
    command += ["--url", f"127.0.0.1:{server.grpc_port}", "--model", model, "--interactive"]
    return subprocess.run(
        [*command, *arguments],
        input="".join(f"{question}\n" for question in questions),
        capture_output=True,
        text=True,
        timeout=120,
        # The checkpoint is the server's alone.
        env={name: value for name, value in os.environ.items() if name != "TLALOC_SMOLLM2"},
    )


@pytest.mark.parametrize("model", DIALECTS)
def test_chat(server, model):
    done = chat(server, model, questions=[QUESTION, "And of Spain?"])
    assert done.returncode == 0, done.stderr
    assert REPLY in done.stdout
    turns = re.findall(r"(\d+) tokens, prefill [\d.]+ ms for (\d+) tokens", done.stdout)
    assert len(turns) == 2
    # The end token counts, and the second turn sends the first one too.
    assert turns[0] == (str(CHAT["greedy_ids"].index(2) + 1), str(CHAT["n_prompt"]))
    assert int(turns[1][1]) > CHAT["n_prompt"]


def test_chat_passes_keys_on(server):
    done = chat(server, "trtllm", "--set", "stop=France", questions=[QUESTION])
    assert "The capital of \n[" in done.stdout, done.stderr
    done = chat(server, "trtllm", "--set", "temperature=-1", questions=[QUESTION])
    assert done.returncode == 1 and "'temperature'" in done.stderr and "-1" in done.stderr
    done = chat(server, "trtllm", "--set", "warmth=1", questions=[QUESTION])
    assert done.returncode == 1 and "takes no 'warmth'" in done.stderr


def test_a_client_that_closes_its_stream_is_forgotten(server):
    since = server.log.mark()
    client = Client(f"127.0.0.1:{server.grpc_port}")
    endless = {"text_input": FOX["text"], "max_tokens": 900, "ignore_eos": True, "stream": True}
    next(client.generate("trtllm", **endless))
    client.close()
    server.log.expect(r"cancelled after \d+ token", since)


# Triton's front end for OpenAI's API


def bytes_tensor(*texts):
    """A BYTES tensor as it goes over the wire."""
    encoded = [text.encode() for text in texts]
    return b"".join(struct.pack("<I", len(text)) + text for text in encoded)


def scalar(form, value):
    return struct.pack(f"<{form}", value)


def infer(server, model, tensors):
    """Sends raw tensors (name, type, shape, bytes); the responses, each a dict of raw outputs."""
    results = []
    client = triton.InferenceServerClient(f"127.0.0.1:{server.grpc_port}")
    inputs = []
    for name, kind, shape, data in tensors:
        made = triton.InferInput(name, shape, kind)
        made._raw_content = data
        inputs.append(made)
    client.start_stream(lambda result, error: results.append((result, error)))
    client.async_stream_infer(model, inputs)
    client.stop_stream()  # waits for the last response
    client.close()
    errors = [error for _, error in results if error is not None]
    if errors:
        raise errors[0]
    responses = [result.get_response() for result, _ in results]
    finals = [r.parameters["triton_final_response"].bool_param for r in responses]
    assert finals == [False] * (len(finals) - 1) + [True]
    return [
        {
            output.name: (output.datatype, list(output.shape), raw)
            for output, raw in zip(response.outputs, response.raw_output_contents)
        }
        for response in responses
    ]


def openai_request(dialect, prompt, stream=False, echo=None, max_tokens=16, **options):
    """What the front end makes of a request for completions or for chat.

    For vLLM's dialect scalars have the shape [1] and the options are one JSON text; for every
    other backend they are tensors of [1, 1].
    """
    shape = [1] if dialect == "vllm" else [1, 1]
    tensors = [
        ("text_input", "BYTES", shape, bytes_tensor(prompt)),
        ("stream", "BOOL", shape, scalar("?", stream)),
        ("return_num_input_tokens", "BOOL", shape, scalar("?", True)),
        ("return_num_output_tokens", "BOOL", shape, scalar("?", True)),
    ]
    if dialect == "vllm":
        # Fields of the API's schema that have defaults are sent with them.
        defaults = {"frequency_penalty": 0, "presence_penalty": 0, "top_p": 1, "n": 1}
        defaults.update(ignore_eos=False, logprobs=False)
        sampling = json.dumps({**defaults, **options, "max_tokens": max_tokens})
        tensors += [
            ("exclude_input_in_output", "BOOL", shape, scalar("?", not echo)),
            ("sampling_parameters", "BYTES", shape, bytes_tensor(sampling)),
        ]
        return tensors
    tensors.append(("max_tokens", "INT32", shape, scalar("i", max_tokens)))
    stop = options.pop("stop", None)
    if stop is not None:
        texts = [stop] if isinstance(stop, str) else stop
        tensors.append(("stop_words", "BYTES", [1, len(texts)], bytes_tensor(*texts)))
    if echo is not None:
        tensors.append(("exclude_input_in_output", "BOOL", shape, scalar("?", not echo)))
    kinds = {"seed": ("UINT64", "Q")}
    for name, value in options.items():
        kind, form = kinds.get(name, ("FP32", "f"))
        tensors.append((name, kind, shape, scalar(form, value)))
    return tensors


def text_of(outputs):
    """Read as the front end does: one string straight from the buffer."""
    kind, shape, raw = outputs["text_output"]
    assert kind == "BYTES" and np.prod(shape) == 1
    (size,) = struct.unpack_from("<I", raw)
    assert len(raw) == 4 + size
    return raw[4:].decode("utf-8")


def usage(responses):
    """The prompt's tokens once, the reply's summed over the responses."""
    counts = []
    for name in ("num_input_tokens", "num_output_tokens"):
        assert all(response[name][0] == "UINT32" for response in responses)
        counts.append([struct.unpack("<I", response[name][2])[0] for response in responses])
    assert len(set(counts[0])) == 1
    return counts[0][0], sum(counts[1])


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("stream", [False, True])
def test_openai_chat(server, dialect, stream):
    options = {"temperature": 0.0, "top_p": 1.0, "frequency_penalty": 0.0, "presence_penalty": 0.0}
    request = openai_request(dialect, CHAT["text"], stream=stream, max_tokens=40, **options)
    responses = infer(server, dialect, request)
    assert len(responses) == 1 or stream
    assert "".join(text_of(response) for response in responses) == REPLY
    assert usage(responses) == (CHAT["n_prompt"], CHAT["greedy_ids"].index(2) + 1)
    # Control: the question's last word is lost, so is the reply.
    other = openai_request(dialect, CHAT["text"][:-30], stream=stream, max_tokens=40, **options)
    assert text_of(infer(server, dialect, other)[0]) != REPLY


@pytest.mark.parametrize("dialect", DIALECTS)
def test_openai_completion_with_stop_seed_and_echo(server, dialect):
    def complete(**options):
        options = {"max_tokens": 12, **options}
        return text_of(infer(server, dialect, openai_request(dialect, FOX["text"], **options))[0])

    greedy = complete(temperature=0.0)
    assert FOX["greedy_text"].startswith(greedy) and greedy
    assert complete(temperature=0.0, echo=True) == FOX["text"] + greedy
    words = greedy.split()
    for stop in (words[2], [words[2], words[3]]):
        assert complete(temperature=0.0, stop=stop) == greedy[: greedy.index(words[2])]
    sampled = [complete(temperature=1.0, seed=seed) for seed in (1, 1, 2, 3)]
    assert sampled[0] == sampled[1] and len(set(sampled)) > 1


def test_openai_what_cannot_be_done_is_refused(server):
    shape = [1, 1]
    guided = [
        ("guided_decoding_guide_type", "BYTES", shape, bytes_tensor("json_schema")),
        ("guided_decoding_guide", "BYTES", shape, bytes_tensor("{}")),
    ]
    with pytest.raises(InferenceServerException, match="guided_decoding_guide"):
        infer(server, "trtllm", openai_request("trtllm", FOX["text"]) + guided)
    with pytest.raises(InferenceServerException, match="'n'"):
        infer(server, "vllm", openai_request("vllm", FOX["text"], n=2))


# genai-perf, which hands its tensors to perf_analyzer


def test_genai_perf_trtllm(server):
    tensors = [
        ("text_input", "BYTES", [1, 1], bytes_tensor(FOX["text"])),
        ("max_tokens", "INT32", [1, 1], scalar("i", 8)),
        ("min_length", "INT32", [1, 1], scalar("i", 8)),
        ("stream", "BOOL", [1, 1], scalar("?", True)),
    ]
    assert usage(infer(server, "trtllm", tensors)) == (FOX["n_prompt"], 8)


def test_genai_perf_vllm_sends_numbers_as_text(server):
    sampling = json.dumps({"max_tokens": "8", "min_tokens": "8"})
    tensors = [
        ("text_input", "BYTES", [1], bytes_tensor(FOX["text"])),
        ("exclude_input_in_output", "BOOL", [1], scalar("?", True)),
        ("stream", "BOOL", [1], scalar("?", True)),
        ("sampling_parameters", "BYTES", [1], bytes_tensor(sampling)),
    ]
    assert usage(infer(server, "vllm", tensors)) == (FOX["n_prompt"], 8)
    worded = tensors[:3] + [
        ("sampling_parameters", "BYTES", [1], bytes_tensor('{"max_tokens": "eight"}'))
    ]
    with pytest.raises(InferenceServerException, match="max_tokens"):
        infer(server, "vllm", worded)
