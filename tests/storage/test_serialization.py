"""The seal: one changed bit anywhere in a file is found."""

from __future__ import annotations

import pytest
import torch

from metasym.storage.serialization import CheckpointError, pack, unpack


def test_every_bit_of_a_file_is_under_its_seal():
    data = pack({"a": torch.ones(3), "b": {"x": 1, "y": [1, 2.5, None]}, "s": 'text ä "sha256":"'})
    for place in range(len(data)):
        for bit in range(8):
            changed = bytearray(data)
            changed[place] ^= 1 << bit
            with pytest.raises(CheckpointError):
                unpack(bytes(changed), "file")


@pytest.mark.parametrize("state", [[1, 2], 3, None, "text"])
def test_a_sealed_file_with_no_state_is_refused(monkeypatch, state):
    monkeypatch.setattr("metasym.storage.serialization._encode", lambda *_: state)
    data = pack({})
    monkeypatch.undo()
    with pytest.raises(CheckpointError, match="bad content"):
        unpack(data, "file")
