"""``metasym doctor``: what this machine has, what is missing, and what that costs."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import metasym
from metasym.cli.common import Commands, console

_PACKAGES = (
    "torch",
    "numpy",
    "scipy",
    "scikit-learn",
    "safetensors",
    "msgspec",
    "pillow",
    "matplotlib",
    "pynauty",
    "sympy",
    "rich",
)
_EXTRAS = {
    "onnx": (("onnx", "onnxruntime", "onnxscript"), "metasym export cannot write .onnx files, only .pt2"),
    "tables": (("pyarrow",), "metasym learn cannot read .parquet files"),
    "tensorboard": (("tensorboard",), "ms.Files(tensorboard=True) of ms.train is refused"),
    "robots": (("mujoco",), "metasym mirror reads URDF, not MuJoCo's XML"),
    "kornia": (("kornia",), "metasym.tasks.kornia_transform is refused"),
    "cluster": (("dask", "distributed"), "metasym reproduce cannot use --backend dask"),
    "simulators": (
        ("gymnasium", "mujoco", "rebound", "ase", "spglib"),
        "the studies and examples with robots, satellites and crystals cannot run",
    ),
}
"""For each extra: the modules that it brings, and what cannot be done without them."""


@dataclass(frozen=True)
class Finding:
    """One line of the examination."""

    what: str
    found: str
    ok: bool = True
    costs: str = ""
    """What is lost where it is missing, or not as it should be."""


def add(commands: Commands) -> None:
    """The command's flags."""
    doctor = commands.add_parser(
        "doctor",
        help="check this machine: what works, what is missing, and what that costs",
        description=(
            "Check versions, compiler, kernels, threads, GPU, data folders and free memory, and compile the "
            "kernels if needed. metasym works without all of these; the last column says what a missing one costs."
        ),
    )
    doctor.add_argument("--json", action="store_true", help="for programs")
    doctor.set_defaults(command=_doctor)


def _doctor(options: argparse.Namespace) -> None:
    found = list(examine())
    if options.json:
        print(json.dumps([asdict(finding) for finding in found]))
        return
    from rich.table import Table

    table = Table(show_header=True)
    for column in ("what", "found", "what that costs"):
        table.add_column(column)
    for finding in found:
        table.add_row(finding.what, finding.found if finding.ok else f"! {finding.found}", finding.costs)
    out = console()
    out.print(table, highlight=False, markup=False)
    missing = sum(not finding.ok for finding in found)
    out.print(
        "Nothing is missing." if not missing else f"{missing} of {len(found)} checks failed: marked with !.",
        highlight=False,
        markup=False,
    )


def examine() -> Iterator[Finding]:
    """All that the command looks at, in the order in which it is shown."""
    looks: tuple[Callable[[], Iterator[Finding]], ...] = (
        _versions,
        _kernels,
        _threads,
        _gpu,
        _places,
        _extras,
    )
    for look in looks:
        yield from look()


def _versions() -> Iterator[Finding]:
    yield Finding("metasym", metasym.__version__)
    yield Finding(
        "Python", f"{platform.python_version()} on {platform.platform(terse=True)}, {platform.machine()}"
    )
    graphs = "igraph" if _version("pynauty") is None else "pynauty"  # one of both is needed
    names = [graphs if name == "pynauty" else name for name in _PACKAGES]
    yield Finding("packages", ", ".join(f"{name} {_version(name) or 'unknown'}" for name in names))


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _kernels() -> Iterator[Finding]:
    from metasym.native.compiled import compiler, library

    slower = "same results from torch's own operations, but slower: see Speed and memory in the docs"
    path = compiler()
    if path is None:
        yield Finding("C++ compiler", "none", False, f"{slower}; put g++ in the PATH or set CXX to fix it")
        return
    yield Finding("C++ compiler", f"{path}, {_first_line(path)}")
    made = {source.stem: library(source) is not None for source in kernel_sources()}
    lacking = [name for name, there in made.items() if not there]
    if not lacking:
        problem = _kernel_folder()
        again = f"; each process compiles them again, because {problem}"
        said = f"{len(made)} of {len(made)} compiled: {', '.join(made)}{again if problem else ''}"
        yield Finding("kernels", said, problem is None, "slower start" if problem else "")
        return
    disabled = os.environ.get("METASYM_KERNELS") == "torch"
    why = "METASYM_KERNELS=torch disables them" if disabled else f"{', '.join(lacking)} could not be compiled"
    yield Finding("kernels", f"{len(made) - len(lacking)} of {len(made)} compiled: {why}", False, slower)


def _kernel_folder() -> str | None:
    """Why compiled kernels are not kept, if they are not."""
    from metasym.native.compiled import cache_folder
    from metasym.native.trusted_places import UntrustedError, check_trusted

    try:
        check_trusted(cache_folder())
    except UntrustedError as error:
        return str(error)
    except OSError as error:
        return f"{error.filename}: {error.strerror}"
    return None


def kernel_sources() -> list[Path]:
    """Every C++ source in the package, whichever room uses it."""
    return sorted(Path(metasym.__file__).parent.rglob("*.cpp"), key=lambda source: source.stem)


def _first_line(compiler: str) -> str:
    try:
        said = subprocess.run(
            [compiler, "--version"],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError):
        return "which does not start"
    return (said.stdout.splitlines() or ["which does not report its version"])[0]


def _threads() -> Iterator[Finding]:
    import torch

    cores, threads = os.cpu_count() or 1, torch.get_num_threads()
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    text = f"{threads} of torch, {cores} cores, load {load:.1f}"
    busy = threads > 1 and load > cores
    costs = "threads that compete for busy cores can be ten times slower: set OMP_NUM_THREADS=1"
    yield Finding("threads", text, not busy, costs if busy else "")


def _gpu() -> Iterator[Finding]:
    import torch

    if torch.cuda.is_available():
        yield Finding(
            "GPU", ", ".join(torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count()))
        )
    else:
        yield Finding("GPU", "none", False, "the paper's 60,000 steps of Table 3 take days; use --budget cpu")


def _places() -> Iterator[Finding]:
    from metasym.storage.system import available_memory
    from metasym.tasks.images.cache import SUFFIX, data_folder

    folder = data_folder(None)
    there = (
        sorted(path.name.removesuffix(SUFFIX) for path in folder.glob(f"*{SUFFIX}"))
        if folder.is_dir()
        else []
    )
    yield Finding(
        "data folder",
        f"{folder}: {', '.join(there) or 'no images'}",
        bool(there),
        "" if there else "Table 3 and metasym angles need images: run metasym data omniglot",
    )
    place = _nearest(folder)
    writable = os.access(place, os.W_OK)
    free = shutil.disk_usage(place).free
    yield Finding(
        "free on its disk",
        f"{free / 1e9:,.1f} GB" + ("" if writable else ", but it cannot be written to"),
        writable and free > 2e9,
        ""
        if writable and free > 2e9
        else "converted images take up to 1.3 GB: set METASYM_DATA to another folder",
    )
    memory = available_memory()
    yield Finding(
        "free memory",
        f"{memory / 1e9:,.1f} GB",
        memory > 2e9,
        ""
        if memory > 2e9
        else "large files are read as needed, and few tasks fit into a step: lower --tasks-per-step",
    )


def _nearest(folder: Path) -> Path:
    """The folder, or the nearest one above it that exists."""
    return next(place for place in (folder, *folder.parents) if place.exists())


def _extras() -> Iterator[Finding]:
    for extra, (modules, costs) in _EXTRAS.items():
        missing = [module for module in modules if importlib.util.find_spec(module) is None]
        yield Finding(
            f"extra {extra}",
            "there" if not missing else f"without {', '.join(missing)}",
            not missing,
            "" if not missing else f"{costs}; pip install 'metasym[{extra}]'",
        )
