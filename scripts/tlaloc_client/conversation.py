"""A conversation on one sequence: only what is new in a turn is sent."""

import time
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Turn:
    """What one reply took. Times in seconds, as the client saw them."""

    prompt_tokens: int
    reply_tokens: int
    prefill: float
    steps: tuple

    def __str__(self):
        text = (
            f"{self.reply_tokens} tokens, "
            f"prefill {1e3 * self.prefill:.1f} ms for {self.prompt_tokens} tokens"
        )
        if self.steps:
            rate = len(self.steps) / sum(self.steps)
            text += f", median {1e3 * median(self.steps):.1f} ms per token, {rate:.1f} tokens/s"
        return text


class Conversation:
    """Asks questions on a sequence and reads the greedy replies."""

    def __init__(self, sequence, checkpoint):
        self._sequence = sequence
        self._checkpoint = checkpoint
        # The last id of a reply that was cut short: the server has not seen it yet.
        self._unsent = []

    def ask(self, question, max_tokens, write):
        """Send a question, hand the reply's text to `write` as it comes; a `Turn`."""
        if self._sequence.open:
            prompt = self._unsent + self._checkpoint.next_turn(question)
        else:
            prompt = self._checkpoint.first_turn(question)
        text_of = self._checkpoint.stream()

        times = []
        token, replied = self._timed(prompt, times), 0
        while token not in self._checkpoint.stop_ids and replied < max_tokens:
            replied += 1
            write(text_of(token))
            if replied < max_tokens:
                token = self._timed([token], times)
        # A stop token is part of what the template writes after a reply.
        self._unsent = [] if token in self._checkpoint.stop_ids else [token]
        return Turn(len(prompt), replied, times[0], tuple(times[1:]))

    def _timed(self, tokens, times):
        started = time.perf_counter()
        token = self._sequence.next_token(tokens)
        times.append(time.perf_counter() - started)
        return token
