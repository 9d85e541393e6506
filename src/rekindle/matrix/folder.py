"""The directory of a matrix: all truth about a cell lies in its own folder, written whole or not at all.

::

    ROOT/cells/ID/cell.json    what to build, frozen
                  state.json   what became of it
                  owner.json   who works on it now
                  wheels/      the wheel with its statements, reports and proof
    ROOT/trees/KEY/            a workspace that cells of one compiled tree share
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from rekindle.errors import BadInput
from rekindle.host.files import write_atomically
from rekindle.model.document import encode, load
from rekindle.model.matrix import Cell, CellState

_ID = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True)
class CellFolder:
    """One cell's directory. A missing or unreadable state is the state of a cell nobody has touched."""

    root: Path
    id: str

    def __post_init__(self) -> None:
        if not _ID.fullmatch(self.id):
            raise BadInput(f"{self.id!r} is no cell id", remedy="'rekindle matrix status' lists them")

    @property
    def place(self) -> Path:
        return self.root / "cells" / self.id

    @property
    def state_file(self) -> Path:
        return self.place / "state.json"

    @property
    def owner_file(self) -> Path:
        return self.place / "owner.json"

    @property
    def wheels(self) -> Path:
        return self.place / "wheels"

    @property
    def log(self) -> Path:
        return self.place / "cell.log"

    def cell(self) -> Cell:
        """The frozen cell; one from elsewhere, whose id is not its folder's name, is refused."""
        cell = load(self.place / "cell.json", Cell)
        if cell.id != self.id:
            raise BadInput(
                f"{self.place} holds the cell {cell.id}: it was copied from elsewhere",
                remedy=f"remove {self.place} and run again",
            )
        return cell

    def freeze(self, cell: Cell) -> None:
        """Write ``cell.json`` unless it is there and the same."""
        raw = encode(cell)
        file = self.place / "cell.json"
        try:
            if file.read_bytes() == raw:
                return
        except OSError:
            pass
        write_atomically(file, raw)

    def state(self) -> CellState:
        try:
            state = load(self.state_file, CellState)
        except BadInput:
            return CellState(id=self.id)
        return state if state.id == self.id else CellState(id=self.id)

    def save(self, state: CellState) -> None:
        write_atomically(self.state_file, encode(state))


def tree_place(root: Path, tree: str) -> Path:
    """The workspace that the cells of one compiled tree share."""
    return root / "trees" / tree
