"""What packages in an environment say of themselves, as a stranger's wheel may leave it: read or named, never a bug."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from canary import in_process, within

import needs
from rekindle.compat.graft import find_recipe
from rekindle.compat.replaced import find_replaced
from rekindle.facts import load_facts
from rekindle.index.pages.fields import version_key
from rekindle.model.guard import PackageRecord
from tiny_wheels import make_wheel

SECONDS = 60.0
GOOD = b"Metadata-Version: 2.1\nName: xformers\nVersion: 0.0.30\nRequires-Dist: torch==2.6.0\n"
# The file in the companion's .dist-info, and what stands in it.
ODD: dict[str, tuple[str, bytes]] = {
    "no-metadata": ("METADATA", b""),
    "no-version": ("METADATA", b"Metadata-Version: 2.1\nName: xformers\n"),
    "no-text": ("METADATA", bytes(range(128, 256)) * 4),
    "half-a-character": ("METADATA", GOOD.replace(b"xformers", b"x\xed\xa0\x80formers")),
    "version-of-digits": ("METADATA", GOOD.replace(b"0.0.30", b"9" * 6000)),
    "version-no-version": ("METADATA", GOOD.replace(b"0.0.30", b"../../x y")),
    "requires-nothing": ("METADATA", GOOD + b"Requires-Dist: \nRequires-Dist:\n"),
    "requires-nonsense": ("METADATA", GOOD + b"Requires-Dist: torch ((((==2 ; extra == \n"),
    "requires-digits": ("METADATA", GOOD + b"Requires-Dist: torch==" + b"9" * 6000 + b"\n"),
    "requires-address": ("METADATA", GOOD + b"Requires-Dist: torch @ file:///etc/passwd\n"),
    "requires-deep": ("METADATA", GOOD + b"Requires-Dist: torch; " + b"(" * 3000 + b"\n"),
    "requires-many": ("METADATA", GOOD + b"Requires-Dist: torch==2.6.0\n" * 20_000),
    "requires-escape": ("METADATA", GOOD + b"Requires-Dist: torch==2.9.1\x1b[2J\n"),
    "name-leaves": ("METADATA", GOOD.replace(b"xformers", b"../../torch")),
    "name-is-torch": ("METADATA", GOOD.replace(b"xformers", b"torch")),
    "name-escape": ("METADATA", GOOD.replace(b"xformers", b"x\x1b[2J\xe2\x80\xae")),
    "record-long-field": ("RECORD", b"x" * 300_000 + b",sha256=x,1\n"),
    "record-no-text": ("RECORD", b"\xff\xfe\xed\xa0\x80,sha256=x,1\n"),
    "record-nothing": ("RECORD", b"x,\0,\n\0\n"),
    "record-leaves": ("RECORD", b"../../../../../../etc/passwd,sha256=x,1\n"),
    "direct-list": ("direct_url.json", b"[]"),
    "direct-number": ("direct_url.json", b'{"url": 7}'),
    "direct-deep": ("direct_url.json", b"[" * 100_000),
    "installer-no-text": ("INSTALLER", b"\xff\xff"),
    "installer-escape": ("INSTALLER", b"pip\x1b[2J\n"),
}  # fmt: skip


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """A Python with a torch whose version was written down, and the folder its packages lie in."""
    root = tmp_path_factory.mktemp("odd packages")
    torch = {"torch/__init__.py": b"", "torch/version.py": b"__version__ = '2.6.0'\ncuda = None\nhip = None\n"}
    wheel = make_wheel(root, "torch", "2.6.0", files=torch)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(root / "env")], check=True)
    python = str(root / "env/bin/python")
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--no-index", "--no-deps", "-q", str(wheel)]
    subprocess.run(pip, check=True)
    assert in_process("guard", "--python", python, "--record", "-q")[0] == 0
    return python, next((root / "env").glob("lib/python*/site-packages"))


@needs.venv()
@pytest.mark.parametrize("kind", ODD)
def test_what_a_companion_says_of_itself_is_no_bug(
    kind: str, environment: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python, packages = environment
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    info = packages / "xformers-0.0.30.dist-info"
    info.mkdir()
    name, content = ODD[kind]
    (info / "METADATA").write_bytes(GOOD)
    (info / name).write_bytes(content)
    commands = (
        ("guard", "--python", python, "-q"),
        ("guard", "--python", python, "--json", "-q"),
        ("verify", "--python", python, "--with", "xformers", "--no-gpu", "--only", "import*", "-q"),
        ("up", "--dry-run", "--python", python, "--variant", "cpu", "--torch", "2.6.0", "--offline", "--with",
         "xformers", "--find-links", str(tmp_path), "--workspace", str(tmp_path / "w"), "-q"),
    )  # fmt: skip
    try:
        for words in commands:
            with within(SECONDS):
                code, said = in_process(*words)
            assert code in (0, 1, 2, 3), said
            assert "bug in rekindle" not in said and "Traceback" not in said, said
            assert "\x1b[2J" not in said and "root:" not in said
            if "guard" in words and kind != "name-is-torch":
                assert code == 0, f"the torch itself is as it was: {said}"
            if "--json" in words and code in (0, 1):
                json.loads(said)
    finally:
        for file in info.iterdir():
            file.unlink()
        info.rmdir()
    assert not (tmp_path / "w").exists()


LONG_NUMBER = "9" * 6000


def test_a_number_of_more_digits_than_python_reads_is_no_version(tmp_path: Path) -> None:
    torch = PackageRecord(name="torch", version=LONG_NUMBER, installer="pip")
    other = PackageRecord(name="x", version="1", installer="pip", requires=(f"torch=={LONG_NUMBER}",))
    (replaced,) = find_replaced({"torch": "2.6.0"}, [torch, other])
    assert replaced.name == "torch"
    (longer,) = find_replaced({"torch": LONG_NUMBER}, [PackageRecord(name="torch", version="2.6.0"), other])
    assert longer.name == "torch"
    assert find_recipe(LONG_NUMBER, load_facts()) is None
    assert version_key(LONG_NUMBER)[0] is False
    info = "torch-2.6.0.dist-info"
    made = make_wheel(tmp_path, "torch", LONG_NUMBER, file="torch-2.6.0-py3-none-any.whl")
    renamed = tmp_path / "renamed" / made.name
    renamed.parent.mkdir()
    with zipfile.ZipFile(made) as old, zipfile.ZipFile(renamed, "w") as new:
        for name in old.namelist():
            new.writestr(
                name.replace(f"torch-{LONG_NUMBER}.dist-info", info),
                old.read(name).replace(f"torch-{LONG_NUMBER}.dist-info".encode(), info.encode()),
            )
    code, said = in_process("index", "add", str(renamed), "--root", str(tmp_path / "house"), "-q")
    assert code == 2 and "bug" not in said, said
