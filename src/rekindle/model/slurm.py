"""The head of a batch script for Slurm: what the job asks for, and that it may be stopped and started again."""

from __future__ import annotations


def slurm_head(*, job: str, cores: int, memory_gib: int, hours: int, log: str, array: int | None = None) -> str:
    """``array`` is how many tasks there are. TERM comes two minutes before the end, so that a build stops in order."""
    asked = [f"--job-name={job}"]
    if array is not None:
        asked.append(f"--array=0-{max(0, array - 1)}")
    asked += [
        "--nodes=1",
        f"--cpus-per-task={cores}",
        f"--mem={memory_gib}G",
        f"--time={hours}:00:00",
        "--requeue",
        "--signal=B:TERM@120",
        f"--output={log}",
    ]
    return "\n".join(["#!/bin/bash", *(f"#SBATCH {word}" for word in asked)])
