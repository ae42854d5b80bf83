"""Gather the licences of everything that is linked into our binaries.

    licences.py FOLDER PACKAGE...

Writes FOLDER/index.tsv (name, version, licence expression) and
FOLDER/NAME-VERSION/ with the licence texts that each crate ships.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

PREFIXES = ("LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE")


def linked(metadata, roots):
    """The crates that end up in the packages `roots`, ours left out."""
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    waiting = [id for id, package in packages.items() if package["name"] in roots]
    found = set()
    while waiting:
        id = waiting.pop()
        if id in found:
            continue
        found.add(id)
        for dependency in nodes[id]["deps"]:
            # Neither build scripts nor tests are part of what is shipped.
            if any(kind["kind"] is None for kind in dependency["dep_kinds"]):
                waiting.append(dependency["pkg"])
    crates = [packages[id] for id in found if packages[id]["source"] is not None]
    return sorted(crates, key=lambda crate: (crate["name"], crate["version"]))


def texts(crate):
    folder = Path(crate["manifest_path"]).parent
    files = [file for file in folder.iterdir() if file.name.upper().startswith(PREFIXES)]
    return sorted(file for file in files if file.is_file())


def main():
    out, roots = Path(sys.argv[1]), set(sys.argv[2:])
    command = ["cargo", "metadata", "--format-version", "1", "--locked"]
    target = "x86_64-unknown-linux-gnu"
    described = subprocess.run(
        [*command, "--filter-platform", target], check=True, stdout=subprocess.PIPE, text=True
    )
    crates = linked(json.loads(described.stdout), roots)
    out.mkdir(parents=True)
    rows = []
    for crate in crates:
        name = f"{crate['name']}-{crate['version']}"
        files = texts(crate)
        if not crate["license"] or not files:
            sys.exit(f"{name} names no licence or ships no text of it: it cannot be packaged")
        (out / name).mkdir()
        for file in files:
            shutil.copyfile(file, out / name / file.name)
        rows.append(f"{crate['name']}\t{crate['version']}\t{crate['license']}\n")
    (out / "index.tsv").write_text("".join(rows), encoding="utf-8")


main()
