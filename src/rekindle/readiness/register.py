"""The register: every question once, with what the doctor asks of a machine and what a build asks of this one. A
question that both ask stands in one line, and both answers come from one module, by the same lookups and tables.
Everything that can fail at the end of a build is asked at its start, in seconds, and all of it is told at once."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from rekindle.errors import NotReady, RekindleError
from rekindle.host.protocol import Host
from rekindle.model.machine import Check, Ready
from rekindle.readiness import cuda, programs, rocm, space, supplies, use
from rekindle.readiness.case import Checks, ExaminedMachine, PlannedBuild, build_check


class Question(NamedTuple):
    """``id`` names the check; each side is None where it does not ask."""

    id: str
    of_machine: Callable[[ExaminedMachine], Checks] | None = None
    for_build: Callable[[Host, PlannedBuild], Checks] | None = None


REGISTER = (
    Question("place", None, space.place_for_build),
    Question("python", programs.python_of_machine, programs.python_for_build),
    Question("glibc", use.glibc_of_machine),
    Question("nvidia-driver", use.nvidia_driver_of_machine),
    Question("amd-driver", use.amd_driver_of_machine),
    Question("torch", use.torches_of_machine),
    Question("file-locks", use.file_locks_of_machine),
    Question("disk", space.disk_of_machine, space.disk_for_build),
    Question("memory", space.memory_of_machine),
    Question("compiler", programs.compiler_of_machine, programs.compiler_for_build),
    Question("python-headers", programs.headers_of_machine),
    Question("git", partial(programs.program_of_machine, name="git")),
    Question("cmake", partial(programs.program_of_machine, name="cmake"), programs.cmake_for_build),
    Question("ninja", partial(programs.program_of_machine, name="ninja"), programs.ninja_for_build),
    Question("ccache", programs.ccache_of_machine),
    Question("third-parties", None, supplies.libraries_for_build),
    Question("submodules", None, supplies.submodules_for_build),
    Question("headers", None, supplies.headers_for_build),
    Question("cuda-toolkit", cuda.toolkit_of_machine),
    Question("cudnn", cuda.cudnn_of_machine),
    Question("rocm", rocm.toolkit_of_machine),
    Question("gpu", None, cuda.cuda_for_build),
    Question("gpu", None, rocm.rocm_for_build),
    Question("msvc-environment", programs.msvc_environment_of_machine),
    Question("long-paths", space.long_paths_of_machine),
    Question("workspace-path", space.workspace_path_of_machine),
    Question("index", None, supplies.index_for_build),
)


def check_machine(case: ExaminedMachine) -> tuple[tuple[Check, ...], Ready]:
    """Everything the doctor asks, and whether the machine can build and use torch."""
    checks = tuple(check for question in REGISTER if question.of_machine for check in question.of_machine(case))
    failed = {purpose for check in checks if check.status == "fail" for purpose in check.needed_for}
    return checks, Ready(build="build" not in failed, use="use" not in failed)


def check_build(host: Host, build: PlannedBuild) -> tuple[Check, ...]:
    """One check per question that this plan raises; the ones that fail carry one line that can be pasted."""
    checks: list[Check] = []
    for question in REGISTER if build.plan.build is not None else ():
        if question.for_build is None:
            continue
        try:
            checks += question.for_build(host, build)
        except RekindleError as error:
            checks.append(build_check(question.id, "fail", error.message, fix=error.remedy))
    return tuple(checks)


def refuse_unready(checks: Sequence[Check]) -> None:
    """Raise with everything that is missing, and the lines that bring it."""
    if failed := [check for check in checks if check.status == "fail"]:
        fixes = dict.fromkeys(check.fix for check in failed if check.fix)
        problems = "; ".join(check.found or check.id for check in failed)
        raise NotReady(f"this machine is not ready for the build: {problems}", remedy="\n".join(fixes) or None)
