"""The server's metrics port."""

import re


class Metrics:
    """What the port showed at one moment."""

    def __init__(self, text):
        self.text = text
        self.values = {}
        for line in text.splitlines():
            found = re.fullmatch(r"(\w+)\{(.*)\} (\S+)", line)
            if found:
                labels = re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', found[2])
                self.values[found[1], frozenset(labels)] = float(found[3])

    def get(self, name, **labels):
        """The value with exactly these labels beside `version`; None where there is none."""
        return self.values.get((name, frozenset({"version": "1", **labels}.items())))

    def of(self, model):
        """Names of ours that the model has values of."""
        ours = [(name, dict(labels)) for name, labels in self.values if "tlaloc" in name]
        return {name for name, labels in ours if labels["model"] == model}


def of_instance(metrics, model, name, **labels):
    """A value of the model's only instance."""
    labels = {"model": model, "instance": f"{model}_0_0", **labels}
    return metrics.get(f"nv_tlaloc_{name}", **labels)
