"""Functions that other exporters wrote: JAX's as text and as portable bytecode.

The models lie in tests/fixtures/jax, written by scripts/producers/jax_mlp.py.
"""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from harness import environment
from harness.tensors import PROTOCOLS, at_once, connected

FORMS = ("text", "bytecode")
FOLDER = environment.FIXTURES / "jax"
TOLERANCE = 1e-6


@pytest.fixture(scope="module", autouse=True)
def loaded(repository, server):
    for form in FORMS:
        model = repository.copy(FOLDER / f"jax_mlp_{form}", f"jax_mlp_{form}")
        server.load(model.name)


@pytest.fixture(scope="module")
def tensors():
    """Inputs and outputs that JAX computed."""
    recorded = json.loads((FOLDER / "jax_mlp_text" / "expected.json").read_text())
    return {name: np.array(rows, np.float32) for name, rows in recorded.items()}


def assert_same(outputs, tensors, rows):
    for name in ("PROBABILITIES", "ENERGY"):
        expected = tensors[name][rows]
        assert outputs[name].shape == expected.shape
        assert np.abs(outputs[name] / expected - 1).max() <= TOLERANCE


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("form", FORMS)
def test_it_answers_what_jax_does(server, tensors, form, protocol):
    with connected(server, protocol) as client:
        for rows in (slice(0, 1), slice(1, 4), slice(0, 8)):
            outputs = client.infer(f"jax_mlp_{form}", {"X": tensors["X"][rows]})
            assert_same(outputs, tensors, rows)
    # Control: a change in the sixth digit is seen.
    outputs["ENERGY"] = outputs["ENERGY"] * np.float32(1.00001)
    with pytest.raises(AssertionError):
        assert_same(outputs, tensors, rows)


@pytest.mark.parametrize("form", FORMS)
def test_rows_of_many_clients_share_executions(server, tensors, form):
    before = server.statistics(f"jax_mlp_{form}")
    requests = [{"X": tensors["X"][row : row + 1]} for row in range(8)] * 16
    answers = at_once(server, f"jax_mlp_{form}", requests, threads=16)
    for index, outputs in enumerate(answers):
        assert_same(outputs, tensors, slice(index % 8, index % 8 + 1))
    grown = server.statistics(f"jax_mlp_{form}") - before
    assert grown.inferences == 128 and grown.executions < 128


@pytest.mark.parametrize("form", FORMS)
def test_the_models_are_what_jax_writes(tmp_path, form):
    """Only where JAX is installed: the committed models are those of the script."""
    peers = sorted(environment.cache().glob("peers-python-*/bin/python"))
    python = os.environ.get("JAX_PYTHON") or (peers[-1] if peers else None)
    if python is None:
        pytest.skip("JAX is not installed (scripts/peers/setup.sh jax)")
    script = environment.SCRIPTS / "producers" / "jax_mlp.py"
    subprocess.run([python, script, tmp_path, "--form", form], check=True)
    committed = FOLDER / f"jax_mlp_{form}"
    files = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.*")}
    assert files == {str(path.relative_to(committed)) for path in committed.rglob("*.*")}
    for file in files:
        if Path(file).suffix in (".bin", ".pbtxt", ".mlir"):
            assert (tmp_path / file).read_bytes() == (committed / file).read_bytes(), file
    written, recorded = (
        json.loads((folder / "expected.json").read_text()) for folder in (tmp_path, committed)
    )
    for name, rows in written.items():
        np.testing.assert_allclose(rows, recorded[name], rtol=TOLERANCE)
