"""A checkpoint's config and tensors, to be read, changed and written elsewhere."""

import json

import numpy as np


class Checkpoint:
    """All of a small checkpoint. Tensors are float32 in memory, whatever the file has."""

    def __init__(self, config, tensors, dtypes=None):
        self.config = config
        self.tensors = tensors
        self._dtypes = dtypes or {}

    @classmethod
    def read(cls, folder):
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        data = (folder / "model.safetensors").read_bytes()
        start = 8 + int.from_bytes(data[:8], "little")
        header = json.loads(data[8:start])
        header.pop("__metadata__", None)
        tensors, dtypes = {}, {}
        for name, entry in header.items():
            first, last = (start + offset for offset in entry["data_offsets"])
            dtypes[name] = entry["dtype"]
            tensors[name] = _decode(data[first:last], entry["dtype"]).reshape(entry["shape"])
        return cls(config, tensors, dtypes)

    @property
    def text(self):
        """The configuration of the text decoder, which multimodal ones nest."""
        return self.config.get("text_config", self.config)

    def named(self, *endings):
        """The names of the text decoder's tensors that end so."""
        return [
            name
            for name in self.tensors
            if name.endswith(endings) and not name.startswith(("model.visual", "model.vision"))
        ]

    def change(self, ending, function):
        """Put `function(tensor)` in place of each tensor whose name ends so."""
        names = self.named(ending)
        assert names, f"no tensor's name ends in {ending}"
        for name in names:
            self.tensors[name] = function(self.tensors[name])

    def write(self, folder):
        folder.mkdir(parents=True)
        (folder / "config.json").write_text(json.dumps(self.config), encoding="utf-8")
        header, parts, offset = {}, [], 0
        for name, tensor in self.tensors.items():
            dtype = self._dtypes.get(name, "F32")
            part = _encode(tensor, dtype)
            header[name] = {
                "dtype": dtype,
                "shape": list(tensor.shape),
                "data_offsets": [offset, offset + len(part)],
            }
            parts.append(part)
            offset += len(part)
        text = json.dumps(header).encode()
        parts = [len(text).to_bytes(8, "little"), text, *parts]
        (folder / "model.safetensors").write_bytes(b"".join(parts))


def _decode(data, dtype):
    if dtype == "BF16":
        return (np.frombuffer(data, "<u2").astype(np.uint32) << 16).view(np.float32)
    assert dtype == "F32", dtype
    return np.frombuffer(data, "<f4")


def _encode(values, dtype):
    values = np.ascontiguousarray(values, dtype="<f4")
    if dtype == "BF16":
        bits = values.view(np.uint32)
        return ((bits + ((bits >> 16) & 1) + 0x7FFF) >> 16).astype("<u2").tobytes()
    return values.tobytes()
