"""What stands before each compiler of a build on a farm: what it does with every answer of the farm's."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from rekindle.build.farm import render_scripts

posix = pytest.mark.skipif(os.name == "nt", reason="shell scripts stand before compilers on POSIX alone")


class Launch:
    """The script of a build, a compiler that writes what ``here`` says, and an sccache that writes what ``there``
    says; both note that they were called."""

    def __init__(self, folder: Path, *, one_in: int = 1) -> None:
        self.folder, self.farm = folder, folder / "farm"
        self.farm.mkdir()
        self.compiler = self._program("g++", 'for a; do o=$a; done; cat "$d/here" > "$o"; [ ! -e "$d/error" ]')
        sccache = self._program(
            "sccache", 'for a; do o=$a; done; cat "$d/there" > "$o"; cat "$d/say" >&2; exit $(cat "$d/code")'
        )
        self.script = folder / "launch"
        self.script.write_text(render_scripts(str(sccache), one_in)["launch"])
        self.gpu = folder / "launch-gpu"
        self.gpu.write_text(render_scripts(str(sccache), one_in)["launch-gpu"])
        self.tell(here="code", there="code", code="0", say="")

    def _program(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(f'#!/bin/sh\nd=$(dirname "$0")\necho {name} >> "$d/called"; echo "$@" > "$d/words"\n{text}\n')
        path.chmod(0o755)
        return path

    def tell(self, **files: str) -> None:
        for name, text in files.items():
            (self.folder / name).write_text(text)

    def run(
        self, script: Path | None = None, output: str = "x.cpp.o", flags: Sequence[str] = (), **env: str
    ) -> subprocess.CompletedProcess[str]:
        (self.folder / "called").unlink(missing_ok=True)
        words = ["/bin/sh", str(script or self.script), str(self.compiler), *flags, "-c", "x.cpp", "-o", output]
        own = {"PATH": os.environ["PATH"], "REKINDLE_FARM_BUILD": str(self.farm), **env}
        return subprocess.run(words, cwd=self.folder, env=own, capture_output=True, text=True, timeout=60)

    @property
    def words(self) -> str:
        """What the last program was called with, the compiler itself left out."""
        return (self.folder / "words").read_text().removeprefix(str(self.compiler)).strip()

    @property
    def called(self) -> list[str]:
        return (self.folder / "called").read_text().split()

    def noted(self, name: str) -> list[str]:
        place = self.farm / name
        return place.read_text().splitlines() if place.exists() else []

    @property
    def made(self) -> str:
        return (self.folder / "x.cpp.o").read_text()


@posix
def test_what_is_the_same_here_is_noted_and_kept(tmp_path: Path) -> None:
    launch = Launch(tmp_path)
    launch.tell(say="x.cpp:1: warning: hm\n")
    done = launch.run()
    assert (done.returncode, done.stderr, launch.made) == (0, "x.cpp:1: warning: hm\n", "code")
    assert launch.called == ["sccache", "g++"] and launch.noted("checked") == ["x.cpp.o"]
    assert not launch.noted("wrong") and not (launch.farm / "stop").exists()
    assert sorted(path.name for path in tmp_path.glob("x.cpp.o*")) == ["x.cpp.o"] and not list(
        launch.farm.glob("said*")
    )


@posix
def test_what_differs_is_wrong_and_ends_the_farm(tmp_path: Path) -> None:
    launch = Launch(tmp_path)
    launch.tell(there="lie")
    assert launch.run().returncode == 0 and launch.made == "code"
    assert launch.noted("wrong") == ["x.cpp.o"] and not launch.noted("checked")
    assert launch.run().returncode == 0 and launch.called == ["g++"]
    assert sorted(path.name for path in tmp_path.glob("x.cpp.o*")) == ["x.cpp.o"]


@posix
def test_a_compiler_that_is_never_the_same_proves_nothing(tmp_path: Path) -> None:
    launch = Launch(tmp_path)
    launch.compiler.write_text('#!/bin/sh\nfor a; do o=$a; done\necho x >> n; cat n > "$o"\n')
    assert launch.run().returncode == 0
    assert launch.noted("unsteady") == ["x.cpp.o"] and not (launch.farm / "stop").exists()


@posix
def test_what_fails_there_is_compiled_here(tmp_path: Path) -> None:
    launch = Launch(tmp_path)
    launch.tell(code="1", say="sccache: Job failed on server 10.0.0.2:10501:\nNo space left on device\n", there="half")
    done = launch.run()
    assert (done.returncode, done.stderr, launch.made) == (0, "", "code")
    assert launch.noted("failed") == ["x.cpp.o\tsccache: Job failed on server 10.0.0.2:10501:"]
    launch.tell(error="")
    assert launch.run().returncode == 1


@posix
def test_only_one_in_so_many_is_compared(tmp_path: Path) -> None:
    launch = Launch(tmp_path, one_in=4)
    compared = sum(launch.run(output=f"{number}.o").returncode == 0 and "g++" in launch.called for number in range(40))
    assert 2 <= compared <= 20
    (tmp_path / "none").mkdir()
    none = Launch(tmp_path / "none", one_in=0)
    assert none.run().returncode == 0 and none.called == ["sccache"]


@posix
def test_gpu_code_and_what_is_no_object_are_not_compared(tmp_path: Path) -> None:
    launch = Launch(tmp_path)
    launch.tell(there="lie")
    launch.run(launch.gpu)
    assert launch.called == ["sccache"] and launch.made == "lie"
    launch.run(output="x.i")
    assert launch.called == ["sccache"]


@posix
def test_outside_a_build_the_farm_is_left_alone(tmp_path: Path) -> None:
    launch = Launch(tmp_path)
    launch.run(REKINDLE_FARM_BUILD="")
    assert launch.called == ["g++"]


@posix
def test_what_stays_home_is_not_sent(tmp_path: Path) -> None:
    launch = Launch(tmp_path)
    (launch.farm / "home").write_text("dir/x.cpp.o\nx.cpp.o\n")
    assert launch.run().returncode == 0 and launch.called == ["g++"]
    assert launch.run(output="y.cpp.o").returncode == 0 and launch.called[0] == "sccache"


@posix
def test_where_the_tree_lies_is_told_to_the_preprocessor_alone(tmp_path: Path) -> None:
    """Else a shared cache would know each user's files under other names."""
    launch = Launch(tmp_path, one_in=0)
    flags = ["-O2", "-ffile-prefix-map=/home/a b/tree=.", "-ffile-prefix-map=/opt/env=env"]
    assert launch.run(flags=flags).returncode == 0 and launch.called == ["sccache"]
    told = "-Xpreprocessor -fmacro-prefix-map=/home/a b/tree=. -Xpreprocessor -fmacro-prefix-map=/opt/env=env"
    assert launch.words == f"-O2 {told} -c x.cpp -o x.cpp.o"
    launch.run(flags=["-g1", *flags])
    assert launch.words == f"-g1 {' '.join(flags)} -c x.cpp -o x.cpp.o"
    launch.run(flags=["-O2"])
    assert launch.words == "-O2 -c x.cpp -o x.cpp.o"


@posix
@pytest.mark.parametrize("place", ["/home/a b/tree", "/opt/env"])
def test_a_place_that_shows_through_is_hidden_by_the_compiler(tmp_path: Path, place: str) -> None:
    launch = Launch(tmp_path, one_in=0)
    launch.tell(there=f"code {place}/x.cpp")
    flags = ["-ffile-prefix-map=/home/a b/tree=.", "-ffile-prefix-map=/opt/env=env"]
    assert launch.run(flags=flags).returncode == 0 and launch.called == ["sccache", "g++"]
    assert launch.made == "code" and launch.words == f"{' '.join(flags)} -c x.cpp -o x.cpp.o"
