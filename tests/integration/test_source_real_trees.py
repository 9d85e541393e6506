"""Every patch and the rewriter on the real 1.13.1 and 2.6.0 trees, with a real CMake 4 as the judge."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from real_trees import VERSIONS, copy_of, differences

import needs
from rekindle.model.source import SourceTree
from rekindle.source.patches import Choice, Context, apply, choose, load_patches, status, unapply
from rekindle.source.rewrite import rewrite_cmake
from rekindle.source.tree import listed_by_setup, missing_submodules

pytestmark = [pytest.mark.integration, pytest.mark.parametrize("version", VERSIONS)]

# Patches for files of torch's own tree, per release; the others mend submodules, which Debian takes out.
EXPECTED = {
    "1.13.1": {
        "cmake4-own-lists",
        "fmt9-back-inserter",
        "functorch-clz",
        "gcc13-missing-includes",
        "gcc15-string-utils",
        "numpy2-elsize",
        "pkg-resources-packaging",
        "static-runtime-anonymous-export",
        "vc-env-setuptools74",
        "version-file-blanks",
    },
    "2.6.0": {
        "aarch64-gcc14-math-errno",
        "cpuinfo-without-amx",
        "functorch-clz",
        "rocm-version-from-hip",
        "static-runtime-anonymous-export",
        "vc-env-setuptools75",
    },
}


@pytest.fixture
def tree(version: str, tmp_path: Path) -> Path:
    return copy_of(version, tmp_path / "pytorch")


def fitting(tree: Path, version: str) -> list[Choice]:
    """Every patch whose release and files fit this tree, whatever the tools."""
    context = Context({"version": version}, tree)
    chosen = []
    for patch in load_patches("torch"):
        for block in patch.applies:
            tied = tuple(one for one in block if one.key in ("version", "file"))
            if all(one.holds(context) for one in tied):
                chosen.append(Choice(patch, "needed", "fits"))
    return chosen


def states(result: SourceTree) -> set[str]:
    return {patch.state for patch in result.patches}


def test_every_fitting_patch_goes_in_and_comes_out(tree: Path, version: str) -> None:
    chosen = fitting(tree, version)
    assert {choice.patch.id for choice in chosen} == EXPECTED[version]
    shown = apply(tree, chosen, dry_run=True)
    assert states(shown) == {"clean"} and differences(tree, version) == []
    done = apply(tree, chosen)
    assert states(done) == {"applied"}
    assert sorted(differences(tree, version)) == sorted(done.changed)
    assert apply(tree, chosen).changed == ()
    unapply(tree)
    assert differences(tree, version) == []


def test_each_alone_and_none_beyond_its_releases(tree: Path, version: str) -> None:
    for patch in load_patches("torch"):
        if patch.id in EXPECTED[version]:
            assert states(apply(tree, [patch], dry_run=True)) == {"clean"}, patch.id
        else:
            verdict = choose([patch], Context({"version": version, "compiler": "gcc 15.1", "os": "linux"}, tree))
            assert verdict[0].verdict == "not-needed", patch.id
    assert differences(tree, version) == []


def test_git_sees_what_was_changed(tree: Path, version: str) -> None:
    """git apply takes our dry-run diff, and its result is ours."""
    chosen = fitting(tree, version)
    shown = apply(tree, chosen, dry_run=True)
    assert shown.diff is not None
    apply(tree, chosen)
    ours = {path: (tree / path).read_bytes() for path in shown.changed}
    unapply(tree)
    done = subprocess.run(["git", "apply", "-"], cwd=tree, input=shown.diff.encode(), capture_output=True)
    assert done.returncode == 0, done.stderr
    assert {path: (tree / path).read_bytes() for path in shown.changed} == ours


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize("files_written", [0, 3])
def test_killed_in_the_middle(tree: Path, version: str, files_written: int) -> None:
    """A real SIGKILL after some files were written: status takes it back, patch then does it whole."""
    code = (
        "import os, signal, sys; from pathlib import Path\n"
        "from rekindle.source import journal; from rekindle.source.patches import apply, load_patches\n"
        "put, seen = journal._put, []\n"
        "def dying(*args):\n"
        "    if len(seen) == int(sys.argv[2]): os.kill(os.getpid(), signal.SIGKILL)\n"
        "    seen.append(1); return put(*args)\n"
        "journal._put = dying\n"
        "apply(Path(sys.argv[1]), [p for p in load_patches('torch') if p.id in sys.argv[3:]])\n"
    )
    wanted = sorted(EXPECTED[version])
    done = subprocess.run([sys.executable, "-c", code, str(tree), str(files_written), *wanted], capture_output=True)
    assert done.returncode == -9, done.stderr
    assert len(differences(tree, version)) == files_written
    repaired = status(tree)
    assert repaired.repaired is not None and f"{files_written} of " in repaired.repaired
    assert differences(tree, version) == []
    again = apply(tree, [patch for patch in load_patches("torch") if patch.id in wanted])
    assert states(again) == {"applied"}
    unapply(tree)
    assert differences(tree, version) == []


def test_real_cmake_agrees_with_the_rewriter(tree: Path, version: str, tmp_path: Path) -> None:
    """What we raise is exactly what CMake 4 refuses: every call in the tree, run by CMake itself."""
    cmake, _ = cmake_4()
    found = rewrite_cmake(tree, dry_run=True)
    flagged = {(change.file, change.line) for change in found.changes}
    assert set(refused_by_cmake(cmake, tree, tmp_path)) == flagged and len(flagged) >= 15
    rewrite_cmake(tree)
    assert refused_by_cmake(cmake, tree, tmp_path) == []
    assert sorted(differences(tree, version)) == sorted({change.file for change in found.changes})


def cmake_4() -> tuple[str, str]:
    """The program itself: the one on PATH of a virtual environment is a Python script that starts it."""
    try:
        import cmake as package

        program = str(Path(package.CMAKE_BIN_DIR) / "cmake")
    except (ImportError, AttributeError):
        program = "cmake"
    said = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
    found = re.search(r"version (\S+)", said)
    if found is None or int(found[1].split(".")[0]) < 4:
        pytest.skip("needs CMake 4")
    return program, found[1]


def refused_by_cmake(cmake: str, tree: Path, tmp_path: Path) -> list[tuple[str, int]]:
    """(file, line) of every plain call that ``cmake -P`` ends with an error; equal texts are run once."""
    refused = []
    verdicts: dict[str, bool] = {}
    call = re.compile(r"^[ \t]*((?:cmake_minimum_required|cmake_policy)\s*\(\s*VERSION\s[^)]*\))", re.I | re.M)
    script = tmp_path / "one.cmake"
    for path in sorted(tree.rglob("*")):
        if path.suffix not in (".txt", ".cmake", ".in") or path.is_symlink() or ".rekindle" in path.parts:
            continue
        if not re.fullmatch(r"CMakeLists\.txt(\.in)?|.*\.cmake(\.in)?", path.name):
            continue
        text = path.read_text(errors="replace")
        for match in call.finditer(text):
            if match[1] not in verdicts:
                script.write_text(match[1] + "\n")
                done = subprocess.run([cmake, "-P", str(script)], capture_output=True, text=True)
                verdicts[match[1]] = done.returncode != 0 and "has been removed" in done.stderr
            if verdicts[match[1]]:
                refused.append((path.relative_to(tree).as_posix(), text.count("\n", 0, match.start(1)) + 1))
    return refused


@needs.tool("ninja", "c++")
def test_libshm_configures_with_cmake_4(tree: Path, version: str, tmp_path: Path) -> None:
    """The real project that stopped 1.13.1: refused as it is, configured once patched."""

    cmake, number = cmake_4()

    def configure(name: str) -> subprocess.CompletedProcess[str]:
        argv = [cmake, "-G", "Ninja", "-S", str(tree / "torch/lib/libshm"), "-B", str(tmp_path / name)]
        return subprocess.run(argv, capture_output=True, text=True)

    first = configure("before")
    if version == "2.6.0":
        assert "has been removed" not in first.stderr
        return
    assert first.returncode != 0 and "Compatibility with CMake < 3.5 has been removed" in first.stderr
    needed = choose(load_patches("torch"), Context({"version": version, "cmake": number}, tree))
    assert {one.patch.id for one in needed if one.verdict == "needed"} == {"cmake4-own-lists"}
    apply(tree, needed)
    second = configure("after")
    assert second.returncode == 0, second.stderr


def test_missing_submodules_are_named(tree: Path, version: str) -> None:
    # Debian's tarball has none; our fetch fills in what takes their place.
    for name in listed_by_setup(tree):
        shutil.rmtree(tree / name, ignore_errors=True)
    missing = missing_submodules(tree)
    assert any(name.startswith("third_party/gloo (") for name in missing) and len(missing) >= 5
