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


def config(name):
    value = sysconfig.get_config_var(name) if sysconfig else None
    return value if isinstance(value, (str, int)) else None


def packages():
    """Versions of what matters to torch, read from the names of metadata directories (no import)."""
    wanted = ("torch", "torchvision", "torchaudio", "numpy", "triton", "pytorch_triton", "mkl", "intel_openmp")
    versions = {}
    for place in sys.path:
        try:
            names = os.listdir(place or ".")
        except OSError:
            continue
        for name in names:
            if not name.endswith((".dist-info", ".egg-info")):
                continue
            parts = name.rsplit(".", 1)[0].split("-")
            key = parts[0].lower().replace("-", "_")
            if len(parts) >= 2 and (key in wanted or key.startswith(("nvidia_", "rocm_", "rocm"))):
                versions.setdefault(key, {"version": parts[1], "path": place})
    return versions


def include():
    return (sysconfig.get_paths().get("include") if sysconfig else None) or ""


def externally_managed():
    """PEP 668: the system's own Python, outside every environment of venv or conda."""
    if sys.prefix != getattr(sys, "base_prefix", sys.prefix) or os.path.exists(os.path.join(sys.prefix, "conda-meta")):
        return False
    library = sysconfig.get_paths().get("stdlib") if sysconfig else None
    return os.path.exists(os.path.join(library or "", "EXTERNALLY-MANAGED"))


print(
    json.dumps(
        {
            "version": platform.python_version(),
            "implementation": platform.python_implementation(),
            "soabi": config("SOABI") or config("EXT_SUFFIX"),
            "gil_disabled": bool(config("Py_GIL_DISABLED")),
            "bits": 8 * struct.calcsize("P"),
            "machine": platform.machine(),
            "system": sys.platform,
            "executable": sys.executable,
            "prefix": sys.prefix,
            "base_prefix": getattr(sys, "base_prefix", sys.prefix),
            "compiler": platform.python_compiler(),
            "include": include(),
            "headers": os.path.isfile(os.path.join(include(), "Python.h")),
            "externally_managed": externally_managed(),
            "packages": packages(),
        }
    )
)
