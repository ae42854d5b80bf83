"""What is measured, and what its series are called."""

from dataclasses import dataclass

# The context that series do not name.
CONTEXT = 512
# Decode steps begin so far from the end of their context, and stay inside it.
BEFORE_THE_END = 32


def decode(who, batch, context=CONTEXT):
    """Series of a decode step of `batch` rows near the end of a context."""
    return f"{who} decode b{batch}" + ("" if context == CONTEXT else f" c{context}")


def prefill(who, tokens):
    """Series of a prompt of so many tokens."""
    return f"{who} prefill {tokens}"


@dataclass(frozen=True)
class Effort:
    """How much of everything is measured in a round."""

    steps: int
    prefills: int
    # (batch, context)
    decodes: tuple = ((1, CONTEXT), (4, CONTEXT))
    # Tokens of a prompt.
    prompts: tuple = (512,)

    def __post_init__(self):
        assert self.steps <= BEFORE_THE_END, f"{self.steps} steps do not fit in a context"

    @property
    def batches(self):
        """Of the decode steps in the context that servers are measured in."""
        return sorted(batch for batch, context in self.decodes if context == CONTEXT)
