"""What a Slurm cluster is asked for, in the lines it reads."""

from __future__ import annotations

import pytest

from rekindle.model.matrix import slurm_head


@pytest.mark.parametrize(
    ("array", "asked"), [(None, []), (0, ["--array=0-0"]), (1, ["--array=0-0"]), (9, ["--array=0-8"])]
)
def test_a_script_asks_for_its_share_and_to_be_ended_in_order(array: int | None, asked: list[str]) -> None:
    head = slurm_head(job="j", cores=4, memory_gib=15, hours=3, log="o.log", array=array)
    first, *lines = head.splitlines()
    assert first == "#!/bin/bash" and all(line.startswith("#SBATCH --") for line in lines)
    words = [line.removeprefix("#SBATCH ") for line in lines]
    assert words[: 1 + len(asked)] == ["--job-name=j", *asked] and ("array" in head) is bool(asked)
    assert {"--nodes=1", "--cpus-per-task=4", "--mem=15G", "--time=3:00:00", "--output=o.log"} <= set(words)
    assert {"--requeue", "--signal=B:TERM@120", "--open-mode=append"} <= set(words)
