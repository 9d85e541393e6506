"""Where a crash happened: a signal handler of a few dozen bytes of machine code, installed with ctypes.

It runs no Python and no C library, so it works in any thread, with a broken heap, and under qemu-user 7.2,
which enters handlers with a misaligned stack (anything compiled crashes there a second time). It writes
``siginfo``, the registers and the bytes at the program counter to one file and ``/proc/self/maps`` to another.
The handler is one-shot; it then sends the process the same signal again, of which it dies as it would have.

The machine code is assembled from trap.x86_64.s and trap.aarch64.s in this project's tests.
"""

import json
import os
import platform
import struct
import sys

SIGNALS = {4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 11: "SIGSEGV", 15: "SIGTERM"}
TRAPPED = (4, 7, 8, 11)

# machine: code (file descriptors follow it), where the program counter lies in ucontext_t, ucontext bytes written
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "trap.json"), encoding="ascii") as file:
    CODE = json.load(file)
_SIGINFO = 128
_SA_SIGINFO, _SA_ONSTACK, _SA_RESETHAND, _SA_NODEFER = 4, 0x08000000, 0x80000000, 0x40000000

_kept = []  # pages and stacks the kernel still points at


def executable_page(code):
    """``code`` in memory that may be run; None where the system forbids it."""
    import mmap

    try:
        page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    except (AttributeError, OSError, ValueError):
        return None
    page.write(code)
    _kept.append(page)
    import ctypes

    return ctypes.addressof(ctypes.c_char.from_buffer(page))


def install(state_fd, maps_fd):
    """Report the next crash of this process to two open files. False where that cannot be done."""
    machine = platform.machine().lower().replace("amd64", "x86_64")
    if not sys.platform.startswith("linux") or machine not in CODE or struct.calcsize("P") != 8:
        return False
    try:
        import ctypes
    except ImportError:
        return False
    code = bytes(bytearray.fromhex(CODE[machine][0])) + struct.pack("<ii", state_fd, maps_fd)
    address = executable_page(code)
    if address is None:
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    if machine == "aarch64":
        # Its instruction cache does not see fresh data by itself; glibc's helper does what is needed.
        try:
            getattr(ctypes.CDLL("libgcc_s.so.1"), "__clear_cache")(
                ctypes.c_void_p(address), ctypes.c_void_p(address + len(code))
            )
        except (OSError, AttributeError):
            pass
    stack = ctypes.create_string_buffer(65536)
    _kept.append(stack)
    # stack_t: void *ss_sp; int ss_flags; size_t ss_size
    libc.sigaltstack(struct.pack("=QiiQ", ctypes.addressof(stack), 0, 0, len(stack)), None)
    flags = _SA_SIGINFO | _SA_ONSTACK | _SA_RESETHAND | _SA_NODEFER
    # struct sigaction of glibc and musl: handler, 128 bytes of mask, int flags, restorer
    action = struct.pack("=Q128xIIQ", address, flags, 0, 0)
    return all(libc.sigaction(number, action, None) == 0 for number in TRAPPED)


def read(state, maps):
    """The two files as a dict: program counter, faulting address, code bytes, library and offset in it."""
    machine = platform.machine().lower().replace("amd64", "x86_64")
    if machine not in CODE:
        return None
    _, at, size = CODE[machine]
    if len(state) < _SIGINFO + size:
        return None
    number = struct.unpack_from("<i", state, 0)[0]
    fault = struct.unpack_from("<Q", state, 16)[0]
    counter = struct.unpack_from("<Q", state, _SIGINFO + at)[0]
    code = state[_SIGINFO + size : _SIGINFO + size + 16]
    crash = {
        "signal": number,
        "address": counter,
        "fault": fault,
        "code": "".join("%02x" % byte for byte in bytearray(code)),
    }
    for line in maps.decode("utf-8", "replace").splitlines():
        fields = line.split(None, 5)
        try:
            low, high = (int(part, 16) for part in fields[0].split("-"))
        except (ValueError, IndexError):
            continue
        if low <= counter < high:
            if len(fields) == 6 and os.path.isabs(fields[5]):
                crash["library"] = fields[5]
                crash["offset"] = counter - low + int(fields[2], 16)
            break
    return crash
