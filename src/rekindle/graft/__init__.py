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

Images are bare cubins, or fat binaries that NVIDIA's ``fatbinary`` made of them (better: that tool knows the properties
of new architectures). Whoever makes code holds it first; packing only checks that it is for the architecture it is
filed under.
"""

from __future__ import annotations

from collections.abc import Mapping

from rekindle.model.arch import Sm

# {(member of the wheel, number of the container in it): {architecture: image}}
Code = Mapping[tuple[str, int], Mapping[Sm, bytes]]
