"""Every kernel family on each GPU (families.json: id, level, family, what to do about wrong numbers where it is not the
usual, seconds it may take, and whether TF32 has to be off), against the references the CPU checks use."""

import inspect
import re
from functools import partial

from rekindle_checks import families, families_more
from rekindle_checks import reference as ref
from rekindle_checks.framework import Absent, Failed, accelerator, at_least, capability, check, computable, exact
from rekindle_checks.framework import halves, has_doubles, is_rocm, is_xpu, read_table

WRONG = "wrong numbers on this GPU: try another driver, then another build; a single bad card shows up as gpuN only"
FLOATS = ("float64", "float32", "float16", "bfloat16", "complex64", "complex128")
# What sums of a few hundred rounded products may be off by.
SLACK = {"float32": 1e-3, "float16": 5e-3, "bfloat16": 2e-2}


@check("gpu.start", level="smoke", scope="gpu", timeout=300, remedy="rekindle plan --gpu NAME names a torch with code for this GPU")
def _start(t, torch, device):
    """The first kernel. Where only PTX fits, the driver compiles it now, which may take minutes once."""
    properties = accelerator(torch)[1].get_device_properties(t.device)
    t.step("copy")
    x = torch.tensor(ref.grid(64)).to(device)
    t.step("first kernel")
    t.close(x * 2 + 1, [v * 2 + 1 for v in ref.grid(64)], 1e-6, 1e-6, "multiply-add")
    if is_xpu(torch):
        arch = "with float64" if has_doubles(t) else "without float64"
    else:
        arch = getattr(properties, "gcnArchName", "") if is_rocm(torch) else "sm_%d%d" % capability(t)
    return "%s, %s, %.1f GiB" % (properties.name, arch, properties.total_memory / 2.0 ** 30)


@check("gpu.arch", level="smoke", scope="gpu", remedy="rekindle plan --gpu NAME names a torch with code for this GPU")
def _arch(t, torch, device):
    if is_xpu(torch):
        raise Absent("SPIR-V in the wheel is compiled for every GPU of Intel's that has no code of its own")
    t.absent_where(not hasattr(torch.cuda, "get_arch_list"), "this torch does not tell what it was compiled for")
    listed = torch.cuda.get_arch_list()
    if is_rocm(torch):
        name = torch.cuda.get_device_properties(t.device).gcnArchName.split(":")[0]
        t.ensure(name in [target.split(":")[0] for target in listed], "built for %s, this GPU is %s" % (" ".join(listed), name))
        return name + " is among " + " ".join(listed)
    major, minor = capability(t)
    for target in listed:
        match = re.match("(sm|compute)_([0-9]+)([0-9])[af]*$", target)
        kind, at = (match.group(1), (int(match.group(2)), int(match.group(3)))) if match else ("", (0, 0))
        # Machine code runs on the same major version from its minor on; PTX on everything newer.
        if (kind == "sm" and at[0] == major and at[1] <= minor) or (kind == "compute" and at <= (major, minor)):
            return "%s runs on sm_%d%d" % (target, major, minor)
    raise Failed("built for %s, nothing of which runs on sm_%d%d" % (" ".join(listed), major, minor))


def _on_gpu(family, plain, t, torch, device):
    try:
        if not plain:
            return family(t, torch, device)
        with exact(t):
            return family(t, torch, device)
    except NotImplementedError as error:
        # A release without the kernel is no broken build; NVIDIA's and AMD's have had all of these for years.
        if not is_xpu(torch):
            raise
        raise Absent("torch %s has none for Intel's GPUs: %s" % (torch.__version__, str(error).splitlines()[0][:120]))


for _id, _level, _family, _remedy, _seconds, _plain in read_table("families")["gpu"]:
    _run = getattr(families, _family, None) or getattr(families_more, _family)
    check(_id, level=_level, scope="gpu", timeout=_seconds, remedy=_remedy or WRONG)(partial(_on_gpu, _run, _plain))


@check("gpu.matmul", level="smoke", scope="gpu", timeout=180, remedy=WRONG)
def _products(t, torch, device):
    with exact(t):
        return families.products(t, torch, device, computable(t, FLOATS))


@check("gpu.matmul-int8", level="full", scope="gpu", timeout=180, remedy=WRONG)
def _products_int8(t, torch, device):
    at_least(t, 7, 5, "int8 matmul")
    t.require(torch, "_int_mm", "2.1")
    x, y = [int(8 * v) for v in ref.grid(32 * 64)], [int(8 * v) for v in ref.grid(64 * 32, 3)]
    a = torch.tensor(x, dtype=torch.int8).reshape(32, 64).to(device)
    b = torch.tensor(y, dtype=torch.int8).reshape(64, 32).to(device)
    t.close(torch._int_mm(a, b), ref.matmul(x, y, 32, 64, 32), 0.0, 1e-9, "int8 products are exact")
    return "exact"


@check("gpu.matmul-fp8", level="full", scope="gpu", timeout=180, remedy=WRONG)
def _products_fp8(t, torch, device):
    at_least(t, 8, 9, "fp8 matmul")
    t.require(torch, "float8_e4m3fn _scaled_mm", "2.2", "fp8 matmul")
    # Multiples of 1/8 up to 1.375 need four bits: e4m3 holds them exactly.
    x, y = ref.grid(32 * 64), ref.grid(64 * 32, 3)
    a = torch.tensor(x).reshape(32, 64).to(device).to(torch.float8_e4m3fn)
    b = torch.tensor(families.transposed(y, 64, 32)).reshape(32, 64).to(device).to(torch.float8_e4m3fn).t()
    scale = torch.ones((), device=device)
    try:
        out = torch._scaled_mm(a, b, scale_a=scale, scale_b=scale, out_dtype=torch.bfloat16)
    except TypeError as error:
        raise Absent("another calling convention: %s" % str(error).splitlines()[0])
    out = out[0] if isinstance(out, tuple) else out
    t.close(out, ref.matmul(x, y, 32, 64, 32), 2e-2, 2e-2, "fp8 products")
    return "e4m3 with bfloat16 results"


@check("gpu.tf32", level="full", scope="gpu", timeout=180, remedy=WRONG)
def _tf32(t, torch, device):
    at_least(t, 8, 0, "TF32")
    torch.backends.cuda.matmul.allow_tf32 = True
    x = torch.tensor(ref.rough(256 * 256), dtype=torch.float64).reshape(256, 256)
    got = (x.float().to(device) @ x.float().to(device)).cpu().double()
    # Ten bits of each factor: 256 products of size 1/3 with relative errors of 2^-11.
    t.close(got, x @ x, 0.0, 0.02, "TF32 matmul")
    return "within the rounding of ten bits"


@check("gpu.conv", level="smoke", scope="gpu", timeout=300, remedy="the cuDNN or MIOpen found is not the one torch was built with, or has no code for this GPU")
def _convolutions(t, torch, device, enabled=True):
    if is_xpu(torch):
        t.absent_where(not enabled, "oneDNN is the only way on Intel's GPUs")
        return families.convolutions(t, torch, device) + ", oneDNN"
    t.absent_where(enabled and not torch.backends.cudnn.is_available(), "built without cuDNN or MIOpen")
    # An environment whose cuDNN has no code for the card switches it off: then that is what is proved.
    enabled = enabled and torch.backends.cudnn.enabled
    accepts_tf32 = "allow_tf32" in inspect.signature(torch.backends.cudnn.flags).parameters
    plain = {"allow_tf32": False} if accepts_tf32 else {}
    with exact(t), torch.backends.cudnn.flags(enabled=enabled, **plain):
        detail = families.convolutions(t, torch, device)
    version = torch.backends.cudnn.version() if enabled else None
    return detail + (", library %s" % version if version else ", native kernels")


check("gpu.conv-native", level="full", scope="gpu", timeout=180, remedy=WRONG)(partial(_convolutions, enabled=False))


def _attention_case(torch, shape, seeds):
    """Queries, keys and values in float64 on the CPU, and what attention makes of them by its formula."""
    count = torch.Size(shape).numel()
    q, k, v = (torch.tensor(ref.rough(count, seed), dtype=torch.float64).reshape(shape) for seed in seeds)
    return (q, k, v), torch.softmax(q @ k.transpose(-1, -2) / shape[-1] ** 0.5, -1) @ v


@check("gpu.attention", level="full", scope="gpu", timeout=240, remedy=WRONG)
def _attention(t, torch, device):
    """The fused attention kernels in half precision against the plain formula in float64 on the CPU."""
    F = torch.nn.functional
    t.require(F, "scaled_dot_product_attention", "2.0", "fused attention")
    parts, want = _attention_case(torch, (2, 4, 64, 32), (1, 2, 3))
    names = halves(t) + ("float32",)
    for name in names:
        t.step(name)
        got = F.scaled_dot_product_attention(*(part.to(getattr(torch, name)).to(device) for part in parts))
        t.close(got, want, SLACK[name], SLACK[name], "attention in " + name)
    return " ".join(names)


@check("gpu.layers", level="smoke", scope="gpu", timeout=240, remedy="this release computes wrong on this GPU: rekindle plan names one that does not")
def _layers(t, torch, device):
    """What releases got silently wrong where small products were right: layers of usual sizes in half precision, wide
    heads, sums after memory was given back (torch 2.14 on Intel's GPUs, pytorch issue 197520)."""
    F = torch.nn.functional
    x, w = (torch.tensor(ref.rough(rows * 256, seed), dtype=torch.float64).reshape(rows, 256) for rows, seed in ((64, 1), (192, 2)))
    parts, want = _attention_case(torch, (1, 2, 48, 160), (3, 4, 5))
    names = halves(t)
    for name in names:
        dtype, slack = getattr(torch, name), SLACK[name]
        t.step("linear " + name)
        a, b = x.to(dtype), w.to(dtype)
        t.close(F.linear(a.to(device), b.to(device)), a.double() @ b.double().t(), slack, slack * 16, "linear in " + name)
        if hasattr(F, "scaled_dot_product_attention"):
            t.step("attention %s, heads of 160" % name)
            got = F.scaled_dot_product_attention(*(part.to(dtype).to(device) for part in parts))
            t.close(got, want, slack * 2, slack * 2, "attention with heads of 160 in " + name)
    t.step("index_add_ after empty_cache")
    large = torch.ones(1 << 20, device=device)
    del large
    getattr(accelerator(torch)[1], "empty_cache", lambda: None)()
    sums = torch.zeros(5, 8, device=device).index_add_(0, torch.tensor([0, 4, 0, 2]).to(device), torch.ones(4, 8, device=device))
    t.equal(sums[:, 3].tolist(), [2.0, 0.0, 1.0, 0.0, 1.0], "index_add_")
    return "linear, wide attention heads and index_add_ in " + " ".join(names)


@check("gpu.agrees", level="smoke", scope="gpu", timeout=240, remedy=WRONG)
def _agrees(t, torch, device):
    """The same larger work on CPU and GPU, in float32 and float64."""
    F = torch.nn.functional
    torch.manual_seed(5)
    done = []
    with exact(t):
        for name in computable(t, ("float64", "float32")):
            slack = 1e-9 if name == "float64" else 1e-3
            x = torch.randn(4, 8, 33, 31, dtype=torch.float64).to(getattr(torch, name))
            w = torch.randn(16, 8, 3, 3, dtype=torch.float64).to(getattr(torch, name))
            m = torch.randn(300, 500, dtype=torch.float64).to(getattr(torch, name))
            for kernel, work in (
                ("conv", lambda d: F.conv2d(x.to(d), w.to(d), padding=1)[:, :, ::3, ::3]),
                ("matmul", lambda d: (m.to(d) @ m.to(d).t())[::7, ::5]),
                ("softmax", lambda d: F.softmax(m.to(d), 1)[::9]),
                ("normalise", lambda d: F.batch_norm(x.to(d), None, None, training=True)[:, :, ::5, ::5]),
                ("scan", lambda d: m.to(d).cumsum(1)[::9, ::7]),
                ("reduce", lambda d: m.to(d).std(1)),
            ):
                t.step("%s %s" % (kernel, name))
                t.close(work(device), work("cpu"), slack, slack * 20, "%s on CPU and GPU" % kernel)
            done.append(name)
    return "conv, matmul, softmax, batch norm, scan, std in " + " ".join(done)
