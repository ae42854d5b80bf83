"""Pages, reclaiming and batching on SmolLM2: a pool of 63 pages for contexts of 64 tokens."""

import random
import threading
import time
from contextlib import ExitStack, contextmanager

import pytest
from harness import environment, fixtures, models
from harness.decoding import (
    LOGITS,
    assert_close,
    assert_ids,
    greedy,
    greedy_alone,
    logits,
    prefill,
    together,
)
from tritonclient.utils import InferenceServerException

PROMPTS = fixtures.smollm2_prompts()
TEXT = PROMPTS["long"]["prompt_ids"]
CHAT = PROMPTS["chat_template"]
# Fill 3 of the 63 pages of 16 tokens, but for one position.
LONG_PROMPTS = [TEXT[7 * i : 7 * i + 47] for i in range(22)]
FULL = 21
RECLAIMED = r"reclaimed sequence (\d+) \(the least recently active"


@pytest.fixture(scope="module")
def artifact():
    return models.export(
        environment.smollm2(), "smollm2-small", contexts=[64], batches=[1, 2, 4], num_blocks=64
    )


@contextmanager
def loaded(repository, server, artifact, name, idle=60_000_000):
    """The name of a loaded model; unloaded at the end."""
    repository.add(artifact, name).set_idle(idle)
    server.load(name)
    yield name
    server.unload(name)


@pytest.fixture(scope="module")
def model(repository, server, artifact):
    with loaded(repository, server, artifact, "smollm2") as name:
        yield name


@contextmanager
def live_sequences(client, model, prompts):
    """Sequences that have read their prompts, with the id that follows each."""
    with ExitStack() as stack:
        sequences = [stack.enter_context(client.sequence(model)) for _ in prompts]
        yield list(zip(sequences, [s.next_token(p) for s, p in zip(sequences, prompts)]))


def refused(message):
    return pytest.raises(InferenceServerException, match=message)


def end_all(server, model, sequence_ids):
    """End sequences by id, those that the server dropped included."""
    with server.client() as client:
        for sequence_id in sequence_ids:
            try:
                client.sequence(model, sequence_id).end()
            except InferenceServerException as error:
                assert "must specify the START flag" in error.message()


def check_it_still_decodes(server, model):
    assert server.live()
    assert_ids(greedy_alone(server, model, CHAT["prompt_ids"], 6), CHAT["greedy_ids"][:6])


# Pages.


@pytest.mark.row("L4", "a prompt whole and token by token")
def test_l4_a_prompt_whole_or_by_token(row, server, model):
    rows = []
    with server.client() as client:
        for piece in (None, 1):
            with client.sequence(model) as sequence:
                rows.append(prefill(sequence, CHAT["prompt_ids"], piece))
        with client.sequence(model) as sequence:
            shorter = prefill(sequence, CHAT["prompt_ids"][:-1])
    row.most("of the largest logit", assert_close(rows[0], rows[1], 5e-3))
    assert rows[0].argmax() == rows[1].argmax()
    with row.control("a prompt without its last token"):
        assert_close(shorter, rows[1], 5e-3)


@pytest.mark.row("L5", "growth of a sequence is refused by a full pool, which keeps it")
def test_l5_a_full_pool_refuses_growth_and_keeps_the_sequence(row, server, model):
    solo = greedy_alone(server, model, LONG_PROMPTS[0], 6)
    since = server.log.mark()
    with server.client() as client, live_sequences(client, model, LONG_PROMPTS[:FULL]) as live:
        sequence, token = live[0]
        # The first id fills the third page, the second needs a fourth.
        ids = [token, sequence.next_token([token])]
        with refused("KV page pool exhausted") as refusal:
            sequence.next_token(ids[-1:])
        assert "UNAVAILABLE" in refusal.value.status()
        for words in (
            "keeps its 3 pages and the KV of its",
            f"{FULL - 1} other sequence(s) hold pages",
            "is not preempted",
        ):
            assert words in refusal.value.message()
        assert not server.log.find(RECLAIMED, since)
        live[1][0].end()
        while len(ids) < len(solo):
            ids.append(sequence.next_token(ids[-1:]))
    row.ids(ids, solo)


@pytest.mark.row("L6", "four sequences decode together as they do alone")
def test_l6_four_sequences_at_once(row, server, model):
    names = ["short_english", "chat_template", "code", "one_token"]
    solo = [PROMPTS[name]["greedy_ids"][:12] for name in names]
    assert len(set(map(tuple, solo))) == len(solo)

    def job(name):
        def decode(client):
            sequence = client.sequence(model)
            return sequence.id, greedy(sequence, PROMPTS[name]["prompt_ids"], 12)

        return decode

    before = server.statistics(model)
    sequence_ids, decoded = zip(*together(server, [job(name) for name in names]))
    spent = server.statistics(model) - before
    end_all(server, model, sequence_ids)
    for ids, expected in zip(decoded, solo):
        row.ids(ids, expected)
    row.figure(f"{spent.inferences} requests in {spent.executions} batches")
    assert spent.inferences == 48
    assert spent.executions <= spent.inferences / 3


@pytest.mark.row("L7", "ended sequences give their pages back")
def test_l7_ended_sequences_give_their_pages_back(server, model):
    with server.client() as client:
        for number in range(2 * FULL + 1):
            client.sequence(model).send(LONG_PROMPTS[number % FULL], end=True)


@pytest.mark.row("L8", "a full pool refuses a START")
def test_l8_a_full_pool_refuses_a_start(server, model):
    with server.client() as client:
        with live_sequences(client, model, LONG_PROMPTS[:FULL]), client.sequence(model) as late:
            with refused("KV page pool exhausted"):
                late.send(LONG_PROMPTS[FULL])
            assert server.live()
            with refused("has no KV state"):
                late.send([1])
    check_it_still_decodes(server, model)


@pytest.mark.row("L9", "a refused START ends the earlier sequence")
def test_l9_a_refused_start_ends_the_earlier_sequence(server, model):
    with server.client() as client, client.sequence(model) as sequence:
        sequence.send(CHAT["prompt_ids"])
        with refused("outside the vocabulary"):
            sequence.send([10**6], start=True)
        with refused("has no KV state"):
            sequence.send([1])


@pytest.mark.row("L10", "abandoned sequences are reclaimed, the oldest first")
def test_l10_abandoned_sequences_are_reclaimed_oldest_first(row, repository, server, artifact):
    idle = 3.0
    with (
        loaded(repository, server, artifact, "idle", int(idle * 1e6)) as model,
        server.client() as client,
    ):
        since = server.log.mark()
        abandoned = [client.sequence(model) for _ in range(FULL)]
        for sequence, prompt in zip(abandoned, LONG_PROMPTS):
            sequence.send(prompt)
        late = client.sequence(model)
        with refused("KV page pool exhausted"):
            late.send(LONG_PROMPTS[FULL])
        late.end()
        assert not server.log.find(RECLAIMED, since)

        # Time is what makes a sequence reclaimable: there is nothing to wait for.
        time.sleep(2 * idle + 5)
        prompt = PROMPTS["short_english"]
        assert_ids(greedy_alone(server, model, prompt["prompt_ids"], 6), prompt["greedy_ids"][:6])
        row.figure(f"1 of {FULL} reclaimed for one page, the others for {3 * FULL}")
        assert server.log.expect(RECLAIMED, since) == [str(abandoned[0].id)]
        with refused("must specify the START flag|has no KV state"):
            abandoned[0].send([1])

        since = server.log.mark()
        new = [client.sequence(model) for _ in range(FULL)]
        for sequence, prompt in zip(new, LONG_PROMPTS):
            sequence.send(prompt)
        others = [str(sequence.id) for sequence in abandoned[1:]]
        server.log.expect(rf"reclaimed sequence {others[-1]} ", since)
        assert server.log.find(RECLAIMED, since) == others
        end_all(server, model, [sequence.id for sequence in new])


# Batches.


@pytest.mark.row("L11", "F3", "P3", "prompts that arrive together run together")
@pytest.mark.parametrize(
    "prompts",
    [
        [PROMPTS["short_english"]["prompt_ids"], CHAT["prompt_ids"], TEXT[:20], TEXT[60:100]],
        [TEXT[at : at + length] for at, length in ((5, 2), (100, 55), (200, 9), (300, 30))],
    ],
    ids=["first", "second"],
)
@pytest.mark.parametrize("count", [1, 2, 4])
def test_l11_prompts_that_arrive_together_run_together(row, server, model, prompts, count):
    solo_rows, solo_ids = [], []
    with server.client() as client:
        for prompt in prompts:
            with client.sequence(model) as sequence:
                solo_rows.append(prefill(sequence, prompt))
            solo_ids.append(greedy_alone(server, model, prompt, 8))

    def read(prompt):
        def job(client):
            sequence = client.sequence(model)
            return sequence.id, logits(sequence.send(prompt, LOGITS))

        return job

    def decode(sequence_id, row):
        def job(client):
            sequence = client.sequence(model, sequence_id)
            sequence.open = True
            ids = [int(row.argmax())]
            while len(ids) < 8:
                ids.append(sequence.next_token(ids[-1:]))
            return ids

        return job

    before = server.statistics(model)
    started = together(server, [read(prompt) for prompt in prompts[:count]])
    executions = (server.statistics(model) - before).executions
    decoded = together(server, [decode(*pair) for pair in started])
    end_all(server, model, [sequence_id for sequence_id, _ in started])

    for (_, logits_row), ids, solo_row, expected, other in zip(
        started, decoded, solo_rows, solo_ids, solo_rows[1:] + solo_rows[:1]
    ):
        row.most("of the largest logit", assert_close(logits_row, solo_row, 5e-3))
        with row.control("the logits of another prompt"):
            assert_close(logits_row, other, 5e-3)
        row.ids(ids, expected)
    if count > 1:
        assert executions < count
    if count == 4:
        # Said at the first run with so many rows; later ones at a verbose level.
        server.log.expect(f"instance '{model}_0_0': prefill_b4_c64 ran 4 sequence")


# Seconds of queue and input per step of a sequence alone.
LONGEST_WAIT = 0.5e-3
# Of 60 requests of four sequences.
MOST_BATCHES = 17


def wait_of_a_lone_sequence(server, model):
    """Seconds of queue and input per step when one sequence decodes alone."""
    with server.client() as client, client.sequence(model) as sequence:
        token = sequence.next_token(PROMPTS["short_english"]["prompt_ids"])
        before = server.statistics(model)
        for _ in range(24):
            token = sequence.next_token([token])
        spent = server.statistics(model) - before
    return (spent.queue + spent.input) / 24 / 1e9


def steps_with_pauses(server, model):
    """(executions, ids) of four sequences whose clients pause up to 5 ms per step."""
    names = ["short_english", "chat_template", "code", "one_token"]

    with server.client() as client, ExitStack() as stack:
        sequences = [stack.enter_context(client.sequence(model)) for _ in names]
        tokens = [s.next_token(PROMPTS[n]["prompt_ids"]) for s, n in zip(sequences, names)]

        def job(index):
            pauses = random.Random(index)

            def decode(own_client):
                sequence = own_client.sequence(model, sequences[index].id)
                sequence.open = True
                ids = [tokens[index]]
                for _ in range(15):
                    time.sleep(pauses.uniform(0, 5e-3))
                    ids.append(sequence.next_token(ids[-1:]))
                return ids

            return decode

        before = server.statistics(model)
        decoded = together(server, [job(index) for index in range(len(names))])
        spent = server.statistics(model) - before
    assert spent.inferences == 60
    expected = [PROMPTS[name]["greedy_ids"][:16] for name in names]
    return spent.executions, decoded, expected


@pytest.mark.row("L12", "a sequence alone is not delayed")
def test_l12_a_lone_sequence_is_not_delayed(row, server, model):
    wait = wait_of_a_lone_sequence(server, model)
    row.figure(f"{wait * 1e3:.2f} ms a step")
    assert wait < LONGEST_WAIT


@pytest.mark.row("L13", "pauses of clients do not break the batches")
def test_l13_pauses_do_not_break_the_batches(row, server, model):
    executions, decoded, expected = steps_with_pauses(server, model)
    for ids, ids_alone in zip(decoded, expected):
        row.ids(ids, ids_alone)
    row.figure(f"60 requests in {executions} batches")
    assert executions <= MOST_BATCHES


@pytest.mark.row("L14", "L12 and L13 fail with Triton's batches")
def test_l14_control_batches_of_triton(row, repository, server, artifact):
    name = "triton_batches"
    model = repository.add(artifact, name)
    model.set_parameter("backend_batching", "false")
    model.substitute(r"max_queue_delay_microseconds: *\d+", "max_queue_delay_microseconds: 1000")
    server.load(name)
    server.log.expect(
        f"instance '{name}_0_0'.*batches are the ones Triton's sequence batcher forms "
        r"\(backend_batching is false\)"
    )
    wait = wait_of_a_lone_sequence(server, name)
    executions, _, _ = steps_with_pauses(server, name)
    row.figure(f"{wait * 1e3:.2f} ms a step; 60 requests in {executions} batches")
    with row.control("L12"):
        assert wait < LONGEST_WAIT
    with row.control("L13"):
        assert executions <= MOST_BATCHES
    server.unload(name)


# A short idle timeout.


@contextmanager
def brief(repository, server, artifact, name, idle):
    """A model with a pool of its own: what Triton drops stays in it for a while."""
    with loaded(repository, server, artifact, name, int(idle * 1e6)):
        # The first runs read the weights from disk, which takes longer than the timeout.
        with server.client() as client:
            for prompt in (TEXT[:1], TEXT[:4]):
                client.sequence(name).send(prompt, end=True)
        yield name


@pytest.fixture
def queued(repository, server, artifact):
    with brief(repository, server, artifact, "queued", 0.2) as name:
        yield name


# Longer than a few prefills, which a refused request may have to wait for.
KEPT_ALIVE_IDLE = 0.8


@pytest.fixture
def kept_alive(repository, server, artifact):
    with brief(repository, server, artifact, "kept_alive", KEPT_ALIVE_IDLE) as name:
        yield name


@pytest.mark.row("L15", "long queues under a short idle time: no error but the named ones")
def test_l15_queued_sequences_are_dropped_by_triton_only(row, server, queued):
    def job(index):
        def decode(client):
            sequence = client.sequence(queued)
            try:
                greedy(sequence, TEXT[index : index + 4], 20)
            except InferenceServerException as error:
                return sequence.id, error.message()
            return sequence.id, None

        return decode

    messages = []
    for count in (12, 24, 32):
        sequence_ids, errors = zip(*together(server, [job(index) for index in range(count)]))
        end_all(server, queued, sequence_ids)
        messages += [message for message in errors if message]
    for message in messages:
        assert "must specify the START flag" in message or "KV page pool exhausted" in message
    row.figure(f"{len(messages)} of 68 sequences refused")
    # Else the queue was never long enough to say anything.
    assert any("must specify the START flag" in message for message in messages)


@pytest.mark.row("L16", "refused requests keep a sequence alive")
def test_l16_refused_requests_keep_a_sequence_alive(row, server, kept_alive):
    prompt = PROMPTS["short_english"]
    since = server.log.mark()
    stop, alive = threading.Event(), []

    def keep_alive(client, sequence):
        while not stop.wait(0.05):
            with refused("outside the vocabulary"):
                sequence.send([10**6])
            alive.append(time.monotonic())

    with server.client() as client:
        sequence = client.sequence(kept_alive)
        ids = greedy(sequence, prompt["prompt_ids"], 2)
        keeper = threading.Thread(target=keep_alive, args=(client, sequence))
        keeper.start()
        try:
            assert not stop.wait(10 * KEPT_ALIVE_IDLE + 0.5)
            pressing, refusals = [client.sequence(kept_alive) for _ in LONG_PROMPTS], 0
            for other, long_prompt in zip(pressing, LONG_PROMPTS):
                try:
                    other.send(long_prompt)
                except InferenceServerException as error:
                    assert "KV page pool exhausted" in error.message()
                    refusals += 1
        finally:
            stop.set()
            keeper.join()
        while len(ids) < 8:
            ids.append(sequence.next_token(ids[-1:]))
        sequence.end()
    end_all(server, kept_alive, [other.id for other in pressing])
    assert alive
    row.ids(ids, prompt["greedy_ids"][:8])
    reclaimed = server.log.find(RECLAIMED, since)
    assert str(sequence.id) not in reclaimed
    row.figure(f"{len(alive)} refusals; {len(reclaimed)} others reclaimed, {refusals} refused")
    assert reclaimed or refusals, "the pool was never short of pages"
