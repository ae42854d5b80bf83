"""The text side of the chat client: templates, stop tokens, streaming."""

import json

import pytest
from harness import environment, fixtures
from tlaloc_client.checkpoint import Checkpoint
from tlaloc_client.conversation import Conversation

PROMPT = fixtures.smollm2_prompts()["chat_template"]
QUESTION = "What is the capital of France? Answer in one sentence."
STOP = 2  # <|im_end|>


@pytest.fixture(scope="module")
def checkpoint():
    return Checkpoint(environment.smollm2())


class ScriptedSequence:
    """Answers with given ids and remembers what it was sent."""

    def __init__(self, *replies):
        self.open = False
        self.sent = []
        self._replies = list(replies)

    def next_token(self, tokens):
        self.open = True
        self.sent.append(list(tokens))
        return self._replies.pop(0)


def test_the_first_turn_is_the_templates(checkpoint):
    assert checkpoint.first_turn(QUESTION) == PROMPT["prompt_ids"]
    assert checkpoint.stop_ids == {STOP}


def test_turns_put_together_are_the_whole_conversation(checkpoint):
    reply = PROMPT["greedy_ids"][: PROMPT["greedy_ids"].index(STOP)]
    ids = checkpoint.first_turn(QUESTION) + reply + checkpoint.next_turn("And of Spain?")
    assert checkpoint.tokenizer.decode(ids, skip_special_tokens=False) == (
        PROMPT["text"] + "The capital of France is Paris.<|im_end|>\n"
        "<|im_start|>user\nAnd of Spain?<|im_end|>\n<|im_start|>assistant\n"
    )


def test_only_new_tokens_are_sent(checkpoint):
    sequence = ScriptedSequence(504, 3575, STOP, 504, 3575)
    conversation = Conversation(sequence, checkpoint)
    texts = []
    first = conversation.ask(QUESTION, 8, texts.append)
    assert sequence.sent == [PROMPT["prompt_ids"], [504], [3575]]
    assert "".join(texts) == "The capital"
    assert (first.prompt_tokens, first.reply_tokens, len(first.steps)) == (42, 2, 2)

    second = conversation.ask("And of Spain?", 2, texts.append)
    follow_up = checkpoint.next_turn("And of Spain?")
    assert sequence.sent[3:] == [follow_up, [504]]
    assert (second.prompt_tokens, second.reply_tokens) == (len(follow_up), 2)


def test_a_reply_cut_short_is_completed_by_the_next_turn(checkpoint):
    sequence = ScriptedSequence(504, STOP)
    conversation = Conversation(sequence, checkpoint)
    conversation.ask(QUESTION, 1, str)
    conversation.ask("And of Spain?", 1, str)
    # The server never saw 504, which ended the first reply.
    assert sequence.sent[1] == [504, *checkpoint.next_turn("And of Spain?")]


@pytest.mark.parametrize("text", ["🙂🚀👩‍👩‍👧‍👦", "你好，世界!", "déjà vu", "plain text"])
def test_characters_are_streamed_whole(checkpoint, text):
    text_of = checkpoint.stream()
    parts = [text_of(token) for token in checkpoint.tokenizer.encode(text).ids]
    assert "".join(parts) == text
    assert not any("\ufffd" in part for part in parts)


@pytest.mark.parametrize("place", ["file", "several", "none"])
def test_the_places_of_a_chat_template(tmp_path, place):
    source = environment.smollm2()
    (tmp_path / "tokenizer.json").symlink_to(source / "tokenizer.json")
    (tmp_path / "config.json").write_text(json.dumps({"eos_token_id": [2, 0]}))
    config = json.loads((source / "tokenizer_config.json").read_text())
    template = config.pop("chat_template")
    if place == "file":
        (tmp_path / "chat_template.jinja").write_text(template)
    elif place == "several":
        config["chat_template"] = [
            {"name": "tool_use", "template": "no"},
            {"name": "default", "template": template},
        ]
    config["eos_token"] = {"content": "<|im_end|>", "lstrip": False}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))

    checkpoint = Checkpoint(tmp_path)
    assert checkpoint.stop_ids == {0, 2}
    plain = checkpoint.tokenizer.encode(QUESTION).ids
    expected = plain if place == "none" else PROMPT["prompt_ids"]
    assert checkpoint.first_turn(QUESTION) == expected


def test_a_folder_that_is_no_checkpoint_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="holds no tokenizer.json"):
        Checkpoint(tmp_path)
