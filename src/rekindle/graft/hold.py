"""New code held against code the wheel has: what host code relies on must be the same, or the unit is refused."""

from __future__ import annotations

from rekindle.formats.cubin import HEAD, Face, Kernel, cubin_arch, read_face
from rekindle.formats.view import Malformed
from rekindle.model.arch import Sm

_SHOWN = 160


def differences(image: bytes, arch: Sm, official: Face) -> str | None:
    """Why a new cubin for ``arch`` cannot stand beside ``official``, in words; None where it can."""
    if (wrong := other_arch(image, arch)) is not None:
        return wrong
    try:
        new = read_face(image, "the new image")
    except Malformed as error:
        return error.message
    for what, mine, theirs in (
        ("kernel", new.kernels.keys(), official.kernels.keys()),
        ("variable", new.variables.keys(), official.variables.keys()),
    ):
        if missing := sorted(theirs - mine):
            return f"{len(missing)} of {len(theirs)} {what}s are missing, first {missing[0][:_SHOWN]}"
        if extra := sorted(mine - theirs):
            return f"{len(extra)} {what}s are not in the wheel's own code, first {extra[0][:_SHOWN]}"
    for name, kernel in official.kernels.items():
        if new.kernels[name].passed != kernel.passed:
            return f"the parameters of {name[:_SHOWN]} have {_layout(new.kernels[name])}, not {_layout(kernel)}"
    for name, size in official.variables.items():
        if new.variables[name] != size:
            return f"the variable {name[:_SHOWN]} has {new.variables[name]} bytes, not {size}"
    return None


def other_arch(image: bytes, arch: Sm) -> str | None:
    """Why a cubin is not for ``arch``, in words. Code for one chip alone (``a``) is marked only where it uses what that
    chip alone has, a family's (``f``) never: a mark counts, its absence says nothing."""
    found = cubin_arch(image[:HEAD])
    if found is None:
        return "it is no CUDA image of a form that is known"
    same = (found.major, found.minor) == (arch.major, arch.minor) and found.suffix in ("", arch.suffix)
    return None if same else f"it is for {found}, not {arch}"


def _layout(kernel: Kernel) -> str:
    sizes = ", ".join(str(size) for _, size in kernel.passed[:12])
    return f"{sizes or 'none'} bytes"
