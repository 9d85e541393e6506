"""What an interpreter holds: its packages with pip's notes about them, and what its torch says of itself."""

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec
from packaging.utils import canonicalize_name

from rekindle.errors import BadInput
from rekindle.host.live import ask_python, question_text, read_answer
from rekindle.host.protocol import Host
from rekindle.host.text import last_line
from rekindle.model.document import encode
from rekindle.model.guard import PackageRecord

ASK_SECONDS = 120.0
_ASK = Path(__file__).with_name("package_places.py.txt").read_text(encoding="utf-8")


class Contents(msgspec.Struct, frozen=True, kw_only=True):
    """The packages, and torch's ``__version__``, ``cuda`` and ``hip`` (and ``files``, where they were asked for)."""

    packages: tuple[PackageRecord, ...] = ()
    torch: dict[str, str | None] | None = None

    @property
    def versions(self) -> dict[str, str]:
        """By canonical name."""
        return {str(canonicalize_name(package.name)): package.version for package in self.packages}

    @property
    def fingerprint(self) -> str:
        """One name for all of it: packages, what each wheel brought, and torch as it is; empty where nothing is."""
        if not self.packages and self.torch is None:
            return ""
        records = {package.name: package.record for package in self.packages}
        parts = {"packages": self.versions, "records": records, "torch": self.torch}
        return hashlib.sha256(encode(json.dumps(parts, sort_keys=True))).hexdigest()


def ask_contents(
    host: Host, python: str, *, files: bool = False, digests: Sequence[str] = (), isolated: bool = True
) -> Contents:
    """Ask an interpreter; BadInput where it cannot tell. ``files`` looks at every file of torch; ``digests`` reads all
    files of the packages it names; not ``isolated``: with the user's own packages and PYTHONPATH."""
    words = ["files"] if files else [f"digests={','.join(digests)}"] if digests else []
    argv = [python, *(["-I"] if isolated else []), "-c", question_text("packages"), *words]
    done = host.run(argv, timeout=ASK_SECONDS)
    answer = read_answer(done.out) if done.ok else None
    try:
        if answer is not None:
            return msgspec.convert(answer, Contents)
        why = last_line(done.err, "no message")
    except msgspec.ValidationError as error:
        why = f"its answer makes no sense ({error})"
    raise BadInput(f"{python} does not tell what it holds: {why}", remedy="give a Python with --python")


def look_into(host: Host, python: str) -> Contents:
    """Its contents with torch's files; an interpreter that cannot answer holds nothing."""
    try:
        return ask_contents(host, python, files=True)
    except BadInput:
        return Contents()


def package_places(host: Host, python: str) -> list[Path]:
    """The directories an installer changes for this interpreter; refused where they are not the user's to change."""
    answer, _ = ask_python(host, python, _ASK)
    if answer is None:
        raise BadInput(f"{python} does not answer", remedy="name a Python that works")
    managed, *names = answer
    # The scripts of a Python outside an environment lie beside every other program: those are left alone.
    packages = dict.fromkeys(Path(name) for name in names[:2])
    scripts = [Path(names[2])] if (Path(names[2]).parent / "pyvenv.cfg").is_file() else []
    if managed or not all(os.access(place, os.W_OK) and os.access(place.parent, os.W_OK) for place in packages):
        remedy = "make an environment of your own (python3 -m venv env) and run the command with it"
        raise BadInput(f"the packages of {python} belong to the system", remedy=remedy)
    return [place for place in (*packages, *scripts) if place.is_dir()]
