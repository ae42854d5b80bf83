"""A plugin that fails on demand."""

import os


class Plan:
    """What the plugin is to fail at, changed while the server runs."""

    def __init__(self, path):
        self.path = path

    def set(self, *lines):
        replacement = self.path.with_name(self.path.name + ".new")
        replacement.write_text("".join(f"{line}\n" for line in lines))
        os.replace(replacement, self.path)
