"""What Python's tokenizers and jinja2 make of tokens and chat templates, as fixtures.

    python text.py OUT --checkpoint NAME=FOLDER ...

Writes OUT/tokenizer.json (a small vocabulary as Llama 2 has it: spaces as U+2581, unknown
characters as bytes), OUT/decoded.json and OUT/rendered.json. Checkpoints are told apart by NAME.
The chat templates are those in OUT/templates and those of the checkpoints.
"""

import argparse
import datetime
import json
import random
from pathlib import Path

from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer

SENTENCES = [
    "Hello, world!",
    "  two spaces, a tab\tand a line\nbreak ",
    "naïve café, Größe, Ελληνικά, русский",
    "日本語の文字と中文字符，한국어",
    "😀 👩‍👩‍👧 🇫🇷 🏳️‍🌈 e\u0301",
    "हिन्दी ภาษาไทย עברית",
    "don't stop . Is it ? Yes !",
    "",
    " ",
    "\ufffd and \u2581 as they are",
]
WORDS = ["▁the", "▁a", "he", "er", "▁t", "th", "in", "an", "on", "▁w", "or", "ld", "el", "lo"]
DECODERS = {
    "metaspace": {
        "type": "Metaspace",
        "replacement": "▁",
        "prepend_scheme": "always",
        "split": True,
    },
    "metaspace_bytes": {
        "type": "Sequence",
        "decoders": [
            {"type": "ByteFallback"},
            {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never", "split": True},
        ],
    },
    "gemma": {
        "type": "Sequence",
        "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
            {"type": "ByteFallback"},
            {"type": "Fuse"},
        ],
    },
    "wordpiece": {"type": "WordPiece", "prefix": "▁", "cleanup": True},
    "suffix": {"type": "BPEDecoder", "suffix": "▁"},
    "bytelevel": {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": False,
        "use_regex": False,
    },
    "none": None,
}
NOW = datetime.datetime(2026, 2, 3, 4, 5, 6)
CONVERSATIONS = [
    [{"role": "user", "content": "Hello"}],
    [
        {"role": "system", "content": "  Be brief.\n"},
        {"role": "user", "content": "What is 2 + 2?"},
        {"role": "assistant", "content": "<think>\nSum.\n</think>\n\n4 "},
        {"role": "user", "content": "And \"3 < 4\" & 'so' on? 日本 😀"},
    ],
    [{"role": "assistant", "content": "I begin."}, {"role": "user", "content": ""}],
    [
        {"role": "user", "content": "Weather?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"function": {"name": "weather", "arguments": {"city": "Zürich", "days": 2}}}
            ],
        },
        {"role": "tool", "name": "weather", "content": "rain"},
    ],
    [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}],
    [{"role": "narrator", "content": "Once."}],
]


def llama_style():
    """The vocabulary: special tokens, bytes, characters, some words with their merges."""
    characters = "▁" + "".join(chr(code) for code in range(ord("!"), ord("~") + 1)) + "éß日"
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    tokens += list(characters)
    merges = []
    for word in WORDS:
        for length in range(2, len(word) + 1):
            if word[:length] not in tokens:
                tokens.append(word[:length])
                merges.append([word[: length - 1], word[length - 1]])
    special = ["<unk>", "<s>", "</s>"]
    return {
        "version": "1.0",
        # A checkpoint may be saved with a limit. A server must not cut prompts by it.
        "truncation": {
            "direction": "Right",
            "max_length": 8,
            "strategy": "LongestFirst",
            "stride": 0,
        },
        "padding": None,
        "added_tokens": [
            {
                "id": index,
                "content": token,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for index, token in enumerate(special)
        ],
        "normalizer": {
            "type": "Sequence",
            "normalizers": [
                {"type": "Prepend", "prepend": "▁"},
                {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
            ],
        },
        "pre_tokenizer": None,
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [
                {"SpecialToken": {"id": "<s>", "type_id": 0}},
                {"Sequence": {"id": "A", "type_id": 0}},
            ],
            "pair": [
                {"Sequence": {"id": "A", "type_id": 0}},
                {"Sequence": {"id": "B", "type_id": 1}},
            ],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}},
        },
        "decoder": {
            "type": "Sequence",
            "decoders": [
                {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
                {"type": "ByteFallback"},
                {"type": "Fuse"},
                {"type": "Strip", "content": " ", "start": 1, "stop": 0},
            ],
        },
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": "<unk>",
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": True,
            "byte_fallback": True,
            "vocab": {token: index for index, token in enumerate(tokens)},
            "merges": merges,
        },
    }


def decoded(name, tokenizer, rng):
    """Texts encoded, and any tokens decoded, with and without the special ones."""
    tokenizer.no_truncation()
    vocab = tokenizer.get_vocab_size()
    encoded = [
        {
            "text": text,
            "ids": tokenizer.encode(text, add_special_tokens=False).ids,
            "special": tokenizer.encode(text).ids,
        }
        for text in SENTENCES
    ]
    sequences = [case["special"] for case in encoded]
    sequences += [[rng.randrange(vocab) for _ in range(rng.randrange(1, 24))] for _ in range(10)]
    # Special tokens and bytes lie at the start of a vocabulary.
    sequences += [[rng.randrange(300) for _ in range(rng.randrange(1, 24))] for _ in range(10)]
    cases = [
        {
            "ids": ids,
            "text": tokenizer.decode(ids, skip_special_tokens=False),
            "skipped": tokenizer.decode(ids, skip_special_tokens=True),
        }
        for ids in sequences
        if ids
    ]
    return {"name": name, "encoded": encoded, "decoded": cases}


def environment():
    """Jinja2 as Hugging Face's transformers sets it up for chat templates."""

    def raise_exception(message):
        raise TemplateError(message)

    def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(
            value,
            ensure_ascii=ensure_ascii,
            indent=indent,
            separators=separators,
            sort_keys=sort_keys,
        )

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = NOW.strftime
    return environment


def rendered(name, source, special_tokens):
    template = environment().from_string(source)
    cases = []
    for messages in CONVERSATIONS:
        for add_generation_prompt in (True, False):
            case = {
                # As a request says it: the order of keys counts.
                "messages": json.dumps(messages, ensure_ascii=False),
                "add_generation_prompt": add_generation_prompt,
            }
            try:
                case["text"] = template.render(
                    messages=messages,
                    add_generation_prompt=add_generation_prompt,
                    tools=None,
                    documents=None,
                    **special_tokens,
                )
            except TemplateError as error:
                case["raised"] = str(error)
            except TypeError:
                case["raised"] = None  # by Python itself, in its own words
            cases.append(case)
    return {"name": name, "special_tokens": special_tokens, "cases": cases}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--checkpoint", action="append", default=[])
    arguments = parser.parse_args()
    rng = random.Random(7)
    special_tokens = {"bos_token": "<s>", "eos_token": "</s>"}

    tokenizers, templates = [], []
    small = llama_style()
    write(arguments.out / "tokenizer.json", small)
    tokenizers.append(decoded("llama", Tokenizer.from_str(json.dumps(small)), rng))
    for name, decoder in DECODERS.items():
        other = Tokenizer.from_str(json.dumps({**small, "decoder": decoder}))
        tokenizers.append({**decoded(name, other, rng), "decoder": decoder})
    for path in sorted((arguments.out / "templates").glob("*.jinja")):
        templates.append(rendered(path.stem, path.read_text(encoding="utf-8"), special_tokens))
    for checkpoint in arguments.checkpoint:
        name, folder = checkpoint.split("=", 1)
        folder = Path(folder)
        tokenizers.append(decoded(name, Tokenizer.from_file(str(folder / "tokenizer.json")), rng))
        config = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
        if "chat_template" in config:
            tokens = {key: value for key, value in config.items() if key.endswith("_token")}
            tokens = {key: value for key, value in tokens.items() if isinstance(value, str)}
            templates.append(rendered(name, config["chat_template"], tokens))

    write(arguments.out / "decoded.json", tokenizers)
    now = int(NOW.replace(tzinfo=datetime.timezone.utc).timestamp())
    write(arguments.out / "rendered.json", {"now": now, "templates": templates})


def write(path, value):
    text = json.dumps(value, ensure_ascii=False, indent=None, separators=(",", ":"))
    # One case a line, so that a difference can be read.
    path.write_text(text.replace('},{"', '},\n{"') + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
