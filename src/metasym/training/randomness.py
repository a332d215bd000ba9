"""Which tasks a step draws, and the state of every global random generator."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch
from torch import Tensor

from metasym.tasks.sampling import mix

_STEP, _VALIDATION = 1, 2


def step_seed(seed: int, step: int) -> int:
    """The seed of one step: of the choice of its tasks, and of all that their episodes draw."""
    return int(mix(seed, _STEP, step))


def task_ids(seed: int, available: int, wanted: int) -> Tensor:
    """Which tasks one step sees, ``[min(wanted, available)]``, int64, without repetition.

    A function of its arguments alone, so that a resumed run and a run on many processes draw the same.
    All tasks in order where as many are wanted as there are.
    """
    if wanted >= available:
        return torch.arange(available)
    generator = np.random.default_rng(seed)
    return torch.from_numpy(generator.choice(available, size=wanted, replace=False).astype(np.int64))


def validation_seed(seed: int) -> int:
    """The seed of the validation episodes: the same at every validation, so that scores compare."""
    return int(mix(seed, _VALIDATION))


def random_state(device: torch.device) -> dict[str, Any]:
    """The state of the global generators: torch (CPU, and ``device`` where that is a GPU), Python, NumPy."""
    numpy: Any = np.random.get_state(legacy=False)  # noqa: NPY002 - users' code may use it
    return {
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state(device) if device.type == "cuda" else None,
        "python": random.getstate(),
        "numpy": {**numpy, "state": {**numpy["state"], "key": numpy["state"]["key"].tolist()}},
    }


def seed_global_generators(seed: int) -> None:
    """Start every global generator anew: for a command's own stages, whose networks may draw from them."""
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002 - users' code may use it


def restore_random_state(state: dict[str, Any], device: torch.device) -> None:
    """Put every global generator back into a state of :func:`random_state`."""
    torch.set_rng_state(state["torch"])
    if device.type == "cuda" and state["cuda"] is not None:
        torch.cuda.set_rng_state(state["cuda"], device)
    random.setstate(state["python"])
    numpy = state["numpy"]
    key = np.asarray(numpy["state"]["key"], dtype=np.uint32)
    np.random.set_state({**numpy, "state": {**numpy["state"], "key": key}})  # noqa: NPY002
