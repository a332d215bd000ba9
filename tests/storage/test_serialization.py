"""The seal: one changed bit anywhere in a file is found."""

from __future__ import annotations

import pytest
import torch

import metasym as ms
from metasym.storage.serialization import CheckpointError, pack, unpack
from metasym.training.loop import train
from tests.refusals import refused
from tests.training.toy_learner import Lines, learner


def test_every_bit_of_a_file_is_under_its_seal():
    data = pack({"a": torch.ones(3), "b": {"x": 1, "y": [1, 2.5, None]}, "s": 'text ä "sha256":"'})
    for place in range(len(data)):
        for bit in range(8):
            changed = bytearray(data)
            changed[place] ^= 1 << bit
            with refused("file", kind=CheckpointError):
                unpack(bytes(changed), "file")


@pytest.mark.parametrize("state", [[1, 2], 3, None, "text"])
def test_a_sealed_file_with_no_state_is_refused(monkeypatch, state):
    monkeypatch.setattr("metasym.storage.serialization._encode", lambda *_: state)
    data = pack({})
    monkeypatch.undo()
    with refused("file", "bad content", CheckpointError):
        unpack(data, "file")


def test_every_byte_of_a_real_checkpoint_and_of_a_symmetry(tmp_path):
    """As a training writes them: one bit of every byte, and every place where it could be cut off."""
    made = learner()
    train(made, Lines(), outer_steps=1, tasks_per_step=2, progress="silent", out=tmp_path).run()
    layer = ms.reparameterize(torch.nn.Linear(2, 2, bias=False), "dense")
    ms.save_symmetry(layer, tmp_path / "symmetry.safetensors")
    for name in ("checkpoint.safetensors", "symmetry.safetensors"):
        data = (tmp_path / name).read_bytes()
        assert unpack(data, name)
        for place in range(len(data)):
            changed = bytearray(data)
            changed[place] ^= 1 << place % 8
            with refused(name, kind=CheckpointError):
                unpack(bytes(changed), name)
        for size in range(0, len(data), 7):
            with refused(name, kind=CheckpointError):
                unpack(data[:size], name)
