#!/usr/bin/env python3
"""Documents of strangers, changed at random, given to the verbs that read them.

    python tools/fuzz_documents.py [--seconds 60] [--seed 1] [--document machine]

A document is well-formed JSON or TOML with one to three values gone, odd, repeated or in another's place. A verb may
answer or say in one line what is wrong (exit 0 to 3); anything else, or more than 20 seconds, is told with its input.
`tests/hostile/test_documents.py` tries the same with fixed numbers.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "hostile"), str(ROOT / "src")]

SECONDS = 20.0
CARD = ("--gpu", "Tesla K40c", "--os", "linux", "--arch", "x86_64", "-q")
ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 7.5, 1 << 31, 1 << 70, -(1 << 70), 1e308, "", " ", "x", "-rf", "..", "../../x", "/",
    "~", "9" * 5000, "1.2.3.4.5.6", "1e9", "sm_999", "gfx", "99999999.9", "0x10", "\t", "\u202e", "\ud83d", "ä" * 3000,
    "%s{}$(x)",     "x\ny", "\x1b[2J", [], {}, [[]], [None], {"": ""}, ["x"] * 300, {"x": {"x": {"x": {}}}},
)  # fmt: skip


@dataclass(frozen=True)
class Document:
    """A well-formed document, and the commands that read it from ``FILE`` (or from the folder ``FOLDER``, in which
    ``WHEEL`` lies).

    ``beside`` are files that lie around it.
    """

    value: dict[str, Any]
    name: str
    commands: tuple[tuple[str, ...], ...]
    env: tuple[str, ...] = ()
    beside: dict[str, bytes] = field(default_factory=dict)


def documents() -> dict[str, Document]:
    """Made once; each a copy of what our own verbs write or ship."""
    from rekindle import api
    from rekindle.model.document import encode
    from rekindle.model.plan import Wish

    machine = api.machine_from_flags(
        gpu=["Tesla K40c"], os="linux", glibc="2.35", driver="470.256.02", cuda="11.4", compiler="gcc-12", python="3.10"
    )
    plan = json.loads(encode(api.plan(machine, Wish(build=True))))
    table = {
        "project": "spark",
        "axes": {"python": ["3.11", "3.12"], "variant": ["cpu"], "archs": ["6.1", ["5.0", "5.2"]]},
        "exclude": [{"python": "3.12", "archs": "6.1"}],
        "include": [{"python": "3.13", "variant": "cpu", "archs": "9.0"}],
        "defaults": {"source": "spark", "memory": "4G"},
    }
    found = {
        "machine": Document(json.loads(encode(machine)), "machine.json", (
            ("plan", "--machine", "FILE", "-q"), ("plan", "--machine", "FILE", "--build", "--json", "-q"),
            ("export", "pixi", "--machine", "FILE", "-q"), ("variant", "env", "--machine", "FILE", "-q"),
        )),
        "plan": Document(plan, "plan.json", (
            ("export", "sh", "--plan", "FILE", "-q"), ("export", "dockerfile", "--plan", "FILE", "-q"),
            ("doctor", "--plan", "FILE", "-q"),
        )),
        "table": Document(table, "matrix.toml", (("matrix", "plan", "FILE", "--dry-run", "-q"),)),
        "table-torch": Document({
            "axes": {"torch": ["2.6.0"], "python": ["3.11"], "variant": ["cu118"], "archs": ["6.1", ["5.0", "5.2"]]},
            "include": [{"torch": "2.5.1", "python": "3.12", "variant": "cpu"}],
            "defaults": {"source": "git", "launcher": "ccache", "jobs": 2, "settings": {"USE_NCCL": "0"}},
        }, "matrix.toml", (("matrix", "plan", "FILE", "--dry-run", "-q"),)),
    }  # fmt: skip
    found |= _of_a_wheelhouse()
    for name in ("nvidia", "amd", "cuda", "cudnn", "rocm", "torch", "wheels", "companions", "packages", "cpu",
                 "hazards", "costs", "images", "sources", "supply", "distros"):  # fmt: skip
        value = tomllib.loads((ROOT / "src" / "rekindle" / "facts" / f"{name}.toml").read_text(encoding="utf-8"))
        commands = (
            ("plan", *CARD), ("plan", *CARD, "--with", "xformers,torchvision", "--build"),
            ("export", "dockerfile", *CARD),
            ("plan", "--gpu", "RX 6600 XT", "--os", "linux", "--cpu", "Core i7-3770", "--distro", "debian-12", "-q"),
        )  # fmt: skip
        found[f"facts-{name}"] = Document(value, f"{name}.toml", commands, env=("REKINDLE_FACTS",))
    return found


def _of_a_wheelhouse() -> dict[str, Document]:
    """What lies in a wheelhouse with one wheel and its variant: records, and what was written when it was built."""
    from binaries import make_entry
    from gpu_libraries import make_gpu_library
    from rekindle import api
    from rekindle.model.document import encode
    from rekindle.model.wheel import Kernels, WheelGpu, WheelReport
    from tiny_wheels import make_wheel

    with tempfile.TemporaryDirectory(prefix="rekindle-fuzz-") as folder:
        root = Path(folder) / "house"
        library = make_gpu_library([[make_entry(2, 80)]], between=0)
        files = {"torch/__init__.py": b"", "torch/lib/libtorch_cuda.so": library}
        wheel = make_wheel(Path(folder), "torch", "2.6.0+cu124", tag="cp311-cp311-linux_x86_64", files=files)
        # Only a wheel whose toolkit is known has a variant.
        report = WheelReport(gpu=WheelGpu(torch_kernels=Kernels(sass=("sm_80",))), cuda="12.4")
        (Path(folder) / "report.json").write_bytes(encode(report))
        api.index_add(str(root), [str(wheel)], report=str(Path(folder) / "report.json"))
        api.index_build(str(root), variants=True)
        held = {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    commands = (
        ("index", "search", "--root", "FOLDER", "--gpu", "A100", "-q"), ("index", "build", "--root", "FOLDER", "-q"),
        ("index", "build", "--root", "FOLDER", "--variants", "-q"), ("index", "check", "--root", "FOLDER", "-q"),
        ("plan", "--gpu", "A100", "--os", "linux", "--wheelhouse", "FOLDER", "-q"),
        ("index", "add", "WHEEL", "--root", "FOLDER", "-q"),
    )  # fmt: skip
    records = {
        name: raw for name, raw in held.items() if name.startswith(("records/", "variants/")) and name.endswith(".json")
    }
    return {
        f"house-{name.split('/')[0]}{'-kept' * name.endswith('.variant.json')}": Document(
            json.loads(raw), name, commands, beside=held
        )
        for name, raw in records.items()
    }


def places_in(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every value in a document."""
    rows = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in rows:
        yield (*above, name)
        yield from places_in(inner, (*above, name))


def mutate(draw: random.Random, value: dict[str, Any], places: list[tuple[Any, ...]]) -> dict[str, Any]:
    """One to three changes; the original stays as it is."""
    changed: dict[str, Any] = json.loads(json.dumps(value))
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        place, kind = draw.choice(places), draw.randrange(8)
        holder: Any = changed
        try:
            for step in place[:-1]:
                holder = holder[step]
            old = holder[place[-1]]
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change took it away
        if not isinstance(holder, (dict, list)):
            continue
        if kind == 0:
            del holder[place[-1]]
        elif kind == 1 and isinstance(holder, dict):
            holder[draw.choice(("x", "", "schema", "note", "../x", str(place[-1]) + "2"))] = draw.choice(ODD)
        elif kind == 2 and isinstance(old, list) and old:
            holder[place[-1]] = old * draw.choice((2, 50))
        elif kind == 3:
            holder[place[-1]] = json.loads(json.dumps(_at(value, draw.choice(places))))
        elif kind == 4 and isinstance(old, str) and old:
            at = draw.randrange(len(old))
            holder[place[-1]] = (
                old[:at] + draw.choice(("", "\0", "é", "'", '"', ";", "9", ".", "-", "\n")) + old[at + 1 :]
            )
        elif kind == 5 and isinstance(old, (int, float)):
            holder[place[-1]] = draw.choice((-old, old * 1000, old + 0.5, str(old)))
        else:
            holder[place[-1]] = json.loads(json.dumps(draw.choice(ODD)))
    return changed


def _at(value: Any, place: tuple[Any, ...]) -> Any:
    for step in place:
        value = value[step]
    return value


def written(document: Document, value: dict[str, Any]) -> str:
    """The document as text, in the form its name says."""
    if document.name.endswith(".json"):
        return json.dumps(value)
    from rekindle.model.toml import toml_key, toml_value

    return "".join(
        f"{toml_key(name)} = {toml_value(_without_nothing(item))}\n" for name, item in value.items() if item is not None
    )


def _without_nothing(value: Any) -> Any:
    """TOML has no null, and no half of a character."""
    if isinstance(value, dict):
        return {_whole(name): _without_nothing(item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nothing(item) for item in value if item is not None]
    return _whole(value) if isinstance(value, str) else value


def _whole(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def tried(name: str, document: Document, draw: random.Random, folder: Path) -> Iterator[tuple[int, str]]:
    """One changed document through one of its commands, for ever: the exit code, and what is wrong with the answer."""
    from canary import TooLong, in_process, within

    places = list(places_in(document.value))
    for number in itertools.count():
        # A place of its own: facts are read once for each.
        own = folder / str(number)
        own.mkdir()
        for name_beside, raw in document.beside.items():
            (own / name_beside).parent.mkdir(parents=True, exist_ok=True)
            (own / name_beside).write_bytes(raw)
        path = own / document.name
        text = written(document, mutate(draw, document.value, places))
        path.write_text(text, encoding="utf-8", errors="replace")
        places_by_word = {"FILE": path, "FOLDER": own, "WHEEL": next(own.glob("wheels/*/*.whl"), own)}
        words = [str(places_by_word.get(word, word)) for word in draw.choice(document.commands)]
        os.environ.update(dict.fromkeys(document.env, str(own)))
        try:
            with within(SECONDS):
                code, said = in_process(*words)
        except TooLong:
            code, said = 4, f"more than {SECONDS:g} s"
        finally:
            for variable in document.env:
                del os.environ[variable]
        wrong = code not in (0, 1, 2, 3) or "Traceback" in said
        told = f"{name}: rekindle {' '.join(words)}: exit {code}\n{said[-3000:]}\n  input {text[:3000]}"
        yield code, told if wrong else ""


def run(names: Callable[[str], bool], seconds: float, seed: int) -> int:
    """All documents in turn; how many answers were wrong."""
    bad = 0
    chosen = {name: document for name, document in documents().items() if names(name)}
    for name, document in chosen.items():
        codes, end = Counter[int](), time.monotonic() + seconds / len(chosen)
        with tempfile.TemporaryDirectory(prefix="rekindle-fuzz-") as folder:
            for code, fault in tried(name, document, random.Random(seed), Path(folder)):
                codes[code] += 1
                if fault:
                    bad += 1
                    print(fault)
                if time.monotonic() > end:
                    break
        print(f"{name:<18} {codes.total():6} documents: {codes[2]} refused")
    print(f"faults: {bad}")
    return bad


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--document", help="only those whose name begins so")
    args = parser.parse_args()
    return 1 if run(lambda name: name.startswith(args.document or ""), args.seconds, args.seed) else 0


if __name__ == "__main__":
    sys.exit(main())
