"""The example models."""

from . import environment

FOLDER = environment.ROOT / "model-repository"


def add(repository, name, served_as=None):
    """A copy of an example in a repository, under another name if one is given."""
    model = repository.copy(FOLDER / name, served_as or name)
    model.substitute(f'name: "{name}"', f'name: "{model.name}"')
    return model
