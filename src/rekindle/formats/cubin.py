"""A bare CUDA image (``.cubin``): an ELF file for NVIDIA's machine, whose flags name the card it is for.

ELF ABI 7 (up to CUDA 12) keeps the architecture in the lowest byte of the flags, ABI 8 in the second; a bit says that
the code is for exactly that chip (``sm_100a``). Code for a family (``sm_100f``) is not marked, and runs wherever plain
code of that number does. Held against 15,970 files whose names say what they are.
"""

from __future__ import annotations

import struct

from rekindle.model.arch import Sm

MACHINE = 190
HEAD = 64
# ABI version of the ELF header -> (shift of the architecture in the flags, bit for "this chip only")
_FORMS = {7: (0, 0x800), 8: (8, 0x8)}


def cubin_arch(head: bytes) -> Sm | None:
    """The architecture of a cubin from its first bytes; None where it is no cubin, or of a form not known."""
    if len(head) < HEAD or head[:6] != b"\x7fELF\x02\x01":
        return None
    (machine,) = struct.unpack_from("<H", head, 18)
    form = _FORMS.get(head[8])
    if machine != MACHINE or form is None:
        return None
    (flags,) = struct.unpack_from("<I", head, 48)
    number = flags >> form[0] & 0xFF
    return Sm.from_number(number, "a" if flags & form[1] else "") if number >= 10 else None
