"""Is this the torch that was planned, and does it compute at all?"""

import base64
import csv
import hashlib
import os
import sys

from rekindle_checks.framework import Absent, Untried, accelerator, check, planned_settings


@check("version", level="smoke", remedy="install the planned wheel; another torch comes first on this Python's path")
def version(t, torch):
    want = t.plan.get("version")
    # A plain string: comparing torch's own type imports pkg_resources in torch 1.10 to 1.13.
    got = str(torch.__version__)
    listed = installed_version("torch")
    if listed:
        same = listed.split("+")[0] == got.split("+")[0]
        t.ensure(same, "torch calls itself %s, but version %s is installed here" % (got, listed))
    if want:
        t.ensure(got == want or got.split("+")[0] == want.split("+")[0], "torch is %s, %s was planned" % (got, want))
    return "%s on Python %s" % (got, sys.version.split()[0])


def installed_version(name):
    """What the installer wrote down; None where nothing can be asked."""
    try:
        import importlib.metadata as metadata

        return metadata.version(name)
    except Exception:  # an old Python, a build that was never installed, a broken record: nothing to compare with
        return None


@check("files", package="any", level="smoke", timeout=300, remedy="the files are not those of the wheel: install it again with --force-reinstall")
def files(t):
    """Every file that the package's RECORD lists, by size and digest: is the wheel still what was installed?"""
    if t.emulated:
        raise Absent("the emulated layout was unpacked from the wheel itself, whose checksums were read")
    rows, root = read_record(t)
    # Ten thousand headers take longer to open than all libraries to read; they compute nothing.
    whole = t.request["level"] == "full"
    wrong, bytes_read = [], 0
    for name, digest, size in sorted(rows):
        path = os.path.join(root, *name.split("/"))
        if not os.path.exists(path):
            wrong.append(name + " is gone")
        elif size and os.path.getsize(path) != int(size):
            wrong.append("%s has %d bytes instead of %s" % (name, os.path.getsize(path), size))
        elif digest and (whole or "/include/" not in name) and content_digest(path) != digest:
            wrong.append(name + " has other content")
        bytes_read += int(size or 0)
    more = " and %d more" % (len(wrong) - 3) if len(wrong) > 3 else ""
    t.ensure(not wrong, "; ".join(wrong[:3]) + more)
    return "%d files, %.0f MB, as in RECORD" % (len(rows), bytes_read / 1e6)


def read_record(t):
    """(name, sha256 in RECORD's own coding, size) of each file of the distribution under test, and where they lie."""
    try:
        import importlib.metadata as metadata
    except ImportError:
        raise Untried("this Python is too old to name a package's files")
    name = {"spark": "spark-miniature"}.get(t.request["package"], t.request["package"])
    try:
        dist = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        raise Untried("no distribution %s is registered here: it was not installed from a wheel" % name)
    text = dist.read_text("RECORD")
    if not text:
        raise Untried("this installation has no RECORD to compare with")
    lines = [line for line in csv.reader(text.splitlines()) if len(line) == 3 and line[1].startswith("sha256=")]
    # Byte code is made on the spot, and scripts get this environment's own first line.
    rows = set((name, digest[7:], size) for name, digest, size in lines if not name.endswith(".pyc") and ".." not in name)
    return rows, str(dist.locate_file(""))


def content_digest(path):
    total = hashlib.sha256()
    with open(path, "rb") as file:
        for piece in iter(lambda: file.read(1 << 20), b""):
            total.update(piece)
    return base64.urlsafe_b64encode(total.digest()).rstrip(b"=").decode("ascii")


@check("settings", level="smoke", remedy="the build switched something off: rekindle explain BUILD.log says why")
def settings(t, torch):
    """Build settings as planned. ``asserts`` of a plan name CMake options and their values."""
    text = torch.__config__.show()
    summary, agreed = planned_settings(t, text)
    kind = "CPU only"
    for name, release in (("ROCm", getattr(torch.version, "hip", None)), ("CUDA", torch.version.cuda)):
        built, want = release or "none", t.plan.get(name.lower())
        same = not want or built.split(".")[:2] == want.split(".")[:2]
        t.ensure(same, "built with %s %s, %s was planned" % (name, built, want))
        kind = "%s %s" % (name, release) if release else kind
    if kind == "CPU only" and accelerator(torch)[0] == "xpu":
        kind = "XPU %s" % (getattr(torch.version, "xpu", None) or "(Intel)")
    words = "%s, BLAS %s, LAPACK %s" % (kind, summary.get("BLAS_INFO", "?"), summary.get("LAPACK_INFO", "?"))
    return words + ("; %d settings as planned" % agreed if agreed else "")


@check("arch-list", level="smoke", remedy="rebuild with the planned TORCH_CUDA_ARCH_LIST")
def arch_list(t, torch):
    if accelerator(torch)[0] == "xpu":
        ahead = getattr(torch._C, "_xpu_getArchFlags", lambda: "")() or ""
        return "ahead of time: %s; SPIR-V for the others" % (" ".join(ahead.split()) or "none")
    if not (torch.version.cuda or getattr(torch.version, "hip", None)):
        raise Absent("built without GPU support")
    # get_arch_list() answers only where a GPU is; the compiled-in flags are there always.
    raw = getattr(torch._C, "_cuda_getArchFlags", lambda: "")() or ""
    flags = raw.split()
    for arch in t.plan.get("arch_list") or ():
        name = "sm_" + arch.split("+")[0].replace(".", "")
        t.ensure(name in flags or arch in flags, "%s was planned; built for %s" % (arch, " ".join(flags)))
    return " ".join(flags) or "unknown"


@check("capability", level="smoke")
def capability(t, torch):
    backend = getattr(torch.backends, "cpu", None)
    if backend is not None and hasattr(backend, "get_cpu_capability"):
        return backend.get_cpu_capability()
    for line in torch.__config__.show().splitlines():
        if "capability" in line.lower():
            return line.strip(" -")
    raise Absent("this torch does not tell which CPU code it chose")


@check("arithmetic", level="smoke")
def arithmetic(t, torch):
    # Closed form: 1 + 2 + ... + 1000; small integers are exact in float32.
    t.close((torch.arange(1000.0) + 1).sum(), 500500.0, rtol=0.0, atol=1e-9, what="sum")
    t.close(torch.arange(6.0).reshape(2, 3) @ torch.ones(3, 2), [3, 3, 12, 12], rtol=0.0, atol=1e-9, what="matmul")
    return "sums and products of small integers are exact"
