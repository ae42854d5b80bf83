"""The example models of tensor mode."""

from . import environment


def folder():
    """The folder with one model directory for each example."""
    exported = environment.ROOT / "model-repository"
    return exported if exported.is_dir() else environment.FIXTURES / "tensor"


def add(repository, name):
    """A copy of an example in a repository, for whatever devices the machine has."""
    model = repository.copy(folder() / name, name)
    if "KIND_GPU" in model.config:
        model.substitute(r"instance_group.*", "instance_group [ { kind: KIND_MODEL count: 1 } ]")
    return model
