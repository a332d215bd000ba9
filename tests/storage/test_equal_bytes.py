"""Equal runs write equal files: what is packed does not depend on the process that packs it."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys

import torch

import metasym as ms
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


def test_filters_that_start_at_zero_have_no_sign():
    """Each was a random number times 0: its sign differed from run to run, and with it the first checkpoint."""
    for _ in range(3):
        model = ms.reparameterize(torch.nn.Linear(6, 6, bias=False), filter_std=0.0)
        for start in ms.split(model).v.values():
            assert not start.any()
            assert not torch.signbit(start).any()
