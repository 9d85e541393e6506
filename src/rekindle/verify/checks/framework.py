"""What a check is made of. Runs under the target's Python: 3.6 syntax, standard library only.

A check is a function with a stable id, called with its bench, the package (unless it runs before or without the import)
and the device (for each GPU). It returns one line of detail, raises ``Failed`` with what was found against what was
wanted, or ``Skip`` with the reason why it says nothing about this torch.
"""

import collections
import contextlib
import json
import os
import re
import shutil
import sys
import tempfile

CHECKS = []


def read_table(name):
    """A table (JSON) that lies beside the checks."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), name + ".json"), encoding="utf-8") as file:
        return json.load(file)


# What to do about errors that mean the same wherever they appear, by patterns of their words.
REMEDIES = read_table("remedies")


class Skip(Exception):
    """The check says nothing here, and why. Raise one of the two below: a reader must know which it is."""

    kind = "untried"


class Absent(Skip):
    """The part is not in this build or this machine, by its release or its plan: nothing is owed."""

    kind = "absent"


class Untried(Skip):
    """The part may well be there, but something stood in the way of trying it."""


class Failed(Exception):
    """The answer is wrong; ``remedy`` beats the check's own where it is given."""

    def __init__(self, message, remedy=None):
        Exception.__init__(self, message)
        self.remedy = remedy


# Scopes: "gate" first, on an emulated CPU (a failure ends the run); "preload" and "bare" before the import; "import";
# "cpu"; "gpu" once for each GPU; "gpus" once, with all of them; "asked" last, what this run asks for besides.
Check = collections.namedtuple("Check", "id run package level scope timeout remedy")


def check(id, package="torch", level="full", scope="cpu", timeout=60, remedy=""):
    """Registers a function as a check. ``timeout`` is in seconds on a healthy machine without emulation."""

    def register(function):
        CHECKS.append(Check(id, function, package, level, scope, timeout, remedy))
        return function

    return register


def perform(check, bench):
    """The check's line of detail."""
    if check.package == "any" or check.scope in ("preload", "bare", "import"):
        return check.run(bench)
    package = __import__(check.package)
    if check.scope != "gpu":
        return check.run(bench, package)
    word, driver = accelerator(package)
    driver.set_device(bench.device)
    return check.run(bench, package, "%s:%d" % (word, bench.device))


def accelerator(torch):
    """What a torch calls its GPUs, and its module that drives them: NVIDIA's and AMD's are ``cuda``, Intel's ``xpu``.
    ``torch.version.xpu`` is None in some XPU builds, so the build itself is asked."""
    xpu = getattr(torch, "xpu", None)
    return ("xpu", xpu) if getattr(xpu, "_is_compiled", bool)() else ("cuda", torch.cuda)


class Bench(object):
    """What a running check works with: the package, the plan's promises, and rulers."""

    def __init__(self, request, tell=None, device=None):
        self.request = request
        self.plan = request.get("expect") or {}
        self.emulated = request.get("cpu")
        self.device = device
        self.worst = None
        self._tell = tell
        self._named = ""

    def step(self, name):
        """Say what comes next, so that a crash can name it."""
        self._named = name
        if self._tell is not None:
            self._tell({"event": "step", "name": name})

    def torch(self):
        import torch

        return torch

    def require(self, owner, names, release, what=None):
        """Of a torch older than ``release`` a part is absent; else it was left out or lost."""
        if all(hasattr(owner, name) for name in names.split()):
            return
        version, what = str(self.torch().__version__), what or "torch." + names
        if numbered(version) >= numbered(release):
            raise Failed(
                "torch %s has no %s, which every release from %s on has" % (version, what, release),
                "the build left it out, or another package hides it: build again, and compare the settings",
            )
        raise Absent("torch %s is older than %s, which came with %s" % (version, what, release))

    def where(self):
        """The step that was said last, as the beginning of a message."""
        return self._named + ": " if self._named else ""

    def absent_where(self, condition, why):
        """Says nothing where the part is not in this build or this machine."""
        if condition:
            raise Absent(why)

    def untried_where(self, condition, why):
        """Says nothing where something stands in the way of trying it."""
        if condition:
            raise Untried(why)

    def ensure(self, condition, message):
        """Fails where it is not so; the message begins with the step that was said last."""
        if not condition:
            raise Failed(self.where() + message)

    def close(self, got, want, rtol, atol, what=None):
        """Every number within ``atol + rtol * |want|``. Takes flat lists, floats or tensors."""
        name = what or self._named or "result"
        got, want = numbers(got), numbers(want)
        if len(got) != len(want):
            raise Failed("%s: %d numbers instead of %d" % (name, len(got), len(want)))
        if not want:
            raise Failed("%s: nothing to compare" % name)
        worst, at = -1.0, 0
        for index, (mine, right) in enumerate(zip(got, want)):
            error = abs(mine - right)
            # NaN compares false with everything: it must count as infinitely wrong.
            share = error / (atol + rtol * abs(right)) if error == error else float("inf")
            if mine == right:
                share = 0.0
            if not share <= worst:
                worst, at = share, index
        if not worst <= 1.0:
            raise Failed(
                "%s: element %d is %.9g, the reference is %.9g (allowed: %.3g absolute + %.3g relative)"
                % (name, at, got[at], want[at], atol, rtol)
            )
        self.worst = worst if self.worst is None else max(self.worst, worst)

    def equal(self, got, want, what=None):
        """The very same, type and all that ``==`` looks at."""
        if got != want:
            raise Failed("%s: %s instead of %s" % (what or self._named or "result", brief(got), brief(want)))


def numbered(version):
    """(2, 6) for 2.6.0+cu124: what a release is compared by."""
    return tuple(int(digits) for digits in re.findall(r"\d+", version.split("+")[0])[:2])


def truth(value):
    """ON, 1, true … as a bool; None for what is no switch."""
    words = {"on": True, "1": True, "true": True, "yes": True, "off": False, "0": False, "false": False, "no": False}
    return words.get(str(value).strip().lower())


def planned_settings(t, text):
    """The NAME=value pairs of a build summary, and how many of them the plan names too: those must agree."""
    built = dict(re.findall(r"(?<![\w-])([A-Z][A-Z0-9_]+)=([^,\s]+)", text))
    planned = [(name, value) for name, value in sorted((t.plan.get("settings") or {}).items()) if name in built]
    for name, value in planned:
        same = built[name] == value if truth(value) is None else truth(built[name]) == truth(value)
        t.ensure(same, "%s is %s, %s was planned" % (name, built[name], value))
    return built, len(planned)


def numbers(value):
    """A flat list of Python floats from a tensor, an array, a number or a list."""
    if hasattr(value, "detach"):
        value = value.detach().to("cpu")
        if hasattr(value, "is_complex") and value.is_complex():
            value = sys.modules["torch"].view_as_real(value.resolve_conj() if hasattr(value, "resolve_conj") else value)
        if value.dtype.is_floating_point:
            value = value.double()
        value = value.reshape(-1).tolist()
    elif hasattr(value, "ravel"):
        if value.dtype.kind == "c":
            value = value.ravel().view(value.real.dtype)
        value = value.ravel().tolist()
    elif not isinstance(value, (list, tuple)):
        value = [value]
    return [float(item) for item in value]


def brief(value, limit=160):
    """At most so many letters of it."""
    text = repr(value) if not isinstance(value, str) else value
    return text if len(text) <= limit else text[: limit - 3] + "..."


@contextlib.contextmanager
def scratch(name):
    """A folder that is gone afterwards, whatever was left in it."""
    folder = tempfile.mkdtemp(prefix="rekindle-" + name)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def load_library(t, relative, mode=None):
    """The shared library at ``relative`` inside the package under test, which is not imported."""
    import ctypes
    import importlib.util

    t.untried_where(not sys.platform.startswith("linux"), "the C functions are called on Linux only")
    package = t.request["package"]
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise Failed("no package %r in this environment" % package)
    path = os.path.join(list(spec.submodule_search_locations)[0], *relative.split("/"))
    t.absent_where(not os.path.exists(path), "this build has no %s" % relative)
    try:
        return ctypes.CDLL(path, ctypes.DEFAULT_MODE if mode is None else mode)
    except OSError as error:
        raise Failed("cannot load %s: %s" % (os.path.basename(path), error), "rekindle inspect WHEEL names what is missing")


def find_compiler(variable, names):
    """The compiler that ``variable`` (CC, CXX) or PATH names. Debian's g++-11 alone brings no g++: where only such a
    numbered one is here, the variable is set to the newest, so that torch takes it as well."""
    plain = os.environ.get(variable) or next((name for name in names if shutil.which(name)), None)
    if plain:
        return plain
    pattern = re.compile("(?:%s)-([0-9]+)$" % "|".join(re.escape(name) for name in names))
    folders = [folder for folder in os.environ.get("PATH", "").split(os.pathsep) if os.path.isdir(folder)]
    found = [pattern.match(name) for folder in folders for name in os.listdir(folder)]
    numbered = [(int(match.group(1)), match.group()) for match in found if match and shutil.which(match.group())]
    if numbered:
        os.environ[variable] = max(numbered)[1]
    return os.environ.get(variable)


# What a GPU can compute in, exact arithmetic, and whether code for it can exist at all.
def is_rocm(torch):
    """Was it built for AMD's GPUs?"""
    return bool(getattr(torch.version, "hip", None))


def capability(t):
    """(major, minor) of an NVIDIA GPU; None for AMD's and Intel's, whose numbers mean something else."""
    torch = t.torch()
    return None if is_rocm(torch) or is_xpu(torch) else torch.cuda.get_device_capability(t.device)


def is_xpu(torch):
    """Was it built for Intel's GPUs?"""
    return accelerator(torch)[0] == "xpu"


def has_doubles(t):
    """Does the device compute in float64? Intel's Arc A cards do not."""
    torch = t.torch()
    if t.device is None or not is_xpu(torch):
        return True
    return getattr(torch.xpu.get_device_properties(t.device), "has_fp64", True)


def widest(t):
    """The widest type the device computes in."""
    return "float64" if has_doubles(t) else "float32"


def computable(t, names):
    """Those of the types that the device computes in."""
    return tuple(name for name in names if has_doubles(t) or name not in ("float64", "complex128"))


def halves(t):
    """The short types of the device: bfloat16 came with compute capability 8.0."""
    return ("float16", "bfloat16") if (capability(t) or (9, 0)) >= (8, 0) else ("float16",)


@contextlib.contextmanager
def exact(t):
    """Without TF32, which rounds inputs to ten bits and is on by default for convolutions."""
    backends = t.torch().backends
    places = (backends.cudnn, getattr(backends.cuda, "matmul", None))
    before = [(place, place.allow_tf32) for place in places if hasattr(place, "allow_tf32")]
    for place, _ in before:
        place.allow_tf32 = False
    try:
        yield
    finally:
        for place, value in before:
            place.allow_tf32 = value


def at_least(t, major, minor, what):
    """Goes on only where an NVIDIA GPU has that compute capability."""
    has = capability(t)
    t.absent_where(has is None, "%s is checked on NVIDIA GPUs only" % what)
    words = "%s needs compute capability %d.%d, this GPU has %d.%d"
    t.absent_where(has < (major, minor), words % (what, major, minor, has[0], has[1]))
