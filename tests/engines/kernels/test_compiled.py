from __future__ import annotations

import pwd

from metasym.engines.kernels import compiled


def no_such_user(number: int) -> None:
    raise KeyError(number)


def test_without_a_home_folder_there_are_no_compiled_kernels(monkeypatch):
    for name in ("HOME", "XDG_CACHE_HOME", "METASYM_KERNELS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CXX", "g++")
    monkeypatch.setattr(pwd, "getpwuid", no_such_user)
    assert compiled.library.__wrapped__("norm_pool") is None
