"""SmolLM2 in generation mode: ids and texts of another implementation, over every way in."""

import json
import random
import threading

import pytest
from harness import environment, fixtures, generation
from harness.generation import CONTEXT, Grpc, Http, Refused
from tokenizers import Tokenizer

MODEL = "generation"
PROMPTS = fixtures.smollm2_prompts()
FOX = PROMPTS["short_english"]
EXACT = {"temperature": 0.0, "ignore_eos": True}
PARIS = [{"role": "user", "content": "What is the capital of France? Answer in one sentence."}]
PARIS_REPLY = "The capital of France is Paris."
# Log-probabilities of the fixture's float32 logits.
TOLERANCE = 1e-4


@pytest.fixture(scope="module", autouse=True)
def model(repository, server):
    artifact = generation.smollm2()
    generation.add(repository, artifact, MODEL, tokenizer=environment.smollm2(), max_running=40)
    server.load(MODEL)


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.from_file(str(environment.smollm2() / "tokenizer.json"))


@pytest.fixture
def http(server):
    return Http(server, MODEL)


@pytest.fixture
def grpc(server):
    with Grpc(server, MODEL) as client:
        yield client


@pytest.fixture(params=["generate", "generate_stream", "grpc_stream"])
def run(request, server):
    """Runs a request by one of the ways in."""
    if request.param == "grpc_stream":
        with Grpc(server, MODEL) as client:
            yield lambda **keys: client.run(stream=True, **keys)
    elif request.param == "generate":
        yield Http(server, MODEL).generate
    else:
        yield Http(server, MODEL).stream


def refusal(function, **keys):
    with pytest.raises(Refused) as refused:
        function(**keys)
    return refused.value


# Judged line 1.


@pytest.mark.parametrize("name", PROMPTS)
def test_greedy_ids_are_those_of_the_fixture(run, tokenizer, name):
    prompt = PROMPTS[name]
    expected = prompt["greedy_ids"]
    reply = run(text_input=prompt["text"], max_tokens=len(expected), **EXACT)
    assert reply.ids == expected
    assert reply.text == tokenizer.decode(expected, skip_special_tokens=True)
    assert (reply.finish_reason, reply.last["stop_reason"]) == ("length", "")
    assert reply.last["num_input_tokens"] == prompt["n_prompt"]
    assert reply.tokens == len(expected)


def test_control_another_prompt_gives_other_ids(http):
    reply = http.generate(input_ids=FOX["prompt_ids"][:-1], max_tokens=24, **EXACT)
    assert reply.ids != FOX["greedy_ids"]


def test_ids_in_are_as_good_as_text(http):
    ids = http.generate(input_ids=FOX["prompt_ids"], max_tokens=24, **EXACT)
    assert ids.ids == FOX["greedy_ids"] and ids.text == FOX["greedy_text"]


def test_the_end_token_ends_a_reply(run):
    reply = run(messages=PARIS, max_tokens=40, temperature=0.0)
    assert reply.text == PARIS_REPLY
    assert reply.ids == PROMPTS["chat_template"]["greedy_ids"][: len(reply.ids)]
    assert reply.ids[-1] == 2  # counted, and not in the text
    assert (reply.finish_reason, reply.last["stop_reason"]) == ("stop", "")
    # The template of the fixture has the same tokens.
    assert reply.last["num_input_tokens"] == PROMPTS["chat_template"]["n_prompt"]


def test_one_token(run):
    reply = run(text_input=FOX["text"], max_tokens=1, **EXACT)
    assert (reply.ids, reply.finish_reason) == (FOX["greedy_ids"][:1], "length")


def test_the_default_is_sixteen_tokens(http):
    reply = http.generate(text_input=FOX["text"], **EXACT)
    assert reply.ids == FOX["greedy_ids"][:16]


STOPS = [
    # (stop strings, the one that is found) in " with a quick brown bear.\n\nThe original …"
    (["brown bear"], "brown bear"),  # over two tokens
    (["row"], "row"),  # inside one
    ([" with"], " with"),  # the first
    (["bear.\n\nThe"], "bear.\n\nThe"),  # over five
    (["r", "bear", "brown"], "r"),  # of several, the one that is complete first
    (["quick", "quick"], "quick"),  # given twice
    (["bears", "sentence"], "sentence"),  # one that only begins
    (["nowhere"], None),
]


@pytest.mark.parametrize("stops, found", STOPS, ids=lambda value: repr(value))
def test_tensorrtllm_backend_128_stop_strings_cut_exactly(http, tokenizer, stops, found):
    reply = http.stream(text_input=FOX["text"], max_tokens=24, stop=stops, **EXACT)
    text = FOX["greedy_text"]
    if found is None:
        assert (reply.text, reply.finish_reason) == (text, "length")
        return
    assert reply.text == text[: text.index(found)]
    assert (reply.finish_reason, reply.last["stop_reason"]) == ("stop", found)
    # No token after the one that completes it.
    assert reply.ids == FOX["greedy_ids"][: len(reply.ids)]
    assert found in tokenizer.decode(reply.ids)
    assert found not in tokenizer.decode(reply.ids[:-1])


def test_a_stop_string_may_stay_in_the_text(run):
    keys = {"stop": ["brown"], "include_stop_str_in_output": True, **EXACT}
    reply = run(text_input=FOX["text"], max_tokens=24, **keys)
    assert reply.text == " with a quick brown"


def test_a_stop_token_ends_a_reply(run):
    stop = FOX["greedy_ids"][4]
    reply = run(text_input=FOX["text"], max_tokens=24, stop_token_ids=[stop], **EXACT)
    assert (reply.ids, reply.text) == (FOX["greedy_ids"][:5], " with a quick brown")
    assert (reply.finish_reason, reply.last["stop_reason"]) == ("stop", str(stop))


@pytest.mark.parametrize("seed", range(3))
def test_mlx_vlm_1778_every_piece_is_whole_characters(http, tokenizer, seed):
    """Pieces of emoji and Chinese characters in any order, most of which are no character."""
    text = "🙂🚀👩‍👩‍👧‍👦你好，世界 naïve Ω≈ç"
    allowed = sorted(set(tokenizer.encode(text, add_special_tokens=False).ids))
    keys = {"text_input": "x", "max_tokens": 24, "ignore_eos": True}
    keys["sampling_parameters"] = {"allowed_token_ids": allowed}
    streamed = http.stream(seed=seed, **keys)
    whole = http.generate(seed=seed, **keys)
    assert streamed.ids == whole.ids
    assert streamed.text == whole.text == tokenizer.decode(whole.ids)
    assert len(streamed.chunks) > 4 and all(chunk["text_output"] for chunk in streamed.chunks[:-1])


def test_emoji_and_chinese_stop_strings(http, tokenizer):
    """A biased token repeats itself; the stop string lies across two of them."""
    (token,) = tokenizer.encode(" the", add_special_tokens=False).ids
    bias = json.dumps({str(token): 100})
    keys = {"text_input": "🙂你好", "max_tokens": 8, "temperature": 0.0, "logit_bias": bias}
    assert http.generate(**keys).text == " the" * 8
    assert http.stream(stop=["the t"], **keys).text == " "


def test_tensorrtllm_backend_332_pieces_keep_their_spaces(http):
    reply = http.stream(text_input=FOX["text"], max_tokens=24, **EXACT)
    assert reply.text == FOX["greedy_text"]
    assert [chunk["text_output"] for chunk in reply.chunks[:3]] == [" with", " a", " quick"]


def test_the_prompt_may_stand_in_front(run):
    keys = {"exclude_input_in_output": False, **EXACT}
    reply = run(text_input=FOX["text"], max_tokens=3, **keys)
    assert reply.text == FOX["text"] + " with a quick"
    assert reply.ids == FOX["prompt_ids"] + FOX["greedy_ids"][:3]
    assert reply.tokens == 3


# Limits of prompts: one request is refused, the others go on.


def test_vllm_42381_a_prompt_at_its_limit_and_beyond(http):
    """The limit, one more, ten times as much; the next request is answered."""
    prompt = [FOX["prompt_ids"][0]] * CONTEXT
    with http.opened(text_input=FOX["text"], max_tokens=24, stream=True, **EXACT) as neighbour:
        ids = next(neighbour)["output_ids"]
        at_limit = http.generate(input_ids=prompt, max_tokens=1)
        assert (at_limit.tokens, at_limit.finish_reason) == (1, "length")
        for length in (CONTEXT + 1, 10 * CONTEXT):
            error = refusal(http.generate, input_ids=(prompt * 11)[:length], max_tokens=1)
            assert error.status == 400
            assert f"the prompt has {length} tokens, expected 1 to {CONTEXT}" in error.message
        ids += [token for chunk in neighbour for token in chunk["output_ids"]]
    assert ids == FOX["greedy_ids"]


def test_a_text_of_ten_contexts_is_refused(http):
    error = refusal(http.generate, text_input=FOX["text"] * 3000)
    assert error.status == 400 and "tokens, expected 1 to 1024" in error.message
    error = refusal(http.generate, text_input="fox " * 4_000_000)
    assert error.status == 400 and "the text has 16000000 bytes" in error.message


def test_more_tokens_than_fit_are_refused_by_name(http):
    fits = CONTEXT + 1 - len(FOX["prompt_ids"])
    error = refusal(http.generate, input_ids=FOX["prompt_ids"], max_tokens=fits + 1)
    assert f"'max_tokens' must be 1 to {fits}" in error.message
    # What fits is taken: it would run, so another flaw has to be met after this one.
    with http.opened(input_ids=FOX["prompt_ids"], max_tokens=fits, stream=True) as events:
        next(events)


@pytest.mark.parametrize("prompt", [{"text_input": ""}, {"input_ids": []}, {}], ids=repr)
def test_server_5972_an_empty_prompt_is_refused(http, prompt):
    error = refusal(http.generate, **prompt)
    assert error.status == 400 and "prompt" in error.message


def test_tensorrtllm_backend_249_empty_tensors_count_as_absent(server):
    """Clients send optional tensors without elements, and prompts of odd bytes."""
    with Grpc(server, MODEL) as client:
        keys = {"stop_words": [], "bad_words": [], "max_tokens": 2, **EXACT}
        assert client.run(text_input=FOX["text"], **keys).ids == FOX["greedy_ids"][:2]
        chance = random.Random(0)
        for _ in range(5):
            text = "".join(
                chr(chance.choice([0, 9, 0x7F, 0xFFFD, 0x1F642, 0xE000, 65])) for _ in range(9)
            )
            assert client.run(text_input=text, max_tokens=1).tokens == 1
    with Grpc(server, MODEL) as client:
        error = refusal(client.run, text_input=b"\xff\xfe\xf0", max_tokens=1)
        assert "UTF-8" in error.message


# Anchors B.2: how many responses, and what says that there are no more.


def test_tensorrtllm_backend_233_without_stream_there_is_one_response(http, grpc):
    assert len(http.generate(text_input=FOX["text"], max_tokens=5, stream=False).chunks) == 1
    reply = grpc.run(text_input=FOX["text"], max_tokens=5, stream=False)
    assert (len(reply.chunks), reply.finals) == (1, [True])
    # `/generate` wants one response, so a stream of one token is fine there, too.
    assert len(http.generate(text_input=FOX["text"], max_tokens=1, stream=True).chunks) == 1


def test_tensorrtllm_backend_552_the_finish_reason_comes_with_the_final_flag(grpc):
    reply = grpc.run(text_input=FOX["text"], max_tokens=5, stream=True, **EXACT)
    assert reply.finals == [False] * 4 + [True]
    assert [("finish_reason" in chunk) for chunk in reply.chunks] == reply.finals


def test_tensorrtllm_backend_383_the_last_event_has_a_finish_reason(http):
    reply = http.stream(text_input=FOX["text"], max_tokens=5, **EXACT)
    assert [chunk.get("finish_reason") for chunk in reply.chunks] == [None] * 4 + ["length"]


# Anchors B.6: sampling.


def test_tensorrtllm_backend_221_temperature_and_seed_matter(http):
    def ids(**keys):
        return http.generate(text_input=FOX["text"], max_tokens=8, ignore_eos=True, **keys).ids

    assert ids(temperature=100.0, seed=1) != FOX["greedy_ids"][:8]
    assert ids(seed=1) == ids(seed=1) != ids(seed=2)
    # Without a seed the server draws one.
    assert ids(temperature=5.0) != ids(temperature=5.0)


def test_log_probabilities_are_those_of_the_fixture(run):
    reply = run(text_input=FOX["text"], max_tokens=24, logprobs=5, **EXACT)
    given = [token for chunk in reply.chunks for token in chunk["logprobs"]]
    assert len(given) == 24
    for chosen, step, entry in zip(FOX["greedy_ids"], FOX["steps"], given):
        assert list(entry)[0] == str(chosen)
        assert [int(token) for token in entry] == step["top5_ids"]
        for logit, (rank, said) in zip(step["top5_logits"], enumerate(entry.values(), 1)):
            assert abs(said["logprob"] - (logit - step["logsumexp"])) < TOLERANCE
            assert said["rank"] == rank
    assert given[0]["351"]["decoded_token"] == " with"


def test_tensorrt_llm_879_log_probabilities_do_not_depend_on_the_sampling(http):
    def chosen(**keys):
        reply = http.generate(text_input=FOX["text"], max_tokens=1, logprobs=5, **keys)
        return reply.last["logprobs"][0]

    plain = chosen(temperature=0.0)
    for keys in ({"top_p": 0.5, "seed": 1}, {"temperature": 7.0, "seed": 3}, {"top_k": 1}):
        again = chosen(**keys)
        common = plain.keys() & again.keys()
        assert len(common) >= 5 and all(plain[token] == again[token] for token in common)
    # tensorrtllm_backend_472: neither all the same nor more than certain.
    sums = sum(2.718281828 ** entry["logprob"] for entry in plain.values())
    assert 0.3 < sums <= 1.0 and len({entry["logprob"] for entry in plain.values()}) == 5


def test_tensorrt_llm_1336_a_request_does_not_depend_on_its_neighbours(server, http):
    """Alone, and among 31 others that come and go with options of their own."""
    keys = {"text_input": FOX["text"], "max_tokens": 8, "seed": 7, "temperature": 1.5}
    keys["ignore_eos"] = True
    alone = http.generate(**keys).ids
    forced = FOX["greedy_ids"][0]
    results, threads = {}, []

    def neighbour(number):
        chance = random.Random(number)
        prompt = PROMPTS[chance.choice(["code", "one_token", "short_english"])]
        own = {"max_tokens": chance.randint(1, 6), "seed": number, "ignore_eos": True}
        own["logit_bias"] = {str(forced): 100 if number % 3 == 0 else -100}
        reply = Http(server, MODEL).generate(text_input=prompt["text"], **own)
        results[number] = (reply.ids, own)

    for number in range(31):
        threads.append(threading.Thread(target=neighbour, args=[number]))
        threads[-1].start()
    crowded = http.generate(**keys).ids
    for thread in threads:
        thread.join()
    assert crowded == alone
    assert len(results) == 31
    for number, (ids, own) in results.items():
        assert len(ids) == own["max_tokens"]
        # The bias is the request's own.
        assert set(ids) == {forced} if number % 3 == 0 else forced not in ids, number


# Refusals by name.


def test_tensorrt_llm_6329_values_out_of_range_are_refused_by_name(http):
    for keys, needles in [
        ({"top_k": -2}, ["'top_k'", "-2"]),
        ({"temperature": -1.0}, ["'temperature'", "-1"]),
        ({"top_p": 0.0}, ["'top_p'", "0"]),
        ({"max_tokens": 0}, ["'max_tokens'", "1 to 1024"]),
        ({"n": 2}, ["'n'", "2"]),
        ({"beam_width": 4}, ["'beam_width'", "4"]),
        ({"temprature": 1.0}, ["'temprature'", "did you mean 'temperature'"]),
        ({"sampling_parameters": '{"top_q": 1}'}, ["'top_q'"]),
        ({"sampling_parameters": "{"}, ["'sampling_parameters'", "JSON"]),
        ({"temperature": 1.0, "sampling_parameters": '{"temperature": 0.5}'}, ["'temperature'"]),
    ]:
        error = refusal(http.generate, text_input="x", **keys)
        assert error.status == 400, error
        for needle in [f"model '{MODEL}'", *needles]:
            assert needle in error.message, (needle, error.message)


def test_sendnn_inference_542_top_k_above_the_vocabulary(http):
    assert http.generate(text_input="x", top_k=1_000_000, max_tokens=2, ignore_eos=True).tokens == 2


def test_bad_words_of_white_space_are_words(http):
    """The fixture's next tokens hold two line ends."""
    keys = {"text_input": FOX["text"], "max_tokens": 14, **EXACT}
    assert "\n" in http.generate(**keys).text
    assert "\n" not in http.generate(bad_words=["\n", "\n\n"], **keys).text


def test_a_long_unknown_key_is_refused_at_once(http):
    """Likeness to known names is not looked for, and the message is short."""
    error = refusal(http.generate, text_input="x", **{"z" * 1_000_000: 1})
    assert error.status == 400 and len(error.message) < 500


def test_server_7682_lists_come_as_json(http, grpc):
    parameters = {"stop": ["quick"], "max_tokens": 9, "temperature": 0, "stop_token_ids": [0]}
    for reply in (
        http.generate(text_input=FOX["text"], sampling_parameters=json.dumps(parameters)),
        grpc.run(text_input=FOX["text"], sampling_parameters=parameters),
    ):
        assert (reply.text, reply.finish_reason) == (" with a ", "stop")


def test_options_come_as_request_parameters(grpc):
    identity = grpc.send(
        parameters={"max_tokens": 3, "ignore_eos": True, "temperature": "0"},
        text_input=FOX["text"],
    )
    with pytest.raises(Refused) as refused:
        grpc.finish(identity)
    assert "'temperature'" in refused.value.message


def test_tensorrt_llm_2335_one_token_with_every_output(grpc):
    keys = {
        "return_perf_metrics": True,
        "return_log_probs": True,
        "return_cumulative_logprob": True,
        "logprobs": 3,
        "max_tokens": 1,
        **EXACT,
    }
    last = grpc.run(text_input=FOX["text"], **keys).last
    assert last["output_ids"] == FOX["greedy_ids"][:1]
    step = FOX["steps"][0]
    expected = step["top5_logits"][0] - step["logsumexp"]
    for name in ("cumulative_logprob", "cum_log_probs"):
        assert abs(last[name] - expected) < TOLERANCE
    assert abs(last["output_log_probs"][0] - expected) < TOLERANCE
    times = [
        last[f"{name}_time_ns"]
        for name in ("arrival", "first_scheduled", "first_token", "last_token")
    ]
    assert times == sorted(times) and times[2] == times[3]


def test_only_requested_outputs_are_sent(grpc):
    keys = {"max_tokens": 3, "stream": True, **EXACT}
    reply = grpc.finish(grpc.send(outputs=["output_ids"], text_input=FOX["text"], **keys))
    assert [set(chunk) for chunk in reply.chunks] == [{"output_ids"}] * 3
    assert reply.ids == FOX["greedy_ids"][:3]
