"""Conversations: on one sequence, or with a model that generates its replies itself."""

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
    """Asks questions on a sequence, sending only what is new, and reads the greedy replies."""

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


class GeneratedConversation:
    """Asks questions in generation mode: the server renders, samples and writes the text.

    Each turn sends the whole conversation. `keys` are those of every request.
    """

    def __init__(self, client, model, **keys):
        self._client = client
        self._model = model
        self._keys = keys
        self._messages = []

    def ask(self, question, max_tokens, write):
        """Send a question, hand the reply's text to `write` as it comes; a `Turn`."""
        self._messages.append({"role": "user", "content": question})
        request = {"messages": self._messages, "max_tokens": max_tokens, "stream": True}
        times, replied, prompt, text = [], 0, 0, ""
        started = time.perf_counter()
        for outputs in self._client.generate(self._model, **request, **self._keys):
            now = time.perf_counter()
            times.append(now - started)
            started = now
            prompt = outputs["num_input_tokens"]
            replied += outputs["num_output_tokens"]
            text += outputs["text_output"]
            write(outputs["text_output"])
        self._messages.append({"role": "assistant", "content": text})
        return Turn(prompt, replied, times[0], tuple(times[1:]))
