"""Plans from strangers as scripts: whatever stands in a plan, the script does what its template says and no more."""

from __future__ import annotations

import functools
import json
import re
import stat
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from canary import LONG
from ruamel.yaml import YAML

import export_plans
from rekindle.errors import BadInput
from rekindle.model.document import decode, encode
from rekindle.model.plan import BuildRecipe, Change, Plan, Reason, Request
from rekindle.scripts.formats import render
from rekindle.scripts.recipe import make_recipe

_SHORT = ("torch", "variant", "cuda", "python", "numpy", "project")
FORMATS = ("sh", "bat", "ps1", "dockerfile", "github", "github-windows", "slurm", "devcontainer", "pixi")
# What breaks out somewhere: line ends of every language, each shell's substitutions, ends of quotes and comments.
PAYLOADS = (
    "x\n{} #", "x\r\n{}\r\n", "x\r{}", "x\u2028{}", "x\x85{}", "x\x0b{}", "x\0{}",
    "$({})", "`{}`", "'; {}; '", '"; {}; "', "x; {}", "x && {}", "x | {}", "x & {}", '"&{}&"', '"&{}&rem "',
    "%COMSPEC% /c {}", "^\n{}", "!{}!", "${{{{ github.token }}}} {}", "${{IFS}}{}", "-o{}", "--option={}",
    "'''\n{}\n'''", "EOF\n{}\n", "]==] {}", "\\\n{}", "*/ {}", "# escape=`", "x: {{run: {}}}", "\x1b]0;{}\x07",
)  # fmt: skip


def recipe_of(plan: Plan) -> BuildRecipe:
    assert plan.build is not None
    return plan.build


BASE = msgspec.structs.replace(
    export_plans.KEPLER_WINDOWS,
    arch_list=("8.6",),
    warnings=(Reason(code="w", text="careful", source="somewhere"),),
    changes=(Change(what="cuda", from_="12", to="11.4", why="old card"),),
    build=msgspec.structs.replace(
        recipe_of(export_plans.KEPLER_WINDOWS),
        asserts={"USE_CUDA": "ON", "BLAS": "OpenBLAS", "USE_MPI": "OFF"},
        toolchain={"cuda": "11.4"},
    ),
)
INSTALL = msgspec.structs.replace(
    export_plans.BLACKWELL,
    env={"CUDA_MODULE_LOADING": "LAZY"},
    requests=(
        Request(name="torch", version="2.7.1+cu128", index="https://example.invalid/cu128", why="it has code for it"),
        Request(name="numpy", specifier="<2", extras=("all",)),
        Request(name="other", url="https://example.invalid/other.whl"),
    ),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every text of a document, keys of mappings too."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if path and path[-1] in ("env", "cmake", "pins", "asserts", "toolchain"):
                yield (*path, "key", key)
            yield from places(inner, (*path, key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from places(inner, (*path, number))
    elif isinstance(value, str) and path != ("answer",):
        yield path


def put(document: Any, path: tuple[Any, ...], text: str) -> Any:
    made = json.loads(json.dumps(document))
    inner = made
    if path[-2:-1] == ("key",):
        for step in path[:-2]:
            inner = inner[step]
        inner[text] = inner.pop(path[-1])
        return made
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = text
    return made


DOCUMENTS = {"build": json.loads(encode(BASE)), "install": json.loads(encode(INSTALL))}
FIELDS = [(kind, path) for kind, document in DOCUMENTS.items() for path in places(document)]


def unchecked(document: Any) -> Plan:
    """The plan without the checks of its types: quoting must hold by itself."""
    plain = msgspec.json.decode(json.dumps(document).encode(), type=_Loose)
    build = plain.build
    return msgspec.structs.replace(
        BASE if build else INSTALL,
        **{
            name: document[name]
            for name in ("torch", "variant", "cuda", "python", "numpy", "project")
            if name in document
        },
        arch_list=tuple(document.get("arch_list", ())),
        env=dict(document.get("env", {})),
        because=tuple(Reason(**row) for row in document.get("because", ())),
        warnings=tuple(Reason(**row) for row in document.get("warnings", ())),
        requests=tuple(Request(**row) for row in document.get("requests", ())),
        build=msgspec.structs.replace(
            recipe_of(BASE),
            **{
                name: tuple(value) if isinstance(value, list) else value
                for name, value in build.items()
                if name in ("source", "env", "cmake", "compiler", "toolchain", "pins", "asserts", "losses")
            },
        )
        if build
        else None,
    )


class _Loose(msgspec.Struct):
    build: dict[str, Any] | None = None


def scripts(plan: Plan) -> Iterator[tuple[str, str]]:
    for form in FORMATS:
        kind, _, system = form.partition("-")
        try:
            recipe = make_recipe(plan, {})
            yield form, render(recipe, kind, system=system or None, image="x" if kind == "dockerfile" else None)
        except BadInput:
            continue


def shape(form: str, text: str) -> Any:
    """What a script does apart from its values: the same for every plan of one kind."""
    if form == "dockerfile":
        plain = re.sub(r"<<'(END_\w+)'(.*?)\n.*?\n\1\n", r"<<\2\n", text, flags=re.DOTALL)
        return [line.split()[0] for line in plain.splitlines() if re.match(r"[A-Z]+ ", line)]
    if form == "devcontainer":
        return sorted(json.loads(re.sub("(?m)^//.*$", "", text)))
    if form == "pixi":
        return {name: len(table) for name, table in tomllib.loads(text).items()}
    read = YAML(typ="safe", pure=True).load(text)
    job = next(iter(read["jobs"].values()))
    return [sorted(read, key=str), sorted(read["jobs"]), sorted(job), [sorted(step) for step in job["steps"]]]


def outside(form: str, text: str) -> str:
    """A script without what is only data: literal strings and comments of PowerShell, the here-document of a job."""
    if form == "slurm":
        text = re.sub(r"<<'(END_\w+)'\n.*?\n\1\n", "\n", text, flags=re.DOTALL)
        return re.sub("'[^']*'", "''", re.sub("(?m)^#.*$", "", text))
    return re.sub("(?m)^ *#.*$", "", re.sub("(?s)'(?:[^']|'')*'", "''", re.sub("(?m)^ *#.*$", "", text)))


def would_run(line: str) -> bool:
    """Would cmd take the payload for a command here: at the start of a line, or after & or | outside of quotes?"""
    if line.lower().startswith("rem "):
        return False
    outside = re.sub(r'"[^"]*"?', '""', re.sub(r"\^.", "", line) if not line.startswith('set "') else line)
    return re.search(r"(?:^|[&|(])\s*touch", outside) is not None


@functools.cache
def expected(kind: str, form: str) -> Any:
    return shape(form, dict(scripts(BASE if kind == "build" else INSTALL))[form])


# Those that break out of most; the long run takes all of them.
@pytest.mark.parametrize(
    "payload",
    [pytest.param(one, marks=() if number in (0, 3, 5, 7, 9, 15, 20) else LONG) for number, one in enumerate(PAYLOADS)],
    ids=ascii,
)
def test_no_value_changes_what_a_script_does(payload: str) -> None:
    text = payload.format("touch${IFS}sang" if "IFS" in payload else "touch sang")
    for kind, path in FIELDS:
        document = put(DOCUMENTS[kind], path, text)
        for form, script in scripts(unchecked(document)):
            place = f"{form} {path}"
            assert "\r" not in script.replace("\\r/", ""), place
            assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028]", script), place
            if form == "bat":
                assert not [line for line in script.splitlines() if would_run(line)], place
            elif form in ("ps1", "slurm"):
                assert not re.search(r"touch[\s$]", outside(form, script)), place
            elif form != "sh":
                assert shape(form, script) == expected(kind, form), place


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_a_hostile_document_is_refused_by_its_types(kind: str) -> None:
    """Only free text may hold shell characters; no field may hold a control character."""
    for field_kind, path in FIELDS:
        if field_kind != kind:
            continue
        for text in ("a\nb", "a\x1b[31m", "a\x00", "a\u2028b", "a\u202eb"):
            with pytest.raises(BadInput):
                decode(json.dumps(put(DOCUMENTS[kind], path, text)).encode(), Plan)
    for path in [("torch",), ("cuda",), ("python",), ("project",), ("variant",), ("numpy",)]:
        for text in ("-rf", "$(id)", "../x", '"&calc&"', "a b", ""):
            if path in (("numpy",),) and text == "":
                continue
            with pytest.raises(BadInput):
                decode(json.dumps(put(DOCUMENTS[kind], path, text)).encode(), Plan)


def world(tmp_path: Path) -> dict[str, str]:
    """Tools that do nothing, so that a script runs to its end."""
    tools = tmp_path / "tools"
    tools.mkdir(parents=True)
    body = (
        '#!/bin/sh\ncase "$*" in\n*version_info*) echo 3.10 ;;\n*--version*) echo "release 11.4," ;;\n'
        '*"-m venv"*) mkdir -p "$3/bin"; cp "$0" "$3/bin/python" ;;\n'
        'clone*) for last in "$@"; do :; done; mkdir -p "$last"; : >"$last/setup.py" ;;\nesac\n'
    )
    for name in ("git", "python", "python3.10", "python3.11", "nvcc", "c++", "g++-12", "hipcc", "pip"):
        (tools / name).write_text(body, encoding="utf-8")
        (tools / name).chmod((tools / name).stat().st_mode | stat.S_IXUSR)
    return {"PATH": f"{tools}:/usr/bin:/bin", "HOME": str(tmp_path), "SKIP_CHECKS": "1"}


def run_all(text: str, tmp_path: Path, fields: Any) -> None:
    env = world(tmp_path)
    for number, (kind, place) in enumerate(fields):
        document = put(DOCUMENTS[kind], place, text)
        for form, script in scripts(unchecked(document)):
            if form != "sh":
                continue
            file = tmp_path / f"{number}.sh"
            file.write_text(script, encoding="utf-8")
            checked = subprocess.run(["bash", "-n", str(file)], capture_output=True, text=True)
            assert checked.returncode == 0, (place, checked.stderr)
            folder = tmp_path / str(number)
            folder.mkdir()
            subprocess.run(
                ["sh", str(file)], cwd=folder, env=env, capture_output=True, timeout=60, stdin=subprocess.DEVNULL
            )
            assert not (folder / "sang").exists() and not list(folder.rglob("sang")), (place, text)


# One field of each kind of place a value is written to; the long run takes all fields.
CHOSEN = [
    (kind, path)
    for kind, path in FIELDS
    if path
    in (
        ("project",), ("torch",), ("cuda",), ("build", "losses", 0), ("build", "env", "USE_CUDA"),
        ("build", "pins", "numpy"), ("build", "asserts", "BLAS"), ("because", 0, "text"), ("requests", 0, "index"),
        ("warnings", 0, "text"),
    )
]  # fmt: skip


@pytest.mark.parametrize("payload", ["x\n{} #", "$({})", "'; {}; '"], ids=ascii)
def test_sh_runs_nothing_of_a_plan(payload: str, tmp_path: Path) -> None:
    run_all(payload.format("touch sang"), tmp_path, CHOSEN)


@LONG
@pytest.mark.parametrize("payload", PAYLOADS, ids=ascii)
def test_sh_runs_nothing_of_a_plan_in_any_field(payload: str, tmp_path: Path) -> None:
    run_all(payload.format("touch sang"), tmp_path, FIELDS)


def test_templates_cannot_write_what_nobody_quoted() -> None:
    from rekindle.scripts.quoting import only_quoted, sh_word

    assert only_quoted(sh_word("a b")) == "'a b'"
    with pytest.raises(TypeError):
        only_quoted("a b")


def test_every_text_field_is_tried() -> None:
    assert len(FIELDS) >= 40
