#!/usr/bin/env python3
"""Write libraries that stand in for the GPU libraries that PyTorch is linked with.

    gpu_stubs.py TORCH_LIBRARIES OUT

PyTorch as the registry has it does not load without libraries of 3 GB, of which it calls none as
long as nothing is asked of a GPU. Each stand-in has the name and the symbols that PyTorch wants,
and nothing behind them. Needs a C compiler and binutils.
"""

import argparse
import collections
import re
import subprocess
from pathlib import Path

# What a library's symbols begin with, where they have no version to tell whose they are.
PREFIXES = {"libnccl.so.2": "nccl", "libcufile.so.0": "cuFile", "libcusparseLt.so.0": "cusparseLt"}
GPU = re.compile(r"lib(cu|nccl|nv)")


def output(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


class Wanted:
    """What a folder of libraries needs of others."""

    def __init__(self, folder):
        files = list(folder.glob("*.so*"))
        self.libraries = set()
        self._versions = collections.defaultdict(set)
        self._symbols = collections.defaultdict(set)
        for file in files:
            self.libraries |= set(re.findall(r"NEEDED.*\[(.*)\]", output("readelf", "-dW", file)))
            self._read_versions(file)
            for symbol in output("nm", "-D", "--undefined-only", file).split():
                name, _, version = symbol.partition("@")
                self._symbols[version].add(name)
        self.libraries -= {file.name for file in files}

    def _read_versions(self, file):
        library = None
        for kind, name in re.findall(r"(File|Name): (\S+)", output("readelf", "-VW", file)):
            if kind == "File":
                library = name
            else:
                self._versions[library].add(name)

    def of(self, library):
        """The library's version, None where it has none, and its symbols."""
        versions = self._versions[library]
        if versions:
            (version,) = versions
            return version, self._symbols[version]
        prefix = PREFIXES.get(library)
        names = self._symbols[""] if prefix else ()
        return None, {name for name in names if name.startswith(prefix)}


def write(library, version, symbols, out):
    source, script = out / "stub.c", out / "stub.map"
    # Wide enough for the structures among them.
    source.write_text("".join(f"long {name}[512];\n" for name in sorted(symbols)) or "int none;\n")
    command = ["cc", "-shared", source, "-o", out / library, f"-Wl,-soname,{library}"]
    if version:
        script.write_text(f"{version} {{ global: *; }};\n")
        command.append(f"-Wl,--version-script={script}")
    output(*command)
    source.unlink()
    script.unlink(missing_ok=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("libraries", type=Path, help="the folder torch/lib")
    parser.add_argument("out", type=Path)
    parser.add_argument("--but", nargs="*", default=[], help="libraries that are really there")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    wanted = Wanted(arguments.libraries)
    for library in sorted(wanted.libraries - set(arguments.but)):
        if GPU.match(library):
            write(library, *wanted.of(library), arguments.out)


if __name__ == "__main__":
    main()
