"""What is read of an application's folder, and how much of it: nothing that lies there is trusted to be small."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from app_trees import add_extension, add_python, make_app
from rekindle.errors import BadInput
from rekindle.facts import load_facts
from rekindle.interpreters.app_folder import (
    AppFolder,
    conflicts_with,
    extension_files,
    find_app,
    find_app_name,
    marker_values,
    named_packages,
    read_app_use,
    wanted_packages,
)
from rekindle.model.companion import AppUse, Wanted

FACTS = load_facts()
ANY = {"python_version": "3.12", "python_full_version": "3.12.1", "sys_platform": "linux", "extra": ""}


def wishes(folder: AppFolder) -> list[str]:
    return [wish.requirement for wish in wanted_packages(folder, ["torch"], ANY)]


@pytest.fixture
def comfy(tmp_path: Path) -> Callable[[str], list[str]]:
    """What a ComfyUI with these requirements wants of torch."""
    make_app(tmp_path, "comfyui")

    def read(text: str) -> list[str]:
        (tmp_path / "requirements.txt").write_text(text, encoding="utf-8")
        return wishes(find_app(tmp_path, FACTS))

    return read


def test_a_file_of_requirements_is_read_up_to_a_bound(comfy: Callable[[str], list[str]]) -> None:
    last = "\ntorch>=2"
    most = (256 << 10) - len(last) - 1
    assert comfy("#" + "x" * most + last) == ["torch>=2"]
    assert comfy("#" + "x" * (most + 1) + last) == [], "the rest is cut off"


def test_files_that_include_each_other_end(comfy: Callable[[str], list[str]], tmp_path: Path) -> None:
    for number in range(1, 30):
        (tmp_path / f"r{number}.txt").write_text(f"-r r{number + 1}.txt\ntorch=={number}\n", encoding="utf-8")
    assert comfy("-r r1.txt\n") == [f"torch=={number}" for number in range(20, 0, -1)], "one and twenty more"
    assert comfy("-r requirements.txt\ntorch==1\n") == ["torch==1"]


@pytest.mark.parametrize("line", ["-r more.txt", "-rmore.txt", "--requirement more.txt", "--requirement=more.txt  # x"])
def test_a_file_is_included_in_every_spelling(comfy: Callable[[str], list[str]], tmp_path: Path, line: str) -> None:
    (tmp_path / "more.txt").write_text("torch==2.6\n", encoding="utf-8")
    assert comfy(f"{line}\nnumpy\n") == ["torch==2.6"]


@pytest.mark.parametrize(
    ("line", "wish"),
    [
        ("https://x.invalid/torch-2.3.1-cp312-cp312-win_amd64.whl ; sys_platform == 'win32'", None),
        ("http://x.invalid/torch-2.3.1-cp312-cp312-linux_x86_64.whl;sys_platform == 'linux'", "torch==2.3.1"),
        ("https://x.invalid/torch.zip", None),
        ("https://x.invalid/torch-new-cp312-cp312-win_amd64.whl", None),
        ("torch ; colour == 'red'", None),
        ("Torch>=2 ; python_version >= '3.12'", "Torch>=2"),
        ("torch>=2 ; python_version < '3.12'", None),
        ("torch @ https://x.invalid/torch.zip", "torch"),
        ("torchvision>=1", None),
    ],
)
def test_a_line_counts_where_it_is_about_torch_and_applies(line: str, wish: str | None) -> None:
    found = [str(one).partition(";")[0].partition("@")[0].strip() for one in named_packages([line], ["TORCH"], ANY)]
    assert found == ([wish] if wish else [])


def test_a_preview_satisfies_what_its_release_would() -> None:
    stated = [Wanted(requirement="torch>=2.9", file="x"), Wanted(requirement="torch<2.9", file="y")]
    assert conflicts_with(stated, {"torch": "2.10.0.dev20260101+cu130"}) == (stated[1],)


def test_markers_speak_of_the_python_that_is_named() -> None:
    ours = marker_values()
    assert ours["python_version"] == "{}.{}".format(*sys.version_info) and "extra" in ours
    named = marker_values("3.9", "3.9.7")
    assert (named["python_version"], named["python_full_version"]) == ("3.9", "3.9.7")
    assert named["sys_platform"] == ours["sys_platform"] == sys.platform
    assert marker_values("3.9")["python_full_version"] == ours["python_full_version"]


def test_an_extension_counts_unless_it_is_switched_off(tmp_path: Path) -> None:
    """One application renames what is off; of another that does not, every name counts."""
    make_app(tmp_path / "comfy", "comfyui")
    make_app(tmp_path / "webui", "automatic1111")
    for name in ("b", "a", "c.disabled"):
        add_extension(tmp_path / "comfy", name, "")
        add_extension(tmp_path / "webui", name, "", below="extensions")
    on = {
        place: [name for name, _ in extension_files(find_app(tmp_path / place, FACTS))] for place in ("comfy", "webui")
    }
    assert on == {"comfy": ["a", "b"], "webui": ["a", "b", "c.disabled"]}


def test_there_may_be_very_many_extensions(tmp_path: Path) -> None:
    make_app(tmp_path, "comfyui")
    for number in range(2001):
        add_extension(tmp_path, f"n{number}", "")
    assert sum(1 for _ in extension_files(find_app(tmp_path, FACTS))) == 2000


def test_the_version_stands_in_the_head_of_its_file(tmp_path: Path) -> None:
    make_app(tmp_path, "comfyui")
    file = tmp_path / "comfyui_version.py"
    for before, version in ((0, "0.3"), (4093, "0.3"), (4094, None)):
        file.write_text(" " * before + "0.3", encoding="utf-8")
        assert find_app(tmp_path, FACTS).version == version
    file.write_bytes(b'\xef\xbb\xbf\xff version "10.2.30"')
    assert find_app(tmp_path, FACTS).words == "ComfyUI 10.2.30"


def test_the_first_file_that_names_a_version_counts(tmp_path: Path) -> None:
    make_app(tmp_path, "swarmui")
    for place, text in (("ComfyUI", "no number"), ("comfy/ComfyUI", "0.3.1")):
        (tmp_path / "dlbackend" / place).mkdir(parents=True)
        (tmp_path / "dlbackend" / place / "comfyui_version.py").write_text(text, encoding="utf-8")
    assert find_app(tmp_path, FACTS).version == "0.3.1"


def test_an_application_with_a_package_and_marks_tells_the_version_of_the_package(tmp_path: Path) -> None:
    make_app(tmp_path, "invokeai")
    app = FACTS.apps.app["invokeai"]
    found = find_app(tmp_path, FACTS, windows=False)
    assert (found.name, found.python, found.version, found.torch) == ("invokeai", None, None, None)
    home = tmp_path / app.pythons[0]
    add_python(home)
    information = home / "lib/python3.12/site-packages/invokeai-6.9.0.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text("Requires-Dist: torch~=2.7.0\nRequires-Dist: torch>2\n", encoding="utf-8")
    found = find_app(tmp_path, FACTS, windows=False)
    assert found.version == "6.9.0" and set((found.torch or "").split(",")) == {"~=2.7.0", ">2"}


def test_on_windows_a_package_lies_in_lib(tmp_path: Path) -> None:
    exe = tmp_path / ".venv/Scripts/python.exe"
    exe.parent.mkdir(parents=True)
    exe.touch()
    (tmp_path / ".venv/Lib/site-packages/vllm-0.10.2rc1.dist-info").mkdir(parents=True)
    found = find_app(tmp_path, FACTS, windows=True)
    assert (found.name, found.version, found.python, found.torch) == ("vllm", "0.10.2", exe, None)
    with pytest.raises(BadInput, match="no application"):
        find_app(tmp_path, FACTS, windows=False)


def test_a_python_beside_an_application_is_any_of_its_names(tmp_path: Path) -> None:
    make_app(tmp_path, "comfyui")
    second = tmp_path / ".venv/bin/python3"
    second.parent.mkdir(parents=True)
    second.touch()
    assert find_app(tmp_path, FACTS, windows=False).python == second
    (tmp_path / "venv/bin/python").mkdir(parents=True)
    assert find_app(tmp_path, FACTS, windows=False).python == second, "a folder is no program"
    (tmp_path / "lib/python3.11").mkdir(parents=True)
    assert find_app(tmp_path, FACTS, windows=False).use == AppUse(name="comfyui")
    (tmp_path / ".venv/lib/python3.11").mkdir(parents=True)
    assert find_app(tmp_path, FACTS, windows=False).use == AppUse(name="comfyui", python="3.11")


def test_a_name_that_is_near_none_gets_the_list() -> None:
    with pytest.raises(BadInput, match="neither") as refused:
        read_app_use("quite something else", FACTS)
    assert (refused.value.remedy or "").startswith("known are automatic1111, comfyui")
    with pytest.raises(BadInput, match="'x1' is no version") as refused:
        read_app_use("comfy==x1", FACTS)
    assert refused.value.remedy == "for example --for comfyui==1.2.3"
    assert find_app_name("", FACTS) is None


def test_a_folder_may_be_told_from_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    make_app(tmp_path / "ui", "comfyui")
    assert find_app(Path("~/ui"), FACTS).root == tmp_path / "ui"
