"""A Slurm array script for sites without Dask: one array task per compiled tree, its cells one after another.

The script holds no logic: each task calls ``rekindle matrix cell``, and the truth is in the cells' directories. A
preempted task is requeued by Slurm and continues.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence

from rekindle.matrix.schedule import chain_costs
from rekindle.model.matrix import Cell, MatrixScript
from rekindle.model.slurm import slurm_head

TEMPLATE = """\
{head}
# Submit with: sbatch FILE. The directory below must be seen by every node.
# 'rekindle matrix status' tells what became of the cells; submitting again continues.
set -u
root={root}
trees=(
{trees}
)
# TERM reaches the build, which stops in order; Slurm's requeue starts it again.
stop() {{ kill -TERM "$running" 2>/dev/null; wait "$running"; exit 3; }}
trap stop TERM
failed=0
for cell in ${{trees[$SLURM_ARRAY_TASK_ID]}}; do
    rekindle matrix cell "$cell" --root "$root" --trust --jobs "$SLURM_CPUS_PER_TASK" &
    running=$!
    wait "$running" || failed=1
done
exit "$failed"
"""


def slurm_script(cells: Sequence[Cell], root: str, *, cores: int = 8) -> MatrixScript:
    """Cells of one tree stay together and in order; times are doubled estimates: Slurm kills what is late."""
    trees: dict[str, list[Cell]] = {}
    for cell in cells:
        trees.setdefault(cell.tree, []).append(cell)
    costs = chain_costs(list(cells), ())
    minutes = max(costs.values(), default=60.0)
    text = TEMPLATE.format(
        head=slurm_head(
            job="rekindle",
            array=len(trees),
            cores=cores,
            memory_gib=math.ceil(max((cell.memory_gib for cell in cells), default=4.0) * 1.25) + 2,
            hours=max(1, math.ceil(2 * minutes / 60)),
            log="rekindle-%A_%a.log",
        ),
        root=shlex.quote(root),
        trees="\n".join(f'    "{" ".join(cell.id for cell in group)}"' for group in trees.values()),
    )
    return MatrixScript(text=text, cells=len(cells))
