"""What GPU checks share: exact arithmetic, what a GPU can compute in, and whether code for it can exist at all."""

import contextlib

from rekindle_checks.framework import Absent, accelerator


def is_rocm(torch):
    return bool(getattr(torch.version, "hip", None))


def capability(t):
    """(major, minor) of an NVIDIA GPU; None for AMD's and Intel's, whose numbers mean something else."""
    torch = t.torch()
    return None if is_rocm(torch) or is_xpu(torch) else torch.cuda.get_device_capability(t.device)


def is_xpu(torch):
    return accelerator(torch)[0] == "xpu"


def has_doubles(t):
    """Does the device compute in float64? Intel's Arc A cards do not."""
    torch = t.torch()
    if t.device is None or not is_xpu(torch):
        return True
    return getattr(torch.xpu.get_device_properties(t.device), "has_fp64", True)


def widest(t):
    """The widest type the device computes in."""
    return "float64" if has_doubles(t) else "float32"


def computable(t, names):
    """Those of the types that the device computes in."""
    return tuple(name for name in names if has_doubles(t) or name not in ("float64", "complex128"))


def halves(t):
    """The short types of the device: bfloat16 came with compute capability 8.0."""
    return ("float16", "bfloat16") if (capability(t) or (9, 0)) >= (8, 0) else ("float16",)


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
    has = capability(t)
    if has is None:
        raise Absent("%s is checked on NVIDIA GPUs only" % what)
    if has < (major, minor):
        raise Absent("%s needs compute capability %d.%d, this GPU has %d.%d" % (what, major, minor, has[0], has[1]))
