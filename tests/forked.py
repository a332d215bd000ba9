"""Python processes that begin with torch and metasym imported: forked by a server, they start at once.

What such a process does is what ``python ARGUMENTS`` does in a process of its own, with its own signals, files,
environment and end. A few tests start Python anew, as a user does: where starting is what they are about.
"""

from __future__ import annotations

import io
import multiprocessing
import os
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    [
        "torch.distributed.run",
        "metasym.cli.main",
        "metasym.testing",
        "metasym.runs.learning.learn",
        "metasym.runs.reproducing.experiment_run",
        "metasym.training.loop",
    ]
)


class Forked:
    """A process that is under way; like ``subprocess.Popen``, with its output in files."""

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        ranks: int = 0,
        first: Callable[[], object] | None = None,
    ) -> None:
        folder = Path(tempfile.mkdtemp())
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self._files = [folder / name for name in ("stdout", "stderr")]
        for file in self._files:
            file.touch()
        files = tuple(map(str, self._files))
        place = str(cwd or Path.cwd())
        wanted = {**(os.environ if env is None else env), "OMP_NUM_THREADS": "1"}
        self._process = _CONTEXT.Process(
            target=_begin, args=([*map(str, arguments)], wanted, place, files, ranks, first)
        )
        self._process.start()

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        assert self._process.pid is not None
        os.kill(self._process.pid, number)

    def wait(self, timeout: float = 120) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            self._process.kill()
            raise TimeoutError(f"the process took more than {timeout} s; it wrote: {self._written()}")
        return self._process.exitcode

    def communicate(self, timeout: float = 120) -> tuple[str, str]:
        self.wait(timeout)
        stdout, stderr = self._written()
        return stdout, stderr

    def _written(self) -> list[str]:
        return [file.read_text(encoding="utf-8") for file in self._files]


def run(
    arguments: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    timeout: float = 120,
    ranks: int = 0,
    first: Callable[[], object] | None = None,
) -> subprocess.CompletedProcess[str]:
    """``python ARGUMENTS`` to its end; with ``ranks`` the script under torchrun's agent, as so many processes.

    ``first``, a function of a module, is called in the process before anything else.
    """
    process = Forked(arguments, env=env, cwd=cwd, ranks=ranks, first=first)
    stdout, stderr = process.communicate(timeout)
    assert process.returncode is not None
    return subprocess.CompletedProcess(list(arguments), process.returncode, stdout, stderr)


def _begin(
    arguments: list[str],
    env: dict[str, str],
    cwd: str,
    files: tuple[str, str],
    ranks: int,
    first: Callable[[], object] | None,
) -> None:
    """In the forked process: make it what a new one would be, then run the program."""
    import torch

    for number, file in enumerate(files, start=1):
        os.dup2(os.open(file, os.O_WRONLY | os.O_APPEND), number)
    sys.stdin = Path(os.devnull).open(encoding="utf-8")  # noqa: SIM115
    sys.stdout, sys.stderr = (
        io.TextIOWrapper(os.fdopen(n, "wb", closefd=False), encoding="utf-8", line_buffering=n == 2)
        for n in (1, 2)
    )
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    torch.set_num_threads(1)
    if first is not None:
        first()
    if ranks:
        _launch(arguments, ranks)
    else:
        _program(*arguments)


def _program(*arguments: str) -> None:
    """What the interpreter does with its arguments."""
    first, *rest = arguments
    if first == "-m":
        sys.argv = rest
        sys.path.insert(0, str(Path.cwd()))
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif first == "-c":
        sys.argv = ["-c", *rest[1:]]
        sys.path.insert(0, str(Path.cwd()))
        exec(compile(rest[0], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv = [first, *rest]
        sys.path.insert(0, str(Path(first).parent))
        runpy.run_path(first, run_name="__main__")


def _launch(arguments: list[str], ranks: int) -> None:
    """torchrun's own agent and rendezvous; the ranks are forked from it."""
    from torch.distributed.launcher.api import elastic_launch
    from torch.distributed.run import config_from_args, parse_args

    options = parse_args(["--standalone", f"--nproc-per-node={ranks}", *arguments])
    options.rdzv_backend, options.rdzv_endpoint, options.rdzv_id = "c10d", "localhost:0", str(os.getpid())
    config, _, _ = config_from_args(options)
    config.start_method = "fork"
    elastic_launch(config, entrypoint=_program)(*arguments)
