"""Does a tree's device code compile for a card? Asks the real nvcc, file by file, and keeps the answers as facts.

Run: python tools/compile_probe.py BUILD --torch 2.6.0 --cuda 11.8 --sm 3.5 [--level quick] [--out FILE] FILE.cu …

BUILD is a configured build tree with ``compile_commands.json``. Each file is compiled by the tree's own command with
only the architecture changed, one compiler at a time, with a limit of time and memory. Levels:

tree    the whole command, host code too
device  device code alone (``-cubin``), optimised as the tree has it
quick   device code alone, not optimised (``-Xcicc -O0 -Xptxas -O0``): says what the front end and the assembler refuse.
        A file that fails so is tried again as ``device``, since unoptimised code may keep what nobody calls.

``--built`` asks nothing: BUILD is the tree of a whole build, and the files its ``.ninja_log`` has are recorded as
compiled by the tree's own command, without figures (Ninja logs what succeeded, and how long was waited).

``--out`` is a facts file (``probes.toml``): rows are added file by file, so a run that was stopped goes on.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import resource
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from rekindle.build.failure import first_error
from rekindle.facts.browse import dump, without_head
from rekindle.formats.ninja import latest, read_ninja_log
from rekindle.host.files import write_atomically
from rekindle.model.arch import Sm, parse_sm

LEVELS = ("tree", "device", "quick")
SHIPPED = Path(__file__).parents[1] / "src" / "rekindle" / "facts" / "probes.toml"
# Options of the tree's command that do not belong to a probe, and whether a word follows.
_DROPPED = {
    **dict.fromkeys(("-gencode", "--generate-code", "-arch", "--gpu-architecture", "-code", "--gpu-code"), True),
    **dict.fromkeys(("-o", "-MF", "-MT", "-MQ", "--output-file"), True),
    **dict.fromkeys(("-c", "-dc", "-MD", "-MMD", "--compile", "--device-c"), False),
}


class Answer(NamedTuple):
    """``error`` is None where the file compiled."""

    error: str | None
    seconds: float
    gib: float
    cut: bool = False


def kernels(build: Path) -> dict[str, tuple[Path, list[str]]]:
    """Every ``.cu`` of the tree: its name, the folder its command runs in, and the command."""
    entries = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    found: dict[str, tuple[Path, list[str]]] = {}
    for entry in entries:
        if entry["file"].endswith(".cu"):
            words = entry.get("arguments") or shlex.split(entry["command"])
            found.setdefault(entry["file"], (Path(entry["directory"]), words))
    names = short_names(found)
    return {names[file]: place for file, place in found.items()}


def short_names(files: Iterable[str]) -> dict[str, str]:
    """The name of each file; of two that are called alike, as much of the path as tells them apart."""
    left, length = {file: Path(file).parts for file in files}, 1
    names: dict[str, str] = {}
    while left:
        ends = Counter(parts[-length:] for parts in left.values())
        for file, parts in list(left.items()):
            if ends[parts[-length:]] == 1 or length >= len(parts):
                names[file] = "/".join(parts[-length:])
                del left[file]
        length += 1
    return names


def built_kernels(build: Path) -> list[str]:
    """The kernel files whose objects a build has made."""
    objects = latest(read_ninja_log(build / ".ninja_log"))
    return sorted(short_names(name.removesuffix(".o") for name in objects if name.endswith(".cu.o")).values())


def probe_command(words: list[str], sm: Sm, level: str, output: Path) -> list[str]:
    """The tree's command for one architecture, its launcher and its outputs taken away."""
    start = next((at for at, word in enumerate(words) if Path(word).name.startswith("nvcc")), None)
    if start is None:
        raise ValueError(f"no nvcc in: {shlex.join(words)[:200]}")
    kept = [words[start]]
    rest = iter(words[start + 1 :])
    for word in rest:
        name, equals, _ = word.partition("=")
        if name not in _DROPPED:
            kept.append(word)
        elif _DROPPED[name] and not equals:
            next(rest, None)
    kept += ["-gencode", f"arch={sm.compute},code={sm}", "-o", str(output)]
    if level == "quick":
        kept += ["-Xcicc", "-O0", "-Xptxas", "-O0"]
    return [*kept, "-c" if level == "tree" else "-cubin"]


def ask(command: list[str], folder: Path, *, seconds: float, gib: float) -> Answer:
    """Run one compiler with its children; CPU seconds, and the most memory that one of its processes took."""

    def bounded() -> None:
        os.setsid()
        os.nice(10)
        resource.setrlimit(resource.RLIMIT_AS, (int(gib * 2**30),) * 2)

    with tempfile.TemporaryFile() as said:
        child = subprocess.Popen(command, cwd=folder, stdout=said, stderr=subprocess.STDOUT, preexec_fn=bounded)
        cut = threading.Event()

        def stop() -> None:
            cut.set()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)

        watch = threading.Timer(seconds, stop)
        watch.start()
        try:
            _, status, used = os.wait4(child.pid, 0)
        except KeyboardInterrupt:
            stop()
            raise
        finally:
            watch.cancel()
        child.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        lines = said.read(1 << 20).decode("utf-8", "replace").splitlines()
    taken = (round(used.ru_utime + used.ru_stime, 1), round(used.ru_maxrss / 2**20, 2))
    if cut.is_set():
        return Answer(f"not done after {seconds:.0f} s", *taken, cut=True)
    if child.returncode == 0:
        return Answer(None, *taken)
    at = first_error(lines)
    return Answer((lines[at] if at is not None else " ".join(lines[-1:]) or f"exit {child.returncode}")[:300], *taken)


def probe(name: str, place: tuple[Path, list[str]], sm: Sm, level: str, ask_one: Callable[..., Answer]) -> Answer:
    """One file; what fails without optimising is asked again with it."""
    folder, words = place
    with tempfile.TemporaryDirectory() as scratch:
        output = Path(scratch) / f"{Path(name).name}.out"
        answer = ask_one(probe_command(words, sm, level, output), folder)
        if level == "quick" and answer.error and not answer.cut:
            answer = ask_one(probe_command(words, sm, "device", output), folder)
    return answer


def record(out: Path, key: dict[str, Any], name: str, answer: Answer, total: int) -> None:
    """Write one answer into the row of its cell; the file is whole at any time."""
    text = out.read_text(encoding="utf-8") if out.is_file() else "schema = 1\n"
    tables = tomllib.loads(text)
    rows: list[dict[str, Any]] = tables.setdefault("probe", [])
    row = next((one for one in rows if all(one[field] == value for field, value in key.items())), None)
    if row is None:
        row = {**key, "of": total, "source": ["tools/compile_probe.py"], "date": "", "how": "measured"}
        rows.append(row)
    row["date"] = datetime.datetime.now(datetime.UTC).date().isoformat()
    for part in ("compiled", "failed"):
        row.get(part, {}).pop(name, None)
    if answer.error is None:
        row.setdefault("compiled", {})[name] = [answer.seconds, answer.gib]
        row["compiled"] = dict(sorted(row["compiled"].items()))
    else:
        row.setdefault("failed", {})[name] = answer.error
    for part in ("compiled", "failed"):  # tables last: TOML takes what follows one as its part
        if part in row:
            row[part] = row.pop(part)
    head = text[: len(text) - len(without_head(text))]
    write_atomically(out, (head + dump(tables)).encode())


def record_built(out: Path, key: dict[str, Any], names: list[str]) -> None:
    """The row of a whole build, in place of one that is there."""
    text = out.read_text(encoding="utf-8") if out.is_file() else "schema = 1\n"
    tables = tomllib.loads(text)
    rows = tables.setdefault("probe", [])
    same = [row for row in rows if all(row[field] == value for field, value in key.items())]
    row = same[0] if same else {**key, "source": ["tools/compile_probe.py --built"], "how": "measured"}
    row |= {"of": len(names), "built": names, "date": datetime.datetime.now(datetime.UTC).date().isoformat()}
    if not same:
        rows.append(row)
    head = text[: len(text) - len(without_head(text))]
    write_atomically(out, (head + dump(tables)).encode())


def known(out: Path, key: dict[str, Any]) -> set[str]:
    """Files that already have their answer."""
    if not out.is_file():
        return set()
    rows = tomllib.loads(out.read_text(encoding="utf-8")).get("probe", [])
    same = [row for row in rows if all(row[field] == value for field, value in key.items())]
    return {name for row in same for part in ("compiled", "failed") for name in row.get(part, {})}


def without_paths(error: str, folder: Path) -> str:
    """The tree's place says nothing: errors name files as the tree does."""
    for root in (folder, *folder.parents[:2]):
        error = error.replace(f"{root}/", "")
    return error


def wanted(names: list[str], there: dict[str, Any]) -> Iterator[str]:
    for name in names or sorted(there):
        if name not in there:
            print(f"{name}: not in this tree", file=sys.stderr)
            continue
        yield name


def main(arguments: list[str] | None = None) -> int:
    """0: all compiled; 1: at least one failed; 2: nothing could be asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("files", nargs="*", metavar="FILE.cu")
    parser.add_argument("--torch", required=True)
    parser.add_argument("--cuda", required=True)
    parser.add_argument("--sm", required=True, action="append", type=parse_sm)
    parser.add_argument("--level", choices=LEVELS, default="quick")
    parser.add_argument("--seconds", type=float, default=1200)
    parser.add_argument("--gib", type=float, default=12)
    parser.add_argument("--out", type=Path, default=SHIPPED)
    parser.add_argument("--built", action="store_true", help="BUILD is a whole build: record what it compiled")
    asked = parser.parse_intermixed_args(arguments)
    if asked.built:
        names = built_kernels(asked.build)
        for sm in asked.sm if names else ():
            key = {"torch": asked.torch, "cuda": asked.cuda, "sm": str(sm), "level": "tree"}
            record_built(asked.out, key, names)
        print(f"{len(names)} files in {asked.build / '.ninja_log'}")
        return 0 if names else 2
    try:
        there = kernels(asked.build)
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"no compile_commands.json to read in {asked.build}: {error}", file=sys.stderr)
        return 2
    bad = False
    for name in wanted(asked.files, there):
        for sm in asked.sm:
            key = {"torch": asked.torch, "cuda": asked.cuda, "sm": str(sm), "level": asked.level}
            if name in known(asked.out, key):
                continue
            answer = probe(
                name,
                there[name],
                sm,
                asked.level,
                lambda command, folder: ask(command, folder, seconds=asked.seconds, gib=asked.gib),
            )
            bad = bad or answer.error is not None
            said = without_paths(answer.error, there[name][0]) if answer.error else "compiled"
            print(f"{sm} {name}: {said} ({answer.seconds:.0f} s of CPU, {answer.gib:.1f} GiB)", flush=True)
            if not answer.cut:
                record(asked.out, key, name, answer._replace(error=said if answer.error else None), len(there))
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
