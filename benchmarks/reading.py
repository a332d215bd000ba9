"""How ``ms.inspect`` grows with the entries of a dense U: circular convolutions of n points, U [n^2, n], 1 % scatter.

``python -m benchmarks.reading N`` measures one size in a process of its own, which its peak memory needs.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

import metasym as ms
from metasym.storage.system import peak_memory

SIZES = (80, 112, 160, 224, 256)
"""All above the size up to which weights are compared pair by pair."""
_SCATTER = 0.01


def measure(n: int) -> dict[str, Any]:
    """Seconds of one core and the peak memory of reading one U."""
    torch.set_num_threads(1)
    g = torch.Generator().manual_seed(0)
    i = torch.arange(n)
    tied = ((i[None, :] - i[:, None]) % n).flatten()
    model = torch.nn.Linear(n, n, bias=False)
    ms.reparameterize(model, "dense", filter_size=n, std=1.0, generator=g)
    U = ms.symmetries(model)[""].U
    with torch.no_grad():
        U.copy_(torch.linalg.qr(torch.randn(n, n, generator=g))[0][tied])
        U.add_(_SCATTER / n**0.5 * torch.randn(U.shape, generator=g))
    before = peak_memory()
    began = time.process_time()
    group = ms.inspect(model)[0].group
    return {
        "n": n,
        "entries": U.numel(),
        "seconds": time.process_time() - began,
        "u_mb": U.numel() * U.element_size() / 2**20,
        "peak_mb": peak_memory(),
        "peak_before_mb": before,
        "group": None if group is None else group.name,
    }


def series(sizes: tuple[int, ...], say: Callable[[str], None]) -> list[dict[str, Any]]:
    """Every size in a process of its own."""
    found = []
    for n in sizes:
        command = [sys.executable, "-m", "benchmarks.reading", str(n)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        row = json.loads(done.stdout)
        found.append(row)
        say(
            f"n {n:4d}: U of {row['entries']:11,} entries ({row['u_mb']:.0f} MB): {row['seconds']:6.2f} s, "
            f"peak {row['peak_mb']:.0f} MB (before {row['peak_before_mb']:.0f}), {row['group']}"
        )
    return found


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]))))
