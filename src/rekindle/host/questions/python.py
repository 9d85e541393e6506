# Asked of any Python from 2.7 on, so old syntax: what are you, and which torch do you have?
import json
import os
import platform
import struct
import sys

try:
    import sysconfig
except ImportError:
    sysconfig = None


def _config(name):
    value = sysconfig.get_config_var(name) if sysconfig else None
    return value if isinstance(value, (str, int)) else None


def _packages():
    """Versions of what matters to torch, read from the names of metadata directories (no import)."""
    wanted = ("torch", "torchvision", "torchaudio", "numpy", "triton", "pytorch_triton", "mkl", "intel_openmp")
    versions = {}
    for place in sys.path:
        try:
            names = os.listdir(place or ".")
        except OSError:
            continue
        for name in [name for name in names if name.endswith((".dist-info", ".egg-info"))]:
            parts = name.rsplit(".", 1)[0].split("-")
            key = parts[0].lower().replace("-", "_")
            if len(parts) >= 2 and (key in wanted or key.startswith(("nvidia_", "rocm_", "rocm"))):
                versions.setdefault(key, {"version": parts[1], "path": place})
    return versions


def _include():
    return (sysconfig.get_paths().get("include") if sysconfig else None) or ""


def _externally_managed():
    """PEP 668: the system's own Python, outside every environment of venv or conda."""
    if sys.prefix != getattr(sys, "base_prefix", sys.prefix) or os.path.exists(os.path.join(sys.prefix, "conda-meta")):
        return False
    library = sysconfig.get_paths().get("stdlib") if sysconfig else None
    return os.path.exists(os.path.join(library or "", "EXTERNALLY-MANAGED"))


answer = {
    "version": platform.python_version(),
    "implementation": platform.python_implementation(),
    "soabi": _config("SOABI") or _config("EXT_SUFFIX"),
    "gil_disabled": bool(_config("Py_GIL_DISABLED")),
    "bits": 8 * struct.calcsize("P"),
    "machine": platform.machine(),
    "system": sys.platform,
    "executable": sys.executable,
    "prefix": sys.prefix,
    "base_prefix": getattr(sys, "base_prefix", sys.prefix),
    "compiler": platform.python_compiler(),
    "include": _include(),
    "headers": os.path.isfile(os.path.join(_include(), "Python.h")),
    "externally_managed": _externally_managed(),
    "packages": _packages(),
}
print(json.dumps(answer))
