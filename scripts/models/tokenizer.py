"""tokenizer.json and tokenizer_config.json from a GGUF file's metadata."""

# Values of `tokenizer.ggml.token_type`.
NORMAL_TOKEN = 1
CONTROL_TOKEN = 3
USER_DEFINED_TOKEN = 4

# SmolLM2's pre-tokenizer: digits one by one, then GPT-2's byte-level split.
# GGUF stores only its name, not its rules.
BYTE_LEVEL = {"add_prefix_space": False, "trim_offsets": True, "use_regex": True}

# SentencePiece writes a space so.
SPACE = "\u2581"


def tokenizer(meta):
    """tokenizer.json of the kind of tokenizer that the file names."""
    kind = meta["tokenizer.ggml.model"]
    if kind == "gpt2":
        return _byte_level_bpe(meta)
    if kind == "llama":
        return _sentence_piece_bpe(meta)
    raise SystemExit(f"convert: tokenizer.ggml.model is '{kind}', not 'gpt2' or 'llama'")


def tokenizer_config(meta, max_length):
    """tokenizer_config.json, with the chat template where the file has one."""
    result = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": _special_token(meta, "bos"),
        "eos_token": _special_token(meta, "eos"),
        "unk_token": _special_token(meta, "unknown"),
        "pad_token": _special_token(meta, "padding"),
        "add_bos_token": bool(meta.get("tokenizer.ggml.add_bos_token")),
        "clean_up_tokenization_spaces": False,
        "model_max_length": max_length,
    }
    if "tokenizer.chat_template" in meta:
        result["chat_template"] = meta["tokenizer.chat_template"]
    return result


def _special_token(meta, role):
    return meta["tokenizer.ggml.tokens"][meta[f"tokenizer.ggml.{role}_token_id"]]


def _vocabulary(meta):
    return {token: token_id for token_id, token in enumerate(meta["tokenizer.ggml.tokens"])}


def _added_tokens(meta, types):
    """The tokens of these types, which are found in the text before it is split."""
    return [
        {
            "id": token_id,
            "content": token,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": token_type == CONTROL_TOKEN,
        }
        for token_id, (token, token_type) in enumerate(
            zip(meta["tokenizer.ggml.tokens"], meta["tokenizer.ggml.token_type"])
        )
        if token_type in types
    ]


def _bpe(vocabulary, merges, unknown=None):
    """The model part: with an unknown token, bytes that no token covers fall back to it."""
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": unknown,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": unknown is not None,
        "byte_fallback": unknown is not None,
        "ignore_merges": False,
        "vocab": vocabulary,
        "merges": merges,
    }


def _byte_level_bpe(meta):
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": _added_tokens(meta, {CONTROL_TOKEN}),
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "Digits", "individual_digits": True},
                {"type": "ByteLevel", **BYTE_LEVEL},
            ],
        },
        "post_processor": None,
        "decoder": {"type": "ByteLevel", **BYTE_LEVEL, "add_prefix_space": True},
        "model": _bpe(
            _vocabulary(meta), [merge.split(" ") for merge in meta["tokenizer.ggml.merges"]]
        ),
    }


def _sentence_piece_bpe(meta):
    vocabulary = _vocabulary(meta)
    bos = _special_token(meta, "bos")
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": _added_tokens(meta, {CONTROL_TOKEN, USER_DEFINED_TOKEN}),
        "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": SPACE},
        "pre_tokenizer": {
            "type": "Split",
            "pattern": {"String": " "},
            "behavior": "MergedWithPrevious",
            "invert": False,
        },
        "post_processor": _begin_with(bos, vocabulary[bos]),
        "decoder": {
            "type": "Sequence",
            "decoders": [
                {"type": "Replace", "pattern": {"String": SPACE}, "content": " "},
                {"type": "ByteFallback"},
                {"type": "Fuse"},
            ],
        },
        "model": _bpe(vocabulary, _merges(meta, vocabulary), _special_token(meta, "unknown")),
    }


def _begin_with(token, token_id):
    """Put a token in front of every text."""

    def special(type_id):
        return {"SpecialToken": {"id": token, "type_id": type_id}}

    def text(name, type_id):
        return {"Sequence": {"id": name, "type_id": type_id}}

    return {
        "type": "TemplateProcessing",
        "single": [special(0), text("A", 0)],
        "pair": [special(0), text("A", 0), special(1), text("B", 1)],
        "special_tokens": {token: {"id": token, "ids": [token_id], "tokens": [token]}},
    }


def _merges(meta, vocabulary):
    """Which two tokens make which, the best first.

    SentencePiece stores a score per token instead: any split of a token into
    two others is a merge, and the score of what it makes is its rank.
    """
    types, scores = meta["tokenizer.ggml.token_type"], meta["tokenizer.ggml.scores"]
    normal = {
        token: token_id for token, token_id in vocabulary.items() if types[token_id] == NORMAL_TOKEN
    }
    ranked = []
    for token, token_id in normal.items():
        for middle in range(1, len(token)):
            left, right = token[:middle], token[middle:]
            if left in normal and right in normal:
                ranked.append((-scores[token_id], token_id, normal[left], normal[right]))
    ranked.sort()
    tokens = meta["tokenizer.ggml.tokens"]
    return [[tokens[left], tokens[right]] for _, _, left, right in ranked]
