"""A forked process that sends lines of JSON, may hang or crash, and never outlives the one that made it.

Where it crashed says a signal handler of a few dozen bytes of machine code, installed with ctypes: it runs no Python
and no C library, so it works in any thread, with a broken heap, and under qemu-user 7.2, which enters handlers with a
misaligned stack (anything compiled crashes there again). It writes ``siginfo``, the registers and the bytes at the
program counter to one file and ``/proc/self/maps`` to another, then sends the same signal again, of which the process
dies. The code is assembled from trap.x86_64.s and trap.aarch64.s in this project's tests.
"""

import json
import os
import platform
import select
import signal
import struct
import sys
import tempfile
import time

from rekindle_checks.framework import read_table

SIGNALS = {4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 11: "SIGSEGV", 15: "SIGTERM"}
TRAPPED = (4, 7, 8, 11)
MACHINE = platform.machine().lower().replace("amd64", "x86_64")
# machine: code (file descriptors follow it), where the program counter lies in ucontext_t, ucontext bytes written
CODE = read_table("trap")
_SIGINFO = 128
_SA_SIGINFO, _SA_ONSTACK, _SA_RESETHAND, _SA_NODEFER = 4, 0x08000000, 0x80000000, 0x40000000

_kept = []  # pages and stacks the kernel still points at


def die_with_parent():
    """Whoever started this process may be killed without a word; then nobody would end a hanging check."""
    if not sys.platform.startswith("linux"):
        return
    try:
        import ctypes

        ctypes.CDLL(None).prctl(1, int(signal.SIGKILL))  # PR_SET_PDEATHSIG
    except (ImportError, OSError, AttributeError):
        pass


class Child(object):
    """A forked process that sends lines and may crash; the crash is read from two temporary files."""

    def __init__(self, work, own_group=True):
        self.state = tempfile.TemporaryFile()
        self.maps = tempfile.TemporaryFile()
        self.buffer = b""
        reader, writer = os.pipe()
        sys.stderr.flush()
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.close(reader)
                if own_group:
                    os.setsid()
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
                die_with_parent()
                if os.getppid() != parent:  # it died before we asked to die with it
                    os._exit(1)
                _install(self.state.fileno(), self.maps.fileno())
                work(lambda event: os.write(writer, (json.dumps(event) + "\n").encode("utf-8")))
                code = 0
            except BaseException as error:
                sys.stderr.write("%s: %s\n" % (type(error).__name__, error))
                code = 70
            sys.stderr.flush()
            os._exit(code)
        os.close(writer)
        self.reader = reader

    def lines(self, deadline):
        """Events until the child closes its end; None when the deadline passes first, and then it is killed."""
        while True:
            while b"\n" in self.buffer:
                line, self.buffer = self.buffer.split(b"\n", 1)
                yield json.loads(line.decode("utf-8"))
            left = None if deadline is None else deadline - time.time()
            late = left is not None and left <= 0
            if late or not select.select([self.reader], [], [], left)[0]:
                self.kill()
                yield None
                return
            data = os.read(self.reader, 65536)
            if not data:
                return
            self.buffer += data

    def kill(self):
        """With all that it started in its group."""
        for target in (-self.pid, self.pid):
            try:
                os.kill(target, signal.SIGKILL)
            except OSError:
                pass

    def end(self):
        """Wait for it; what its death says, as fields of a failed result, or None for a plain end."""
        os.close(self.reader)
        status = os.waitpid(self.pid, 0)[1]
        with self.state, self.maps:
            self.state.seek(0)
            self.maps.seek(0)
            crash = _read(self.state.read(), self.maps.read())
        if not os.WIFSIGNALED(status):
            return {"exit": os.WEXITSTATUS(status)} if os.WEXITSTATUS(status) else None
        number = os.WTERMSIG(status)
        if crash.get("signal") != number:
            crash = {}
        return dict(crash, signal=number, name=SIGNALS.get(number, "signal %d" % number))


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


def _install(state_fd, maps_fd):
    """Report the next crash of this process to two open files, where that can be done."""
    if not sys.platform.startswith("linux") or MACHINE not in CODE or struct.calcsize("P") != 8:
        return
    try:
        import ctypes
    except ImportError:
        return
    code = bytes(bytearray.fromhex(CODE[MACHINE][0])) + struct.pack("<ii", state_fd, maps_fd)
    address = executable_page(code)
    if address is None:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if MACHINE == "aarch64":
        # Its instruction cache does not see fresh data by itself; glibc's helper does what is needed.
        try:
            clear = getattr(ctypes.CDLL("libgcc_s.so.1"), "__clear_cache")
            clear(ctypes.c_void_p(address), ctypes.c_void_p(address + len(code)))
        except (OSError, AttributeError):
            pass
    stack = ctypes.create_string_buffer(65536)
    _kept.append(stack)
    # stack_t: void *ss_sp; int ss_flags; size_t ss_size
    libc.sigaltstack(struct.pack("=QiiQ", ctypes.addressof(stack), 0, 0, len(stack)), None)
    flags = _SA_SIGINFO | _SA_ONSTACK | _SA_RESETHAND | _SA_NODEFER
    # struct sigaction of glibc and musl: handler, 128 bytes of mask, int flags, restorer
    action = struct.pack("=Q128xIIQ", address, flags, 0, 0)
    for number in TRAPPED:
        libc.sigaction(number, action, None)


def _read(state, maps):
    """The two files as a dict: program counter, faulting address, code bytes, library and offset in it."""
    _, at, size = CODE.get(MACHINE, ("", 0, 0))
    if not size or len(state) < _SIGINFO + size:
        return {}
    number = struct.unpack_from("<i", state, 0)[0]
    fault = struct.unpack_from("<Q", state, 16)[0]
    counter = struct.unpack_from("<Q", state, _SIGINFO + at)[0]
    code = state[_SIGINFO + size : _SIGINFO + size + 16]
    digits = "".join("%02x" % byte for byte in bytearray(code))
    crash = {"signal": number, "address": counter, "fault": fault, "code": digits}
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
