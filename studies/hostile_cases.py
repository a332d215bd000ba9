"""The cases of :mod:`studies.hostile`: links, kernels, pipes, limits and names for every command that meets them."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import itertools
import os
import random
import resource
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from metasym.cli.main import main
from studies.hostile import Case, ran
from studies.kills import data, omniglot, reproduce
from studies.tampering import circular

LEARN = ["--find-steps", "3", "--outer-steps", "3", "--tasks-per-step", "4", "--progress", "silent"]
EVIDENCE = ["--no-baseline", "--progress", "silent"]
DISCOVER = ["--no-finite", "--progress", "silent"]
RUN = ["translation/rank1/small/msr-fc", "--outer-steps", "3", "--train-tasks", "6", "--test-tasks", "4"]
RUN += ["--checkpoint-every", "1", "--progress", "silent"]
LEG = """<link name="{0}"><inertial><origin xyz="0 0 -0.2"/><mass value="1"/>
<inertia ixx="0.02" iyy="0.03" izz="0.01" ixy="0" ixz="0" iyz="0"/></inertial></link>
<joint name="{0}_roll" type="revolute"><parent link="trunk"/><child link="{0}"/>
<origin xyz="0 {1} 0"/><axis xyz="1 0 0"/>
<limit lower="-1" upper="1" effort="1" velocity="1"/></joint>"""
ROBOT = f"""<robot name="two_legs"><link name="trunk"><inertial><mass value="3"/>
<inertia ixx="0.1" iyy="0.2" izz="0.3" ixy="0" ixz="0" iyz="0"/></inertial></link>
{LEG.format("left", 0.1)}{LEG.format("right", -0.1)}</robot>"""
TABLE = ["--task", "task", "--inputs", "a,b", "--outputs", "y"]
NASTY = {
    "escape": "a\x1b[31m\x1b]0;title\x07",
    "right to left": "a\u202egpj.exe",
    "line break": "a\nmetasym: all is well",
    "return": "a\rb",
    "markup": "<script>alert(1)</script>",
    "brackets": "[bold]a[/bold] [link=x]",
    "quotes": "a'\"`$(touch x)",
    "dash": "-rf",
    "pattern": "*?[a]",
    "blank": "   ",
    "not UTF-8": os.fsdecode(b"a\xff\xfe"),
    "long": "x" * 200,
    "dots": "..a",
}


def commands(base: Path) -> dict[str, list[str]]:
    """Everything that writes; ``OUT`` is the folder it is given."""
    found = {
        "learn": ["learn", str(base / "tasks.npz"), "--out", "OUT", *LEARN],
        "learn, evidence": ["learn", str(base / "tasks.npz"), "--out", "OUT", *EVIDENCE],
        "discover": ["discover", str(base / "data.npz"), "--out", "OUT", *DISCOVER],
        "run": ["run", *RUN, "--out", "OUT"],
        "report": ["report", "OUT"],
        "reproduce": reproduce(base, Path("OUT")),
        "data": data(base, Path("OUT")),
        "mirror": ["mirror", str(base / "robot.urdf"), "--page", "OUT/page.html"],
        "export": ["export", str(base / "learn"), "--out", "OUT/model.pt2"],
    }
    if importlib.util.find_spec("metasym.robots") is None:  # older code has no such command
        del found["mirror"]
    return found


def prepared(base: Path) -> None:
    """The data, and a run of every command that is not disturbed: its names are those that links stand for."""
    importlib.import_module("metasym.tasks.images.omniglot").CHARACTERS = 40  # type: ignore[attr-defined]
    if (base / "whole").exists():
        return
    shutil.rmtree(base, ignore_errors=True)
    base.mkdir(parents=True)
    circular(base / "tasks.npz")
    omniglot(base / "omniglot")
    (base / "robot.urdf").write_text(ROBOT)
    x = np.random.default_rng(0).standard_normal((60, 3))
    np.savez(base / "data.npz", x=x, y=np.hypot(x[:, 0], x[:, 1]))
    table(base / "table.csv", "a", "b", "y")
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        for name, arguments in commands(base).items():
            out = base / name
            if name == "report":
                shutil.copytree(base / "learn", out)
            elif name in ("export", "mirror"):
                out.mkdir()
            assert main([a.replace("OUT", str(out)) for a in arguments]) == 0, name
    (base / "whole").touch()


def table(path: Path, *names: str) -> None:
    """Rows of ten tasks; the columns are called as given."""
    draw = np.random.default_rng(0)
    quoted = ",".join('"' + name.replace('"', '""') + '"' for name in ("task", *names))
    rows = [
        f"k{i // 6},{a:.3f},{b:.3f},{a - b:.3f}" for i, (a, b) in enumerate(draw.standard_normal((60, 2)))
    ]
    path.write_text(quoted + "\n" + "\n".join(rows) + "\n", encoding="utf-8", errors="surrogateescape")


def cases(base: Path, kinds: list[str]) -> Iterator[Case]:
    """Those of the kinds asked for, in a fixed order."""
    prepared(base)
    of = {"links": _links, "kernels": _kernels, "pipes": _pipes, "limits": _limits, "names": _names}
    for kind, make in of.items():
        if kind in kinds:
            yield from make(base)


def _victims(box: Path) -> dict[str, Path]:
    outside = box / "outside"
    (outside / "folder").mkdir(parents=True)
    (outside / "file").write_text("mine")
    (outside / "folder" / "result.json").write_text("{}")
    return {
        "file": outside / "file",
        "folder": outside / "folder",
        "nothing yet": outside / "new",
        "its parent": box,
    }


def _links(base: Path) -> Iterator[Case]:
    """One link in the place of each name that is written, others at the names of temporary files beside it."""
    draw = random.Random(0)
    for command, arguments in commands(base).items():
        written = sorted(p.relative_to(base / command) for p in (base / command).rglob("*"))
        for name in written:
            for target in ("file", "folder", "nothing yet", "hard link"):
                folder = (base / command / name).is_dir()
                if folder and target in ("file", "hard link"):
                    continue
                beside = draw.sample(written, min(len(written), 6))
                yield Case(
                    "links",
                    f"{command}: {name} is a link to {target}",
                    [a.replace("OUT", "out") for a in arguments],
                    _linked(base / command, name, target, beside, copy=command == "report"),
                )


def _linked(clean: Path, name: Path, target: str, beside: list[Path], *, copy: bool) -> Callable[[Path], int]:
    def prepare(box: Path) -> int:
        victims, out = _victims(box), box / "out"
        shutil.copytree(clean, out) if copy else out.mkdir()
        count = 0
        for other in beside:
            for suffix in (".tmp", ".lock", ".part", ".0123abcd.tmp"):
                place = out / other.with_name(other.name + suffix)
                if place.parent.is_dir() and not place.exists():
                    place.symlink_to(victims["file"])
                    count += 1
        place = out / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.is_dir():
            shutil.rmtree(place)
        place.unlink(missing_ok=True)
        if target == "hard link":
            os.link(victims["file"], place)
        else:
            place.symlink_to(victims[target])
        return count + 1

    return prepare


_HOOK = '__attribute__((constructor)) static void f(void) {{ int h = creat("{}", 0600); (void)h; }}'


def _kernels(_base: Path) -> Iterator[Case]:
    """A library that leaves a file when it is loaded, under the name of a kernel of ours."""
    import metasym.native.compiled as compiled
    from metasym import engines

    source = sorted(Path(engines.__file__).parent.rglob("*.cpp"))[0]

    def prepare(how: str) -> Callable[[Path], int]:
        def plant(box: Path) -> int:
            cache = box / "out" / "metasym" / "kernels"
            cache.mkdir(parents=True, mode=0o700)
            os.environ["XDG_CACHE_HOME"] = str(box / "out")
            ours = _kernel_name(compiled, source)
            place = cache / ours
            evil = box / "evil.so"
            (box / "evil.c").write_text("#include <fcntl.h>\n" + _HOOK.format(box / "executed"))
            subprocess.run(["cc", "-shared", "-fPIC", str(box / "evil.c"), "-o", str(evil)], check=True)
            mark = ours.removesuffix(".so").rsplit("-", 1)[1]
            if hasattr(compiled, "_MARK"):  # older code loads a library without it
                evil.write_bytes(evil.read_bytes() + f"{compiled._MARK}={mark}".encode())
            if how == "link":
                os.chown(evil, 12345, 12345)
                place.symlink_to(evil)
                return 1
            if how == "pipe":
                os.mkfifo(place)
                return 1
            shutil.copy(evil, place)
            if how == "garbage":
                place.write_bytes(b"\x7fELF" + bytes(100))
            elif how == "another owner":
                os.chown(place, 12345, 12345)
            elif how == "writable by all":
                place.chmod(0o666)
            elif how == "folder writable by all":
                cache.chmod(0o777)
            elif how == "folder of another owner":
                os.chown(cache, 12345, 12345)
            return 1

        return plant

    def load() -> int:
        compiled.library.cache_clear()  # this process has loaded it from the user's own cache
        return 0 if compiled.library(source) is not None else 2

    for how in (
        *("garbage", "another owner", "writable by all", "folder writable by all", "folder of another owner"),
        *("link", "pipe"),
    ):
        yield Case("kernels", how, [], prepare(how), work=load)


def _kernel_name(compiled: object, source: Path) -> str:
    """What the file of a kernel is called, learned from a build; kept, for it takes seconds."""
    if source.name not in _KNOWN:
        compiled.library.cache_clear()  # type: ignore[attr-defined]
        compiled.library(source)  # type: ignore[attr-defined]
        _KNOWN[source.name] = next(
            p.name
            for p in Path(os.environ["XDG_CACHE_HOME"]).rglob("*.so")
            if p.name.startswith(f"{source.stem}-")
        )
        (Path(os.environ["XDG_CACHE_HOME"]) / "metasym" / "kernels" / _KNOWN[source.name]).unlink()
    return _KNOWN[source.name]


_KNOWN: dict[str, str] = {}


def _pipes(base: Path) -> Iterator[Case]:
    """What is no file in the place of data, and of each file of a run."""

    def odd(place: Path, kind: str) -> int:
        place.unlink(missing_ok=True)
        if kind == "pipe":
            os.mkfifo(place)
        elif kind == "device":  # its own: a write that replaces it harms nobody
            os.mknod(place, stat.S_IFCHR | 0o600, os.makedev(1, 5))
        elif kind == "folder":
            place.mkdir()
        else:
            place.symlink_to("/dev/zero" if kind == "endless" else "/dev/full")
        return 1

    for kind in ("pipe", "device", "folder"):
        for command, out in {
            **{"report": "page.html", "export": "model.pt2", "mirror": "page.html"},
            "data": "omniglot-28.images",
        }.items():
            if command not in commands(base):
                continue
            typed = {
                "report": ["report", str(base / "learn"), "--out", out],
                "export": ["export", str(base / "learn"), "--out", out],
                "mirror": ["mirror", str(base / "robot.urdf"), "--page", out],
                "data": data(base, Path()),
            }[command]
            yield Case(
                "pipes",
                f"{command} writes to a {kind}",
                typed,
                lambda box, out=out, kind=kind: odd(box / out, kind),  # type: ignore[misc]
            )
    turn = itertools.cycle(("report", "inspect", "export", "resume", "inspect"))
    for kind in ("pipe", "endless", "folder", "full"):
        for name in ("t.csv", "t.tsv", "t.parquet", "t.npz"):
            for command in ("learn", "discover"):
                flags = (TABLE if command == "learn" else ["--outputs", "y"]) if name != "t.npz" else []
                yield Case(
                    "pipes",
                    f"{command}: {name} is {kind}",
                    [command, name, *flags, "--out", "out"],
                    lambda box, name=name, kind=kind: odd(box / name, kind),  # type: ignore[misc]
                )
        files = sorted(p.relative_to(base / "learn") for p in (base / "learn").rglob("*") if p.is_file())
        for file in files:
            for command in ("report", "resume") if kind == "pipe" else (next(turn),):
                arguments = {
                    "report": ["report", "out"],
                    "inspect": ["inspect", "out"],
                    "export": ["export", "out", "--out", "out/model.pt2"],
                    "resume": ["learn", str(base / "tasks.npz"), "--out", "out", "--resume", *LEARN],
                }[command]

                def prepare(box: Path, file: Path = file, kind: str = kind) -> int:
                    shutil.copytree(base / "learn", box / "out")
                    return odd(box / "out" / file, kind)

                yield Case("pipes", f"{command}: {file} is {kind}", arguments, prepare)


def _limits(base: Path) -> Iterator[Case]:
    """Files that may not grow, few open files, little memory, a disk that is full."""
    sizes = {
        resource.RLIMIT_FSIZE: (0, 100, 1000, 5000, 20_000),
        resource.RLIMIT_NOFILE: (4, 8, 12, 20),
        resource.RLIMIT_AS: (2**20, 8 * 2**20, 32 * 2**20, 128 * 2**20),
        resource.RLIMIT_NPROC: (0,),
    }
    words = {resource.RLIMIT_FSIZE: "bytes a file", resource.RLIMIT_NOFILE: "open files"}
    words |= {resource.RLIMIT_AS: "bytes of memory", resource.RLIMIT_NPROC: "processes"}
    for command, arguments in commands(base).items():
        typed = [a.replace("OUT", "out") for a in arguments]

        def begin(box: Path, command: str = command) -> int:
            shutil.copytree(base / "learn", box / "out") if command == "report" else (box / "out").mkdir()
            return 1

        for kind, values in sizes.items():
            for value in values:
                yield Case("limits", f"{command}: {value} {words[kind]}", typed, begin, {kind: value})
        for size in ("8k", "40k", "200k"):

            def mount(box: Path, size: str = size, command: str = command) -> int:
                (box / "out").mkdir()
                how = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(box / "out")]
                subprocess.run(how, check=True)
                if command == "report":
                    for file in (base / "learn").glob("*.json*"):
                        with contextlib.suppress(OSError):
                            shutil.copy(file, box / "out")
                return 1

            def unmount(box: Path) -> None:
                subprocess.run(["umount", str(box / "out")], check=False)

            yield Case("limits", f"{command}: a disk of {size}", typed, mount, finish=unmount)


def _names(base: Path) -> Iterator[Case]:
    """Names of folders, files and columns."""
    for what, name in NASTY.items():
        if what != "not UTF-8":

            def write(box: Path, name: str = name) -> int:
                table(box / "t.csv", name, "b", "y")
                return 1

            flags = ["--task", "task", "--inputs", "*", "--outputs", "y"]
            yield Case(
                "names", f"learn: all columns, {what}", ["learn", "t.csv", *flags, "--out", "out"], write
            )
            yield Case(
                "names",
                f"discover: a column, {what}",
                ["discover", "t.csv", "--outputs", "y", "--out", "out"],
                write,
            )
            chosen = ["--task", "task", "--inputs", "a*,b", "--outputs", "y", *EVIDENCE]
            yield Case(
                "names", f"learn: a column, {what}", ["learn", "t.csv", *chosen, "--out", "out"], write
            )

        def copy(box: Path, name: str = name) -> int:
            shutil.copytree(base / "learn", box / "out" / name)
            return 1

        place = f"out/{name}"
        yield Case("names", f"report: a folder, {what}", ["report", place], copy)
        yield Case("names", f"report: a folder of it, {what}", ["report", "out"], copy)
        yield Case("names", f"inspect: a folder, {what}", ["inspect", place], copy)
        yield Case("names", f"export: a folder, {what}", ["export", place, "--out", f"{place}/m.pt2"], copy)

        def file(box: Path, name: str = name) -> int:
            place = box / f"{name}.npz"  # some names have a folder in them
            place.parent.mkdir(exist_ok=True)
            shutil.copy(base / "tasks.npz", place)
            return 1

        def learned(box: Path, name: str = name) -> int:
            file(box, name)
            typed = ["learn", f"./{name}.npz", "--out", "out", *EVIDENCE]
            return ran(Case("", "", typed), box, 300)["status"] + 1  # one thing planted

        yield Case(
            "names", f"learn: a file, {what}", ["learn", f"./{name}.npz", "--out", "out", *EVIDENCE], file
        )
        for command in ("report", "inspect"):
            yield Case("names", f"{command}: learned from a file, {what}", [command, "out"], learned)
        yield Case("names", f"nothing there, {what}", ["learn", f"out/{name}.npz", "--out", place])
        yield Case("names", f"as a command, {what}", [name])
        yield Case("names", f"as an experiment, {what}", ["run", name, "--out", "out"])
