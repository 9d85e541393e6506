"""Graft: an official wheel given machine code for a card it lacks.

The wheel stays what it is (host code, ABI, companions); only the fat binaries in its libraries get one entry more per
container. The way, module by module::

    library     a library of the wheel: its containers by number, each with the unit (source file) it was compiled from
    nvidia      what its own PTX can become: jobs for ptxas; and the release's sources: jobs for nvcc
    hip         the same for AMD: bundles of code objects, code of a chip of the same kind, jobs for clang
    compile     jobs as a Ninja file that gives :data:`Code`: carried out, continued, nothing twice
    pack        Code into a graft file: the new entries, and the digest of the wheel they belong to
    wheel       a graft file and its wheel into the grafted wheel: no compiler, no GPU

Images are bare cubins, or fat binaries that NVIDIA's ``fatbinary`` made of them (it knows the properties of new
architectures); AMD's are code objects. Whoever makes one holds it against one the wheel has (names, parameters,
variables) and refuses what differs; packing only checks that it is for the architecture it is filed under.
"""

from collections.abc import Mapping

from rekindle.errors import need_package
from rekindle.model.arch import GpuArch

need_package("numpy", "a graft")

# {(member of the wheel, number of the container in it): {architecture: image}}
Code = Mapping[tuple[str, int], Mapping[GpuArch, bytes]]
