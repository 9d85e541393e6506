"""Graft: an official wheel given machine code for a card it lacks.

The wheel stays what it is (host code, ABI, companions); only the fat binaries in its libraries get one entry more per
container. The way, module by module::

    library     a library of the wheel: its containers by number, each with the unit (source file) it was compiled from
    ptx         what its own PTX can become: jobs for ptxas           \\
    (source)    what the release's sources can become: jobs for nvcc   > both give :data:`Code`
    compile     jobs as a Ninja file: carried out, continued, nothing twice
    hold        a new image held against one the wheel has: names, parameters, variables; what differs is refused
    pack        Code into a graft file: the new entries, and the digest of the wheel they belong to
    wheel       a graft file and its wheel into the grafted wheel: no compiler, no GPU

**Where all code meets**: ``pack.write_graft(target, wheel, code, made, …)`` takes :data:`Code`,
``{(library, container): {arch: image}}``. ``library`` is the member's name in the wheel
(``torch/lib/libtorch_cuda.so``), ``container`` its number there, counted from 0 in the order of the section
(``Library.units``). ``image`` is a bare cubin, or a fat binary that NVIDIA's ``fatbinary`` made of it (told apart by
their first bytes; the tool's own is better, it knows the properties of new architectures). Whoever makes code holds it
first (``hold.differences``) and reports what was refused; ``write_graft`` only checks that an image is for the
architecture it is filed under.
``wheel.apply_graft(wheel, graft, out)`` then gives the grafted wheel, the same for whoever applies it.
"""

from __future__ import annotations

from collections.abc import Mapping

from rekindle.model.arch import Sm

Code = Mapping[tuple[str, int], Mapping[Sm, bytes]]
