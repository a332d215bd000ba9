"""Run folders for the tests of the report page: real ones, small, and what can be wrong with them."""

from __future__ import annotations

import json
import shutil
from html.parser import HTMLParser
from pathlib import Path

import torch
import torch.nn.functional as F

import metasym as ms
from metasym.paper.catalogue import find
from metasym.runs.reproducing.experiment_run import run

VOID = {"meta", "link", "img", "br", "wbr", "path", "rect", "circle"}


def make_run(folder: Path, name: str = "translation/rank1/small/msr-fc", **changes) -> Path:
    """A real run of a few steps."""
    few = {"outer_steps": 6, "train_tasks": 6, "test_tasks": 4, **changes}
    run(find(name, **few), folder, progress="silent")
    return folder


class Toy:
    """Tasks: classification of 5 x 5 images, drawn from the generator."""

    def __len__(self) -> int:
        return 8

    def episode(self, index: int, generator: torch.Generator) -> ms.Episode:
        x, y = torch.randn(6, 1, 5, 5, generator=generator), torch.tensor([0, 1, 0, 1, 0, 1])
        return ms.Episode(ms.Batch(x[:2], y[:2]), ms.Batch(x[2:], y[2:]), torch.tensor(index))


def network(width: int = 4) -> torch.nn.Module:
    generator = torch.Generator().manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(1, width, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(9 * width, 2)
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator))
    return model


def train_into(folder: Path, kind: str) -> Path:
    """A folder that ``ms.train`` wrote: no experiment of the catalogue, no result."""
    if kind == "protonet":
        learner: ms.Learner = ms.ProtoNet(network())
    elif kind == "maml":
        learner = ms.MAML(network(), loss=F.cross_entropy, inner_steps=1)
    else:
        learner = ms.MSR(ms.reparameterize(network(), kind), loss=F.cross_entropy, inner_steps=1)
    for _ in ms.train(learner, Toy(), outer_steps=3, tasks_per_step=2, out=folder, progress="silent"):
        pass
    return folder


def copy(source: Path, target: Path) -> Path:
    shutil.copytree(source, target)
    return target


def edit(path: Path, **changes) -> None:
    found = json.loads(path.read_text())
    path.write_text(json.dumps({**found, **changes}))


class Document(HTMLParser):
    """A page taken apart: tags with their attributes, text, ids; unbalanced tags fail."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert not self._open, self._open

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self._open.pop() == tag

    def handle_data(self, data):
        if not self._open or self._open[-1] not in ("style", "script"):
            self.text.append(data)

    @property
    def words(self) -> str:
        """All text, with single spaces."""
        return " ".join("".join(self.text).split())

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]
