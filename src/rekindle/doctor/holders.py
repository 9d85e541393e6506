"""Programs that have torch's DLLs loaded (Windows), by ``tasklist /m``."""

from __future__ import annotations

import csv

from rekindle.host.asking import Asking

_MAX_NAMED = 5


def probe_holders(host: Asking) -> tuple[str, ...]:
    if host.system != "windows":
        return ()
    done = host.run(["tasklist", "/m", "torch_cpu.dll", "/fo", "csv", "/nh"], timeout=host.left(5))
    # Where nobody holds it, tasklist says so in a sentence, in the language of the system.
    rows = [row for row in csv.reader(done.out.splitlines()) if len(row) == 3 and row[1].isdigit()]
    return tuple(f"{name} (process {number})" for name, number, _ in rows[:_MAX_NAMED])
