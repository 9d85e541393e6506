"""Packs: what goes in for which machine, what is refused, and that any change of a finished one is noticed."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import random
import shutil
import signal
import subprocess
import sys
import tarfile
from pathlib import Path
from unittest import mock

import msgspec
import pytest

import needs
from rekindle.errors import BadInput, RekindleError, StageFailed
from rekindle.host.files import write_atomically
from rekindle.host.keys import new_key
from rekindle.interpreters.other_machine import OtherMachine
from rekindle.journey import pack as packing
from rekindle.journey import pack_folder
from rekindle.journey.pack_folder import pack_check, pack_links, up_from_pack
from rekindle.model.document import load
from rekindle.model.journey import Package, UpOptions
from rekindle.model.pack import Pack, PackOptions
from rekindle.model.plan import BuildRecipe, Plan, Reason, Request, Wish
from rekindle.model.progress import Silent
from rekindle.scripts.pack_install import _PIP, SIGNATURE, SUMS, listed_in, problems_of
from tiny_packs import THIS_PYTHON, make_pack, plan_for, shelf
from tiny_wheels import make_wheel

ARCH = {"arm64": "aarch64", "amd64": "x86_64"}.get(platform.machine().lower(), platform.machine().lower())


@pytest.fixture(scope="module")
def links(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shelf(tmp_path_factory.mktemp("shelf"))


@pytest.fixture(scope="module")
def finished(links: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pack for this very machine, in a folder with spaces and letters beyond ASCII."""
    out = tmp_path_factory.mktemp("out") / "päck für Ł"
    made = make_pack(plan_for(arch=ARCH), links, out)
    assert made.packages
    return out


def names(pack: Pack) -> set[str]:
    return {package.name for package in pack.packages}


def test_the_closure_is_that_of_the_other_platform(links: Path, tmp_path: Path) -> None:
    windows = make_pack(plan_for("windows", "x86_64", "3.12"), links, tmp_path / "w")
    linux = make_pack(plan_for("linux", "x86_64", "3.9"), links, tmp_path / "l")
    arm = make_pack(plan_for("linux", "aarch64", "3.12"), links, tmp_path / "a")
    shared = {"torch", "everywhere", "beside", "deeper", "numpy", "pip"}
    assert names(windows) == shared | {"on-windows"}
    assert names(linux) == shared | {"on-linux"}
    assert names(arm) == shared
    assert (tmp_path / "w/wheels/torch-1.0-py3-none-win_amd64.whl").is_file()
    assert (tmp_path / "w/install.bat").is_file() and not (tmp_path / "w/install.sh").exists()
    assert (tmp_path / "l/install.sh").is_file()
    assert windows.install[0].strip('"').endswith("install.bat") and linux.install[0].startswith("sh ")
    assert windows.left_out[0] == "gone (none): nobody has it"
    assert any("Python 3.12 itself" in words for words in windows.left_out)


def test_what_a_pack_says(finished: Path) -> None:
    made = load(finished / "pack.json", Pack)
    assert made.title == "torch 1.0" and made.python == THIS_PYTHON and not made.folder and made.card is None
    readme = (finished / "README.txt").read_text("utf-8")
    assert "it holds code for the card" in readme and "Needs driver 525." in readme and "gone (none)" in readme
    assert (finished / "constraints.txt").read_text("utf-8").endswith("torch==1.0\n")
    for package in made.packages:
        assert f"{package.name}==={package.version} --hash=sha256:{package.sha256}" in (
            finished / "requirements.txt"
        ).read_text("utf-8")
    for name, digest in listed_in(finished).items():
        assert hashlib.sha256((finished / name).read_bytes()).hexdigest() == digest


def test_a_whole_pack_is_good(finished: Path) -> None:
    checked = pack_check(finished)
    assert checked.good and checked.title == "torch 1.0" and checked.files > 10
    assert "nobody signed it" in checked.notes[0]


def test_one_byte_anywhere_is_noticed(finished: Path, tmp_path: Path) -> None:
    for path in sorted(path for path in finished.rglob("*") if path.is_file()):
        copy = tmp_path / "copy"
        shutil.copytree(finished, copy)
        changed = copy / path.relative_to(finished)
        raw = bytearray(changed.read_bytes())
        place = random.Random(path.name).randrange(len(raw))
        raw[place] ^= 1
        changed.write_bytes(raw)
        assert not pack_check(copy).good, path
        shutil.rmtree(copy)


@needs.links()
def test_hostile_folders_are_refused(finished: Path, tmp_path: Path) -> None:
    def spoilt(spoil: object) -> str:
        copy = tmp_path / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(finished, copy)
        spoil(copy)  # type: ignore[operator]
        return " ".join(problems_of(copy))

    wheel = next((finished / "wheels").glob("torch-*")).name
    outside = tmp_path / "outside"
    outside.write_text("x")
    digest = hashlib.sha256(b"x").hexdigest()

    def linked(copy: Path) -> None:
        content = (copy / "wheels" / wheel).read_bytes()
        (copy / "wheels" / wheel).unlink()
        (tmp_path / "same").write_bytes(content)
        (copy / "wheels" / wheel).symlink_to(tmp_path / "same")

    def linked_folder(copy: Path) -> None:
        (copy / "wheels").rename(tmp_path / "wheels elsewhere")
        (copy / "wheels").symlink_to(tmp_path / "wheels elsewhere", target_is_directory=True)

    def named(*lines: str) -> object:
        return lambda copy: (copy / SUMS).write_text((copy / SUMS).read_text("utf-8") + "".join(lines), "utf-8")

    assert f"wheels/{wheel} is a link" in spoilt(linked)
    assert "wheels is a link" in spoilt(linked_folder)
    assert "names no file of a pack" in spoilt(named(f"{digest}  ../outside\n"))
    assert "names no file of a pack" in spoilt(named(f"{digest}  /etc/passwd\n"))
    assert "names no file of a pack" in spoilt(named(f"{digest}  C:\\x\n"))
    assert "names no file of a pack" in spoilt(named(f"{digest}  wheels/./x\n"))
    assert "named twice" in spoilt(named(f"{digest}  PACK.json\n"))
    assert "cut short" in spoilt(named(f"{digest}  x"))
    assert "is not of this pack" in spoilt(lambda copy: (copy / "wheels" / "extra-1-py3-none-any.whl").write_text("x"))
    assert "is missing" in spoilt(lambda copy: (copy / "plan.json").unlink())
    assert "not finished" in spoilt(lambda copy: (copy / SUMS).unlink())
    if hasattr(os, "mkfifo"):
        assert "is no plain file" in spoilt(lambda copy: os.mkfifo(copy / "pipe"))


def test_a_folder_with_anything_else_is_left_alone(links: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("x")
    with pytest.raises(BadInput, match="no part of a pack"):
        make_pack(plan_for(), links, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


@needs.links()
def test_a_link_in_the_folder_is_refused(links: Path, tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "away").mkdir()
    (tmp_path / "p" / "wheels").symlink_to(tmp_path / "away", target_is_directory=True)
    with pytest.raises(BadInput, match="is a link"):
        make_pack(plan_for(), links, tmp_path / "p")
    assert not any((tmp_path / "away").iterdir())


def test_a_dry_run_writes_nothing(links: Path, tmp_path: Path) -> None:
    made = make_pack(plan_for("windows", "x86_64", "3.12"), links, tmp_path / "p", dry_run=True)
    assert not (tmp_path / "p").exists() and not made.files
    assert made.card is not None and made.card.packages == len(made.packages) and made.card.download_bytes


def test_a_no_leaves_nothing(links: Path, tmp_path: Path) -> None:
    options = PackOptions(out=tmp_path / "p", find_links=(str(links),), offline=True)
    with mock.patch.object(packing, "make_plan", lambda *words: plan_for()), pytest.raises(BadInput, match="a yes"):
        packing.pack(mock.Mock(os=mock.Mock(glibc="2.28")), None, options, confirm=lambda plan, card: not card())
    assert not (tmp_path / "p").exists()


def test_an_index_that_does_not_answer_is_said_before_pip_tries(tmp_path: Path) -> None:
    options = PackOptions(out=tmp_path / "p", index="http://127.0.0.1:9/simple")
    with mock.patch.object(packing, "make_plan", lambda *words: plan_for()), pytest.raises(StageFailed) as refused:
        packing.pack(mock.Mock(os=mock.Mock(glibc="2.28")), None, options)
    assert refused.value.message.startswith("no network: http://127.0.0.1:9/simple does not answer")
    assert "--find-links DIR" in (refused.value.remedy or "")


def test_what_has_no_wheel_is_refused_with_the_way_out(links: Path, tmp_path: Path) -> None:
    with pytest.raises(StageFailed, match="must be built") as told:
        make_pack(plan_for(answer="build"), links, tmp_path / "p")
    assert "--wheel" in (told.value.remedy or "") and "--source" in (told.value.remedy or "")
    with pytest.raises(StageFailed, match="must be grafted"):
        make_pack(plan_for(answer="graft"), links, tmp_path / "p", source=True)
    none = plan_for(answer="none", because=(Reason(code="x", text="too old"),))
    with pytest.raises(StageFailed, match="too old"):
        make_pack(none, links, tmp_path / "p")
    with pytest.raises(BadInput, match="not for macos"):
        make_pack(msgspec.structs.replace(plan_for("macos")), links, tmp_path / "p")


def test_a_wheel_of_ones_own_is_packed(links: Path, tmp_path: Path) -> None:
    own = make_wheel(tmp_path, "torch", "1.0+mine", tag="py3-none-manylinux_2_17_x86_64")
    made = make_pack(plan_for(answer="build", companions=(), requests=()), links, tmp_path / "p", wheel=own)
    assert made.torch == "1.0+mine" and (tmp_path / "p/wheels" / own.name).read_bytes() == own.read_bytes()
    other = make_wheel(tmp_path, "torch", "1.0+mine", tag="py3-none-win_amd64")
    with pytest.raises(RekindleError):
        make_pack(plan_for(answer="build", companions=(), requests=()), links, tmp_path / "q", wheel=other)


def test_an_index_that_names_another_file_is_refused(tmp_path: Path) -> None:
    package = Package(name="torch", version="1.0", url="https://x.invalid/..%2f..%2fevil.sh")
    work = packing._Packing(
        options=PackOptions(out=tmp_path / "p"),
        plan=plan_for(),
        other=OtherMachine(system="linux", arch="x86_64", python="3.12", glibc="2.28"),
        progress=Silent(),
    )
    with pytest.raises(StageFailed, match="no wheel of torch"):
        work.fetch(package, 1, [package])


@needs.posix("a child is forked and killed")
def test_killed_at_ten_moments_it_is_no_pack_and_is_continued(links: Path, tmp_path: Path) -> None:
    out = tmp_path / "p"
    resolved = make_pack(plan_for(), links, out, dry_run=True).packages

    def killed_at(moment: int) -> None:
        """In a child: before its n-th file, fetched or written, the process is gone without a word."""
        count = 0

        def count_or_die(real: object) -> object:
            def call(*words: object, **more: object) -> object:
                nonlocal count
                count += 1
                if count == moment:
                    os.kill(os.getpid(), signal.SIGKILL)
                return real(*words, **more)  # type: ignore[operator]

            return call

        for module, name in ((packing, "download"), (pack_folder, "write_atomically")):
            setattr(module, name, count_or_die(getattr(module, name)))
        make_pack(plan_for(), links, out)
        os._exit(0)

    with mock.patch.object(packing._Packing, "resolve", lambda self: resolved):
        for moment in (1, 2, 4, 7, 8, 9, 11, 13, 14, 15):
            for path in out.glob("*.*"):
                path.unlink()  # what is there as it should be is not written again
            child = os.fork()
            if child == 0:
                killed_at(moment)
            assert os.WIFSIGNALED(os.waitpid(child, 0)[1]), f"moment {moment} was never reached"
            assert not pack_check(out).good
        (out / "wheels" / "torch-1.0-py3-none-manylinux_2_17_x86_64.whl.part").write_bytes(b"half")
        (out / ".pack.json.abc").write_bytes(b"half")
        (out / "wheels" / "stale-1.0-py3-none-any.whl").write_bytes(b"of another pack")
        make_pack(plan_for(), links, out)
    assert pack_check(out).good
    assert not list(out.rglob("*.part")) and not list(out.rglob("stale*"))


def test_a_full_disk_is_said_and_the_pack_continues(links: Path, tmp_path: Path) -> None:
    real = write_atomically

    def full(path: Path, content: bytes | str) -> None:
        if path.name == "plan.json":
            raise OSError(28, "No space left on device", str(path))
        real(path, content)

    with mock.patch.object(pack_folder, "write_atomically", full), pytest.raises(OSError, match="No space"):
        make_pack(plan_for(), links, tmp_path / "p")
    assert not pack_check(tmp_path / "p").good
    make_pack(plan_for(), links, tmp_path / "p")
    assert pack_check(tmp_path / "p").good


def test_too_small_a_disk_is_refused_before(links: Path, tmp_path: Path) -> None:
    with mock.patch.object(packing, "free_bytes", lambda place: 0), pytest.raises(StageFailed, match="are free at"):
        make_pack(plan_for(), links, tmp_path / "p")
    assert not (tmp_path / "p").exists()


def test_signatures(links: Path, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cryptography")
    monkeypatch.setenv("REKINDLE_KEYS", str(tmp_path / "keys"))
    mine, other = new_key("mine"), new_key("other", tmp_path / "else")
    out = tmp_path / "p"
    assert make_pack(plan_for(), links, out, sign="mine").signed == "mine"
    assert pack_check(out).signed == "mine" and pack_check(out).good
    assert pack_check(out, keys=[mine.path]).good
    assert not pack_check(out, keys=[other.path]).good
    assert not pack_check(finished, keys=[mine.path]).good, "unsigned, and a key was asked for"
    raw = json.loads((out / SIGNATURE).read_bytes())
    raw["signatures"][0]["sig"] = raw["signatures"][0]["sig"][::-1]
    (out / SIGNATURE).write_text(json.dumps(raw))
    assert not pack_check(out).good
    (out / SIGNATURE).unlink()
    assert pack_check(out).good and pack_check(out).signed is None


def test_up_takes_a_pack(finished: Path, tmp_path: Path) -> None:
    told = up_from_pack(UpOptions(find_links=(str(finished), "https://x.invalid/"), offline=True))
    assert told.find_links == (str(finished / "wheels"), "https://x.invalid/")
    assert told.wish.torch == "1.0" and told.python == THIS_PYTHON and told.torch_only
    asked = up_from_pack(UpOptions(find_links=(str(finished),), wish=Wish(torch="2.0"), venv=tmp_path))
    assert asked.wish.torch == "2.0" and asked.python is None
    plain = UpOptions(find_links=("somewhere",))
    assert up_from_pack(plain) is plain
    copy = tmp_path / "copy"
    shutil.copytree(finished, copy)
    (copy / "plan.json").write_text("{}")
    with pytest.raises(StageFailed, match=r"plan\.json was changed"):
        pack_links([str(copy)])


@needs.posix("the script is for a POSIX shell")
@needs.venv()
def test_the_script_installs_and_refuses(finished: Path, tmp_path: Path) -> None:
    def install(folder: Path, *words: str) -> tuple[int, str]:
        env = {"PATH": os.environ["PATH"], "PYTHON": sys.executable, "PIP_INDEX_URL": "https://x.invalid/"}
        done = subprocess.run(
            ["sh", str(folder / "install.sh"), *words],
            env=env,
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=300,
        )
        return done.returncode, done.stdout + done.stderr

    place = tmp_path / "plâce with spaces"
    code, text = install(finished, str(place))
    assert code == 0, text
    found = subprocess.run(
        [str(place / "bin/python"), "-c", "import torch, beside, deeper; print(torch.__version__)"],
        capture_output=True,
        text=True,
    )
    assert found.stdout.strip() == "1.0", found.stderr
    assert (place / "constraints.txt").is_file()
    code, text = install(finished, str(place))
    assert code == 2 and "is there already" in text
    (place / "rekindle-pack-begun").write_bytes(b"")
    assert install(finished, str(place), "--skip-proof")[0] == 0, "what was cut short is begun anew"
    for name in ("install.py", "plan.json", "install.sh", SUMS):
        copy = tmp_path / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(finished, copy)
        (copy / name).write_bytes((copy / name).read_bytes() + b"\n")
        code, text = install(copy, str(tmp_path / "never"))
        assert code == 2 and "NOT INSTALLED" in text and not (tmp_path / "never").exists(), (name, text)


def test_the_pip_of_a_pack_is_not_started_under_its_own_name(tmp_path: Path) -> None:
    """On Windows pip refuses to install a pip where the program that runs is called pip."""
    body = b"import sys; print(sys.argv)"
    wheel = make_wheel(tmp_path, "pip", files={"pip/__init__.py": b"", "pip/__main__.py": body})
    done = subprocess.run(
        [sys.executable, "-I", "-c", _PIP, str(wheel), "install", "x"], capture_output=True, text=True
    )
    assert done.stdout.strip() == "['-c', 'install', 'x']", done.stderr


@needs.posix("the script is for a POSIX shell")
def test_the_script_names_the_python_it_wants(links: Path, tmp_path: Path) -> None:
    make_pack(plan_for(arch=ARCH, python="3.7"), links, tmp_path / "p", torch_only=True)
    done = subprocess.run(["sh", str(tmp_path / "p/install.sh")], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2 and "there is no Python 3.7 here" in done.stderr


def test_another_machine_is_refused(finished: Path) -> None:
    from rekindle.scripts.pack_install import NotInstalled, refuse_other_machine

    pack = json.loads((finished / "pack.json").read_bytes())
    refuse_other_machine(pack)
    for change in ({"python": "2.7"}, {"system": "plan9"}, {"arch": "riscv64"}):
        with pytest.raises(NotInstalled, match="the pack is for"):
            refuse_other_machine({**pack, **change})


def test_requests_by_limit_hold(links: Path, tmp_path: Path) -> None:
    make_wheel(links, "numpy", "2.0")
    limited = plan_for(
        requests=(Request(name="torch", version="1.0"), Request(name="numpy", specifier="<2")), numpy="<2"
    )
    made = make_pack(limited, links, tmp_path / "p")
    assert {one.name: one.version for one in made.packages}["numpy"] == "1.0"


def test_sources_for_a_build_go_in(links: Path, tmp_path: Path) -> None:
    """The tree without git's folders and anybody's name, patches, tools with what they need, and the script."""
    for name in ("setuptools", "wheel", "cmake", "ninja", "pyyaml"):
        make_wheel(links, name)

    def fetch(target: Path, **more: object) -> None:
        (target / ".git").mkdir(parents=True)
        (target / ".git" / "config").write_text("secret")
        (target / ".gitmodules").write_text("")
        (target / "setup.py").write_text("")
        (target / "requirements.txt").write_text("# tools\npyyaml\nnowhere>=3\n-r other.txt\n")

    recipe = BuildRecipe(
        source="v2.6.0", compiler="gcc-11", toolchain={"cuda": "11.8: get it there"}, packages=("libfmt-dev",)
    )
    plan = plan_for(answer="build", torch="2.6.0", companions=(), requests=(), build=recipe)
    out = tmp_path / "p"
    with mock.patch.object(pack_folder, "source_fetch", fetch):
        made = make_pack(plan, links, out, source=True)
    assert not made.packages and not made.install and pack_check(out).good
    assert {path.name.split("-")[0] for path in (out / "source/tools").iterdir()} >= {"cmake", "ninja", "pyyaml"}
    assert any("nowhere" in note for note in made.notes)
    readme = (out / "source/README.txt").read_text("utf-8")
    assert "cuda: 11.8: get it there" in readme and 'SOURCE="$PWD/torch-2.6.0" sh build.sh' in readme
    assert "libraries that the tree takes from the system" in readme and "\n      libfmt-dev\n" in readme
    assert load(out / "source/plan.json", Plan).build == recipe, "the plan of the build, for rekindle in five years"
    assert (out / "source/build.sh").read_text("utf-8").startswith("#!/bin/sh")
    with tarfile.open(out / "source/torch-2.6.0.tar.gz") as tar:
        members = tar.getmembers()
    assert {"torch-2.6.0/setup.py", "torch-2.6.0/.gitmodules"} <= {member.name for member in members}
    assert not any(".git" in member.name.split("/") or member.uname or member.uid for member in members)
    assert not (out / "source/tree").exists()
    (out / "source/tree").mkdir()
    (out / "source/tree/left").write_text("by a kill")
    make_pack(plan, links, out, source=True)
    assert pack_check(out).good and not (out / "source/tree").exists()
