"""A plugin that fails on demand; `pjrt/fault/src/lib.rs` tells the language of its plans."""

import itertools
import json
import os
import re
import time

from . import environment


class Plan:
    """What the plugin is to fail at, changed while the server runs.

    Reports of what the plugin has seen cost a file at every call of it.
    """

    def __init__(self, path, reports=True):
        self.path = path
        self._reports = reports
        self._report = path.with_name(path.name + ".report")
        self._numbers = itertools.count()

    def set(self, *lines):
        """Calls are counted from here on, even where the lines are those of the last plan."""
        replacement = self.path.with_name(self.path.name + ".new")
        report = [f"report {self._report}"] if self._reports else []
        lines = [f"# plan {next(self._numbers)}", *report, *lines]
        replacement.write_text("".join(f"{line}\n" for line in lines))
        os.replace(replacement, self.path)

    def report(self):
        """What the plugin has seen: see its `report` line."""
        return json.loads(self._report.read_text())

    def live(self):
        """Handles by kind, while none of them comes or goes.

        The server says that a model is unloaded before all of it is gone.
        """
        live, earlier = self.report()["live"], None
        while live != earlier:
            time.sleep(0.05)
            live, earlier = self.report()["live"], live
        return live

    def environment(self, patch):
        """Sets what the plugin reads from the environment of a server."""
        patch.setenv("PJRT_FAULT_TARGET", environment.variables()["TLALOC_PJRT_PLUGIN_PATH"])
        patch.setenv("PJRT_FAULT_PLAN", str(self.path))


class Plugins:
    """The plugin by many paths: for each, its table is made anew by the plan of its first use."""

    def __init__(self, folder):
        self._folder = folder
        self._numbers = itertools.count()

    def fresh(self):
        link = self._folder / f"libpjrt_fault_{next(self._numbers)}.so"
        link.symlink_to(environment.binary("libpjrt_fault.so"))
        return link


def functions_in_use():
    """The functions of the C API that the safe crate calls."""
    names = set()
    for file in (environment.ROOT / "pjrt" / "safe" / "src").rglob("*.rs"):
        calls = re.findall(r"(?:call|entry)!\([^,]{1,30},\s*(PJRT_\w+)", file.read_text())
        names.update(name for name in calls if not name.endswith("_Args"))
    return names
