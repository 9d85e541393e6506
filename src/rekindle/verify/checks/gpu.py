"""What GPU checks share: exact arithmetic, and whether code for a GPU can exist at all."""

import contextlib

from rekindle_checks.framework import Absent


def is_rocm(torch):
    return bool(getattr(torch.version, "hip", None))


def capability(t):
    """(major, minor) of an NVIDIA GPU; None on ROCm, whose numbers mean something else."""
    torch = t.torch()
    return None if is_rocm(torch) else torch.cuda.get_device_capability(t.device)


@contextlib.contextmanager
def exact(t):
    """Without TF32, which rounds inputs to ten bits and is on by default for convolutions."""
    torch = t.torch()
    places = [torch.backends.cudnn]
    if hasattr(torch.backends.cuda, "matmul"):
        places.append(torch.backends.cuda.matmul)
    before = [(place, place.allow_tf32) for place in places if hasattr(place, "allow_tf32")]
    for place, _ in before:
        place.allow_tf32 = False
    try:
        yield
    finally:
        for place, value in before:
            place.allow_tf32 = value


def at_least(t, major, minor, what):
    found = capability(t)
    if found is None:
        raise Absent("%s is checked on NVIDIA GPUs only" % what)
    if found < (major, minor):
        raise Absent("%s needs compute capability %d.%d, this GPU has %d.%d" % (what, major, minor, found[0], found[1]))
