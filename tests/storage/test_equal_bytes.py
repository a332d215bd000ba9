"""Equal runs write equal files: what is packed does not depend on the process that packs it."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys

import torch

from metasym.storage.serialization import pack, unpack

_PACKED = (
    "import hashlib, torch; from metasym.storage.serialization import pack;"
    "print(hashlib.sha256(pack({'b': torch.arange(3), 'a': {'ü': torch.ones(2, 2), 'n': 1}})).hexdigest())"
)


def test_the_bytes_are_the_same_in_every_process():
    """The library that writes the header orders its metadata by a hash that differs from process to process."""
    state = {"b": torch.arange(3), "a": {"ü": torch.ones(2, 2), "n": 1}}
    packed = pack(state)
    header = json.loads(packed[8 : 8 + int.from_bytes(packed[:8], "little")])
    assert next(iter(header)) == "__metadata__"
    assert list(header["__metadata__"]) == ["metasym", "sha256"]
    ran = subprocess.run([sys.executable, "-c", _PACKED], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == hashlib.sha256(packed).hexdigest()
    found = unpack(packed, "x")
    assert torch.equal(found["b"], state["b"])
    assert torch.equal(found["a"]["ü"], state["a"]["ü"])


def test_packing_twelve_times_gives_one_file():
    assert len({pack({"x": torch.zeros(1), "text": "t"}) for _ in range(12)}) == 1
