"""Installed = planned: after every install the environment is compared with what was told before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from packaging.utils import canonicalize_name

from rekindle.interpreters.packages import Contents
from rekindle.model.journey import Package
from rekindle.model.plan import Plan, Request


def disagreements(
    plan: Plan, requests: Sequence[Request], told: Sequence[Package] | None, before: Contents, after: Contents
) -> list[str]:
    """Everything that is not as planned and told, in words; empty where installed = planned."""
    wrong: list[str] = []
    expected = {one.name: one.version for one in told or ()}
    for name, version in expected.items():
        if after.versions.get(name) != version:
            wrong.append(f"{name} is {after.versions.get(name) or 'missing'}, {version} was announced")
    for request in requests:
        name = str(canonicalize_name(request.name))
        if name in expected or request.version is None:
            continue
        found = after.versions.get(name)
        if found not in _acceptable(request, told):
            wrong.append(f"{name} is {found or 'missing'}, {request.version} was planned")
    if told is not None:
        wrong += _behind_our_back(expected, before, after)
    return [*wrong, *_torch(plan, requests, after)]


def _acceptable(request: Request, told: Sequence[Package] | None) -> set[str | None]:
    """What a request that was met already, or that no report tells about, may be called."""
    version = request.version or ""
    # An index of one flavour may leave the local part out; what torch says of itself is compared besides.
    return {version, version.partition("+")[0]} if told is None or request.index else {version}


def _behind_our_back(expected: Mapping[str, str], before: Contents, after: Contents) -> list[str]:
    wrong = []
    for name, version in before.versions.items():
        if name not in expected and after.versions.get(name) != version:
            wrong.append(f"{name} {version} became {after.versions.get(name) or 'nothing'}, which nobody announced")
    wrong += [
        f"{name} {version} came without being announced"
        for name, version in after.versions.items()
        if name not in before.versions and name not in expected
    ]
    return wrong


def _torch(plan: Plan, requests: Sequence[Request], after: Contents) -> list[str]:
    """What torch itself says, which its name on the index need not: version, CUDA, ROCm."""
    if not any(request.name == "torch" for request in requests):
        return []
    if not after.torch:
        return ["torch is not there, or does not say what it is"]
    wrong = []
    name = after.torch.get("__version__") or ""
    if plan.torch and name.partition("+")[0] != plan.torch.partition("+")[0]:
        wrong.append(f"torch calls itself {name}, {plan.torch} was planned")
    for what, planned in (("cuda", plan.cuda), ("hip", plan.rocm)):
        found = after.torch.get(what)
        if planned is None and plan.variant == "cpu" and found:
            wrong.append(f"torch was built for {what.upper()} {found}, a CPU build was planned")
        elif planned and _minor(found) != _minor(planned):
            wrong.append(f"torch was built for {what.upper()} {found or 'nothing'}, {planned} was planned")
    return wrong


def _minor(version: str | None) -> list[str]:
    return (version or "").split(".")[:2]
