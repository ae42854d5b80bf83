#!/usr/bin/env python3
"""Talk to a served model over gRPC; the reply appears token by token.

With --mode generate the server does it all: it renders the chat template,
samples and sends text. In sequence mode the conversation is one sequence on the
server: each turn sends only its new tokens, and the KV of what was said before
is kept until the end; tokenizer and choice of tokens are this client's.
"""

import argparse
import json
import os
import signal
import sys

try:
    from tlaloc_client.checkpoint import Checkpoint
    from tlaloc_client.conversation import Conversation, GeneratedConversation
    from tlaloc_client.generation import Client as GenerationClient
    from tlaloc_client.sequence import Client
    from tritonclient.utils import InferenceServerException
except ModuleNotFoundError as missing:
    sys.exit(f"chat: {missing.name} is missing; run this with $TLALOC_PYTHON of scripts/setup.sh")


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="chat", help="its name on the server (%(default)s)")
    parser.add_argument("--url", default="localhost:8001", help="host:port of gRPC (%(default)s)")
    parser.add_argument(
        "--mode",
        choices=["sequence", "generate"],
        default="sequence",
        help="how the model is served (%(default)s)",
    )
    parser.add_argument(
        "--checkpoint",
        default=os.environ.get("TLALOC_SMOLLM2"),
        help="sequence mode: folder with the model's tokenizer and chat template ($TLALOC_SMOLLM2)",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        type=key_and_value,
        metavar="KEY=JSON",
        help="generation mode: a key of every request, as temperature=0.7 (it is 0 otherwise)",
    )
    parser.add_argument("--question", help="what to ask")
    parser.add_argument("--interactive", action="store_true", help="ask more on standard input")
    parser.add_argument(
        "--max-tokens", type=int, default=256, help="longest reply, in tokens (%(default)s)"
    )
    chosen = parser.parse_args()
    if chosen.question is None and not chosen.interactive:
        parser.error("give --question or --interactive")
    if chosen.mode == "sequence" and chosen.set:
        parser.error("--set belongs to --mode generate")
    if chosen.mode == "sequence" and chosen.checkpoint is None:
        parser.error(
            "give --checkpoint, or export TLALOC_SMOLLM2 (scripts/setup.sh --env prints it)"
        )
    if chosen.max_tokens < 1:
        parser.error("--max-tokens must be at least 1")
    return chosen


def key_and_value(text):
    """`KEY=JSON`; a text needs no quotes."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"'{text}' is not KEY=JSON")
    try:
        return key, json.loads(value)
    except json.JSONDecodeError:
        return key, value


def questions(chosen):
    """The question given, then, interactively, those typed until end of input."""
    if chosen.question is not None:
        yield chosen.question
    while chosen.interactive:
        try:
            line = input("> ").strip()
        except EOFError:
            return
        if line:
            yield line


def write(text):
    sys.stdout.write(text)
    sys.stdout.flush()


def chat(chosen):
    if chosen.mode == "generate":
        keys = {"temperature": 0.0, **dict(chosen.set)}
        with GenerationClient(chosen.url) as client:
            talk(chosen, GeneratedConversation(client, chosen.model, **keys))
        return
    checkpoint = Checkpoint(chosen.checkpoint)
    with Client(chosen.url) as client, client.sequence(chosen.model) as sequence:
        talk(chosen, Conversation(sequence, checkpoint))


def talk(chosen, conversation):
    for question in questions(chosen):
        turn = conversation.ask(question, chosen.max_tokens, write)
        write(f"\n[{turn}]\n")


def main():
    chosen = arguments()
    # Ends the sequence or the request on the way out, as Ctrl-C does.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        chat(chosen)
    except KeyboardInterrupt:
        write("\n")
        sys.exit(128 + signal.SIGINT)
    except (OSError, InferenceServerException) as error:
        write("\n")
        sys.exit(f"chat: {error}")


if __name__ == "__main__":
    main()
