"""A package's shared library, found and loaded without importing the package."""

import ctypes
import importlib.util
import os
import sys

from rekindle_checks.framework import Absent, Failed, Untried


def load_library(t, relative, mode=ctypes.DEFAULT_MODE):
    """The library at ``relative`` inside the package under test."""
    if not sys.platform.startswith("linux"):
        raise Untried("the C functions are called on Linux only")
    package = t.request["package"]
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise Failed("no package %r in this environment" % package)
    path = os.path.join(list(spec.submodule_search_locations)[0], *relative.split("/"))
    if not os.path.exists(path):
        raise Absent("this build has no %s" % relative)
    try:
        return ctypes.CDLL(path, mode)
    except OSError as error:
        raise Failed("cannot load %s: %s" % (os.path.basename(path), error), "rekindle inspect WHEEL names what is missing")
