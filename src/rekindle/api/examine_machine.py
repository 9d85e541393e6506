"""``doctor``: what a machine is, and whether it is ready."""

import sys
from pathlib import Path

from msgspec.structs import replace

from rekindle.api.explain_log import examination_with_causes
from rekindle.doctor.examine import examine, write_examination
from rekindle.host.capture import RecordedHost, read_capture
from rekindle.host.files import write_for_user
from rekindle.host.live import LiveHost
from rekindle.host.protocol import Host
from rekindle.model.document import encode, load
from rekindle.model.machine import Examination, Ready
from rekindle.model.plan import Plan
from rekindle.model.progress import Progress


def doctor(
    host: Host | None = None,
    *,
    workspace: str | None = None,
    try_torch: bool = False,
    save: Path | None = None,
    capture: Path | None = None,
    replay: Path | None = None,
    plan: Path | None = None,
    progress: Progress | None = None,
) -> Examination:
    """What this machine is (or ``host``, or the capture ``replay``) and whether it is ready; under ten seconds.

    >>> examined = doctor()
    >>> examined.machine.os.system in ("linux", "windows")
    True
    >>> all(check.fix for check in examined.checks if check.status == "fail")
    True
    """
    if host is None and replay is not None:
        host = RecordedHost(read_capture(replay))
    examined = examine(host or LiveHost(), workspace=workspace, try_torch=try_torch, progress=progress)
    examination = examination_with_causes(examined.examination)
    if plan is not None:
        from rekindle.api.build_wheels import build_checks
        from rekindle.build.request import admit_to_be_checked

        planned = load(plan, Plan)
        admit_to_be_checked(planned, examination)
        asked = build_checks(planned, python=planned.python or sys.executable, place=Path.cwd(), host=host)
        # What this very build asks of the machine replaces what builds in general ask.
        names = {check.id for check in asked}
        checks = (*(check for check in examination.checks if check.id not in names), *asked)
        ready = Ready(build=not any(check.status == "fail" for check in asked), use=examination.ready.use)
        examination = replace(examination, checks=checks, ready=ready)
    if capture is not None:
        write_examination(examined, capture)
    if save is not None:
        write_for_user(save, encode(examination.machine))
    return examination
