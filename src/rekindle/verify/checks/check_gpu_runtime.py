"""What surrounds the kernels on each GPU: streams, events, graphs, copies, memory, errors, run-time compilers."""

import itertools
import os

from rekindle_checks import reference as ref
from rekindle_checks.framework import Failed, Untried, accelerator, at_least, capability, check, computable
from rekindle_checks.framework import find_compiler, halves, has_doubles, is_xpu, scratch

DRIVER = "driver and runtime disagree: compare nvidia-smi with torch.version.cuda (rekindle doctor)"


@check("gpu.streams", level="full", scope="gpu", timeout=120, remedy=DRIVER)
def _streams(t, torch, device):
    driver = accelerator(torch)[1]
    x = torch.ones(1 << 20, device=device)
    side, other = driver.Stream(), driver.Stream()
    t.step("two streams")
    side.wait_stream(driver.current_stream())
    with driver.stream(side):
        y = x
        for _ in range(20):
            y = y * 1.0 + 1.0
    t.step("event between streams")
    event = driver.Event()
    event.record(side)
    other.wait_event(event)
    with driver.stream(other):
        total = y.sum()
    t.step("timing")
    begin, end = driver.Event(enable_timing=True), driver.Event(enable_timing=True)
    begin.record()
    (x @ x)
    end.record()
    driver.synchronize()
    t.close(total, 21.0 * (1 << 20), 0.0, 1.0, "work in one stream seen from another")
    t.ensure(begin.elapsed_time(end) >= 0.0 and event.query(), "events out of order")
    return "2 streams, events, timing"


@check("gpu.graphs", level="full", scope="gpu", timeout=120, remedy=DRIVER)
def _graphs(t, torch, device):
    t.absent_where(is_xpu(torch), "graphs are asked of NVIDIA's and AMD's GPUs")
    t.require(torch.cuda, "CUDAGraph", "1.10", "CUDA graphs")
    x = torch.zeros(1000, device=device)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = torch.relu(x * 2 + 1)
    torch.cuda.current_stream().wait_stream(side)
    t.step("capture")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = torch.relu(x * 2 + 1)
    t.step("replay")
    for value in (3.0, -5.0, 0.5):
        x.fill_(value)
        graph.replay()
        torch.cuda.synchronize()
        t.close(y[::100], [max(2 * value + 1, 0.0)] * 10, 0.0, 1e-6, "replay with %g" % value)
    return "captured once, replayed 3 times"


@check("gpu.copies", level="smoke", scope="gpu", timeout=120, remedy=DRIVER)
def _copies(t, torch, device):
    t.step("pinned")
    values = torch.arange(1 << 18, dtype=torch.float32)
    pinned = values.pin_memory()
    t.ensure(pinned.is_pinned(), "pin_memory() gives pageable memory")
    there = pinned.to(device, non_blocking=True)
    back = torch.empty_like(pinned).pin_memory() if hasattr(pinned, "pin_memory") else torch.empty_like(pinned)
    back.copy_(there, non_blocking=True)
    accelerator(torch)[1].synchronize()
    t.ensure(bool((back == values).all()), "pinned copies came back different")
    t.step("odd shapes")
    odd = values[: 999 * 37].reshape(999, 37)
    t.ensure(bool((odd.to(device).t().contiguous().cpu() == odd.t()).all()), "transposed copy differs")
    t.step("types")
    kinds = computable(t, ("float64", "float16", "bfloat16", "int64", "int32", "int8", "uint8", "bool"))
    for name in kinds:
        if hasattr(torch, name):
            small = (torch.arange(64) % 2).to(getattr(torch, name))
            t.equal(small.to(device).cpu().tolist(), small.tolist(), "copy of " + name)
    return "pinned both ways, strided, %d types" % len(kinds)


@check("gpu.memory", level="full", scope="gpu", timeout=240, remedy=DRIVER)
def _memory(t, torch, device):
    """Most of the free memory is filled block by block, checked, given back; then too much is asked for."""
    driver = accelerator(torch)[1]
    free = driver.mem_get_info(t.device)[0] if hasattr(driver, "mem_get_info") else 1 << 30
    # At most 32 GiB: the rest of a large card would only take time.
    want = min(int(free * 0.8), 32 << 30)
    block = max(1 << 20, want // 64 // 4)
    t.step("fill %.1f GiB" % (want / 2.0 ** 30))
    blocks = [torch.full((block,), float(i), device=device) for i in range(want // (block * 4))]
    for i, part in enumerate(blocks):
        t.ensure(float(part[0]) == i and float(part[-1]) == i, "block %d was overwritten" % i)
    filled = driver.memory_allocated(t.device)
    t.step("fragment")
    del blocks[::2]
    again = [torch.full((block // 2,), -1.0, device=device) for _ in range(len(blocks))]
    t.ensure(all(float(part[0]) == -1.0 for part in again), "memory reused wrongly")
    t.step("too much")
    try:
        torch.empty(1 << 50, dtype=torch.uint8, device=device)
    except RuntimeError as error:
        t.ensure("out of memory" in str(error).lower(), "1 PiB refused for another reason: %s" % str(error).splitlines()[0])
    else:
        raise Failed("1 PiB of GPU memory was granted")
    t.step("after running out")
    del blocks, again
    driver.empty_cache()
    t.close(torch.ones(1000, device=device).sum(), 1000.0, 0.0, 1e-6, "sum after running out of memory")
    return "%.1f GiB filled, fragmented, exhausted, recovered" % (filled / 2.0 ** 30)


@check("gpu.error", level="full", scope="gpu", timeout=120, remedy="errors on the GPU are lost or end the process: set CUDA_LAUNCH_BLOCKING=1 and look again")
def _error(t, torch, device):
    """An index out of range must arrive as an exception, not as silence and not as a crash. Poisons its process."""
    why = "ROCm builds leave device assertions out unless asked for, and XPU builds may end the process"
    t.absent_where(capability(t) is None, why)
    index = torch.tensor([5000]).to(device)
    try:
        torch.zeros(10, device=device)[index] + 1
        torch.cuda.synchronize()
    except (RuntimeError, IndexError) as caught:
        text = str(caught)
        t.ensure("assert" in text or "index" in text, "the error does not name its cause: " + text.splitlines()[0])
        return "captured: " + text.splitlines()[0][:100]
    raise Failed("an index far out of range was not noticed")


@check("gpu.nvrtc", level="full", scope="gpu", timeout=180, remedy="NVRTC of this CUDA cannot compile for this GPU, or libnvrtc-builtins is missing")
def _nvrtc(t, torch, device):
    lacking = capability(t) is None or not hasattr(torch.cuda, "jiterator")
    t.absent_where(lacking, "this torch compiles no elementwise kernels at run time")
    twice = torch.cuda.jiterator._create_jit_fn("template <typename T> T f(T x) { return x * 2 + 1; }")
    t.close(twice(torch.tensor(ref.grid(32)).to(device)), [2 * v + 1 for v in ref.grid(32)], 1e-6, 1e-6, "run-time kernel")
    return "a kernel compiled at run time"


@check("gpu.compile", level="full", scope="gpu", timeout=600, remedy="the Triton found does not fit this torch: pip install triton of the version torch requires")
def _compiled(t, torch, device):
    t.require(torch, "compile", "2.0")
    if capability(t) is not None:
        at_least(t, 7, 0, "Triton, and so torch.compile on the GPU,")
    try:
        import triton
    except ImportError:
        raise Untried("Triton is not installed")
    lacking = os.name != "nt" and not find_compiler("CC", ("gcc", "cc", "clang"))
    t.untried_where(lacking, "no C compiler on this machine, which Triton needs")
    x = torch.tensor(ref.grid(4096), dtype=torch.float32).to(device)
    with scratch("triton") as folder:
        os.environ["TRITON_CACHE_DIR"] = os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
        t.step("inductor with Triton " + getattr(triton, "__version__", "?"))
        got = torch.compile(lambda a: torch.relu(a * 3 + 1) * a.sigmoid())(x)
        t.close(got, torch.relu(x * 3 + 1) * x.sigmoid(), 1e-5, 1e-5, "compiled = eager")
    return "Triton %s" % getattr(triton, "__version__", "?")


@check("gpu.autocast", level="full", scope="gpu", timeout=180, remedy=DRIVER)
def _autocast(t, torch, device):
    word, driver = accelerator(torch)
    torch.manual_seed(1)
    net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8)).to(device)
    x = torch.randn(32, 64, device=device)
    want = net(x)
    names = halves(t)
    for name in names:
        t.step(name)
        with torch.autocast(word, dtype=getattr(torch, name)) if hasattr(torch, "autocast") else torch.cuda.amp.autocast():
            got = net(x)
        t.ensure(got.dtype in (torch.float16, torch.bfloat16), "autocast left the result in %s" % got.dtype)
        t.close(got, want, 5e-2, 5e-2, "autocast to " + name)
    if not has_doubles(t):
        return " ".join(names) + "; scaling gradients needs float64"
    t.step("gradient scaling")
    new = hasattr(getattr(torch, "amp", None), "GradScaler")
    scaler = torch.amp.GradScaler(word, init_scale=1024.0) if new else driver.amp.GradScaler(init_scale=1024.0)
    scaler.scale(net(x).pow(2).mean()).backward()
    plain = torch.autograd.grad(net(x).pow(2).mean(), list(net.parameters()))
    first = next(net.parameters()).grad / 1024.0
    t.close(first, plain[0], 1e-3, 1e-6, "scaled gradients")
    return " ".join(names)


def _count_several(t, torch):
    """How many GPUs there are, where they are several."""
    count = accelerator(torch)[1].device_count()
    t.absent_where(count < 2, "one GPU" if count else "no GPU")
    return count


@check("gpus.peer", level="full", scope="gpus", timeout=180, remedy="peer access fails (IOMMU, ACS or a missing NVLink): set NCCL_P2P_DISABLE=1")
def _peer(t, torch):
    count, (word, driver) = _count_several(t, torch), accelerator(torch)
    direct = 0
    for a, b in itertools.permutations(range(count), 2):
        t.step("%s:%d to %s:%d" % (word, a, word, b))
        x = torch.arange(100000, dtype=torch.float32, device="%s:%d" % (word, a))
        y = x.to("%s:%d" % (word, b))
        t.close((y.cpu() != x.cpu()).sum(), 0, 0.0, 0.1, "numbers that differ after the copy")
        direct += bool(getattr(driver, "can_device_access_peer", lambda *_: False)(a, b))
    return "%d GPUs, %d of %d pairs directly" % (count, direct, count * (count - 1))


@check("gpus.parallel", level="full", scope="gpus", timeout=180, remedy="NCCL or RCCL does not work between these GPUs: NCCL_DEBUG=INFO says why")
def _parallel(t, torch):
    count = _count_several(t, torch)
    t.absent_where(is_xpu(torch), "NCCL and RCCL are NVIDIA's and AMD's")
    import torch.cuda.comm as comm

    parts = comm.broadcast(torch.arange(1000.0, device="cuda:0"), list(range(count)))
    total = comm.reduce_add(parts, 0)
    t.close(total, [count * v for v in range(1000)], 1e-6, 1e-6, "broadcast, then sum over all GPUs")
    return "broadcast and reduce over %d GPUs" % count
