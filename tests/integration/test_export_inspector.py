"""The part of ``inspect`` that a Dockerfile carries along, run from the Dockerfile's own text, on real libraries."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import export_plans as plans
import needs
import tiny_wheels
from rekindle import api
from rekindle.scripts.containers import INSPECTOR
from rekindle.scripts.formats import render
from rekindle.scripts.recipe import make_recipe

pytestmark = [pytest.mark.integration, needs.tool("g++", "dpkg")]
CARRIED = re.compile(r"^COPY <<'(END_\w+)' /(rekindle/\S+)\n(.*?)^\1$", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def carried(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Written out by the here-documents of a Dockerfile, as its builder does."""
    folder = tmp_path_factory.mktemp("carried")
    for _, name, text in CARRIED.findall(render(make_recipe(plans.CPU, {}), "dockerfile")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def library(path: Path, text: str, *flags: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    source = path.with_suffix(".cc")
    source.write_text(text)
    subprocess.run(["g++", "-shared", "-fPIC", "-o", path, source, *flags], check=True)
    return path


def wheel_of(folder: Path, *libraries: Path, requires: tuple[str, ...] = ()) -> Path:
    files = {f"tiny/{path.name}": path.read_bytes() for path in libraries}
    return tiny_wheels.make_wheel(
        folder, files=files, metadata="".join(f"Requires-Dist: {line}\n" for line in requires)
    )


def ask(carried: Path, out: Path, wheel: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Nothing but Python's own library and what was carried along can be imported."""
    start = (
        f"import sys, runpy; sys.path.insert(0, {str(carried)!r}); runpy.run_module({INSPECTOR!r}, run_name='__main__')"
    )
    return subprocess.run(
        [sys.executable, "-I", "-S", "-c", start, str(out), str(wheel)],
        capture_output=True, text=True, timeout=60, env={**os.environ, **env},
    )  # fmt: skip


def test_the_packages_of_a_wheels_libraries(carried: Path, tmp_path: Path) -> None:
    text = "#include <string>\nstd::string f(int i) { return std::to_string(i); }\n"
    made = library(tmp_path / "x.so", text)
    wheel = wheel_of(tmp_path / "w", made)
    done = ask(carried, tmp_path / "out", wheel)
    assert done.returncode == 0, done.stderr
    packages = (tmp_path / "out/packages.txt").read_text().split()
    assert "libstdc++6" in packages
    names = {line.split()[0]: line.split()[1] for line in (tmp_path / "out/libraries.txt").read_text().splitlines()}
    # One truth: the names are those that inspect gives.
    links = api.inspect(str(wheel), cpu=False).links
    assert links is not None and set(names) == set(links.external)
    assert all(Path(path).is_file() for path in names.values())


def test_a_library_that_is_nowhere_is_an_error(carried: Path, tmp_path: Path) -> None:
    library(tmp_path / "lib/libnowhere.so", "int g() { return 1; }\n", "-Wl,-soname,libnowhere.so.1")
    made = library(tmp_path / "x.so", "int g();\nint f() { return g(); }\n", f"-L{tmp_path}/lib", "-lnowhere")
    done = ask(carried, tmp_path / "out", wheel_of(tmp_path / "w", made))
    assert done.returncode == 1 and "libnowhere.so.1 (needed by x.so)" in done.stderr
    # ... unless the wheel has it.
    both = wheel_of(tmp_path / "w2", made, tmp_path / "lib/libnowhere.so")
    assert ask(carried, tmp_path / "out", both).returncode == 0


def test_a_library_of_no_package_comes_along_with_what_it_needs(carried: Path, tmp_path: Path) -> None:
    place = tmp_path / "opt"
    library(place / "libdeep.so.2", "int deep() { return 1; }\n", "-Wl,-soname,libdeep.so.2")
    library(place / "libwide.so.1", "int deep();\nint wide() { return deep(); }\n", "-Wl,-soname,libwide.so.1",
            str(place / "libdeep.so.2"))  # fmt: skip
    made = library(tmp_path / "x.so", "int wide();\nint f() { return wide(); }\n", str(place / "libwide.so.1"))
    wheel = wheel_of(tmp_path / "w", made)
    assert "libwide.so.1" in ask(carried, tmp_path / "out", wheel).stderr
    done = ask(carried, tmp_path / "out", wheel, LD_LIBRARY_PATH=str(place))
    assert done.returncode == 0, done.stderr
    copied = {path.name: path.read_bytes() for path in (tmp_path / "out/libraries").iterdir()}
    assert copied == {name: (place / name).read_bytes() for name in ("libwide.so.1", "libdeep.so.2")}


def test_a_library_of_another_machine_is_passed_over(carried: Path, tmp_path: Path) -> None:
    for folder, machine in (("wrong", 183), ("right", None)):
        made = library(tmp_path / folder / "libwide.so.1", "int wide() { return 1; }\n", "-Wl,-soname,libwide.so.1")
        if machine:
            raw = bytearray(made.read_bytes())
            raw[18] = machine if raw[18] != machine else 62
            made.write_bytes(raw)
    x = library(tmp_path / "x.so", "int wide();\nint f() { return wide(); }\n", str(tmp_path / "right/libwide.so.1"))
    done = ask(carried, tmp_path / "out", wheel_of(tmp_path / "w", x),
               LD_LIBRARY_PATH=f"{tmp_path}/wrong:{tmp_path}/right")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert f"libwide.so.1 {tmp_path}/right/libwide.so.1" in (tmp_path / "out/libraries.txt").read_text().splitlines()


def test_what_driver_and_pip_bring_is_not_asked_of_debian(carried: Path, tmp_path: Path) -> None:
    for name in ("libcuda.so.1", "libcublas.so.12"):
        library(tmp_path / name, f"int {name[3:7]}() {{ return 1; }}\n", f"-Wl,-soname,{name}")
    both = (str(tmp_path / "libcuda.so.1"), str(tmp_path / "libcublas.so.12"))
    made = library(tmp_path / "x.so", "int cuda();\nint cubl();\nint f() { return cuda() + cubl(); }\n", *both)
    with_pip = wheel_of(tmp_path / "w", made, requires=("nvidia-cublas-cu12 (==12.1)",))
    done = ask(carried, tmp_path / "out", with_pip)
    assert done.returncode == 0, done.stderr
    assert not re.search("cuda|cublas", (tmp_path / "out/libraries.txt").read_text())
    without = ask(carried, tmp_path / "out", wheel_of(tmp_path / "w2", made))
    assert without.returncode == 1 and "libcublas.so.12" in without.stderr and "libcuda" not in without.stderr


def test_what_is_no_wheel_is_said(carried: Path, tmp_path: Path) -> None:
    (tmp_path / "x.whl").write_bytes(b"no zip")
    done = ask(carried, tmp_path / "out", tmp_path / "x.whl")
    assert done.returncode == 1 and "zip" in done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()
    shutil.copy(sys.executable, tmp_path / "y.whl")
    assert ask(carried, tmp_path / "out", tmp_path / "y.whl").returncode == 1
