"""What processes hold in memory, as the kernel counts it."""

from dataclasses import dataclass
from pathlib import Path

MB = 1e6
KIB = 1024


@dataclass(frozen=True)
class Held:
    """MB (10^6 bytes)."""

    resident: float
    # Of this process alone: not files that are mapped, nor what others share.
    private: float
    # Resident pages of the files below a folder.
    mapped: float


def parse(smaps, folder):
    """Of the text of /proc/PID/smaps."""
    resident = private = mapped = 0
    within = False
    for line in smaps.splitlines():
        name, _, rest = line.partition(":")
        if "-" in name.split(" ")[0]:
            # The first line of a mapping: address range, rights, offset, device, inode, path.
            path = line.split(maxsplit=5)[5:]
            within = bool(path) and path[0].startswith(f"{folder}/")
        elif name == "Rss":
            size = int(rest.split()[0]) * KIB
            resident += size
            mapped += size * within
        elif name in ("Private_Dirty", "Private_Clean") and not within:
            private += int(rest.split()[0]) * KIB
    return Held(resident / MB, private / MB, mapped / MB)


def held(pids, folder="/nowhere"):
    """Of several processes together."""
    found = [parse(Path(f"/proc/{pid}/smaps").read_text(), folder) for pid in pids]
    return Held(*(sum(getattr(one, part) for one in found) for part in Held.__annotations__))


def pools(metrics, model):
    """MB of each kind that the server says it holds on a model's device."""
    kinds = {}
    for line in metrics.splitlines():
        if line.startswith("nv_tlaloc_runtime_memory_metrics{") and f'model="{model}"' in line:
            labels, value = line.rsplit(" ", 1)
            kind = labels.partition('memory_type="')[2].partition('"')[0]
            kinds[kind] = kinds.get(kind, 0) + float(value) / MB
    return kinds
