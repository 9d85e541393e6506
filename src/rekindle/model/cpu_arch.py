"""One name for each family of CPUs, whatever a system calls it."""

from __future__ import annotations

_ALSO = {"amd64": "x86_64", "x64": "x86_64", "x86-64": "x86_64", "arm64": "aarch64"}


def cpu_arch(name: str) -> str:
    """
    >>> cpu_arch("AMD64"), cpu_arch("arm64"), cpu_arch("riscv64")
    ('x86_64', 'aarch64', 'riscv64')
    """
    return _ALSO.get(name.lower(), name.lower())
