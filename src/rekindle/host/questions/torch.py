# Asked of a Python that has torch, so old syntax: does it load, and what can it use here?
# "quick" loads the native libraries without importing the package; "deep" imports it and uses the card.
import glob
import json
import os
import sys
import time


def _place():
    paths = [os.path.join(root or ".", "torch", "lib") for root in sys.path]
    return next((path for path in paths if os.path.isdir(path)), None)


def _targets(lib):
    """The string behind torch.cuda.get_arch_list(): "sm_50 sm_60 … compute_90", a literal in the bindings."""
    import mmap
    import re

    pattern = re.compile(
        b"(?:sm_[0-9]{2,3}[af]?|gfx[0-9a-f]{3,4})(?: (?:sm_[0-9]{2,3}[af]?|compute_[0-9]{2,3}[af]?|gfx[0-9a-f]{3,4}))*\0"
    )
    paths = [os.path.join(lib, name) for name in ("libtorch_python.so", "torch_python.dll")]
    for path in filter(os.path.exists, paths):
        with open(path, "rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            for lead in (b"\0sm_", b"\0gfx"):
                at = data.find(lead)
                while at >= 0:
                    match = pattern.match(data, at + 1)
                    if match:
                        return match.group()[:-1].decode("ascii").split(" ")
                    at = data.find(lead, at + 1)
    return []


def _for_gpu(lib):
    try:
        with open(os.path.join(os.path.dirname(lib), "version.py")) as file:
            text = file.read()
    except (OSError, UnicodeError):
        return False
    return any(line.startswith(("cuda", "hip")) and "'" in line for line in text.splitlines())


def _quick(answer):
    import ctypes

    lib = _place()
    if lib is None:
        raise ImportError("there is no torch/lib in this Python")
    if _for_gpu(lib):
        answer["arch_list"] = _targets(lib)
    if hasattr(os, "add_dll_directory"):
        os.add_dll_directory(lib)
    form = "torch_%s.dll" if sys.platform == "win32" else "libtorch_%s.so"
    names = [form % part for part in ("cpu", "cuda", "hip")]
    # What torch itself does first: the CUDA libraries that pip installed beside it.
    beside = os.path.join(os.path.dirname(os.path.dirname(lib)), "nvidia", "*", "lib", "lib")
    order = ("cudart", "nvrtc", "nvJitLink", "cublasLt", "cublas", "cudnn", "cupti", "cufft", "curand", "cusparse",
             "cusolver", "cusparseLt", "nccl", "nvshmem", "cufile", "nvtx")
    for name in [name for name in names if os.path.exists(os.path.join(lib, name))]:
        path = os.path.join(lib, name)
        try:
            ctypes.CDLL(path)
        except OSError:
            for piece in [piece for word in order for piece in glob.glob(beside + word + ".so.*")]:
                try:
                    ctypes.CDLL(piece, mode=ctypes.RTLD_GLOBAL)
                except OSError:
                    pass
            ctypes.CDLL(path)
        answer.setdefault("loaded", []).append(name)
    answer["works"] = bool(answer.get("loaded"))


def _deep(answer):
    import torch

    answer["version"] = str(torch.__version__)
    answer["works"] = bool((torch.ones(2) + 1).sum().item() == 4.0)
    try:
        answer["cudnn"] = torch.backends.cudnn.version()
    except Exception as error:
        answer["cudnn_error"] = str(error)[:300]
    xpu = getattr(torch, "xpu", None)
    intel = getattr(xpu, "_is_compiled", bool)()
    driver = xpu if intel else torch.cuda
    answer["available"] = bool(driver.is_available())
    try:
        answer["arch_list"] = list(torch.cuda.get_arch_list())
    except Exception:
        pass
    if not (getattr(torch.version, "cuda", None) or getattr(torch.version, "hip", None) or intel):
        return
    try:
        driver.init()
        answer["devices"] = [
            {"name": driver.get_device_name(i), "capability": [] if intel else list(driver.get_device_capability(i))}
            for i in range(driver.device_count())
        ]
        torch.ones(2, device="xpu" if intel else "cuda").add_(1).cpu()
        answer["gpu_works"] = True
    except Exception as error:
        answer["gpu_works"] = False
        answer["gpu_error"] = str(error)[:400]


begin = time.time()
answer = {}
try:
    (_deep if "REKINDLE_DEEP" in os.environ else _quick)(answer)
except Exception as error:
    answer["works"] = False
    answer["error"] = ("%s: %s" % (type(error).__name__, error))[:600]
answer["seconds"] = round(time.time() - begin, 2)
print(json.dumps(answer))
