"""Models with a draft head in generation mode: the tokens of the model alone, several of them a
step, for many requests at once.
"""

import json
import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from harness import drafting, environment, fixtures, generation
from harness.drafting import K
from harness.faults import Plan
from harness.generation import Grpc, Http, Refused
from harness.metrics import of_instance
from harness.server import LoadError, running

RANDOM = "drafts_random"
DRAFTS = "drafts"
ALONE = "drafts_alone"
CROWDED = {way: f"drafts_{way}" for way in ("swap", "recompute", "guaranteed")}
PROMPTS = fixtures.tiny_oracle("qwen3_5")["prompts"]
PROMPT = PROMPTS[2]["prompt_ids"]
# Positions of the longest context that drafts take.
BEYOND = 2 * K - 1
BLOCK = 4
# Five requests of 20 + 30 tokens need three times as many.
PAGES = 24
FIVE, LENGTH, TOKENS = 5, 20, 30
ENDLESS = {"ignore_eos": True}
# Its vector is no number in the crowded models.
POISON = 5


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    """What the plugin of the model that recomputes is to fail at."""
    plan = Plan(tmp_path_factory.mktemp("faults") / "plan", reports=False)
    plan.set()
    return plan


@pytest.fixture(scope="module")
def server(repository, plan, tmp_path_factory):
    """Every model of this file; one without a head tells what a request generates alone."""
    random_head = drafting.artifact(drafting.random_head(), "drafts-random", **drafting.DRAFTS)
    generation.add(repository, random_head, RANDOM)
    predictable = drafting.predictable()
    artifact = drafting.artifact(predictable, "drafts-predictable", **drafting.DRAFTS)
    generation.add(repository, artifact, DRAFTS, tokenizer=tokenizer(tmp_path_factory))
    alone = {**drafting.OPTIONS, "contexts": [256], "batches": [1]}
    generation.add(repository, drafting.artifact(predictable, "drafts-alone", **alone), ALONE)
    predictable.change("embed_tokens.weight", poisoned)
    options = {"contexts": [64], "batches": [1, 4], "block_size": BLOCK, "num_blocks": PAGES + 1}
    slots = {"state_slots": FIVE * (K + 2)}
    crowded = {**drafting.DRAFTS, **options, **slots}
    artifact = drafting.artifact(predictable, f"drafts-poisoned-{POISON}", **crowded)
    evicting = {"batch_scheduler_policy": "max_utilization"}
    generation.add(repository, artifact, CROWDED["swap"], **evicting)
    evicting["pjrt_plugin_path"] = environment.binary("libpjrt_fault.so")
    generation.add(repository, artifact, CROWDED["recompute"], swap_space_mib=0, **evicting)
    generation.add(repository, artifact, CROWDED["guaranteed"])
    with pytest.MonkeyPatch.context() as patch:
        plan.environment(patch)
        with running(repository, "--log-verbose", "1") as server:
            for model in (RANDOM, DRAFTS, ALONE, *CROWDED.values()):
                server.load(model)
            yield server


def tokenizer(tmp_path_factory):
    """A checkpoint's tokenizer, in which token 17 is `<17>`."""
    folder = tmp_path_factory.mktemp("tokenizer")
    vocabulary = {f"<{token}>": token for token in range(96)}
    content = {
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "decoder": {"type": "Fuse"},
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "<0>"},
    }
    (folder / "tokenizer.json").write_text(json.dumps(content), encoding="utf-8")
    (folder / "generation_config.json").write_text('{"eos_token_id": 2}', encoding="utf-8")
    return folder


def text(ids):
    return "".join(f"<{token}>" for token in ids)


def poisoned(embedding):
    embedding = np.array(embedding)
    embedding[POISON] = np.nan
    return embedding


def alone(server, prompt, count):
    """What the same model without its draft head gives."""
    asked = {"input_ids": prompt, "max_tokens": count, "temperature": 0.0, **ENDLESS}
    return Http(server, ALONE).generate(**asked).ids


def drafted(reply):
    return reply.last["total_draft_tokens"], reply.last["total_accepted_draft_tokens"]


def crowd():
    """Requests that need three times the pages of a crowded model."""
    chance = random.Random(3)
    prompts = [[chance.randrange(8, 96) for _ in range(LENGTH)] for _ in range(FIVE)]
    return [{"input_ids": prompt, "max_tokens": TOKENS, **ENDLESS} for prompt in prompts]


@pytest.mark.row("S1", "streamed ids, alone and together, are the oracle's")
@pytest.mark.parametrize("together", [False, True])
def test_greedy_ids_are_those_of_another_implementation(server, row, together):
    """Of prompts in one call and in several, one by one and five at once on two rows."""
    asked = [{"input_ids": prompt["prompt_ids"], "max_tokens": 16, **ENDLESS} for prompt in PROMPTS]
    if together:
        with Grpc(server, RANDOM) as client:
            sent = [client.send(stream=True, **request) for request in asked]
            replies = [client.finish(identity) for identity in sent]
    else:
        replies = [Http(server, RANDOM).stream(**request) for request in asked]
    for reply, prompt in zip(replies, PROMPTS):
        row.ids(reply.ids, prompt["greedy_ids"])
        assert reply.finish_reason == "length"


def test_every_number_of_drafts_is_accepted_and_counted(server):
    """A streamed response has the tokens of a step."""
    before = server.metrics()
    expected = alone(server, PROMPT, 150)
    asked = {"input_ids": PROMPT, "max_tokens": 150, "return_perf_metrics": True, **ENDLESS}
    reply = Http(server, DRAFTS).stream(**asked)
    assert reply.ids == expected
    sizes = [len(chunk["output_ids"]) for chunk in reply.chunks]
    # The prompt gives a token, and the last step may be cut.
    assert sizes[0] == 1 and set(sizes[1:-1]) == set(range(1, K + 2))
    steps = len(sizes) - 1
    proposed, accepted = drafted(reply)
    assert proposed == K * steps and accepted == len(expected) - 1 - steps
    now = server.metrics()
    for kind, count in (("proposed", proposed), ("accepted", accepted)):
        name = {"name": "draft_tokens_total", "draft_type": kind}
        assert of_instance(now, DRAFTS, **name) - of_instance(before, DRAFTS, **name) == count
    # Control: a head that knows nothing.
    reply = Http(server, RANDOM).generate(**asked)
    proposed, accepted = drafted(reply)
    assert accepted < proposed / 10 and proposed > 300


def test_outputs_end_within_a_step(server):
    """At `max_tokens`, at end and stop tokens and at stop strings, wherever in a step they are."""
    http = Http(server, DRAFTS)
    expected = alone(server, PROMPT, 60)
    for count in range(1, 4 * K):
        reply = http.generate(input_ids=PROMPT, max_tokens=count, **ENDLESS)
        assert (reply.ids, reply.finish_reason) == (expected[:count], "length")
        assert reply.text == text(expected[:count])
    streamed = http.stream(input_ids=PROMPT, max_tokens=60, **ENDLESS)
    steps = [chunk["output_ids"] for chunk in streamed.chunks]
    assert sum(steps, []) == expected
    inside = [
        place
        for number, step in enumerate(steps)
        for place in range(len(sum(steps[:number], [])), len(sum(steps[: number + 1], [])) - 1)
        if expected.index(expected[place]) == place
    ]
    assert inside, "no new token is inside a step"
    for place in inside:
        token = expected[place]
        asked = {"input_ids": PROMPT, "max_tokens": 60}
        for key, reason in (("end_id", ""), ("stop_token_ids", str(token))):
            value = token if key == "end_id" else [token]
            reply = http.generate(**asked, **{key: value})
            assert reply.ids == expected[: place + 1]
            assert (reply.finish_reason, reply.last["stop_reason"]) == ("stop", reason)
            assert reply.text == text(expected[:place])
        # A string that begins in the token before, as far as there is one.
        stop = text(expected[max(place - 1, 0) : place + 1])[1:]
        reply = http.stream(stop=[stop], ignore_eos=True, **asked)
        whole = text(expected)
        assert reply.text == whole[: whole.index(stop)]
        assert (reply.finish_reason, reply.last["stop_reason"]) == ("stop", stop)


def test_the_most_probable_token_is_the_default_and_nothing_else_is_taken(server):
    http = Http(server, DRAFTS)
    expected = alone(server, PROMPT, 16)
    assert http.generate(input_ids=PROMPT, **ENDLESS).ids == expected
    # What changes nothing about the most probable token is fine.
    fine = {"temperature": 0.0, "top_k": 5, "top_p": 0.5, "seed": 3}
    assert http.generate(input_ids=PROMPT, **ENDLESS, **fine).ids == expected
    for key, value in {
        "temperature": 0.7,
        "repetition_penalty": 1.5,
        "presence_penalty": 0.5,
        "frequency_penalty": 0.5,
        "min_tokens": 3,
        "bad_words": ["<5>"],
        "allowed_token_ids": [5, 6],
        "logit_bias": {"5": 1},
        "logprobs": 2,
        "return_log_probs": True,
        "return_cumulative_logprob": True,
    }.items():
        with pytest.raises(Refused) as refused:
            http.generate(input_ids=PROMPT, **{key: value})
        assert f"'{key}' = " in refused.value.message
        assert "its programs choose the tokens themselves" in refused.value.message


def test_drafts_take_positions_of_the_longest_context(server):
    http = Http(server, DRAFTS)
    longest = 256 - BEYOND
    prompt = [8 + place % 80 for place in range(longest)]
    for length, count in ((longest, 1), (longest - 40, 41)):
        reply = http.generate(input_ids=prompt[:length], max_tokens=count, **ENDLESS)
        assert reply.ids == alone(server, prompt[:length], count)
    for keys in (
        {"input_ids": [*prompt, 8], "max_tokens": 1},
        {"input_ids": prompt, "max_tokens": 2},
    ):
        with pytest.raises(Refused, match=str(longest)) as refused:
            http.generate(**keys)
        assert refused.value.status == 400


@pytest.mark.parametrize("way", CROWDED)
def test_with_pages_for_a_third_of_the_load_tokens_are_those_given_alone(server, way):
    expected = [alone(server, request["input_ids"], TOKENS) for request in crowd()]
    assert len({tuple(ids) for ids in expected}) == FIVE
    assert not any(POISON in ids for ids in expected)
    model, since = CROWDED[way], server.log.mark()
    with Grpc(server, model) as client:
        # More than are there before the first has ended.
        sent = [client.send(stream=True, **request) for request in 3 * crowd()]
        together = [client.finish(identity) for identity in sent]
    assert [reply.ids for reply in together] == 3 * expected
    preempted = server.log.find(r"is preempted by (\w+):", since)
    # Control: who reserves all that it needs is never preempted.
    assert (way in preempted) == (way != "guaranteed") and set(preempted) <= {"swap", "recompute"}
    if way == "recompute":
        assert "swap" not in preempted
    if way != "guaranteed":
        assert server.log.find(r"decode_b4_c64 ran [34] sequence", since)
    metrics = server.metrics()
    for kind in ("swap", "recompute"):
        counted = of_instance(metrics, model, "preemptions_total", preemption_type=kind)
        told = server.log.find(rf"'{model}_0_0': request \d+ is preempted by {kind}:")
        assert counted == len(told)
    everything_is_free(server, model)


def everything_is_free(server, model):
    """A request that needs every page runs, with all slots but its own free, too."""
    Http(server, model).generate(input_ids=[9] * 40, max_tokens=10, **ENDLESS)
    metrics = server.metrics()
    for name, label in (
        ("kv_cache_block_metrics", "kv_cache_block_type"),
        ("state_slot_metrics", "state_slot_type"),
    ):
        assert of_instance(metrics, model, name, **{label: "used"}) == 0, name


def test_a_closed_stream_leaves_its_pages_and_slots(server, plan):
    model, since = CROWDED["recompute"], server.log.mark()
    plan.set("execute delay 100")  # or it is done before its client has gone
    asked = {"input_ids": crowd()[0]["input_ids"], "max_tokens": 39, **ENDLESS}
    with Http(server, model).opened(stream=True, **asked) as events:
        next(events)
    free = rf"free now: {PAGES} page\(s\), {FIVE * (K + 2)} state slot"
    server.log.expect(rf"ended after .* the request was cancelled after \d+ token.*{free}", since)
    plan.set()
    everything_is_free(server, model)


def test_a_row_that_is_not_finite_ends_its_request_alone(server):
    """Its neighbours go on, and who gets its pages and slots next is not poisoned by them."""
    model = CROWDED["swap"]
    expected = [alone(server, request["input_ids"], TOKENS) for request in crowd()]
    with Grpc(server, model) as client:
        sent = [client.send(stream=True, **request) for request in crowd()]
        with pytest.raises(Refused) as refused:
            Http(server, model).generate(input_ids=[9] * 30 + [POISON, 9], max_tokens=5)
        assert "the model's logits are not finite" in refused.value.message
        assert [client.finish(identity).ids for identity in sent] == expected
    with Grpc(server, model) as client:
        sent = [client.send(**request) for request in crowd()]
        assert [client.finish(identity).ids for identity in sent] == expected
    everything_is_free(server, model)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("execute lose at 9", "failed and took the KV pools of instance"),
        ("PJRT_Buffer_ToHostBuffer refuse at 25", "its results could not be copied to the host"),
    ],
)
def test_a_call_that_fails_ends_its_rows_and_no_one_else(server, plan, fault, message):
    """What runs beside them is computed again where the pools are lost, and goes on."""
    model = CROWDED["recompute"]
    expected = [alone(server, request["input_ids"], TOKENS) for request in crowd()]

    def ask(request):
        try:
            return Http(server, model).generate(**request).ids
        except Refused as refused:
            return refused.message

    def ask_all():
        with ThreadPoolExecutor(FIVE) as threads:
            return list(threads.map(ask, crowd()))

    plan.set(fault)
    replies = ask_all()
    failed = [reply for reply in replies if isinstance(reply, str)]
    assert 0 < len(failed) < FIVE and all(message in reply for reply in failed), replies
    for reply, ids in zip(replies, expected):
        assert isinstance(reply, str) or reply == ids
    plan.set()
    # Control: without the fault nobody fails, on the pools that it left.
    assert ask_all() == expected
    everything_is_free(server, model)


def test_prompt_lookup_is_refused_by_name(server, repository):
    artifact = drafting.artifact(drafting.random_head(), "drafts-random", **drafting.DRAFTS)
    with pytest.raises(AssertionError, match="it has a draft head, whose own drafts"):
        arguments = ("--mode", "generate", "--speculation", "prompt_lookup")
        repository.add(artifact, "lookup", *arguments)
    generation.add(repository, artifact, "lookup", speculation="prompt_lookup")
    with pytest.raises(LoadError) as refused:
        server.load("lookup")
    assert "the artifact has a draft head, whose own drafts" in refused.value.message
