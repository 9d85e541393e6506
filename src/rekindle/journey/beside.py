"""Companions into the environment that has just got its torch, without a chance to replace it.

One that cannot be had is told and left out; the torch is good without it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from rekindle.errors import CommandFailed, StageFailed
from rekindle.host.files import write_atomically
from rekindle.host.protocol import Host
from rekindle.host.workspace import Workspace
from rekindle.interpreters.installer import Installer
from rekindle.interpreters.packages import look_into
from rekindle.journey.install import run_logged
from rekindle.model.journey import Installation
from rekindle.model.keep import constraints_text, pinned
from rekindle.model.plan import Plan, Request
from rekindle.model.progress import Progress


def add_beside(
    host: Host,
    python: str,
    plan: Plan,
    requests: Sequence[Request],
    installed: Installation,
    workspace: Workspace,
    progress: Progress,
    installer: Installer,
) -> Installation:
    """The installation with every companion of the plan that has a wheel; the rest is told."""
    wanted = [one for one in plan.companions if one.requests and one.answer in ("runs", "last")]
    for one in plan.companions:
        if one not in wanted and one.name not in {request.name for request in requests}:
            progress.note(f"{one.name} is not installed ({one.answer}): {one.why}")
    if not wanted:
        return installed
    log = workspace.new_log("companions")
    limits = log.with_suffix(".constraints.txt")
    pins = pinned(requests, installed.packages)
    write_atomically(limits, constraints_text(pins))
    for one in wanted:
        for request in one.requests:
            words = ["-c", str(limits), request.requirement]
            words += ["--extra-index-url", request.index] if request.index else []
            words += ["-f", request.links] if request.links else []
            try:
                run_logged(installer.command(host, python, [*words, *installer.places]), log, progress)
            except CommandFailed as error:
                progress.note(f"{one.name} {one.version} is not installed: {error.message}")
    after = look_into(host, python)
    moved = [name for name, version in pins.items() if after.versions.get(name) != version]
    if moved:
        raise StageFailed(
            f"a companion replaced {', '.join(moved)}, though its constraints forbid it",
            remedy=f"the whole log: {log}; without --with the torch stays as planned",
        )
    return msgspec.structs.replace(installed, packages=after.versions, fingerprint=after.fingerprint)
