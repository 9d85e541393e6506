"""An application is recognised by its folder, with its version, its Python and what it and its extensions require."""

from __future__ import annotations

from pathlib import Path

import pytest

from app_trees import add_extension, add_python, make_app
from rekindle.errors import BadInput
from rekindle.facts import load_facts
from rekindle.interpreters.app_folder import (
    conflicts_with,
    extension_files,
    find_app,
    find_app_name,
    read_app_use,
    wanted_packages,
)
from rekindle.model.companion import AppUse, Wanted

LINUX = {"python_version": "3.12", "python_full_version": "3.12.1", "sys_platform": "linux", "extra": ""}


@pytest.mark.parametrize("name", load_facts().apps.app)
def test_every_application_is_known_by_its_own_marks(name: str, tmp_path: Path) -> None:
    app = load_facts().apps.app[name]
    folder = make_app(tmp_path / "a folder", name)
    python = add_python(folder / app.pythons[0])
    found = find_app(folder, load_facts(), windows=False)
    assert (found.name, found.root) == (name, folder)
    assert found.python is not None and found.python.resolve() == python.resolve()


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("ComfyUI", "comfyui"),
        ("A1111", "automatic1111"),
        ("SD.Next", "sdnext"),
        ("text generation webui", "text-generation-webui"),
        ("Kohya_ss", "kohya-ss"),
        ("oobabooga", "text-generation-webui"),
    ],
)
def test_names_as_people_write_them(text: str, name: str) -> None:
    assert find_app_name(text, load_facts()) == name


def test_the_portable_edition_has_its_python_beside_it(tmp_path: Path) -> None:
    make_app(tmp_path, "comfyui", version="0.38.1", inside="ComfyUI")
    python = add_python(tmp_path / "python_embeded", windows=True)
    for folder in (tmp_path, tmp_path / "ComfyUI"):
        found = find_app(folder, load_facts(), windows=True)
        assert (found.python, found.version, found.words) == (python, "0.38.1", "ComfyUI 0.38.1")
    assert find_app(tmp_path, load_facts(), windows=False).python is None


@pytest.mark.parametrize("place", ["dlbackend/ComfyUI", "dlbackend/comfy/ComfyUI"])
def test_the_torch_of_swarmui_is_that_of_the_comfyui_inside(tmp_path: Path, place: str) -> None:
    make_app(tmp_path, "swarmui")
    (tmp_path / place).mkdir(parents=True)
    (tmp_path / place / "comfyui_version.py").write_text('__version__ = "0.28.4"\n', encoding="utf-8")
    found = find_app(tmp_path, load_facts())
    assert (found.use, found.words) == (AppUse(name="comfyui", version="0.28.4"), "SwarmUI")
    assert read_app_use("swarmui", load_facts()) == AppUse(name="comfyui")
    assert read_app_use("swarmui==0.9.8", load_facts()) == AppUse(name="comfyui"), "its own version says nothing"


def test_a_fork_is_not_taken_for_its_origin(tmp_path: Path) -> None:
    make_app(tmp_path / "forge", "forge")
    make_app(tmp_path / "forge", "automatic1111")
    assert find_app(tmp_path / "forge", load_facts()).name == "forge"


def test_an_application_of_the_index_is_known_by_its_environment(tmp_path: Path) -> None:
    add_python(tmp_path / ".venv")
    (tmp_path / ".venv/lib/python3.12/site-packages/vllm-0.10.2.dist-info").mkdir(parents=True)
    for folder in (tmp_path, tmp_path / ".venv"):
        found = find_app(folder, load_facts(), windows=False)
        assert (found.name, found.version) == ("vllm", "0.10.2")


def test_the_installed_version_says_itself_which_torch_it_takes(tmp_path: Path) -> None:
    """vLLM 0.33.0 asks for torch 2.14.0; what is known of an older version is not asked then."""
    add_python(tmp_path / ".venv")
    information = tmp_path / ".venv/lib/python3.12/site-packages/vllm-0.33.0.dist-info"
    information.mkdir(parents=True)
    assert find_app(tmp_path, load_facts(), windows=False).use == AppUse(name="vllm", version="0.33.0", python="3.12")
    others = ("torch<1; sys_platform == 'plan9'", "torch<2; python_version < '3.12'", "torchaudio<9")
    stated = "".join(f"Requires-Dist: {one}\n" for one in ("torch==2.14.0", *others))
    (information / "METADATA").write_text(
        f"Name: vllm\nVersion: 0.33.0\n{stated}\nRequires-Dist: torch==0", encoding="utf-8"
    )
    found = find_app(tmp_path, load_facts(), windows=False)
    assert found.use == AppUse(name="vllm", version="0.33.0", torch="==2.14.0", python="3.12")
    (information / "METADATA").write_bytes(b"\xff\x00Requires-Dist: torch ;;; ==\n" * 9)
    assert find_app(tmp_path, load_facts(), windows=False).torch is None


@pytest.mark.parametrize(("name", "text"), [("python312.dll", ""), ("pyvenv.cfg", "home = x\nversion = 3.12.4\n")])
def test_the_python_of_an_application_is_told_by_its_files(tmp_path: Path, name: str, text: str) -> None:
    make_app(tmp_path, "comfyui", version="0.38.1")
    add_python(tmp_path / "venv", windows=True)
    place = tmp_path / "venv"
    assert find_app(tmp_path, load_facts(), windows=True).use.python is None
    (place / name).write_text(text, encoding="utf-8")
    assert find_app(tmp_path, load_facts(), windows=True).use.python == "3.12"


def test_a_folder_of_something_else_is_refused_with_what_is_known(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no application") as caught:
        find_app(tmp_path, load_facts())
    assert "ComfyUI" in (caught.value.remedy or "")
    with pytest.raises(BadInput, match="there is no folder"):
        find_app(tmp_path / "none", load_facts())


def test_what_a_plan_is_for_may_be_a_name_a_version_or_a_folder(tmp_path: Path) -> None:
    facts = load_facts()
    assert read_app_use("vllm==0.10.2", facts) == AppUse(name="vllm", version="0.10.2")
    assert read_app_use("comfy", facts) == AppUse(name="comfyui")
    make_app(tmp_path, "comfyui", version="0.30.1")
    assert read_app_use(str(tmp_path), facts) == AppUse(name="comfyui", version="0.30.1")
    with pytest.raises(BadInput, match="neither") as caught:
        read_app_use("comfyuii", facts)
    assert caught.value.remedy == "did you mean comfyui?"
    with pytest.raises(BadInput, match="no version"):
        read_app_use("vllm==new", facts)


def test_requirements_of_the_application_and_of_every_extension_are_read(tmp_path: Path) -> None:
    make_app(tmp_path, "comfyui")
    (tmp_path / "requirements.txt").write_text("-r more.txt\ntorch>=2.7  # a remark\nnumpy\n", encoding="utf-8")
    (tmp_path / "more.txt").write_text("--extra-index-url https://x.invalid\nTorchVision\n-r requirements.txt\n")
    add_extension(tmp_path, "old", "torch==2.4.0 ; sys_platform == 'linux'\ntorch==2.1 ; sys_platform == 'win32'\n")
    add_extension(
        tmp_path, "address", "https://x.invalid/torch-2.3.1%2Bcu118-cp312-cp312-linux_x86_64.whl\nnot a line !\n"
    )
    add_extension(tmp_path, "off.disabled", "torch==1.0\n")
    found = find_app(tmp_path, load_facts())
    assert [name for name, _ in extension_files(found)] == ["address", "old"]
    stated = wanted_packages(found, ["torch", "torchvision"], LINUX)
    assert [(one.extension, one.requirement.partition(";")[0].strip()) for one in stated] == [
        (None, "TorchVision"),
        (None, "torch>=2.7"),
        ("address", "torch==2.3.1+cu118"),
        ("old", "torch==2.4.0"),
    ]
    against = conflicts_with(stated, {"torch": "2.9.1+cu126", "torchvision": "0.24.1"})
    assert [one.extension for one in against] == ["address", "old"]


def test_what_nobody_brings_conflicts_with_nothing() -> None:
    wanted = [Wanted(requirement="torch==2.4", file="x")]
    assert conflicts_with(wanted, {}) == () and conflicts_with(wanted, {"torch": "odd version"}) == ()
