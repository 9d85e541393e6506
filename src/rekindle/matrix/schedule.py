"""Which cell goes where next: the decision alone, used by the real run and by the simulation.

Cells of one compiled tree form a chain (one after another, each after the first is cheap). The chain with the most
work left goes first, since it bounds the end; within a chain the order is the table's. A worker gets only what it
can do: its system, its memory, its toolkit, its Pythons.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from rekindle.model.matrix import Cell, MatrixScript, Worker, slurm_head
from rekindle.model.version import same_prefix

# A second Python compiles only what depends on Python: about a sixth of spark, a quarter of torch (measured).
SHARED_SHARE = 0.25


def cost(cell: Cell, warm: Collection[str]) -> float:
    """Minutes this cell takes, given which trees are compiled already."""
    return cell.minutes * (SHARED_SHARE if cell.tree in warm else 1.0)


def chain_costs(cells: Sequence[Cell], warm: Collection[str]) -> dict[str, float]:
    """Minutes of work left per tree."""
    left: dict[str, float] = {}
    seen = set(warm)
    for cell in cells:
        left[cell.tree] = left.get(cell.tree, 0.0) + cost(cell, seen)
        seen.add(cell.tree)
    return left


def can_build(worker: Worker, cell: Cell) -> str | None:
    """None where the worker can; otherwise the first reason why it cannot."""
    if worker.system != cell.system:
        return f"{worker.name} is {worker.system}, the cell is for {cell.system}"
    if worker.memory_gib is not None and worker.memory_gib < cell.memory_gib:
        return f"{worker.name} has {worker.memory_gib:.1f} GiB, the cell wants {cell.memory_gib:.1f}"
    toolkit = ".".join((cell.cuda or "").split(".")[:2])
    if toolkit and worker.cuda is not None and not any(same_prefix(have, toolkit) for have in worker.cuda):
        return f"{worker.name} has no CUDA {cell.cuda}"
    if worker.pythons is not None and not any(f"{have}.".startswith(f"{cell.python}.") for have in worker.pythons):
        return f"{worker.name} has no Python {cell.python}"
    return None


def unplaceable(cells: Sequence[Cell], workers: Sequence[Worker]) -> dict[str, str]:
    """Cells that no worker can build, each with the reason of the nearest one. They would wait for ever."""
    found = {}
    for cell in cells:
        reasons = [can_build(worker, cell) for worker in workers]
        if all(reasons):
            found[cell.id] = next((reason for reason in reasons if reason), "there is no worker")
    return found


def assign(
    ready: Sequence[Cell],
    free: Mapping[str, int],
    workers: Mapping[str, Worker],
    *,
    busy_trees: Collection[str],
    warm: Mapping[str, str],
    done: Collection[str],
) -> list[tuple[Cell, str]]:
    """What to start now, and on which worker. ``free`` counts free slots per worker; ``warm`` says where a tree was
    compiled last."""
    slots = {name: count for name, count in free.items() if count > 0}
    left = chain_costs(ready, warm)
    busy = set(busy_trees)
    chosen: list[tuple[Cell, str]] = []
    if not slots:
        return chosen
    for cell in sorted(ready, key=lambda each: -left[each.tree]):
        if not slots:
            break
        if cell.tree in busy or not set(cell.after) <= set(done):
            continue
        able = [name for name in slots if can_build(workers[name], cell) is None]
        if not able:
            continue
        # The worker that has the tree in its page cache, else the one with most free slots.
        name = warm.get(cell.tree, "")
        if name not in able:
            name = max(able, key=lambda each: (slots[each], each))
        chosen.append((cell, name))
        busy.add(cell.tree)
        slots[name] -= 1
        if not slots[name]:
            del slots[name]
    return chosen


def slurm_script(cells: Sequence[Cell], root: str, *, cores: int = 8) -> MatrixScript:
    """Cells of one tree stay together and in order; times are doubled estimates: Slurm kills what is late."""
    trees: dict[str, list[Cell]] = {}
    for cell in cells:
        trees.setdefault(cell.tree, []).append(cell)
    costs = chain_costs(list(cells), ())
    minutes = max(costs.values(), default=60.0)
    head = slurm_head(
        job="rekindle",
        array=len(trees),
        cores=cores,
        memory_gib=math.ceil(max((cell.memory_gib for cell in cells), default=4.0) * 1.25) + 2,
        hours=max(1, math.ceil(2 * minutes / 60)),
        log="rekindle-%A_%a.log",
    )
    listed = "\n".join(f'    "{" ".join(cell.id for cell in group)}"' for group in trees.values())
    text = Path(__file__).with_name("slurm.sh").read_text(encoding="utf-8")
    for mark, value in {"@HEAD@": head, "@ROOT@": shlex.quote(root), "@TREES@": listed}.items():
        text = text.replace(mark, value)
    return MatrixScript(text=text, cells=len(cells))
