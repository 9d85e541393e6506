"""A Python with torch that is shown worlds (tests/torch_worlds.py), and what the checks say in them as text.

``python tests/torch_visits.py`` writes what they say now to tests/truth/verify_worlds.txt.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pretended_gpus import ARC, BESIDE, CUDA, ROCM
from rekindle.verify.target import CHECKS

TRUTH = Path(__file__).parent / "truth" / "verify_worlds.txt"
_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
PYTHON = os.environ.get("REKINDLE_TEST_TORCH") or str(_CACHE / "rekindle-tests" / "torch" / "bin" / "python")
AMD = ["start", "arch", "error", "matmul-int8", "tf32", "nvrtc", "elementwise", "layers"]
# name -> what changes torch, and the checks (or scopes) whose words are written down
WORLDS = {
    "the CPU": (BESIDE, ["cpu"]),
    "NVIDIA's GPUs": (BESIDE + CUDA, ["gpu", "gpus", "arch-list", "settings", "vision"]),
    "AMD's GPUs": (ROCM, ["settings", "arch-list", *(f"gpu.{name}" for name in AMD)]),
    "an Intel GPU": (BESIDE + ARC, ["gpu", "gpus", "settings", "arch-list"]),
}
Visit = Callable[[str, list[str]], dict[str, Any]]


@contextlib.contextmanager
def torch_process() -> Iterator[tuple[str, Visit]]:
    """Torch's version, and what tells how checks end in a world."""
    command = [PYTHON, str(Path(__file__).with_name("torch_worlds.py")), str(CHECKS)]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        asking, answers = process.stdin, process.stdout

        def visit(change: str, checks: list[str]) -> dict[str, Any]:
            asking.write(json.dumps({"change": change, "checks": checks}) + "\n")
            asking.flush()
            told: dict[str, Any] = json.loads(answers.readline())
            return told

        yield json.loads(answers.readline()), visit
        asking.close()


# What these say depends on the machine or on rounding.
_OF_THE_MACHINE = ("version", "capability", "training", "gpu.training", "numpy", "threads", "ops.quantized")


def written(told: dict[str, Any]) -> str:
    """A world as text: each check with how it ended, below it its comparisons."""
    lines = []
    for id, ended in told.items():
        detail = "…" if id in _OF_THE_MACHINE and ended["detail"] else ended["detail"]
        lines.append(f"{id}: {ended['status']}: {detail}")
        rulers = Counter(re.sub(r"in (qnnpack|onednn|x86|fbgemm)", "in an engine", each) for each in ended["rulers"])
        lines += [
            f"  {ruler} ({times} times)" if "engine" not in ruler else f"  {ruler}" for ruler, times in rulers.items()
        ]
    return "\n".join(lines).replace(" (1 times)", "") + "\n"


def read_truth() -> dict[str, str]:
    """What is written down, by world."""
    return dict(re.findall(r"^== (.*)\n((?:(?!== ).*\n)*)", TRUTH.read_text("utf-8"), re.MULTILINE))


if __name__ == "__main__":
    with torch_process() as (_, go):
        TRUTH.write_text("".join(f"== {name}\n{written(go(*world))}" for name, world in WORLDS.items()), "utf-8")
