"""What loading costs: programs come from the compile cache, weights stay in their files."""

import json
import os
import re

import pytest
from harness import environment, fixtures, models
from harness.decoding import greedy_alone, together
from harness.faults import Plan
from harness.server import running

MIB = 1 << 20
PROMPT = fixtures.tiny_oracle("llama")["prompts"][1]
IDS = PROMPT["greedy_ids"][:4]
ENTRIES = 2
READ = r"model '{name}': read from the compile cache "
COMPILED = r"model '{name}': compiled "


@pytest.fixture(scope="module")
def artifact():
    return models.export(
        fixtures.tiny_checkpoint("llama"), "llama-load", contexts=[64], batches=[1]
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("programs")


@pytest.fixture(scope="module")
def server(repository, artifact, folder):
    """A server whose cache has the programs of its model."""
    repository.add(artifact, "tiny")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TLALOC_COMPILE_CACHE_DIR", str(folder))
        with running(repository) as server:
            assert load(server) == (ENTRIES, 0, [])
            yield server


def load(server, name="tiny"):
    """How many programs were compiled, how many read, and the warnings on the way."""
    mark = server.log.mark()
    server.load(name)
    assert greedy_alone(server, name, PROMPT["prompt_ids"], len(IDS)) == IDS
    server.unload(name)
    text = server.log.text(mark)
    ready = [f"{n} of {ENTRIES} entries are ready" for n in range(1, ENTRIES + 1)]
    assert sorted(re.findall(r"\d+ of \d+ entries are ready", text)) == ready
    counts = [len(re.findall(line.format(name=name), text)) for line in (COMPILED, READ)]
    warnings = [line for line in text.splitlines() if line.startswith("W") and "cache" in line]
    return *counts, warnings


def programs(folder):
    return sorted(path for path in folder.iterdir() if path.is_file())


def flipped(whole, _):
    middle = len(whole) // 2
    return whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]


UNUSABLE = {
    "flipped": (flipped, "it is damaged"),
    "truncated": (lambda whole, _: whole[: len(whole) // 3], "it is damaged"),
    "empty": (lambda *_: b"", "it is damaged"),
    "foreign": (lambda _, other: other, "it is another program's, plugin's or machine's"),
}


@pytest.mark.parametrize("kind", UNUSABLE)
def test_an_unusable_program_is_told_of_once_and_written_anew(server, folder, kind):
    spoil, reason = UNUSABLE[kind]
    files = programs(folder)
    assert len(files) == ENTRIES
    whole = [file.read_bytes() for file in files]
    files[0].write_bytes(spoil(*whole))
    compiled, read, warnings = load(server)
    assert (compiled, read) == (1, ENTRIES - 1)
    assert len(warnings) == 1 and files[0].name in warnings[0] and reason in warnings[0]
    # The control: what was written anew is good.
    assert load(server) == (0, ENTRIES, [])
    assert programs(folder) == files


def test_servers_share_a_folder(server, repository, folder):
    for file in programs(folder):
        file.unlink()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TLALOC_COMPILE_CACHE_DIR", str(folder))
        with running(repository) as other:
            found = together(server, [lambda _: load(server), lambda _: load(other)])
            assert all(warnings == [] for _, _, warnings in found)
            assert load(server) == load(other) == (0, ENTRIES, [])
    assert len(programs(folder)) == ENTRIES


def with_ballast(model, count, byte_size):
    """More weights, of zeros that take no room on disk; the logits get the first of each."""
    elements = byte_size // 4
    path = model.version / "tlaloc-serving.json"
    manifest = json.loads(path.read_text())
    names = [f"ballast{index}" for index in range(count)]
    kind = {"dtype": "f32", "dims": [elements], "axisNames": []}
    for name in names:
        file = f"weights/{name}.bin"
        with open(model.version / file, "wb") as weight:
            weight.truncate(byte_size)
        row = {"name": name, "path": file, "dtype": "f32", "dims": [elements]}
        table = manifest["weights"]["table"]
        table.append({**row, "byteLength": byte_size, "sha256": "0" * 64})
        for entry in manifest["entries"]:
            entry["inputs"].append({"name": name, "role": "WEIGHT", "type": kind})
    model.write(path, json.dumps(manifest).encode())
    for body in (model.version / "bodies").iterdir():
        text = body.read_text()
        arguments = "".join(f", %{name}: tensor<{elements}xf32>" for name in names)
        text, replaced = re.subn(r"\) -> \(tensor", arguments + ") -> (tensor", text, count=1)
        assert replaced == 1
        logits, shape = re.search(r"\n *return (%\S+), .* : (tensor<\S+>)", text).groups()
        adding = ""
        for name in names:
            adding += (
                f"    %{name}_first = stablehlo.slice %{name} [0:1] : "
                f"(tensor<{elements}xf32>) -> tensor<1xf32>\n"
                f"    %{name}_wide = stablehlo.broadcast_in_dim %{name}_first, dims = [0] : "
                f"(tensor<1xf32>) -> {shape}\n"
                f"    %{name}_sum = stablehlo.add {logits}, %{name}_wide : {shape}\n"
            )
            logits = f"%{name}_sum"
        ending = f"\n{adding}    return {logits},"
        text = re.sub(r"\n *return %\S+,", ending, text, count=1)
        model.write(body, text.encode())


def added(server, name):
    """Bytes of private memory that the loaded model adds."""
    before = server.private_bytes()
    server.load(name)
    assert greedy_alone(server, name, PROMPT["prompt_ids"], len(IDS)) == IDS
    after = server.private_bytes()
    server.unload(name)
    return after - before


def test_weights_stay_in_their_files(server, repository, artifact, tmp_path):
    with_ballast(repository.add(artifact, "four_gib"), 4, 1024 * MIB)
    copied = repository.add(artifact, "copied")
    with_ballast(copied, 1, 256 * MIB)
    assert added(server, "four_gib") < 100 * MIB
    # The control: a plugin that does not tell where its memory is has to be given a copy.
    copied.set_parameter("pjrt_plugin_path", environment.binary("libpjrt_fault.so"))
    plan = Plan(tmp_path / "plan")
    plan.set("hide PJRT_Buffer_OpaqueDeviceMemoryDataPointer")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PJRT_FAULT_TARGET", os.environ["TLALOC_PJRT_PLUGIN_PATH"])
        patch.setenv("PJRT_FAULT_PLAN", str(plan.path))
        with running(repository) as other:
            assert added(other, "copied") > 200 * MIB
