"""Environments that are really broken, and how many ``rekindle explain --fix --yes`` makes whole without a person.

    python tools/broken_environments.py                all of them (most need a package index)
    python tools/broken_environments.py NAME ...       some of them
    python tools/broken_environments.py --offline      those that need none

Each gets a Python environment of its own, the packages and files that break it, and a command that fails. Small real
packages stand for large ones where the mechanism is the same: a wheel of the wrong flavour is a wheel of the wrong
flavour whatever is inside. Some cannot be fixed, or must not: then nothing may be changed.
"""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

from rekindle.journey.fix import fix_command  # noqa: E402
from rekindle.model.diagnosis import FixReport  # noqa: E402
from tiny_wheels import make_wheel  # noqa: E402

# What says the words of a library that is too large to bring, and stops saying them when it is right.
_IMPORTS = "import os, sys, json, pathlib\n"
_FLAVOUR = "class version:\n    cuda = {cuda!r}\n"
_SETUP = "from setuptools import setup\nsetup(name='proj', version='1.0', py_modules=['proj'])\n"
_OLD_PB2 = (
    "from google.protobuf import descriptor as d\n"
    "f = d.FileDescriptor(name='a.proto', package='a', syntax='proto3', serialized_pb=b'\\n\\x07a.proto\\x12\\x01a')\n"
    "d.FieldDescriptor(name='x', full_name='a.M.x', index=0, number=1, type=5, cpp_type=1, label=1,\n"
    "    has_default_value=False, default_value=0, message_type=None, enum_type=None, containing_type=None,\n"
    "    is_extension=False, extension_scope=None, file=f)\n"
)


@dataclass(frozen=True, kw_only=True)
class Broken:
    """``packages`` are installed from an index, ``wheels`` are tiny ones made on the spot (installed: the first);
    ``before`` runs in the folder to break it; ``good`` says what must come of it."""

    name: str
    command: tuple[str, ...]
    files: dict[str, str] = field(default_factory=dict)
    packages: tuple[str, ...] = ()
    wheels: tuple[tuple[str, str, str], ...] = ()
    before: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    pip: bool = False
    network: bool = False
    good: Literal["fixed", "unchanged"] = "fixed"


def _script(text: str, name: str, **more: object) -> Broken:
    return Broken(name=name, command=("{python}", "run.py"), files={"run.py": text}, **more)  # type: ignore[arg-type]


BROKEN = (
    _script(
        "import numpy as np\nprint(np.float(1))\n", "numpy without np.float", packages=("numpy==1.26.4",), network=True
    ),
    _script(
        "import numpy as np\nprint(np.float_(1))\n", "numpy 2 without np.float_", packages=("numpy>=2",), network=True
    ),
    _script(
        "import numpy\nif numpy.__version__ >= '2':\n    raise ImportError('A module that was compiled using NumPy 1.x"
        " cannot be run in NumPy ' + numpy.__version__ + ' as it may crash.')\n",
        "an extension for NumPy 1",
        packages=("numpy>=2",),
        network=True,
    ),
    _script(
        "try:\n    import numpy\nexcept ImportError:\n    raise RuntimeError('Numpy is not available')\n",
        "no numpy",
        network=True,
    ),
    _script("import yaml\n", "no yaml", network=True),
    _script("import yaml, tqdm\n", "two modules missing", network=True),
    _script("import pkg_resources\n", "setuptools without pkg_resources", packages=("setuptools>=82",), network=True),
    _script(_OLD_PB2, "protobuf too new", packages=("protobuf>=4",), network=True),
    _script(
        "from huggingface_hub import cached_download\n",
        "huggingface_hub too new",
        packages=("huggingface_hub>=0.30",),
        network=True,
    ),
    _script(
        "import six\nif six.__version__ < '1.16':\n    raise ImportError('six>=1.16,<2 is required for a normal"
        " functioning of this module, but found six==' + six.__version__ + '.')\n",
        "a requirement too old",
        packages=("six==1.15.0",),
        network=True,
    ),
    _script(
        "import torch\nassert torch.version.cuda, 'Torch not compiled with CUDA enabled'\n",
        "CPU torch over CUDA torch",
        wheels=(
            ("torch", "2.6.0+cpu", _FLAVOUR.format(cuda=None)),
            ("torch", "2.7.0+cu126", _FLAVOUR.format(cuda="12.6")),
        ),
    ),
    _script(
        "import torch\nassert torch.version.cuda == 'xpu', 'Torch not compiled with XPU enabled'\n",
        "CPU torch for an Intel GPU",
        wheels=(
            ("torch", "2.6.0+cpu", _FLAVOUR.format(cuda=None)),
            ("torch", "2.7.0+xpu", _FLAVOUR.format(cuda="xpu")),
        ),
    ),
    _script(
        _IMPORTS
        + "if 'KMP_DUPLICATE_LIB_OK' not in os.environ:\n    sys.exit('OMP: Error #15: Initializing libiomp5.so, but"
        " found libomp.so already initialized.')\n",
        "two OpenMP runtimes",
    ),
    _script(
        _IMPORTS
        + "if int(os.environ.get('MAX_JOBS', 16)) > 4:\n    sys.exit('c++: fatal error: Killed signal terminated"
        " program cc1plus')\n",
        "compilers out of memory",
        env={"MAX_JOBS": "16"},
    ),
    _script(
        _IMPORTS + "cache = pathlib.Path.home() / '.triton' / 'cache' / 'ab' / 'k.json'\nif cache.parent.is_dir():\n"
        "    raise FileNotFoundError(2, 'No such file or directory', str(cache) + '.tmp')\n",
        "Triton's cache half written",
        before=("mkdir -p home/.triton/cache/ab",),
    ),
    _script(
        _IMPORTS + "place = pathlib.Path(os.environ['TORCHINDUCTOR_CACHE_DIR'])\nif place.is_dir():\n"
        "    raise FileNotFoundError(2, 'No such file or directory', str(place / 'ab' / 'cab.py'))\n",
        "torch.compile's cache swept away",
        before=("mkdir -p torchinductor_me",),
        env={"TORCHINDUCTOR_CACHE_DIR": "{folder}/torchinductor_me"},
    ),
    _script(
        _IMPORTS + "if not os.environ.get('TRITON_CACHE_DIR'):\n"
        "    raise PermissionError(13, 'Permission denied', '/srv/other/.triton/cache/ab')\n",
        "another user's cache",
    ),
    Broken(
        name="a stale extension",
        command=("{python}", "run.py"),
        files={
            "run.py": "import ctypes, pathlib\n"
            "for file in pathlib.Path.home().glob('.cache/torch_extensions/*/fused.so'):\n"
            "    ctypes.CDLL(str(file), mode=2)\n",
            "a.c": "extern void _ZN3c106detail14torchCheckFailEPKcS2_jS2_(void);\n"
            "void f(void) { _ZN3c106detail14torchCheckFailEPKcS2_jS2_(); }\n",
        },
        before=(
            "mkdir -p home/.cache/torch_extensions/fused",
            "gcc -shared -fPIC -o home/.cache/torch_extensions/fused/fused.so a.c",
        ),
    ),
    Broken(
        name="no wheel package",
        command=("{python}", "setup.py", "bdist_wheel"),
        files={"setup.py": _SETUP, "proj.py": ""},
        packages=("setuptools==65.5.0",),
        network=True,
    ),
    Broken(
        name="pkg_resources in an isolated build",
        command=("{python}", "-m", "pip", "install", "./proj"),
        pip=True,
        files={"proj/setup.py": "import pkg_resources\n" + _SETUP, "proj/proj.py": ""},
        network=True,
    ),
    Broken(
        name="torch in an isolated build",
        command=("{python}", "-m", "pip", "install", "./proj"),
        pip=True,
        files={
            "proj/setup.py": "import torch\n" + _SETUP,
            "proj/proj.py": "",
            "proj/pyproject.toml": "[build-system]\nrequires = ['setuptools', 'wheel']\n"
            "build-backend = 'setuptools.build_meta:__legacy__'\n",
        },
        packages=("setuptools==80.9.0", "wheel"),
        wheels=(("torch", "2.6.0", _FLAVOUR.format(cuda=None)),),
        network=True,
    ),
    Broken(
        name="only torch's index",
        pip=True,
        network=True,
        command=(
            "{python}",
            "-m",
            "pip",
            "install",
            "--index-url",
            "https://download.pytorch.org/whl/cpu",
            "colorama==0.4.5",
        ),
    ),
    Broken(
        name="CMake 4",
        command=("{bin}/cmake", "-S", ".", "-B", "build"),
        packages=("cmake>=4",),
        network=True,
        files={"CMakeLists.txt": "cmake_minimum_required(VERSION 3.0)\nproject(a NONE)\n"},
    ),
    Broken(
        name="CMake 4 inside setup.py",
        command=("{python}", "setup.py", "build"),
        network=True,
        packages=("cmake>=4", "setuptools==80.9.0"),
        files={
            "CMakeLists.txt": "cmake_minimum_required(VERSION 2.8)\nproject(a NONE)\n",
            "proj.py": "",
            "setup.py": "import os, subprocess, sys\nhere = os.path.dirname(sys.executable)\n"
            "subprocess.check_call([os.path.join(here, 'cmake'), '-S', '.', '-B', 'out'])\n" + _SETUP,
        },
    ),
    Broken(
        name="another CMake generator",
        command=("cmake", "-G", "Ninja", "-S", ".", "-B", "build"),
        files={"CMakeLists.txt": "cmake_minimum_required(VERSION 3.16)\nproject(a NONE)\n"},
        before=("cmake -G 'Unix Makefiles' -S . -B build >/dev/null",),
    ),
    Broken(
        name="a build directory that moved",
        command=("cmake", "-S", ".", "-B", "build"),
        files={"CMakeLists.txt": "cmake_minimum_required(VERSION 3.16)\nproject(a NONE)\n"},
        before=(
            "mkdir other",
            "cp CMakeLists.txt other",
            "cmake -S other -B other/build >/dev/null",
            "cp -r other/build build",
        ),
    ),
    Broken(
        name="a header that gcc no longer brings",
        command=("make", "a.o"),
        files={"a.cpp": "#include <vector>\nint most() { return std::numeric_limits<int>::max(); }\n"},
    ),
    Broken(
        name="git and another owner",
        command=("git", "-C", "repo", "status"),
        before=("git init -q repo", "chown -R 12345 repo"),
        env={"GIT_CONFIG_NOSYSTEM": "1"},
    ),
    Broken(
        name="Cython too new",
        command=("{bin}/cythonize", "-f", "a.pyx"),
        packages=("cython>=3", "setuptools==80.9.0"),
        files={"a.pyx": "def f(x):\n    return isinstance(x, long) or isinstance(x, unicode) and basestring\n"},
        network=True,
    ),
    _script(
        _IMPORTS + "if 'six' not in [path.name for path in pathlib.Path(sys.prefix).glob('lib/*/site-packages/*')]:\n"
        "    raise ModuleNotFoundError(\"No module named 'yaml'\")\n",
        "a fix that is not it",
        good="unchanged",
        network=True,
    ),
    _script(
        "raise ModuleNotFoundError(\"No module named 'nobody_knows_this'\")\n",
        "a module nobody knows",
        good="unchanged",
    ),
    _script(
        "import sys\nsys.exit('main.c:1:10: fatal error: Python.h: No such file or directory')\n",
        "headers that need root",
        good="unchanged",
    ),
)


@contextlib.contextmanager
def broken(case: Broken, folder: Path) -> Iterator[list[str]]:
    """The environment, broken; the command that fails in it. HOME and the working directory are the folder's."""
    for name, text in case.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    home = folder / "home"
    home.mkdir()
    env = folder / "env"
    subprocess.run([sys.executable, "-m", "venv", *([] if case.pip else ["--without-pip"]), str(env)], check=True)
    python = env / "bin" / "python"
    links = folder / "links"
    made = [
        make_wheel(links, name, version, files={f"{name}/__init__.py": text.encode()})
        for name, version, text in case.wheels
    ]
    wanted = [*case.packages, *map(str, made[:1])]
    if wanted:
        pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--no-warn-script-location"]
        subprocess.run([*pip, *wanted], check=True)
    places = {"python": str(python), "bin": str(env / "bin"), "folder": str(folder)}
    own = {name: value.format(**places) for name, value in case.env.items()} | {"HOME": str(home), "USER": "me"}
    if case.wheels and not case.network:
        own |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(links)}
    kept, here = dict(os.environ), Path.cwd()
    os.environ.update(own)
    os.chdir(folder)
    try:
        for line in case.before:
            subprocess.run(["bash", "-c", line], check=True)
        yield [word.format(**places) for word in case.command]
    finally:
        os.chdir(here)
        os.environ.clear()
        os.environ.update(kept)


def installed(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("env/lib/*/site-packages/*.dist-info")}


def repair(case: Broken, folder: Path) -> tuple[FixReport, bool]:
    """The report, and whether it is as it must be."""
    with broken(case, folder) as command:
        before = installed(folder)
        said = io.BytesIO()
        report = fix_command(command, out=said, err=said, confirm=lambda _: True, say=lambda _: None)
        if case.good == "fixed":
            again = subprocess.run(["bash", "-c", report.keep[0]] if report.keep else command, capture_output=True)
            return report, report.fixed and again.returncode == 0
        return report, report.exit_code != 0 and installed(folder) == before


def main() -> None:
    asked = [word for word in sys.argv[1:] if not word.startswith("--")]
    cases = [case for case in BROKEN if not asked or case.name in asked]
    if "--offline" in sys.argv:
        cases = [case for case in cases if not case.network]
    right = 0
    for case in cases:
        with tempfile.TemporaryDirectory(prefix="rekindle-broken-") as folder:
            report, good = repair(case, Path(folder))
        right += good
        tried = "; ".join(f"{each.outcome}: {each.cause}: {', '.join(each.shown)}" for each in report.attempts)
        causes = [match.id for match in report.diagnosis.matches[:2]] if report.diagnosis else []
        print(
            f"{'ok ' if good else 'NO '} {case.name} ({case.good}): {tried or 'nothing tried'} {causes or ''}",
            flush=True,
        )
    fixable = sum(case.good == "fixed" for case in cases)
    print(f"{right} of {len(cases)} as they must be ({fixable} to be fixed, {len(cases) - fixable} to be left alone)")
    raise SystemExit(right != len(cases))


if __name__ == "__main__":
    main()
