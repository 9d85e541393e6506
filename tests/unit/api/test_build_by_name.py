"""An extension by its name: sources from an index, a plan of its own, and Ninja where a tree did without."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import needs
from rekindle.api import extensions
from rekindle.api.build_wheels import build_script
from rekindle.api.extensions import fetch_sources, own_plan, with_own_plan, with_sources
from rekindle.build.companion import torch_of
from rekindle.build.frontend import BY_JOBSERVER, DRIVER, chooses_jobs, find_front_end
from rekindle.errors import BadInput, StageFailed
from rekindle.formats.simple_index import read_project_page, sdists_of
from rekindle.host.live import LiveHost
from rekindle.host.workspace import Workspace
from rekindle.inspect.published import Places, find_sdist
from rekindle.model.build_options import BuildOptions
from rekindle.model.document import encode
from rekindle.model.plan import BuildRecipe, Plan
from rekindle.plan.describe import machine_from_flags
from rekindle.scripts.quoting import pasted

SETUP = "from torch.utils.cpp_extension import CppExtension\n"


def sdist(folder: Path, name: str, version: str, setup: str = SETUP) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{version}.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        for file, text in (("setup.py", setup), ("PKG-INFO", f"Name: {name}\nVersion: {version}\n")):
            info = tarfile.TarInfo(f"{name}-{version}/{file}")
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))
    return path


def index(folder: Path, name: str, *files: Path, digest: str | None = None) -> Places:
    page = folder / "simple" / name
    page.mkdir(parents=True)
    links = [f'<a href="{file.as_uri()}{f"#sha256={digest}" if digest else ""}">{file.name}</a>' for file in files]
    (page / "index.html").write_text("\n".join(links), encoding="utf-8")
    return Places(indexes=((folder / "simple").as_uri(),))


def test_the_newest_sources_or_the_version_asked_for(tmp_path: Path) -> None:
    old, new, early = (sdist(tmp_path, "torch_odd", version) for version in ("1.9", "1.10", "2.0rc1"))
    places = index(tmp_path, "torch-odd", old, new, early)
    assert str(find_sdist("torch-odd", places).version) == "1.10"
    assert str(find_sdist("Torch_Odd==1.9", places).version) == "1.9"
    with pytest.raises(BadInput, match=r"no sources ==3; the newest are 2.0rc1, 1.10"):
        find_sdist("torch-odd==3", places)
    with pytest.raises(BadInput, match="no package name"):
        find_sdist("torch odd!", places)


def test_a_package_without_sources_says_what_else(tmp_path: Path) -> None:
    wheel = tmp_path / "torch_odd-1.0-py3-none-any.whl"
    wheel.touch()
    with pytest.raises(BadInput, match="only wheels of torch-odd") as refused:
        find_sdist("torch-odd", index(tmp_path, "torch-odd", wheel))
    assert "plan --with torch-odd" in (refused.value.remedy or "")


def test_a_folder_of_archives_serves_offline(tmp_path: Path) -> None:
    sdist(tmp_path / "links", "torch_odd", "1.0")
    assert str(find_sdist("torch-odd", Places(links=(str(tmp_path / "links"),))).version) == "1.0"


@pytest.mark.parametrize("form", ["html", "json"])
def test_an_index_says_what_a_file_must_be(form: str) -> None:
    digest = "AB" * 32
    pages = {
        "html": f'<a href="../x-1.0.tar.gz#sha256={digest}">x-1.0.tar.gz</a><a href="x-1.1.zip#md5=12">x-1.1.zip</a>',
        "json": '{"files": [{"filename": "x-1.0.tar.gz", "url": "x-1.0.tar.gz", "hashes": {"sha256": "'
        + digest
        + '"}}, {"filename": "x-1.1.zip", "url": "x-1.1.zip", "hashes": {"sha256": "12"}}]}',
    }
    files = read_project_page(pages[form].encode(), "https://example.org/simple/x/")
    assert [(str(one.version), one.file.sha256) for one in sdists_of(files, "x")] == [
        ("1.1", None),
        ("1.0", digest.lower()),
    ]


def test_fetched_once_and_kept(tmp_path: Path) -> None:
    places = index(tmp_path, "torch-odd", sdist(tmp_path, "torch_odd", "1.0"))
    workspace = Workspace(tmp_path / "ws")
    tree = fetch_sources("torch-odd", workspace, places=places)
    (tree / "compiled.o").touch()
    assert fetch_sources("torch-odd", workspace, places=places) == tree
    assert (tree / "compiled.o").exists(), "the same command continues"


def test_what_needs_no_torch_is_not_built(tmp_path: Path) -> None:
    places = index(tmp_path, "plain", sdist(tmp_path, "plain", "1.0", setup="from setuptools import setup\n"))
    with pytest.raises(BadInput, match=r"nothing in plain-1.0.tar.gz compiles against torch"):
        fetch_sources("plain", Workspace(tmp_path / "ws"), places=places)


def test_other_bytes_than_the_index_said_are_thrown_away(tmp_path: Path) -> None:
    from rekindle.host.download import download

    archive = sdist(tmp_path, "torch_odd", "1.0")
    with pytest.raises(StageFailed, match="thrown away"):
        download(archive.as_uri(), tmp_path / "got", sha256="0" * 64)
    right = hashlib.sha256(archive.read_bytes()).hexdigest()
    assert download(archive.as_uri(), tmp_path / "got", sha256=right).read_bytes() == archive.read_bytes()


def test_contradictions_are_named(tmp_path: Path) -> None:
    (tmp_path / "setup.py").write_text(SETUP, encoding="utf-8")
    with pytest.raises(BadInput, match="--source names a tree"):
        with_sources(BuildOptions(package="torch-odd", source=tmp_path))
    with pytest.raises(BadInput, match="which cards"):
        with_own_plan(BuildOptions(plan=tmp_path / "plan.json", gpus=("sm_80",)))
    with pytest.raises(BadInput, match="--gpu is for extensions"):
        with_own_plan(BuildOptions(source=tmp_path / "nowhere", gpus=("sm_80",)))


def companion(workspace: Path, name: str) -> Path:
    """A tree as ``source fetch --project`` leaves it; torchaudio's setup.py says nothing of cpp_extension itself."""
    project = name.partition("-")[0]
    package = workspace / "source" / name / "src" / project
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (workspace / "source" / name / "setup.py").write_text("import torch\n", encoding="utf-8")
    return workspace / "source" / name


def test_a_companion_by_its_project_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Plan(answer="build", torch="2.6.0", build=BuildRecipe(source="torch"))
    monkeypatch.setattr(extensions, "own_plan", lambda choices: made)
    asked = BuildOptions(project="torchaudio", workspace=tmp_path, against="torch==2.6.0")
    with pytest.raises(BadInput, match="holds no torchaudio tree") as refused:
        with_sources(asked)
    assert refused.value.remedy == (
        f"rekindle source fetch --project torchaudio --release 2.6.0 --workspace {pasted(str(tmp_path))}"
    ), "a line to paste that brings the very tree"
    tree = companion(tmp_path, "torchaudio-2.6.0")
    assert with_own_plan(with_sources(asked)) == replace(asked, source=tree, plan=made)
    older = companion(tmp_path, "torchaudio-0.13.1")
    assert with_sources(asked).source == tree, "of several the one for this torch"
    assert with_sources(replace(asked, against="torch==1.13.1")).source == older
    with pytest.raises(BadInput, match=r"holds torchaudio-0.13.1, torchaudio-2.6.0") as refused:
        with_sources(BuildOptions(project="torchaudio", workspace=tmp_path))
    assert refused.value.remedy == f"name one with --source {tree}"


def test_the_workspaces_plan_counts_only_if_it_is_one_to_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Plan(answer="build", torch="9.9", build=BuildRecipe(source="torch"))
    monkeypatch.setattr(extensions, "own_plan", lambda choices: made)
    (tmp_path / "setup.py").write_text(SETUP, encoding="utf-8")
    workspace = tmp_path / "ws"
    workspace.mkdir()
    asked = BuildOptions(source=tmp_path, workspace=workspace)
    assert with_own_plan(asked).plan == made
    (workspace / "plan.json").write_bytes(encode(Plan(answer="install", torch="2.6.0")))
    assert with_own_plan(asked).plan == made, "a plan to install says nothing about compilers"
    (workspace / "plan.json").write_bytes(encode(made))
    assert with_own_plan(asked).plan is None
    assert with_own_plan(replace(asked, gpus=("sm_80",))).plan == made


@pytest.mark.skipif(os.name == "nt", reason="a POSIX script")
def test_a_plan_of_its_own_for_the_cards_asked_for(tmp_path: Path) -> None:
    """The whole way to the script: wheel's Python and torch, cards by hand, nothing installed with --as-is."""
    (tmp_path / "setup.py").write_text(SETUP, encoding="utf-8")
    script = build_script(
        source=tmp_path, workspace=tmp_path / "ws", against="torch==2.11.0+cu130", gpus=("sm_80", "sm_90"),
        pythons=(sys.executable,), as_is=False,
    ).text  # fmt: skip
    assert "export TORCH_CUDA_ARCH_LIST='8.0;9.0'" in script
    assert "export FORCE_CUDA=1" in script
    assert "torch==2.11.0+cu130" in script


def test_why_there_is_no_build_and_not_why_there_is_a_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    """It said "no build is possible here: sm_50: the wheel 2.6.0+cu124 holds sm_50"."""
    monkeypatch.setattr(
        extensions,
        "this_machine",
        lambda: machine_from_flags(os="linux", arch="x86_64", glibc="2.41"),
    )
    with pytest.raises(BadInput, match=r"^no build is possible here: glibc 2\.41 .* distribution's own toolkit"):
        own_plan(BuildOptions(against="torch==2.6.0", gpus=("sm_50", "sm_90")))


@pytest.mark.parametrize("toolkit", [None, "12.4", "12.6", "13.0", "11.8"])
def test_the_cuda_of_the_torch_and_not_of_the_newest_toolkit(
    monkeypatch: pytest.MonkeyPatch, toolkit: str | None
) -> None:
    """PyPI's torch 2.6.0 for Linux is the one for CUDA 12.4: a plan for 12.6 was refused after pip had brought it."""
    flags: dict[str, Any] = {"os": "linux", "arch": "x86_64", "glibc": "2.36", "compiler": "gcc-12"}
    flags |= {"cuda": toolkit} if toolkit else {}
    monkeypatch.setattr(extensions, "this_machine", lambda: machine_from_flags(**flags))
    for named in ("torch==2.6.0", "torch==2.6.0+cu124"):
        assert own_plan(BuildOptions(against=named, gpus=("sm_50", "sm_90"))).cuda == "12.4"
    assert own_plan(BuildOptions(against="torch==2.6.0+cu118", gpus=("sm_50",))).cuda == "11.8"
    assert own_plan(BuildOptions(against="torch==2.6.0")).cuda is None, "no card, no CUDA"
    with pytest.raises(
        BadInput, match=r"that torch 2\.6\.0 is for CUDA 12\.4, .*: CUDA 12\.4 cannot .* sm_35"
    ) as refused:
        own_plan(BuildOptions(against="torch==2.6.0", gpus=("sm_35",)))
    assert "--against a torch for CUDA 11.8" in (refused.value.remedy or "")


def fake_torch(folder: Path, version: str, inner: str | None) -> str:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    said = subprocess.run(
        [str(python), "-c", "import sysconfig;print(sysconfig.get_paths()['purelib'])"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    site = Path(said.stdout.strip())
    info = site / f"torch-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n", encoding="utf-8")
    if inner:
        (site / "torch").mkdir()
        (site / "torch" / "version.py").write_text(f"__version__ = '{inner}'\n", encoding="utf-8")
    return str(python)


@needs.venv()
def test_the_torch_of_a_python_without_importing_it(tmp_path: Path) -> None:
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    host = LiveHost()
    assert torch_of(host, fake_torch(tmp_path / "a", "2.11.0", "2.11.0+cu130")) == ("2.11.0", "cu130", own)
    assert torch_of(host, fake_torch(tmp_path / "b", "2.6.0+cpu", None)) == ("2.6.0", "cpu", own)
    bare = tmp_path / "c"
    python = fake_torch(bare, "1", None)
    next(bare.rglob("torch-1.dist-info/METADATA")).unlink()
    next(bare.rglob("torch-1.dist-info")).rmdir()
    with pytest.raises(BadInput, match="has no torch"):
        torch_of(host, python)


@pytest.mark.parametrize(("word", "serial"), [("use_ninja=False", True), ("use_ninja = False", True), ("", False)])
def test_a_tree_that_does_without_ninja_is_known(tmp_path: Path, word: str, serial: bool) -> None:
    (tmp_path / "setup.py").write_text(f"{SETUP}x({word})\n", encoding="utf-8")
    argv = find_front_end(tmp_path).wheel("python", tmp_path)
    assert argv[1:3] == (["-c", DRIVER] if serial else ["setup.py", "bdist_wheel"])
    assert find_front_end(tmp_path).serial is serial


@pytest.mark.parametrize(
    ("setup", "chooses"),
    [
        ('if not os.environ.get("MAX_JOBS"):\n    os.environ["MAX_JOBS"] = str(4)\n', True),
        ("os.environ['MAX_JOBS'] = '4'\n", True),
        ('jobs = os.environ["MAX_JOBS"]\n', False),
        ('n = int(os.environ.get("MAX_JOBS", 4))\nos.environ["MAX_JOBS"] = str(n)\n', False),
        ("", False),
    ],
)
def test_a_tree_that_fixes_the_number_of_jobs_asks_the_jobserver(tmp_path: Path, setup: str, chooses: bool) -> None:
    (tmp_path / "setup.py").write_text(SETUP + setup, encoding="utf-8")
    assert chooses_jobs(setup) is chooses
    assert find_front_end(tmp_path).chooses_jobs is chooses
    assert not BY_JOBSERVER.isdigit(), "torch would take a number for one"


def test_the_driver_runs_setup_py_with_ninja_and_absolute_paths(tmp_path: Path) -> None:
    """Against a stand-in of torch's class that tells what it was given."""
    package = tmp_path / "torch" / "utils"
    package.mkdir(parents=True)
    (tmp_path / "torch" / "__init__.py").touch()
    (package / "__init__.py").touch()
    (package / "cpp_extension.py").write_text(
        "class BuildExtension:\n"
        "    def __init__(self, *given, **named):\n"
        "        self.ninja = named.get('use_ninja', True)\n"
        "    def build_extensions(self):\n"
        "        print(self.ninja, self.extensions[0].include_dirs)\n",
        encoding="utf-8",
    )
    (tmp_path / "setup.py").write_text(
        "import sys, types\n"
        "from torch.utils.cpp_extension import BuildExtension\n"
        "class Own(BuildExtension):\n"
        "    def __init__(self): super().__init__(use_ninja=False)\n"
        "made = Own()\n"
        "made.extensions = [types.SimpleNamespace(include_dirs=['csrc', '/abs'])]\n"
        "made.build_extensions()\n"
        "print(sys.argv, __name__, __file__)\n",
        encoding="utf-8",
    )
    said = subprocess.run(
        [sys.executable, "-c", DRIVER, "bdist_wheel"], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert said[0] == f"True {[str(tmp_path / 'csrc'), str(Path('/abs').absolute())]}"
    assert said[1] == "['setup.py', 'bdist_wheel'] __main__ setup.py"
