"""Statements that make a torch for the CPU say it has GPUs (its tensors are the CPU's, marked), or companions."""

# ``word`` is what torch calls them, ``doubles`` whether they compute in float64: whatever makes a float64 of a marked
# tensor is refused where they do not.
_MARKED = """
import contextlib, sys, types
from torch.overrides import TorchFunctionMode

def tensors(value):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors(item)

class Pretended(TorchFunctionMode):
    captured = None

    def __torch_function__(self, function, types, args=(), kwargs=None):
        there = lambda value: isinstance(value, str) and value.startswith(word)
        kwargs = dict(kwargs or {})
        named = [*args, *kwargs.values()]
        name = getattr(function, "__name__", "")
        if name == "empty" and 1 << 50 in args:
            raise RuntimeError(refusal)
        back = name == "cpu" or any(isinstance(one, str) and one == "cpu" for one in named)
        on_card = any(map(there, named)) or any(getattr(one, "on_card", False) for one in tensors(named))
        args = tuple("cpu" if there(one) else one for one in args)
        kwargs = {name: "cpu" if there(one) else one for name, one in kwargs.items()}
        result = function(*args, **kwargs)
        if args and result is args[0] and any(map(there, named)):
            result = result.clone()  # on a real card the copy there is another tensor
        if back and on_card and isinstance(result, torch.Tensor):
            return result.clone()
        if on_card and not back:
            for one in tensors(result):
                if not doubles and one.dtype in (torch.float64, torch.complex128):
                    raise RuntimeError("Required aspect fp64 is not supported on the device")
                one.on_card = True
            if Pretended.captured is not None and isinstance(result, torch.Tensor):
                Pretended.captured.append((function, args, kwargs, result))
        return result

about, refusal = types.SimpleNamespace(), word.upper() + " out of memory. Tried to allocate 1.00 PiB"
torch.Tensor.pin_memory = lambda self: self
torch.Tensor.is_pinned = lambda self: True
"""

ARC = (
    """
word, doubles = "xpu", False
"""
    + _MARKED
    + """
about.name, about.total_memory = "Intel(R) Arc(TM) A770 Graphics", 16 << 30
about.has_fp64, about.driver_version = False, "1.6"
torch.xpu._is_compiled = torch.xpu.is_available = lambda: True
torch.xpu.device_count = lambda: 1
torch.xpu.get_device_properties = lambda index: about
torch.xpu.set_device = torch.xpu.synchronize = lambda *words: None
torch.xpu.manual_seed_all = lambda seed: None
Pretended().__enter__()
"""
)

CUDA = (
    """
word, doubles = "cuda", True
"""
    + _MARKED
    + """
about.name, about.total_memory, about.major, about.minor = "NVIDIA H200", 141 << 30, 9, 0
cuda, order = torch.cuda, []
torch.version.cuda = "13.0"
torch._C._cuda_getArchFlags = lambda: "sm_80 sm_90"
cuda.is_available = lambda: True
cuda.device_count = lambda: 2
cuda.get_device_properties = lambda index: about
cuda.get_device_capability = lambda index: (about.major, about.minor)
cuda.get_arch_list = lambda: ["sm_80", "sm_90", "compute_90"]
cuda.set_device = cuda.synchronize = cuda.manual_seed_all = lambda *words: None
cuda.empty_cache = lambda: order.append("empty_cache")
cuda.mem_get_info = lambda index: (80 << 20, 100 << 20)
cuda.memory_allocated = lambda index: 64 << 20
cuda.can_device_access_peer = lambda a, b: a < b

class Stream:
    def wait_stream(self, other): pass
    def wait_event(self, event): pass

class Event:
    def __init__(self, enable_timing=False): self.timing = enable_timing
    def record(self, stream=None): pass
    def query(self): return True
    def elapsed_time(self, other):
        if not (self.timing and other.timing):
            raise RuntimeError("Both events must be created with argument 'enable_timing=True'.")
        return 0.0

cuda.Stream, cuda.Event, cuda.current_stream = Stream, Event, Stream
cuda.stream = lambda stream: contextlib.nullcontext()

class CUDAGraph:
    def replay(self):
        for function, args, kwargs, result in self.kept:
            result.copy_(function(*args, **kwargs))

@contextlib.contextmanager
def graph(into):
    Pretended.captured = into.kept = []
    yield
    Pretended.captured = None

cuda.CUDAGraph, cuda.graph = CUDAGraph, graph
torch.backends.cudnn.is_available = lambda: True
torch.backends.cudnn.version = lambda: 91900
cuda.jiterator = types.SimpleNamespace(_create_jit_fn=lambda text: lambda x: x * 2 + 1)
torch._int_mm = lambda a, b: a.int() @ b.int()
torch._scaled_mm = lambda a, b, scale_a, scale_b, out_dtype: (a.float() @ b.float() * scale_a * scale_b).to(out_dtype)
torch.compile = lambda work, **more: work
sys.modules["triton"] = types.ModuleType("triton")
sys.modules["triton"].__version__ = "3.5.0"
real_autocast = torch.autocast
torch.autocast = lambda word, dtype: real_autocast("cpu", dtype=dtype)
import torch.cuda.comm
cuda.comm.broadcast = lambda x, devices: [x.clone() for _ in devices]
cuda.comm.reduce_add = lambda parts, destination: sum(parts[1:], parts[0])
Pretended().__enter__()
"""
)

ROCM = (
    CUDA
    + """
torch.version.cuda, torch.version.hip = None, "7.1.52802"
about.name, about.gcnArchName = "AMD Instinct MI300X", "gfx942:sramecc+:xnack-"
cuda.get_arch_list = lambda: ["gfx90a", "gfx942"]
"""
)

# What lies beside torch, as far as the checks call it, and what would compile for minutes.
BESIDE = """
import importlib.machinery, math, sys, types

def beside(name, **functions):
    module = sys.modules[name] = types.ModuleType(name)
    module.__spec__, module.__version__ = importlib.machinery.ModuleSpec(name, None), "0.1"
    module.__dict__.update(functions)
    return module

def nms(boxes, scores, most):
    kept = []
    for number in scores.argsort(descending=True).tolist():
        a = boxes[number].tolist()
        for other in kept:
            b = boxes[other].tolist()
            wide, high = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
            both = max(wide, 0) * max(high, 0)
            areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (a, b)]
            if both / (sum(areas) - both) > most:
                break
        else:
            kept.append(number)
    return torch.tensor(kept)

def roi_align(image, boxes, output_size, aligned):
    number, x, y, right, bottom = boxes[0].tolist()
    size = image.shape[-1]
    half = 0.5 if aligned else 0.0
    sides = (y, bottom), (x, right)
    places = [[low + (i + 0.5) * (high - low) / size - half for i in range(size)] for low, high in sides]
    total = sum(size * row + column for row in places[0] for column in places[1])  # the plane the check shows
    return image.new_tensor([[[[image[0, 0, 0, 0] + total / size ** 2]]]])

beside("torchvision").ops = beside("torchvision.ops", nms=nms, roi_align=roi_align)
gain = lambda x, decibels: x * 10 ** (decibels / 20)
resample = lambda tone, rate, other: tone[:: rate // other]
beside("torchaudio").functional = beside("torchaudio.functional", gain=gain, resample=resample)

def load_inline(name, source, functions, build_directory, extra_cflags):
    assert all(function + "(torch::Tensor x) { return x * 2 + 1; }" in source for function in functions)
    return types.SimpleNamespace(**{function: lambda x: x * 2 + 1 for function in functions})

import torch.utils.cpp_extension
torch.utils.cpp_extension.load_inline = load_inline
torch.compile = lambda work, **more: work
"""
