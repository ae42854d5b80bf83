#!/usr/bin/env python3
"""Talk to a served model over gRPC; the reply appears token by token.

The conversation is one sequence on the server: each turn sends only its new
tokens, and the KV of what was said before is kept until the end.
"""

import argparse
import os
import signal
import sys

try:
    from tlaloc_client.checkpoint import Checkpoint
    from tlaloc_client.conversation import Conversation
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
        "--checkpoint",
        default=os.environ.get("TLALOC_SMOLLM2"),
        help="folder with the model's tokenizer and chat template ($TLALOC_SMOLLM2)",
    )
    parser.add_argument("--question", help="what to ask")
    parser.add_argument("--interactive", action="store_true", help="ask more on standard input")
    parser.add_argument(
        "--max-tokens", type=int, default=256, help="longest reply, in tokens (%(default)s)"
    )
    chosen = parser.parse_args()
    if chosen.question is None and not chosen.interactive:
        parser.error("give --question or --interactive")
    if chosen.checkpoint is None:
        parser.error(
            "give --checkpoint, or export TLALOC_SMOLLM2 (scripts/setup.sh --env prints it)"
        )
    if chosen.max_tokens < 1:
        parser.error("--max-tokens must be at least 1")
    return chosen


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
    checkpoint = Checkpoint(chosen.checkpoint)
    with Client(chosen.url) as client, client.sequence(chosen.model) as sequence:
        conversation = Conversation(sequence, checkpoint)
        for question in questions(chosen):
            turn = conversation.ask(question, chosen.max_tokens, write)
            write(f"\n[{turn}]\n")


def main():
    chosen = arguments()
    # Ends the sequence on the way out, as Ctrl-C does.
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
