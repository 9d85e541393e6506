"""The processor's own description, by executing the ``cpuid`` instruction: under emulation ``/proc/cpuinfo`` describes
the machine underneath, the instruction the one our code really runs on. It is reached through a few bytes of machine
code in an executable page; where the system forbids such pages the answer is None."""

import contextlib
import ctypes
import functools
import mmap
import platform
import sys
from collections.abc import Callable, Mapping

from rekindle.host.protocol import Cpuid

Registers = tuple[int, int, int, int]  # eax, ebx, ecx, edx

# void cpuid(uint32_t leaf, uint32_t sub, uint32_t out[4]), rbx kept as the calling conventions demand.
_SYSV = bytes.fromhex("53 4989d0 89f8 89f1 0fa2 418900 41895804 41894808 4189500c 5b c3".replace(" ", ""))
_WIN64 = bytes.fromhex("53 89c8 89d1 0fa2 418900 41895804 41894808 4189500c 5b c3".replace(" ", ""))
# uint64_t xgetbv(void) for XCR0.
_XGETBV = bytes.fromhex("31c9 0f01d0 48c1e220 4809d0 c3".replace(" ", ""))
# Bits of the third register of leaf 1.
_OSXSAVE, _UNDER_HYPERVISOR = 27, 31

# Leaf -> how many subleaves carry feature bits we name.
_BASIC = {0: 1, 1: 1, 7: 3, 0xD: 2, 0x14: 1, 0x19: 1, 0x24: 1}
_HYPERVISOR = 0x40000000
_EXTENDED = 0x80000000


@functools.cache
def read_cpuid() -> Cpuid | None:
    """All leaves that name the processor and its features; None on other architectures or where forbidden."""
    if platform.machine().lower() not in ("x86_64", "amd64") or sys.maxsize < 2**32:
        return None
    code = _WIN64 if sys.platform == "win32" else _SYSV
    page = _executable(code.ljust(64, b"\xcc") + _XGETBV)
    if page is None:
        return None
    address, keep = page
    call = ctypes.CFUNCTYPE(None, ctypes.c_uint32, ctypes.c_uint32, ctypes.POINTER(ctypes.c_uint32))(address)
    out = (ctypes.c_uint32 * 4)()

    def ask(leaf: int, sub: int) -> Registers:
        call(leaf, sub, out)
        return out[0], out[1], out[2], out[3]

    leaves = _read_leaves(ask)
    xcr0 = None
    if _says(leaves, _OSXSAVE):
        xcr0 = int(ctypes.CFUNCTYPE(ctypes.c_uint64)(address + 64)())
    del keep
    return Cpuid(leaves=leaves, xcr0=xcr0)


def _says(leaves: Mapping[tuple[int, int], Registers], bit: int) -> bool:
    """Is that bit of the processor's features set?"""
    return (1, 0) in leaves and leaves[1, 0][2] >> bit & 1 == 1


def _read_leaves(ask: Callable[[int, int], Registers]) -> dict[tuple[int, int], Registers]:
    """What the instruction says for every leaf we name that this processor has."""
    highest = ask(0, 0)[0]
    basic = [(leaf, sub) for leaf, subs in _BASIC.items() if leaf <= highest for sub in range(subs)]
    leaves = {(leaf, sub): ask(leaf, sub) for leaf, sub in basic}
    if _says(leaves, _UNDER_HYPERVISOR):
        leaves[_HYPERVISOR, 0] = ask(_HYPERVISOR, 0)
    last = min(ask(_EXTENDED, 0)[0], _EXTENDED + 8)
    return leaves | {(leaf, 0): ask(leaf, 0) for leaf in range(_EXTENDED, last + 1)}


def _executable(code: bytes) -> tuple[int, object] | None:
    """An executable page holding ``code``: its address, and the object that keeps it alive."""
    if sys.platform == "win32":
        return _executable_windows(code)
    with contextlib.suppress(OSError, ValueError, PermissionError):
        page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
        page.write(code)
        address = ctypes.addressof(ctypes.c_char.from_buffer(page))
        # Written first, made executable afterwards: hardened systems refuse pages that are both.
        libc = ctypes.CDLL(None)
        if libc.mprotect(ctypes.c_void_p(address), mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_EXEC) == 0:
            return address, page
    return None


def _executable_windows(code: bytes) -> tuple[int, object] | None:
    kernel = ctypes.WinDLL("kernel32")  # type: ignore[attr-defined,unused-ignore]
    kernel.VirtualAlloc.restype = ctypes.c_void_p
    address = kernel.VirtualAlloc(None, ctypes.c_size_t(4096), 0x3000, 0x04)
    if not address:
        return None
    ctypes.memmove(address, code, len(code))
    old = ctypes.c_uint32()
    if not kernel.VirtualProtect(ctypes.c_void_p(address), ctypes.c_size_t(4096), 0x20, ctypes.byref(old)):
        return None
    return address, old
