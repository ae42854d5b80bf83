"""Many requests at once in generation mode: pages that do not suffice, queues, cancellation,
time-outs, logits that are not finite. On tiny models, whose tokens are compared with another
implementation's and with those that each request gives alone.
"""

import json
import random
import re
import threading

import numpy as np
import pytest
from harness import fixtures, generation, models
from harness.checkpoints import Checkpoint
from harness.generation import Grpc, Http, Refused
from harness.memory import MEBIBYTE, growth
from harness.server import LoadError, running, wait_until

FAMILIES = ["llama", "gemma3", "qwen3_5"]
# The exporter gives a windowed model as many rings as whole contexts fit into its pages, so that
# its pages suffice for all that run.
EVICTING = ["llama", "qwen3_5"]
CONTEXT = 512
BLOCK = 4
# Pages for 160 tokens: a third of what EIGHT of LENGTH need.
PAGES = 40
EIGHT, PROMPT, TOKENS = 8, 20, 40
EXACT = {"temperature": 0.0, "ignore_eos": True}
POISON = 7


def artifact(family, label, checkpoint=None, **options):
    options = {"contexts": [CONTEXT], "batches": [1, 4], "prefill_chunk": 16, **options}
    checkpoint = checkpoint or fixtures.tiny_checkpoint(family)
    slots = {"state_slots": 33} if family.startswith("qwen3_5") else {}
    name = f"generation-{family}-{label}"
    return models.export(checkpoint, name, block_size=BLOCK, **slots, **options)


@pytest.fixture(scope="module")
def server(repository, tmp_path_factory):
    for family in FAMILIES:
        roomy = artifact(family, "roomy", num_blocks=513)
        generation.add(repository, roomy, family, max_prefill_tokens_per_step=32)
        if family not in EVICTING:
            continue
        tight = artifact(family, "tight", num_blocks=PAGES + 1)
        evicting = {"batch_scheduler_policy": "max_utilization", "max_running": EIGHT}
        generation.add(repository, tight, f"{family}_swap", **evicting)
        generation.add(repository, tight, f"{family}_recompute", swap_space_mib=0, **evicting)
        generation.add(repository, tight, f"{family}_tight")
    llama = artifact("llama", "roomy", num_blocks=513)
    generation.add(repository, llama, "one_at_a_time", max_running=1, max_queue_size=3)
    generation.add(repository, llama, "vllm", "--dialect", "vllm")
    texts = tmp_path_factory.mktemp("characters")
    characters(texts / "tokenizer.json")
    generation.add(repository, llama, "llama_texts", tokenizer=texts)
    plain = artifact("llama", "verify", num_blocks=513, verify_chunk=4)
    generation.add(repository, plain, "llama_lookup", speculation="prompt_lookup")
    one_response = generation.add(repository, llama, "one_response", max_running=1)
    one_response.substitute("decoupled: true", "decoupled: false")
    for family in ("llama", "qwen3_5"):
        folder = tmp_path_factory.mktemp("poisoned") / family
        checkpoint = Checkpoint.read(fixtures.tiny_checkpoint(family))
        checkpoint.change("embed_tokens.weight", poisoned)
        checkpoint.write(folder)
        broken = artifact(family, "poisoned", checkpoint=folder, num_blocks=PAGES + 1)
        generation.add(repository, broken, f"{family}_poisoned")
    generation.add(repository, llama, "dying")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TLALOC_TEST_INSTANCE_PANIC", "dying")
        with running(repository, "--log-verbose", "1") as server:
            yield server


def characters(path):
    """A tokenizer for tiny vocabularies: a token for each character."""
    vocabulary = {chr(32 + token): token for token in range(96)}
    model = {"type": "BPE", "vocab": vocabulary, "merges": []}
    path.write_text(json.dumps({"version": "1.0", "model": model, "decoder": {"type": "Fuse"}}))


def poisoned(embedding):
    """A token whose vector is no number."""
    embedding = np.array(embedding)
    embedding[POISON] = np.nan
    return embedding


@pytest.fixture
def load(server):
    """Loads models for one test."""
    loaded = []

    def load(name):
        server.load(name)
        loaded.append(name)
        return Http(server, name)

    yield load
    for name in loaded:
        server.unload(name)


def oracle(family):
    return fixtures.tiny_oracle(family)["prompts"]


def requests(count=EIGHT, prompt=PROMPT, tokens=TOKENS):
    """Requests of different prompts, half of them sampled."""
    chance = random.Random(5)
    return [
        {
            "input_ids": [chance.randrange(8, 96) for _ in range(prompt)],
            "max_tokens": tokens,
            "ignore_eos": True,
            **({"temperature": 0.0} if number % 2 else {"seed": number, "temperature": 2.0}),
        }
        for number in range(count)
    ]


def all_pages_are_free(http, pages=PAGES):
    """A request that needs every page runs."""
    tokens = pages * BLOCK
    reply = http.generate(input_ids=[9] * (tokens - 8), max_tokens=9, **EXACT)
    assert reply.tokens == 9


def refusal(function, **keys):
    with pytest.raises(Refused) as refused:
        function(**keys)
    return refused.value


@pytest.mark.parametrize("family", FAMILIES)
def test_greedy_ids_are_those_of_another_implementation(load, family):
    """With full history, windows and linear attention; prompts in one call and in several."""
    http = load(family)
    for prompt in oracle(family):
        ids = prompt["greedy_ids"]
        reply = http.generate(input_ids=prompt["prompt_ids"], max_tokens=len(ids), **EXACT)
        assert reply.ids == ids, len(prompt["prompt_ids"])
        assert "text_output" not in reply.last


def test_vllm_dialect_has_no_batch_dimension(server, load):
    load("vllm")
    prompt = oracle("llama")[2]
    with Grpc(server, "vllm", batched=False) as client:
        parameters = {"temperature": 0, "ignore_eos": True, "max_tokens": 16}
        reply = client.run(input_ids=prompt["prompt_ids"], sampling_parameters=parameters)
        assert reply.ids == prompt["greedy_ids"]


@pytest.mark.parametrize("way", ["swap", "recompute"])
@pytest.mark.parametrize("family", EVICTING)
def test_with_pages_for_a_third_of_the_load_tokens_are_those_given_alone(server, load, family, way):
    model = f"{family}_{way}"
    http = load(model)
    alone = [http.generate(**request).ids for request in requests()]
    since = server.log.mark()
    with Grpc(server, model) as client:
        sent = [client.send(stream=True, **request) for request in requests()]
        together = [client.finish(identity) for identity in sent]
    assert [reply.ids for reply in together] == alone
    assert all(len(ids) == TOKENS for ids in alone) and len({tuple(ids) for ids in alone}) == EIGHT
    preempted = server.log.find(r"is preempted by (\w+):", since)
    assert way in preempted, "the load does not fit"
    if way == "recompute":
        assert "swap" not in preempted
    all_pages_are_free(http)


def test_control_with_all_pages_nobody_is_preempted(server, load):
    load("llama")
    since = server.log.mark()
    with Grpc(server, "llama") as client:
        sent = [client.send(stream=True, **request) for request in requests()]
        assert all(client.finish(identity).tokens == TOKENS for identity in sent)
    assert not server.log.find("is preempted", since)


def test_guaranteed_no_evict_never_preempts(server, load):
    load("llama_tight")
    since = server.log.mark()
    with Grpc(server, "llama_tight") as client:
        sent = [client.send(stream=True, **request) for request in requests()]
        assert all(client.finish(identity).tokens == TOKENS for identity in sent)
    assert not server.log.find("is preempted", since)


def test_vllm_39734_what_never_fits_is_refused_and_the_next_is_served(load):
    http = load("llama_tight")
    error = refusal(http.generate, input_ids=[9] * 100, max_tokens=100)
    assert error.status == 400
    assert (
        f"needs 50 KV page(s), but instance 'llama_tight_0_0' has {PAGES} in all" in error.message
    )
    prompt = oracle("llama")[2]
    assert http.generate(input_ids=prompt["prompt_ids"], **EXACT).ids == prompt["greedy_ids"]


def test_vllm_50749_every_length_of_a_prompt_around_its_pages(load):
    """A prompt of n tokens gives what n - 1 tokens give after one more token."""
    http = load("llama")
    tokens = [(7 * number) % 88 + 8 for number in range(3 * BLOCK + 2)]
    for length in range(1, len(tokens)):
        reply = http.generate(input_ids=tokens[:length], max_tokens=3, **EXACT)
        again = http.generate(input_ids=tokens[:length] + reply.ids[:1], max_tokens=2, **EXACT)
        assert again.ids == reply.ids[1:], length


# Drafts from a request's own history.


def test_prompt_lookup_gives_the_tokens_of_a_model_without_it(server, load):
    """Greedy and sampled, alone and together; and drafts were right."""
    plain, http = load("llama"), load("llama_lookup")
    alone = [plain.generate(**request).ids for request in requests()]
    replies = [http.generate(return_perf_metrics=True, **request) for request in requests()]
    assert [reply.ids for reply in replies] == alone
    accepted = sum(reply.last["total_accepted_draft_tokens"] for reply in replies)
    drafted = sum(reply.last["total_draft_tokens"] for reply in replies)
    assert 0 < accepted <= drafted
    with Grpc(server, "llama_lookup") as client:
        sent = [client.send(stream=True, **request) for request in requests()]
        assert [client.finish(identity).ids for identity in sent] == alone


def test_lookup_without_verify_entries_is_refused_at_load(server, repository):
    model = generation.add(repository, artifact("llama", "roomy", num_blocks=513), "no_verify")
    model.set_parameter("speculation", "prompt_lookup")
    with pytest.raises(LoadError) as refused:
        server.load("no_verify")
    assert "no verify entries" in refused.value.message


@pytest.mark.parametrize(
    "file, content, words",
    [
        ("tokenizer.json", None, "has no tokenizer.json"),
        ("generation_config.json", '{"eos_token_id": 96}', "beyond the model's vocabulary of 96"),
        # Control: the largest id is one.
        ("generation_config.json", '{"eos_token_id": 95}', None),
    ],
)
def test_files_of_another_model_are_refused_at_load(
    server, repository, tmp_path, file, content, words
):
    characters(tmp_path / "tokenizer.json")
    llama = artifact("llama", "roomy", num_blocks=513)
    model = generation.add(repository, llama, "other_files", tokenizer=tmp_path)
    try:
        if content is None:
            (model.version / file).unlink()
        else:
            (model.version / file).write_text(content)
        if words is None:
            server.load("other_files")
            server.unload("other_files")
        else:
            with pytest.raises(LoadError) as refused:
                server.load("other_files")
            assert words in refused.value.message
    finally:
        repository.drop("other_files")


# One response to a request.


def test_without_decoupled_responses_infer_works_and_stream_is_refused(server, load):
    http = load("one_response")
    prompt = oracle("llama")[2]
    body = {
        "inputs": [
            tensor("input_ids", "INT32", prompt["prompt_ids"]),
            tensor("temperature", "FP32", [0.0]),
            tensor("ignore_eos", "BOOL", [True]),
        ]
    }
    status, text = server.request("POST", f"{http.path}/infer", json.dumps(body))
    outputs = {output["name"]: output["data"] for output in json.loads(text)["outputs"]}
    assert status == 200 and outputs["output_ids"] == prompt["greedy_ids"]
    error = refusal(http.generate, input_ids=[9], stream=True)
    assert error.status == 400 and "'stream' is true" in error.message
    # Errors have their status here.
    body["inputs"] += [
        tensor("max_tokens", "INT32", [500]),
        tensor("timeout", "UINT64", [5000]),
    ]
    status, text = server.request("POST", f"{http.path}/infer", json.dumps(body))
    assert status == 503 and "the request's timeout of 5000 us has passed" in text


def tensor(name, datatype, data):
    return {"name": name, "datatype": datatype, "shape": [1, len(data)], "data": data}


# Queue.


def test_tensorrtllm_backend_412_the_queue_is_bounded(server, load):
    """One runs, three wait, six are refused."""
    http = load("one_at_a_time")
    messages, threads = [], []

    def ask():
        try:
            Http(server, "one_at_a_time").generate(input_ids=[9], max_tokens=1)
            messages.append("")
        except Refused as refused:  # with status 400, which `/generate` has for every error
            messages.append(refused.message)

    with http.opened(input_ids=[9], max_tokens=500, stream=True, **EXACT) as events:
        next(events)
        for _ in range(9):
            threads.append(threading.Thread(target=ask))
            threads[-1].start()
        assert sum(1 for _ in events) == 499
    for thread in threads:
        thread.join()
    refused = [message for message in messages if message]
    assert (len(messages), len(refused)) == (9, 6)
    assert all("full: 3 request(s) wait (max_queue_size)" in message for message in refused)


def test_a_higher_priority_is_served_first(server, load):
    load("one_at_a_time")
    with Grpc(server, "one_at_a_time") as client:
        first = client.send(input_ids=[9], max_tokens=300, stream=True, **EXACT)
        client.receive(first)
        asked = {"max_tokens": 1, "return_perf_metrics": True}
        last, low, high = (
            client.send(input_ids=[9], priority=priority, **asked) for priority in (0, 5, 1)
        )
        times = [client.finish(one).last["first_scheduled_time_ns"] for one in (high, low, last)]
        assert times == sorted(times)
        client.finish(first)


# Ends before the end.


def test_server_6920_a_timeout_ends_a_request_wherever_it_is(load):
    """While it generates, and while it waits; its pages are free then."""
    http = load("llama_tight")
    with pytest.raises(Refused) as refused:
        http.stream(input_ids=[9], max_tokens=150, timeout=20_000, **EXACT)
    pattern = r"the request's timeout of 20000 us has passed after \d+ token"
    assert re.search(pattern, refused.value.message), refused.value
    all_pages_are_free(http)


def test_server_6920_a_timeout_while_waiting(server, load):
    http = load("one_at_a_time")
    with http.opened(input_ids=[9], max_tokens=500, stream=True, **EXACT) as events:
        next(events)
        error = refusal(Http(server, "one_at_a_time").generate, input_ids=[9], timeout=1000)
        assert "timeout of 1000 us has passed after 0 token" in error.message
        assert sum(1 for _ in events) == 499


def test_server_7077_a_closed_connection_frees_the_pages_within_two_steps(server, load):
    http = load("llama_tight")
    since = server.log.mark()
    with http.opened(input_ids=[9] * 8, max_tokens=150, stream=True, **EXACT) as events:
        for _ in range(3):
            next(events)
    ended = rf"ended after .* the request was cancelled after \d+ token.*free now: {PAGES} page"
    server.log.expect(ended, since)
    (between,) = re.findall(
        r"its client has gone(.*?)the request was cancelled", server.log.text(since), re.DOTALL
    )
    assert len(re.findall(r"ran 1 sequence", between)) <= 2
    all_pages_are_free(http)


def test_tensorrtllm_backend_176_a_hundred_closed_connections(server, load):
    http = load("llama_tight")
    chance = random.Random(1)

    def kill(seed):
        keys = {"input_ids": [9] * (1 + seed % 30), "max_tokens": 100, "stream": True, "seed": seed}
        with Http(server, "llama_tight").opened(ignore_eos=True, **keys) as events:
            for _ in range(chance.randrange(4)):
                next(events)

    for start in range(0, 100, 10):
        threads = [threading.Thread(target=kill, args=[start + index]) for index in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert server.live()
    all_pages_are_free(http)


def test_an_unload_lets_what_runs_finish(server):
    server.load("llama")
    prompt = oracle("llama")[2]
    http = Http(server, "llama")
    with http.opened(input_ids=[9], max_tokens=400, stream=True, **EXACT) as events:
        next(events)
        unloading = threading.Thread(target=server.unload, args=["llama"])
        unloading.start()
        rest = list(events)
    unloading.join()
    assert (len(rest), rest[-1]["finish_reason"]) == (399, "length")
    server.load("llama")
    reply = http.generate(input_ids=prompt["prompt_ids"], **EXACT)
    server.unload("llama")
    assert reply.ids == prompt["greedy_ids"]


def test_a_dead_instance_thread_answers_everyone_and_is_not_ready(server):
    server.load("dying")
    http = Http(server, "dying")
    error = refusal(http.generate, input_ids=[9], max_tokens=5)
    assert "dropped the request without an answer" in error.message
    server.log.expect("instance 'dying_0_0': the instance thread panicked")
    ready = f"{http.path}/ready"
    wait_until(lambda: server.get(ready) != 200, 10, "the dead instance's model not to be ready")
    assert server.live()
    server.load("dying")
    assert server.get(ready) == 200
    server.unload("dying")


# Logits that are not finite.


@pytest.mark.parametrize("family", ["llama", "qwen3_5"])
def test_sglang_33187_a_row_that_is_not_finite_ends_its_request_alone(server, load, family):
    """Its neighbours go on, and who gets its pages next is not poisoned by them."""
    http = load(f"{family}_poisoned")
    never = {"logit_bias": json.dumps({str(POISON): -100})}
    plain = [{**request, **never} for request in requests(count=4, prompt=12, tokens=12)]
    alone = [http.generate(**request).ids for request in plain]
    for _ in range(3):
        with Grpc(server, f"{family}_poisoned") as client:
            sent = [client.send(stream=True, **request) for request in plain]
            error = refusal(http.generate, input_ids=[9] * 30 + [POISON], max_tokens=5)
            assert "the model's logits are not finite: NaN for token" in error.message
            assert [client.finish(identity).ids for identity in sent] == alone
    # Every page is used, those of the poisoned requests too.
    reply = http.generate(input_ids=[9] * (PAGES * BLOCK - 8), max_tokens=9, **EXACT)
    assert reply.tokens == 9
    assert [http.generate(**request).ids for request in plain] == alone


def test_tensorrt_llm_5509_memory_after_requests_with_every_option(server, load, all_rows):
    """10,000 requests with --all, whose options leave nothing behind."""
    load("llama_texts")
    options = {
        "temperature": 1.5,
        "top_k": 40,
        "top_p": 0.9,
        "min_p": 0.01,
        "repetition_penalty": 1.1,
        "presence_penalty": 0.5,
        "frequency_penalty": 0.5,
        "min_tokens": 1,
        "stop": [f"a string that never comes {number}" for number in range(8)],
        "bad_words": [f"a bad word {number}" for number in range(8)],
        "stop_token_ids": list(range(2, 20)),
        "allowed_token_ids": list(range(20, 96)),
        "logit_bias": {str(token): 0.5 for token in range(20, 96)},
        "logprobs": 20,
    }
    keys = {
        "text_input": "a prompt of characters",
        "max_tokens": 2,
        "ignore_eos": True,
        "return_log_probs": True,
        "return_perf_metrics": True,
    }
    per_round = 500 if all_rows else 64
    sizes = []
    for number in range(20):
        with Grpc(server, "llama_texts") as client:
            sent = [
                client.send(sampling_parameters={**options, "seed": number * per_round + n}, **keys)
                for n in range(per_round)
            ]
            assert all(client.finish(identity).tokens == 2 for identity in sent)
        sizes.append(server.resident_bytes())
    assert growth(sizes[5:]) < MEBIBYTE / 4, sizes
    # Control: 64 KiB that each request leaves behind are seen.
    leaking = [size + number * per_round * 65536 for number, size in enumerate(sizes)]
    assert growth(leaking[5:]) > MEBIBYTE / 4
