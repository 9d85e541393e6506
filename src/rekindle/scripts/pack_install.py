"""Installs a pack: no network, nothing of Rekindle, any Python from 3.8 on. Written into each pack as install.py.
Nothing is done before every file was found to be what SHA256SUMS says, no more and no less. An install that was cut
short is begun anew by the same command. Exit codes: 0 done, 1 a step failed, 2 nothing was begun."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

SUMS = "SHA256SUMS"
SIGNATURE = f"{SUMS}.dsse.json"
# In a folder that is being made; it goes when all is in place.
BEGUN = "rekindle-pack-begun"
_LINE = re.compile(r"([0-9a-f]{64})  ([^\\:*?\"<>|\x00-\x1f]{1,1000})")
_MOST_LISTED_BYTES = 16 << 20
# Pip out of its wheel. A program that is called pip may not install a pip on Windows.
_PIP = "import runpy, sys; sys.path.insert(0, sys.argv.pop(1)); runpy.run_module('pip', run_name='__main__')"
_REPARSE_POINT = 0x400  # of Windows: a junction or another way out of the folder


def problems_of(folder: Path) -> list[str]:
    """Whatever is not as SHA256SUMS says: changed, missing, foreign, or leading elsewhere; empty where all is right."""
    try:
        expected = listed_in(folder)
        names, wrong = _list_files(folder)
    except FileNotFoundError:
        return [f"there is no {SUMS}: the pack is not finished, or part of it is missing"]
    except (OSError, ValueError) as error:
        return [f"{SUMS} cannot be used: {error}"]
    wrong += [f"{_shown(name)} is not of this pack" for name in sorted(set(names) - set(expected) - {SUMS, SIGNATURE})]
    for name, digest in expected.items():
        if name not in names:
            wrong.append(f"{_shown(name)} is missing")
            continue
        try:
            if sha256_of(folder / name) != digest:
                wrong.append(f"{_shown(name)} was changed")
        except OSError as error:
            wrong.append(f"{_shown(name)} cannot be read: {error.strerror}")
    return wrong


def listed_in(folder: Path) -> dict[str, str]:
    """Paths (with slashes) and their SHA-256; ValueError where a line could mean anything else."""
    with (folder / SUMS).open("rb") as file:
        raw = file.read(_MOST_LISTED_BYTES + 1)
    if len(raw) > _MOST_LISTED_BYTES or not raw.endswith(b"\n"):
        raise ValueError("it is cut short or far too long")
    listed: dict[str, str] = {}
    taken = {SUMS.lower(), SIGNATURE.lower()}
    for line in raw.decode("utf-8").split("\n")[:-1]:
        match = _LINE.fullmatch(line)
        parts = match.group(2).split("/") if match else []
        if match is None or any(part in ("", ".", "..") or part[-1] in " ." for part in parts):
            raise ValueError(f"a line names no file of a pack: {_shown(line[:120])}")
        if match.group(2).lower() in taken:
            raise ValueError(f"a file is named twice: {_shown(match.group(2))}")
        taken.add(match.group(2).lower())
        listed[match.group(2)] = match.group(1)
    return listed


def _list_files(folder: Path) -> tuple[list[str], list[str]]:
    """Plain files by their paths, and words about what is none; no link is followed."""
    names: list[str] = []
    wrong: list[str] = []
    waiting = [""]
    while waiting:
        inside = waiting.pop()
        with os.scandir(folder / inside) as entries:
            for entry in entries:
                name = f"{inside}/{entry.name}" if inside else entry.name
                state = entry.stat(follow_symlinks=False)
                if entry.is_symlink() or getattr(state, "st_file_attributes", 0) & _REPARSE_POINT:
                    wrong.append(f"{_shown(name)} is a link, and a pack has none")
                elif stat.S_ISDIR(state.st_mode):
                    waiting.append(name)
                elif stat.S_ISREG(state.st_mode):
                    names.append(name)
                else:
                    wrong.append(f"{_shown(name)} is no plain file")
    return names, wrong


def sha256_of(path: Path) -> str:
    total = hashlib.sha256()
    with path.open("rb") as file:
        for piece in iter(lambda: file.read(1 << 20), b""):
            total.update(piece)
    return total.hexdigest()


def _shown(name: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in name)


def _say(text: str) -> None:
    encoding = sys.stdout.encoding or "ascii"
    sys.stdout.write(text.encode(encoding, "replace").decode(encoding) + "\n")
    sys.stdout.flush()


class NotInstalled(Exception):
    """Why nothing was begun (``code`` 2), or which step failed (1)."""

    def __init__(self, why: str, code: int = 2) -> None:
        super().__init__(why)
        self.code = code


def main(words: list[str]) -> int:
    """What ``install.sh`` and ``install.bat`` call."""
    folder = Path(__file__).absolute().parent
    parser = argparse.ArgumentParser(prog="install.py", description="Install this pack; no network is needed.")
    parser.add_argument("into", nargs="?", type=Path, help="the folder to make (default: in the current folder)")
    parser.add_argument("--check", action="store_true", help="only check that every file is unchanged")
    parser.add_argument("--skip-proof", action="store_true", help="do not try what was installed on the processor")
    options = parser.parse_args(words)
    try:
        _say(f"checking every file of {folder}")
        wrong = problems_of(folder)
        if wrong:
            raise NotInstalled("; ".join(wrong[:8]) + ("; ..." if len(wrong) > 8 else "") + ". Copy the pack again.")
        if options.check:
            _say("every file is unchanged")
            return 0
        pack = json.loads((folder / "pack.json").read_text(encoding="utf-8"))
        refuse_other_machine(pack)
        name = re.sub(r"[^A-Za-z0-9.+-]+", "-", pack["title"]).strip("-.")
        _install(folder, pack, (options.into or Path(name or "torch")).absolute(), prove=not options.skip_proof)
    except NotInstalled as refused:
        _say(f"NOT INSTALLED: {refused}")
        return refused.code
    return 0


def refuse_other_machine(pack: dict[str, Any]) -> None:
    """Wheels of one system, processor and Python do nothing on another."""
    here = ".".join(map(str, sys.version_info[:2]))
    if here != ".".join(pack["python"].split(".")[:2]):
        raise NotInstalled(f"this is Python {here}; the pack is for {pack['python']}")
    system = {"win32": "windows"}.get(sys.platform, sys.platform)
    arch = {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine().lower(), platform.machine().lower())
    if (system, arch) != (pack["system"], pack["arch"]):
        raise NotInstalled(f"this is {system} on {arch}; the pack is for {pack['system']} on {pack['arch']}")


def _install(folder: Path, pack: dict[str, Any], into: Path, *, prove: bool) -> None:
    mark = into / BEGUN
    if mark.is_file():
        shutil.rmtree(into)
    elif into.exists() and (not into.is_dir() or any(into.iterdir())):
        raise NotInstalled(f"{into} is there already; name another folder, or remove it")
    try:
        into.mkdir(parents=True, exist_ok=True)
        mark.write_bytes(b"")
    except OSError as error:
        raise NotInstalled(f"cannot write {into}: {error.strerror}; name another folder") from error
    _say(f"installing {pack['title']} into {into}")
    try:
        python, target = _environment(into)
        wheels = folder / "wheels"
        pip = max(path for path in wheels.iterdir() if path.name.startswith("pip-"))
        quietly = ("--no-input", "--disable-pip-version-check", "--no-warn-script-location", "--no-cache-dir")
        exactly = ("--no-index", "--no-deps", "--require-hashes", "--find-links", str(wheels))
        listed = ("-r", str(folder / "requirements.txt"), *target)
        _run([str(python), "-I", "-c", _PIP, str(pip), "install", *quietly, *exactly, *listed], "pip could not install")
        shutil.copyfile(folder / "constraints.txt", into / "constraints.txt")
    except OSError as error:
        raise NotInstalled(f"{error.strerror or error}; the same command begins anew", 1) from error
    if prove and pack.get("proof"):
        _say("trying it on the processor")
        _run([str(python), "-I", "-c", pack["proof"]], "it is installed, but it does not work")
    mark.unlink()
    _say(f"done: {python}")


def _environment(into: Path) -> tuple[Path, list[str]]:
    """Its interpreter, and what pip must be told besides. An embeddable Python has no venv: a copy of it is one."""
    own = Path(sys.executable).absolute()
    library = "python{}{}".format(*sys.version_info[:2])
    if os.name == "nt" and (own.parent / f"{library}.zip").is_file():
        for path in own.parent.iterdir():
            if path.is_file():
                shutil.copyfile(path, into / path.name)
        site = into / "Lib" / "site-packages"
        site.mkdir(parents=True)
        (into / f"{library}._pth").write_text(f"{library}.zip\n.\nLib\\site-packages\nimport site\n", encoding="utf-8")
        return into / own.name, ["--target", str(site)]
    _run([str(own), "-I", "-m", "venv", "--without-pip", str(into)], "this Python cannot make an environment")
    return into / ("Scripts" if os.name == "nt" else "bin") / ("python.exe" if os.name == "nt" else "python"), []


def _run(argv: list[str], why: str) -> None:
    """Without what was set for pip or Python on this machine."""
    env = {name: value for name, value in os.environ.items() if not name.upper().startswith(("PIP_", "PYTHON"))}
    code = subprocess.call(argv, env={**env, "PIP_CONFIG_FILE": os.devnull})
    if code:
        raise NotInstalled(f"{why} (exit code {code}); the same command begins anew", 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
