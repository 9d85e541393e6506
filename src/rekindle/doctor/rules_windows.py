"""What only Windows asks for: long paths, a plain path to build in, DLLs that nobody holds."""

from __future__ import annotations

import re

from rekindle.doctor.case import Case
from rekindle.model.machine import Check

# torch's build tree adds up to some 180 characters; without long paths 260 is the end.
_ROOM_FOR_THE_TREE = 60


def check_long_paths(case: Case) -> Check | None:
    if case.machine.os.system != "windows" or case.machine.os.long_paths is None:
        return None
    on = case.machine.os.long_paths
    return Check(
        id="long-paths",
        status="ok" if on else "fail",
        needed_for=("build",),
        found="on" if on else "off",
        want="on",
        fix=None if on else case.fix("long-paths"),
        why=None if on else "torch's build tree has paths longer than 260 characters",
    )


def check_workspace_path(case: Case) -> Check | None:
    if case.machine.os.system != "windows":
        return None
    path, troubles = case.workspace, []
    if " " in path:
        troubles.append("it has a space, which old build scripts of torch do not quote")
    if not path.isascii():
        troubles.append("it has letters outside ASCII, which nvcc and old CMake files garble")
    if not case.machine.os.long_paths and len(path) > _ROOM_FOR_THE_TREE:
        troubles.append(f"it is {len(path)} characters long, and long paths are off")
    return Check(
        id="workspace-path",
        status="warn" if troubles else "ok",
        needed_for=("build",),
        found=path,
        want="a short plain path such as C:\\rk" if troubles else None,
        fix=case.fix("workspace-path") if troubles else None,
        why="; ".join(troubles) or None,
    )


def check_file_locks(case: Case) -> Check | None:
    """Windows does not replace a DLL that is loaded; pip then leaves half a torch behind."""
    if not case.torch_users:
        return None
    return Check(
        id="file-locks",
        status="warn",
        needed_for=("use",),
        found=", ".join(case.torch_users),
        want="no program that has torch loaded while another is installed",
        fix=case.fix("file-locks"),
        why="these programs hold torch's DLLs",
    )


def check_msvc_environment(case: Case) -> Check | None:
    """Every build starts Visual Studio's batch file; it must run and find a Windows SDK."""
    newest = next((c for c in case.machine.compilers if c.kind == "msvc"), None)
    if case.machine.os.system != "windows" or newest is None:
        return None
    sdk = re.search(r"Windows SDK (\d[\d.]*)", newest.note or "")
    why = next((gap.why for gap in case.gaps if gap.what in ("Visual Studio's environment", "Windows SDK")), None)
    return Check(
        id="msvc-environment",
        status="ok" if sdk else "fail",
        needed_for=("build",),
        found=f"Windows SDK {sdk[1]}" if sdk else None,
        want=None if sdk else "vcvars64.bat that runs and finds a Windows SDK",
        fix=None if sdk else case.fix("msvc-environment"),
        why=None if sdk else why,
    )
