"""A program that ends when the one that started it does: ``python -m metasym.runs.attended MODULE ARGUMENTS``.

Whoever starts it holds its standard input open. A worker of a cluster that is killed cannot report it, but its end of
the pipe is closed for it: the program gets SIGTERM, writes a checkpoint, and another worker continues the run.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading


def _watch() -> None:
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=_watch, daemon=True).start()
    sys.argv = sys.argv[1:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
