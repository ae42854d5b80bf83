"""Models with a draft head: the tokens of the model alone, several of them a step."""

import os
import time

import numpy as np
import pytest
from harness import drafting, environment, fixtures
from harness.drafting import K, Streams
from harness.server import running
from tritonclient.utils import InferenceServerException

STREAMED = "drafts"
PREDICTABLE = "predictable"
ANSWERED = "predictable_answered"
ALONE = "predictable_alone"
PROMPTS = {prompt["name"]: prompt for prompt in fixtures.tiny_oracle("qwen3_5")["prompts"]}
# Of verification S1: a short and a long prompt, the latter in several calls.
PAIR = [PROMPTS["len13"], PROMPTS["len40"]]
TURN = [11, 13, 90]
ALL = ("NEXT_TOKENS", "KV_PAGES", "NEXT_TOKEN")


@pytest.fixture(scope="module")
def loaded(repository, server):
    """A server with every model of this file."""
    random = drafting.artifact(drafting.random_head(), "drafts-random", **drafting.DRAFTS)
    repository.add(random, STREAMED, "--decoupled")
    predictable = drafting.predictable()
    artifact = drafting.artifact(predictable, "drafts-predictable", **drafting.DRAFTS)
    repository.add(artifact, PREDICTABLE, "--decoupled")
    repository.add(artifact, ANSWERED)
    alone = {**drafting.OPTIONS, "contexts": [256], "batches": [1]}
    repository.add(drafting.artifact(predictable, "drafts-alone", **alone), ALONE)
    for model in (STREAMED, PREDICTABLE, ANSWERED, ALONE):
        server.load(model)
    return server


@pytest.fixture(scope="module")
def unchained(repository, loaded):
    """A server of the same repository that launches no step ahead."""
    settings = {
        **os.environ,
        **environment.variables(),
        "TLALOC_BACKEND_DIR": str(environment.backend_directory()),
        "TLALOC_CHAIN_STEPS": "0",
    }
    with running(repository, settings=settings) as server:
        server.load(STREAMED)
        server.load(PREDICTABLE)
        yield server


@pytest.fixture
def streams(loaded):
    with Streams(loaded) as streams:
        yield streams


def greedy_alone(server, prompt, count):
    """What the same model without its draft head gives, one token a request."""
    with server.client() as client, client.sequence(ALONE) as sequence:
        ids = [sequence.next_token(prompt)]
        while len(ids) < count:
            ids.append(sequence.next_token(ids[-1:]))
    return ids


def two_turns(streams, model, count=100):
    """(ids of the first turn, ids of the second) of each prompt, both prompts at once."""
    both = []
    for start in (True, False):
        asked = [
            streams.ask(
                model,
                number,
                prompt["prompt_ids"] if start else TURN,
                start=start,
                end=not start,
                max_tokens=count,
            )
            for number, prompt in enumerate(PAIR, 1)
        ]
        both.append([turn.ids for turn in streams.turns(*asked)])
    return list(zip(*both))


def common(ids, others):
    """Both lists as far as they both go."""
    length = min(len(ids), len(others))
    return ids[:length], others[:length]


@pytest.mark.row("S1", "streamed ids, alone and together, are the oracle's")
def test_streams_are_the_oracles_tokens(streams, row):
    def ask(number, prompt):
        ids = prompt["prompt_ids"]
        return streams.ask(STREAMED, number, ids, start=True, end=True, max_tokens=16)

    for prompt in PROMPTS.values():
        (turn,) = streams.turns(ask(1, prompt))
        row.ids(turn.ids[:16], prompt["greedy_ids"])
        assert len(turn.ids) <= 16 + K
    for pause in (0, 0.15):
        asked = []
        for number, prompt in enumerate(PAIR, 1):
            asked.append(ask(number, prompt))
            time.sleep(pause)  # the row is about a sequence that joins another
        for turn, prompt in zip(streams.turns(*asked), PAIR):
            row.ids(turn.ids[:16], prompt["greedy_ids"])


@pytest.mark.row("S2", "two turns of two sequences at once")
def test_two_turns(streams, loaded, row):
    turns = two_turns(streams, PREDICTABLE)
    for (first, second), prompt in zip(turns, PAIR):
        assert len(first) >= 100 and len(second) >= 100
        row.ids(first, greedy_alone(loaded, prompt["prompt_ids"], len(first)))
        # The last token of a turn is in no KV: the next turn begins without it.
        context = prompt["prompt_ids"] + first[:-1] + TURN
        row.ids(second[:20], greedy_alone(loaded, context, 20))


@pytest.mark.row("S3", "the same tokens without chained steps")
def test_chaining_changes_no_token(streams, unchained, row):
    for model in (STREAMED, PREDICTABLE):
        chained = two_turns(streams, model)
        with Streams(unchained) as plain:
            others = two_turns(plain, model)
        for ids, expected in zip(sum(chained, ()), sum(others, ())):
            row.ids(*common(ids, expected))


@pytest.mark.row("S4", "the log says whether steps are chained")
def test_the_log_says_whether_steps_are_chained(loaded, unchained, row):
    said = "verify steps are chained"
    assert said in loaded.log.text()
    row.count("servers", 2)
    with row.control("a server with TLALOC_CHAIN_STEPS=0"):
        assert said in unchained.log.text()


def test_every_number_of_drafts_is_accepted(loaded):
    """One request a step: its answer has the tokens of the step."""
    prompt = PAIR[0]["prompt_ids"]
    expected = greedy_alone(loaded, prompt, 150)
    with loaded.client() as client, client.sequence(ANSWERED) as sequence:
        first = sequence.send(prompt, ALL)
        ids, sizes = first["NEXT_TOKENS"].ravel().tolist(), set()
        assert len(ids) == 1
        while len(ids) < 140:
            length = len(prompt) + len(ids) - 1
            answer = sequence.send(ids[-1:], ALL)
            step = answer["NEXT_TOKENS"].ravel().tolist()
            assert answer["NEXT_TOKEN"].ravel().tolist() == step[-1:]
            # Room for the step's drafts and those that it makes.
            assert answer["KV_PAGES"].ravel().tolist() == [-(-(length + 2 * K) // 16), 0]
            ids += step
            sizes.add(len(step) - 1)
    assert ids == expected[: len(ids)]
    assert sizes == set(range(K + 1))


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_a_generation_is_answered_at_once(loaded, protocol):
    prompt = PAIR[1]["prompt_ids"]
    expected = greedy_alone(loaded, prompt, 40)
    with loaded.client(protocol) as client:
        answer = client.infer(
            ANSWERED,
            np.array([prompt], np.int32),
            ALL,
            sequence_id=3,
            sequence_start=True,
            sequence_end=True,
            parameters={"max_tokens": 30},
        )
    ids = answer["NEXT_TOKENS"].ravel().tolist()
    assert 30 <= len(ids) <= 30 + K
    assert ids == expected[: len(ids)]
    assert answer["NEXT_TOKEN"].ravel().tolist() == ids[-1:]


def test_end_tokens_end_a_generation(streams, loaded):
    prompt = PAIR[0]["prompt_ids"]
    expected = greedy_alone(loaded, prompt, 60)
    end = expected[20]
    asked = streams.ask(
        PREDICTABLE, 1, prompt, start=True, end=True, max_tokens=60, end_tokens=f"95,{end}"
    )
    (turn,) = streams.turns(asked)
    first = expected.index(end)
    assert turn.ids == expected[: len(turn.ids)]
    # The step that gives it is the last one.
    assert first < len(turn.ids) <= first + 1 + K
    assert end in turn.steps[-1] and end not in sum(turn.steps[:-1], [])
    assert turn.next_token == turn.ids[-1]


def test_another_token_than_the_one_given_is_a_prompt(loaded):
    prompt, other = PAIR[0]["prompt_ids"], 77
    with loaded.client() as client:
        with client.sequence(ANSWERED) as sequence, client.sequence(ALONE) as alone:
            ids = [sequence.next_token(prompt)]
            while len(ids) < 12:
                ids += sequence.send(ids[-1:], ALL)["NEXT_TOKENS"].ravel().tolist()
            assert ids[-1] != other
            for tokens in ([other], [other, 5, 6]):
                answer = sequence.send(tokens, ALL)["NEXT_TOKENS"].ravel().tolist()
                assert len(answer) == 1
                if tokens == [other]:
                    alone.send(prompt + ids[:-1])
                assert alone.next_token(tokens) == answer[0]
            # And on from there.
            following = sequence.send(answer, ALL)["NEXT_TOKENS"].ravel().tolist()
            expected = [alone.next_token(answer)]
            while len(expected) < len(following):
                expected.append(alone.next_token(expected[-1:]))
            assert following == expected


def test_a_sequence_takes_two_slots_more_than_drafts(loaded):
    with loaded.client() as client:
        sequences = [client.sequence(ANSWERED, number) for number in (21, 22, 23)]
        config = loaded.config(ANSWERED)["sequence_batching"]["oldest"]
        assert config["max_candidate_sequences"] == 2
        for sequence in sequences[:2]:
            sequence.send([1, 2, 3], ALL)
            sequence.end()
        assert "12 linear-attention state slots, 5 per live sequence" in loaded.log.text()


def refusal(client, tokens, model=ANSWERED, start=True, **parameters):
    """What a request is refused with."""
    with pytest.raises(InferenceServerException) as refused:
        client.infer(
            model,
            np.array([tokens], np.int32),
            None,
            sequence_id=9,
            sequence_start=start,
            parameters=parameters or None,
        )
    return refused.value.message()


def test_requests_that_cannot_be_are_refused(loaded):
    with loaded.client() as client:

        def end(model=ANSWERED):
            nothing = np.zeros((1, 0), np.int32)
            client.infer(model, nothing, None, sequence_id=9, sequence_end=True)

        says = refusal(client, [1], max_tokens=-1)
        assert "request parameter 'max_tokens' must not be negative, got -1" in says
        says = refusal(client, [1], max_tokens="1,2")
        assert "request parameter 'max_tokens' must be one whole number" in says
        says = refusal(client, [1], max_tokens=5, end_tokens="x")
        assert "request parameter 'end_tokens' must be whole numbers" in says
        says = refusal(client, [1, 96])
        assert "outside the vocabulary [0, 96)" in says
        says = refusal(client, list(range(90)) * 3)
        assert "the largest context this model was compiled for is 256" in says
        assert "2 of them for drafts" in says
        end()
        says = refusal(client, [1], model=ALONE, max_tokens=3)
        assert "'max_tokens' is 3, but the model has no tokens output" in says
        end(ALONE)
        with client.sequence(ANSWERED, 9) as sequence:
            # 254 tokens and two positions of drafts: a prompt as long as fits.
            sequence.send(list(range(64)) * 3 + list(range(62)), ALL)
            last = sequence.send([50], ALL, start=True)["NEXT_TOKEN"].ravel().tolist()
            while True:
                try:
                    last = sequence.send(last, ALL)["NEXT_TOKEN"].ravel().tolist()
                except InferenceServerException as error:
                    assert "the largest context this model was compiled for is 256" in str(error)
                    break
            # It is as it was, and ends.
            says = refusal(client, last, start=False)
            assert "5 of them for drafts" in says and "the sequence is unchanged" in says


def test_a_generation_that_outgrows_the_model_ends_with_an_error(streams, loaded):
    prompt = PAIR[0]["prompt_ids"]
    asked = streams.ask(PREDICTABLE, 7, prompt, start=True, end=True, max_tokens=1000)
    with pytest.raises(InferenceServerException, match="largest context .* is 256"):
        streams.turns(asked)
    # Its slots are free.
    asked = streams.ask(PREDICTABLE, 7, prompt, start=True, end=True, max_tokens=20)
    (turn,) = streams.turns(asked)
    assert turn.ids == greedy_alone(loaded, prompt, len(turn.ids))
