"""``matrix.toml`` read and spread out into combinations. Everything wrong with a table is one line that names the
place. The number of combinations is counted before any is made: a table of a million cells is refused at once. Two
cells are the same where the hash of everything that decides the bytes of their wheels is."""

import difflib
import hashlib
import itertools
import math
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from rekindle.errors import BadInput
from rekindle.model.document import read_bounded
from rekindle.model.matrix import AXES, Table
from rekindle.model.plan import Plan

MAX_TABLE_BYTES = 1 << 20
MAX_CELLS = 5000
_PROJECT = re.compile(r"[a-z][a-z0-9_-]{0,60}")
_SETTING = re.compile(r"(USE|BUILD|CMAKE|SPARK|TORCH|TORCHVISION)_[A-Z0-9_]{1,60}|BLAS|MAX_JOBS")


def read_table(path: Path) -> Table:
    """The table, checked: known names, at least one value per axis, no contradictions that can be seen by eye."""
    write_one = "write one (rekindle matrix --help has an example), or name it: rekindle matrix plan FILE"
    raw = read_bounded(path, MAX_TABLE_BYTES, "table", remedy=write_one)
    try:
        table = msgspec.convert(tomllib.loads(raw.decode("utf-8")), Table)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{path}: {error}", remedy="'rekindle matrix --help' shows the form") from error
    _check_table(table, path)
    return table


def _check_table(table: Table, path: Path) -> None:
    if table.schema != 1:
        raise BadInput(f"{path} has schema {table.schema}; this Rekindle reads schema 1", remedy="update Rekindle")
    for axis in table.axes:
        if axis not in AXES:
            near = difflib.get_close_matches(axis, AXES)
            hint = f"did you mean {near[0]!r}?" if near else f"axes are {', '.join(AXES)}"
            raise BadInput(f"{path}: there is no axis {axis!r}", remedy=hint)
    needed = ("python",) if table.project == "spark" else ("python", "torch")
    if "python" not in table.axes:
        raise BadInput(f"{path}: the axis 'python' is missing", remedy='write python = ["3.11"] under [axes]')
    if lacking := next((axis for row in table.include for axis in needed if axis not in row), None):
        raise BadInput(f"{path}: a row of [[include]] does not name {lacking!r}")
    if not _PROJECT.fullmatch(table.project):
        remedy = 'write project = "torch", or leave it out'
        raise BadInput(f"{path}: {table.project[:60]!r} is no project", remedy=remedy)
    _check_project(table, path)
    if "torch" in needed and "torch" not in table.axes:
        raise BadInput(f"{path}: the axis 'torch' is missing", remedy='write torch = ["2.6.0"] under [axes]')
    if "archs" in table.axes and "card" in table.axes:
        raise BadInput(f"{path}: 'archs' and 'card' contradict each other", remedy="keep one of the two")
    for axis, values in table.axes.items():
        if not values:
            raise BadInput(f"{path}: the axis {axis!r} has no values")
        if len({_value_text(value) for value in values}) < len(values):
            raise BadInput(f"{path}: the axis {axis!r} names a value twice")
        for value in values:
            _check_value(axis, value, path)
    for name, value in (table.defaults.settings if table.defaults else {}).items():
        if not _SETTING.fullmatch(name) or not value.isprintable() or len(value) > 1000:
            raise BadInput(f"{path}: {name!r} is no setting", remedy='write for example USE_DISTRIBUTED = "0"')
    for kind, rows in (("include", table.include), ("exclude", table.exclude)):
        for row in rows:
            for axis, value in row.items():
                if axis not in AXES:
                    raise BadInput(f"{path}: [[{kind}]] names {axis!r}, which is no axis")
                _check_value(axis, tuple(value) if isinstance(value, list) else value, path)


def _check_project(table: Table, path: Path) -> None:
    """A tree of one's own may be called anything; what is fetched is torch, with its companions, or the miniature."""
    source = table.defaults.source if table.defaults else None
    if table.project in ("torch", "spark") or source not in (None, "git", "debian", "spark"):
        return
    text = f"{path}: there are no sources of {table.project!r} to fetch"
    remedy = 'write project = "torch" (or leave it out), or name its tree: source = "DIR" under [defaults]'
    if table.project in ("torchvision", "torchaudio"):
        text = f"{path}: {table.project} is built against a torch of the same table"
        remedy = f'leave project out and write companions = ["{table.project}"]'
    raise BadInput(text, remedy=remedy)


def _check_value(axis: str, value: object, path: Path) -> None:
    parts = value if isinstance(value, tuple) else (value,)
    if isinstance(value, tuple) and axis != "archs":
        raise BadInput(f"{path}: only 'archs' takes lists of values, not {axis!r}")
    for part in parts:
        if not isinstance(part, str) or not part or len(part) > 100 or not part.isprintable():
            raise BadInput(f"{path}: {part!r} is no value for {axis!r}", remedy="values are short texts in quotes")


def combinations(table: Table, path: Path) -> list[dict[str, str]]:
    """Every combination that is left after ``exclude``, with ``include`` added, each once, in the table's order."""
    # Before anything is excluded.
    if (count := math.prod(map(len, table.axes.values())) + len(table.include)) > MAX_CELLS:
        words = f"{path} spans {count:,} cells; {MAX_CELLS:,} is the limit"
        raise BadInput(words, remedy="leave values out, or make several tables")
    rows: dict[tuple[tuple[str, str], ...], dict[str, str]] = {}
    axes = {axis: table.axes[axis] for axis in AXES if axis in table.axes}
    spanned = (dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values()))
    for given in itertools.chain(spanned, table.include):
        row = {axis: _value_text(given[axis]) for axis in AXES if axis in given}
        if not any(all(row.get(axis) == _value_text(rule[axis]) for axis in rule) for rule in table.exclude):
            rows.setdefault(tuple(sorted(row.items())), row)
    if not rows:
        raise BadInput(f"{path}: nothing is left after [[exclude]]", remedy="exclude less")
    return list(rows.values())


def _value_text(value: object) -> str:
    return ";".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


ID_LENGTH = 16


def cell_id(plan: Plan, *, identity: str, toolchain: Mapping[str, str], system: str, **own: str | None) -> str:
    """The name of a cell, whose ``own`` are its ``python`` and ``target``; without them that of its compiled tree, for
    cells that differ in nothing else. ``identity`` says which sources: a commit, a digest, a release."""
    recipe = plan.build
    assert recipe is not None
    deciding = {
        **{name: getattr(plan, name) for name in ("project", "torch", "variant", "cuda", "rocm", "cudnn", "arch_list")},
        **{name: getattr(recipe, name) for name in ("env", "cmake", "compiler")},
        "patches": sorted(recipe.patches),
        "pins": {name: pin for name, pin in recipe.pins.items() if name != "python"},
        "identity": identity,
        "toolchain": dict(toolchain),
        "system": system,
        **own,
    }
    return hashlib.sha256(msgspec.json.encode(deciding, order="sorted")).hexdigest()[:ID_LENGTH]


def cell_name(axes: Mapping[str, str], project: str) -> str:
    """How people call the cell: ``torch-2.6.0-py3.11-cu118-3.5;9.0``."""
    torch = f"{'-' if project == 'torch' else '-for-'}{axes['torch']}" if "torch" in axes else ""
    parts = [project + torch]
    parts += [f"{'py' * (axis == 'python')}{value}" for axis, value in axes.items() if axis != "torch"]
    return "-".join(parts).replace(" ", "_")
