"""What makes code at run time: TorchScript, C++ extensions, torch.compile."""

import importlib.util
import os
import shutil
import sys

from rekindle_checks import reference as ref
from rekindle_checks.framework import Absent, Failed, Untried, check, find_compiler, scratch

CXX = ("c++", "g++", "clang++")


def _scripted(x, n: int):
    total = x
    for i in range(n):
        if i % 2 == 0:
            total = total * 2
        else:
            total = total + x
    return total


@check("jit", level="full", timeout=120, remedy="rebuild; TorchScript is part of every complete torch")
def _jit(t, torch):
    t.absent_where(not hasattr(torch, "jit") or not hasattr(torch.jit, "trace"), "this torch has no torch.jit")
    import warnings

    warnings.simplefilter("ignore")
    x = torch.tensor(ref.grid(8), dtype=torch.float32)
    want = [((v * 2 + v) * 2 + v) for v in ref.grid(8)]
    t.step("trace")
    traced = torch.jit.trace(lambda a: (a * 2 + a) * 2 + a, x)
    t.close(traced(x), want, 1e-6, 1e-6, "traced")
    t.step("script")
    try:
        script = torch.jit.script(_scripted)
    except (RuntimeError, OSError) as error:
        if "source" in str(error) or "deprecated" in str(error):
            raise Absent("torch.jit.script: %s" % str(error).splitlines()[0])
        raise
    t.close(script(x, 4), want, 1e-6, 1e-6, "scripted")
    t.step("save and load")
    with scratch("jit") as folder:
        path = os.path.join(folder, "made.pt")
        script.save(path)
        t.close(torch.jit.load(path)(x, 4), want, 1e-6, 1e-6, "loaded")
    return "trace, script, save and load"


SOURCE = """
#include <torch/extension.h>
torch::Tensor rekindle_twice(torch::Tensor x) { return x * 2 + 1; }
"""


def _borrow(t):
    """setuptools and ninja where the environment has none: whoever started the checks lends its own."""
    lent = t.request.get("lent") or {}
    if importlib.util.find_spec("setuptools") is None and lent.get("setuptools"):
        sys.path.append(lent["setuptools"])
        import setuptools  # noqa: F401 (puts its own distutils in place, which Python 3.12 and later lack)
    # A ninja installed in the environment need not be on PATH.
    places = [os.path.dirname(sys.executable), os.environ.get("PATH", ""), lent.get("ninja") or ""]
    os.environ["PATH"] = os.pathsep.join(place for place in places if place)


def quotes_paths(source):
    """Does cpp_extension put quotes around the folders it hands to the compiler? Early releases do not."""
    with open(source, encoding="utf-8") as file:
        return "quote(include)" in file.read()


@check("cpp-extension", level="full", timeout=600, remedy="extensions need the compiler torch was built with: torch.utils.collect_env names it")
def _cpp_extension(t, torch):
    t.untried_where(t.emulated, "a compiler cannot be started inside the emulation")
    t.untried_where(os.name != "nt" and not find_compiler("CXX", CXX), "no C++ compiler on this machine")
    import sysconfig

    headers = os.path.join(sysconfig.get_paths()["include"], "Python.h")
    t.untried_where(not os.path.exists(headers), "no Python.h for this Python on this machine")
    _borrow(t)
    try:
        from torch.utils import cpp_extension as maker
    except ImportError as error:
        raise Untried("torch.utils.cpp_extension: %s" % error)
    if " " in os.path.dirname(torch.__file__) and not quotes_paths(maker.__file__):
        raise Untried("this torch writes its include folders without quotes, and it lies in a folder with a blank")
    t.untried_where(not shutil.which("ninja"), "no ninja on this machine, which torch's extension builder needs")
    with scratch("ext") as folder:
        t.step("compile")
        module = maker.load_inline(
            "rekindle_extension", SOURCE, functions=["rekindle_twice"], build_directory=folder, extra_cflags=["-O0"]
        )
        t.step("call")
        t.close(module.rekindle_twice(torch.arange(4.0)), [1, 3, 5, 7], 0.0, 1e-9, "the extension's answer")
    return "compiled and loaded"


@check("compile", level="full", timeout=600, remedy="torch.compile needs a C++ compiler and OpenMP headers on the CPU, Triton on the GPU")
def _compiled(t, torch):
    t.require(torch, "compile", "2.0")
    t.untried_where(t.emulated, "a compiler cannot be started inside the emulation")
    t.untried_where(os.name == "nt", "torch.compile on the CPU needs MSVC's environment here")
    t.untried_where(not find_compiler("CXX", CXX), "no C++ compiler on this machine")
    x = torch.tensor(ref.grid(64), dtype=torch.float32)

    def work(a):
        return torch.relu(a * 3 + 1).sum()

    want = sum(max(v * 3 + 1, 0.0) for v in ref.grid(64))
    t.step("aot_eager")
    try:
        t.close(torch.compile(work, backend="aot_eager")(x), want, 1e-5, 1e-5, "graph captured")
    except Exception as error:
        if type(error).__name__ == "RuntimeError" and "not supported" in str(error):
            raise Untried("torch.compile: %s" % str(error).splitlines()[0])
        raise
    t.step("inductor")
    with scratch("inductor") as folder:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
        try:
            t.close(torch.compile(work)(x), want, 1e-5, 1e-5, "compiled")
        except Exception as error:
            text = str(error)
            if "omp.h" in text or "Python.h" in text:
                raise Failed("the compiled C++ needs a header: %s" % text.splitlines()[0][:200], "install libgomp and Python headers")
            raise
    return "graph capture, and inductor's C++ on Python %d.%d" % sys.version_info[:2]
