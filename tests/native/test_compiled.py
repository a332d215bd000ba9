from __future__ import annotations

import pwd
from pathlib import Path

from metasym.native import compiled


def no_such_user(number: int) -> None:
    raise KeyError(number)


def test_without_a_home_folder_there_are_no_compiled_kernels(monkeypatch):
    for name in ("HOME", "XDG_CACHE_HOME", "METASYM_KERNELS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CXX", "g++")
    monkeypatch.setattr(pwd, "getpwuid", no_such_user)
    source = Path(compiled.__file__).parents[1] / "engines" / "kernels" / "norm_pool.cpp"
    assert source.exists()
    assert compiled.library.__wrapped__(source) is None
