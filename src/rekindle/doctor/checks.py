"""The verdicts: what a build needs, what using a wheel needs, what is there, and what fixes the rest."""

from __future__ import annotations

from rekindle.doctor import rules_basic as basic
from rekindle.doctor import rules_gpu as gpu
from rekindle.doctor import rules_windows as windows
from rekindle.doctor.case import Case, Rule
from rekindle.model.machine import Check, Ready

RULES: tuple[Rule, ...] = (
    basic.check_python,
    basic.check_glibc,
    gpu.check_nvidia_driver,
    gpu.check_amd_driver,
    gpu.check_torch,
    windows.check_file_locks,
    basic.check_disk,
    basic.check_memory,
    basic.check_compiler,
    basic.check_python_headers,
    basic.tool_rule("git"),
    basic.tool_rule("cmake", least=basic.oldest_cmake),
    basic.tool_rule("ninja"),
    basic.check_ccache,
    gpu.check_cuda,
    gpu.check_cudnn,
    gpu.check_rocm,
    windows.check_msvc_environment,
    windows.check_long_paths,
    windows.check_workspace_path,
)


def run_checks(case: Case) -> tuple[tuple[Check, ...], Ready]:
    checks: list[Check] = []
    for rule in RULES:
        said = rule(case)
        checks += said if isinstance(said, list) else [said] if said is not None else []
    failed = {purpose for check in checks if check.status == "fail" for purpose in check.needed_for}
    return tuple(checks), Ready(build="build" not in failed, use="use" not in failed)
