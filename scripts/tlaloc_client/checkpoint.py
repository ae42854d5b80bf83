"""The text side of a Hugging Face checkpoint: tokenizer, chat template, stop tokens."""

import json
from datetime import datetime
from pathlib import Path

from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

# Stands for a reply whose tokens the server holds already. No template changes it.
REPLY = "\ufdd0reply\ufdd0"


class Checkpoint:
    """Reads the folder's tokenizer and configuration files, not its weights."""

    def __init__(self, folder):
        folder = Path(folder)
        if not (folder / "tokenizer.json").is_file():
            raise FileNotFoundError(f"{folder} holds no tokenizer.json: is it a checkpoint folder?")
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        config = _read_json(folder / "tokenizer_config.json")
        self._special_tokens = {
            key: value["content"] if isinstance(value, dict) else value
            for key, value in config.items()
            if key.endswith("_token") and isinstance(value, (dict, str))
        }
        self._template = _chat_template(folder, config)
        self.stop_ids = _stop_ids(folder)

    def first_turn(self, question):
        """The ids that open a conversation and leave the model to answer.

        Without a chat template (a base model) the question is the text to continue.
        """
        if self._template is None:
            return self.tokenizer.encode(question).ids
        return self._encode(self._render([_message("user", question)]))

    def next_turn(self, question):
        """The ids between the model's last reply and its next one."""
        if self._template is None:
            return self._encode(question)
        # What a template writes after a reply does not depend on what was said before it.
        messages = [
            _message("user", question),
            _message("assistant", REPLY),
            _message("user", question),
        ]
        return self._encode(self._render(messages).rpartition(REPLY)[2])

    def stream(self):
        """A function from each next id to the text that it completes.

        Characters of several tokens come out whole, with their last token.
        """
        decoder = DecodeStream(skip_special_tokens=True)
        return lambda token_id: decoder.step(self.tokenizer, token_id) or ""

    def _encode(self, text):
        # A template writes its special tokens out.
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def _render(self, messages):
        return self._template.render(
            messages=messages, add_generation_prompt=True, **self._special_tokens
        )


def _message(role, content):
    return {"role": role, "content": content}


def _read_json(path):
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def _chat_template(folder, config):
    """The compiled template, in either place that checkpoints keep one, or None."""
    file = folder / "chat_template.jinja"
    source = file.read_text(encoding="utf-8") if file.is_file() else config.get("chat_template")
    if isinstance(source, list):  # several, by name
        source = {entry["name"]: entry["template"] for entry in source}.get("default")
    if source is None:
        return None

    def raise_exception(message):
        raise TemplateError(message)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = lambda layout: datetime.now().strftime(layout)
    return environment.from_string(source)


def _stop_ids(folder):
    """The ids that end a reply: generation_config.json goes before config.json."""
    for name in ("generation_config.json", "config.json"):
        ids = _read_json(folder / name).get("eos_token_id")
        if ids is not None:
            return frozenset([ids] if isinstance(ids, int) else ids)
    return frozenset()
