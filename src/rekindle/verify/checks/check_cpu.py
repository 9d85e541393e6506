"""Is the emulated CPU what it is called? Asked with cpuid (AArch64: the kernel's list), tried an instruction a kind."""

import ctypes
import os
import platform
import struct

from rekindle_checks.child import executable_page
from rekindle_checks.framework import Failed, Untried, check, read_table

# cpuid(leaf, subleaf, uint32_t out[4])
CPUID = "5389f889f14989d00fa241890041895804418948084189500c5bc3"
REGISTERS = ("eax", "ebx", "ecx", "edx")
ARM = platform.machine() in ("aarch64", "arm64")
# Of each feature: its name; where the CPU tells of it (x86-64: cpuid leaf, register and bit; AArch64: the bit of
# AT_HWCAP in the kernel's asm/hwcap.h); one instruction of that kind, and how it is written.
TABLE = read_table("features")["aarch64" if ARM else "x86_64"]
RETURN = "c0035fd6" if ARM else "c3"


def _function(code, *types):
    address = executable_page(bytes(bytearray.fromhex(code)))
    if address is None:
        raise Untried("this system lets no program make executable memory")
    return ctypes.CFUNCTYPE(*types)(address)


def _claimed_features():
    """What the kernel (here: the emulator) or cpuid says this CPU has."""
    if ARM:
        ask = ctypes.CDLL(None).getauxval
        ask.restype, ask.argtypes = ctypes.c_ulong, [ctypes.c_ulong]
        bits = ask(16)  # AT_HWCAP
        return set(name for name, bit, _, _ in TABLE if bits >> bit & 1)
    cpuid = _function(CPUID, None, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p)

    def ask(leaf):
        out = (ctypes.c_uint32 * 4)()
        cpuid(leaf, 0, ctypes.addressof(out))
        return dict(zip(REGISTERS, out))

    top = ask(0)["eax"]
    answers = dict((leaf, ask(leaf) if leaf <= top else dict.fromkeys(REGISTERS, 0)) for leaf in (1, 7))
    return set(name for name, (leaf, register, bit), _, _ in TABLE if answers[leaf][register] >> bit & 1)


def _runs(code):
    """Whether one instruction can be carried out, tried in a child that may die of it."""
    pid = os.fork()
    if pid == 0:
        import signal

        for number in (4, 7, 8, 11):
            signal.signal(number, signal.SIG_DFL)
        _function(code + RETURN, None)()
        os._exit(0)
    status = os.waitpid(pid, 0)[1]
    return os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0


UNLIKE = "results on this emulated CPU would prove nothing; take another model or another version of qemu"


@check("cpu.features", package="any", level="smoke", scope="gate", timeout=20, remedy=UNLIKE)
def _features(t):
    is_known = ARM or platform.machine() in ("x86_64", "AMD64")
    other = not is_known or struct.calcsize("P") != 8 or not hasattr(os, "fork")
    t.untried_where(other, "asks x86-64 and AArch64 CPUs on Linux only")
    claimed = _claimed_features()
    done = set(name for name, _, code, _ in TABLE if _runs(code))
    # qemu-user carries out some old instructions without asking the model; that hides a crash, so say it.
    lax, hollow = sorted(done - claimed), sorted(claimed - done)
    t.ensure(not hollow, "the CPU promises %s, but the instruction is refused" % " ".join(hollow))
    expected = t.request.get("cpu_features")
    words = " ".join(name for name, _, _, _ in TABLE if name in claimed)
    if expected is None:
        return "has " + words
    has, lacks = set(expected["has"]), set(expected["lacks"])
    extra, missing = sorted((claimed | done) & lacks), sorted(has - claimed)
    t.ensure(not extra, "a real %s has no %s, this emulation runs it" % (t.emulated, " ".join(extra)))
    if missing:
        message = "a real %s has %s, which this emulation lacks" % (t.emulated, " ".join(missing))
        raise Failed(message, "take an older CPU that the emulator can be: --cpu haswell")
    more = "; runs %s unasked" % " ".join(lax) if lax else ""
    lacking = [name for name, _, _, _ in TABLE if name in lacks]
    return "has %s; refuses %s%s" % (words or "none", " ".join(lacking) or "none", more)
