"""How much is measured: of a whole report, and of a quick one."""

from dataclasses import dataclass

from rounds.series import CONTEXT, Effort


@dataclass(frozen=True)
class Plan:
    rounds: int
    effort: Effort
    # Loads with the cache filled, after one with an empty cache.
    warm_loads: int
    # Prompts of the fixture that every peer continues.
    checked: int

    @property
    def contexts(self):
        return sorted({context for _, context in self.effort.decodes})

    @property
    def batches(self):
        return sorted({batch for batch, _ in self.effort.decodes})

    def ladder(self, batch):
        """Contexts in which steps of so many rows are measured."""
        return [context for rows, context in self.effort.decodes if rows == batch]

    @property
    def export_options(self):
        """Of the artifact that has all of these programs."""
        options = {
            "--contexts": self.contexts,
            "--batches": self.batches,
            "--prefill-batches": [1],
            "--prefill-chunk": self.effort.prompts,
        }
        return [word for name, values in options.items() for word in (name, _list(values))]


def _list(values):
    return ",".join(map(str, values))


LADDERS = (1, 4)
WHOLE = Plan(
    rounds=5,
    effort=Effort(
        steps=16,
        prefills=2,
        decodes=(
            *((batch, context) for batch in LADDERS for context in (128, CONTEXT, 1024, 2048)),
            (2, CONTEXT),
            (8, CONTEXT),
        ),
        prompts=(16, 64, 128, 512),
    ),
    warm_loads=3,
    checked=5,
)
QUICK = Plan(
    rounds=1,
    effort=Effort(
        steps=4,
        prefills=1,
        decodes=((1, 128), (1, CONTEXT), (4, CONTEXT)),
        prompts=(64, 512),
    ),
    warm_loads=1,
    checked=1,
)
