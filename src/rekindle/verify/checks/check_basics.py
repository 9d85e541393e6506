"""Is this the torch that was planned, does it compute at all, and do torchvision and torchaudio beside it fit it?"""

import base64
import csv
import hashlib
import importlib.util
import math
import os
import sys

from rekindle_checks import reference as ref
from rekindle_checks.framework import Absent, Untried, accelerator, check, is_rocm, is_xpu, planned_settings


@check("version", level="smoke", remedy="install the planned wheel; another torch comes first on this Python's path")
def _version(t, torch):
    want = t.plan.get("version")
    # A plain string: comparing torch's own type imports pkg_resources in torch 1.10 to 1.13.
    got = str(torch.__version__)
    try:
        import importlib.metadata as metadata

        listed = metadata.version("torch")
    except Exception:  # an old Python, a build that was never installed, a broken record: nothing to compare with
        listed = None
    public = got.split("+")[0]
    message = "torch calls itself %s, but version %s is installed here" % (got, listed)
    t.ensure(not listed or listed.split("+")[0] == public, message)
    t.ensure(not want or want.split("+")[0] == public, "torch is %s, %s was planned" % (got, want))
    return "%s on Python %s" % (got, sys.version.split()[0])


@check("files", package="any", level="smoke", timeout=300, remedy="the files are not those of the wheel: install it again with --force-reinstall")
def _files(t):
    """Every file that the package's RECORD lists, by size and digest: is the wheel still what was installed?"""
    t.absent_where(t.emulated, "the emulated layout was unpacked from the wheel itself, whose checksums were read")
    rows, root = _read_record(t)
    # Ten thousand headers take longer to open than all libraries to read; they compute nothing.
    whole = t.request["level"] == "full"
    wrong, bytes_read = [], 0
    for name, digest, size in sorted(rows):
        path = os.path.join(root, *name.split("/"))
        if not os.path.exists(path):
            wrong.append(name + " is gone")
        elif size and os.path.getsize(path) != int(size):
            wrong.append("%s has %d bytes instead of %s" % (name, os.path.getsize(path), size))
        elif digest and (whole or "/include/" not in name) and _content_digest(path) != digest:
            wrong.append(name + " has other content")
        bytes_read += int(size or 0)
    more = " and %d more" % (len(wrong) - 3) if len(wrong) > 3 else ""
    t.ensure(not wrong, "; ".join(wrong[:3]) + more)
    return "%d files, %.0f MB, as in RECORD" % (len(rows), bytes_read / 1e6)


def _read_record(t):
    """(name, sha256 in RECORD's own coding, size) of each file of the distribution under test, and where they lie."""
    try:
        import importlib.metadata as metadata
    except ImportError:
        raise Untried("this Python is too old to name a package's files")
    package = t.request["package"]
    name = "spark-miniature" if package == "spark" else package
    try:
        dist = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        raise Untried("no distribution %s is registered here: it was not installed from a wheel" % name)
    text = dist.read_text("RECORD")
    t.untried_where(not text, "this installation has no RECORD to compare with")
    lines = [line for line in csv.reader(text.splitlines()) if len(line) == 3 and line[1].startswith("sha256=")]
    # Byte code is made on the spot, and scripts get this environment's own first line.
    rows = set((name, digest[7:], size) for name, digest, size in lines if not name.endswith(".pyc") and ".." not in name)
    return rows, str(dist.locate_file(""))


def _content_digest(path):
    total = hashlib.sha256()
    with open(path, "rb") as file:
        for piece in iter(lambda: file.read(1 << 20), b""):
            total.update(piece)
    return base64.urlsafe_b64encode(total.digest()).rstrip(b"=").decode("ascii")


@check("settings", level="smoke", remedy="the build switched something off: rekindle explain BUILD.log says why")
def _settings(t, torch):
    """Build settings as planned. ``asserts`` of a plan name CMake options and their values."""
    text = torch.__config__.show()
    summary, agreed = planned_settings(t, text)
    kind = "CPU only"
    for name, release in (("ROCm", getattr(torch.version, "hip", None)), ("CUDA", torch.version.cuda)):
        built, want = release or "none", t.plan.get(name.lower())
        same = not want or built.split(".")[:2] == want.split(".")[:2]
        t.ensure(same, "built with %s %s, %s was planned" % (name, built, want))
        kind = "%s %s" % (name, release) if release else kind
    if kind == "CPU only" and is_xpu(torch):
        kind = "XPU %s" % (getattr(torch.version, "xpu", None) or "(Intel)")
    words = "%s, BLAS %s, LAPACK %s" % (kind, summary.get("BLAS_INFO", "?"), summary.get("LAPACK_INFO", "?"))
    return words + ("; %d settings as planned" % agreed if agreed else "")


@check("arch-list", level="smoke", remedy="rebuild with the planned TORCH_CUDA_ARCH_LIST")
def _arch_list(t, torch):
    if is_xpu(torch):
        ahead = getattr(torch._C, "_xpu_getArchFlags", lambda: "")() or ""
        return "ahead of time: %s; SPIR-V for the others" % (" ".join(ahead.split()) or "none")
    t.absent_where(not (torch.version.cuda or is_rocm(torch)), "built without GPU support")
    # get_arch_list() answers only where a GPU is; the compiled-in flags are there always.
    flags = (getattr(torch._C, "_cuda_getArchFlags", lambda: "")() or "").split()
    for arch in t.plan.get("arch_list") or ():
        name = "sm_" + arch.split("+")[0].replace(".", "")
        t.ensure(name in flags or arch in flags, "%s was planned; built for %s" % (arch, " ".join(flags)))
    return " ".join(flags) or "unknown"


@check("capability", level="smoke")
def _capability(t, torch):
    if hasattr(getattr(torch.backends, "cpu", None), "get_cpu_capability"):
        return torch.backends.cpu.get_cpu_capability()
    for line in torch.__config__.show().splitlines():
        if "capability" in line.lower():
            return line.strip(" -")
    raise Absent("this torch does not tell which CPU code it chose")


@check("arithmetic", level="smoke")
def _arithmetic(t, torch):
    # Closed form: 1 + 2 + ... + 1000; small integers are exact in float32.
    t.close((torch.arange(1000.0) + 1).sum(), 500500.0, rtol=0.0, atol=1e-9, what="sum")
    t.close(torch.arange(6.0).reshape(2, 3) @ torch.ones(3, 2), [3, 3, 12, 12], rtol=0.0, atol=1e-9, what="matmul")
    return "sums and products of small integers are exact"


PAIR = "torchvision and torchaudio must be built for exactly this torch: rekindle plan names the pair"


def _companion(t, name):
    t.absent_where(importlib.util.find_spec(name) is None, "%s is not installed" % name)
    return __import__(name)


@check("vision", level="full", timeout=180, remedy=PAIR)
def _vision(t, torch):
    torchvision = _companion(t, "torchvision")
    t.step("import ops")
    import torchvision.ops

    t.step("nms")
    boxes = torch.tensor([[0.0, 0, 10, 10], [1, 1, 11, 11], [20, 20, 30, 30]])
    indices = torchvision.ops.nms(boxes, torch.tensor([0.9, 0.8, 0.7]), 0.5)
    # The first two overlap by 81 of 119: the weaker one goes.
    t.equal(indices.tolist(), [0, 2], "boxes kept")
    t.step("roi_align")
    image = torch.arange(64, dtype=torch.float32).reshape(1, 1, 8, 8)
    pooled = torchvision.ops.roi_align(image, torch.tensor([[0.0, 0, 0, 8, 8]]), output_size=1, aligned=True)
    # A plane's mean over a window is its value in the middle.
    t.close(pooled, 31.5, 1e-5, 1e-4, "mean over the whole image")
    word, driver = accelerator(torch)
    if driver.is_available():
        t.step("nms on the GPU")
        gpu = torchvision.ops.nms(boxes.to(word), torch.tensor([0.9, 0.8, 0.7]).to(word), 0.5)
        t.equal(gpu.tolist(), [0, 2], "boxes kept on the GPU")
    return "torchvision %s: nms, roi_align" % torchvision.__version__


@check("audio", level="full", timeout=180, remedy=PAIR)
def _audio(t, torch):
    torchaudio = _companion(t, "torchaudio")
    t.step("import")
    import torchaudio.functional

    t.step("gain")
    x = torch.tensor(ref.grid(400), dtype=torch.float32)
    t.close(torchaudio.functional.gain(x, 20.0), [10 * v for v in ref.grid(400)], 1e-5, 1e-5, "20 dB is a factor of ten")
    t.step("resample")
    rate = 800
    tone = torch.tensor([math.sin(2 * math.pi * 50 * n / rate) for n in range(rate)], dtype=torch.float64)
    half = torchaudio.functional.resample(tone, rate, rate // 2)
    want = [math.sin(2 * math.pi * 50 * n / (rate // 2)) for n in range(rate // 2)]
    t.close(half[50:-50], want[50:-50], 0.0, 0.02, "a tone at half the rate is the same tone")
    return "torchaudio %s: gain, resample" % torchaudio.__version__
