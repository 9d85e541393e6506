"""What a pack says and runs: its README, the program that installs it, and the script that starts that program."""

import hashlib
from importlib import resources

from rekindle import __version__
from rekindle.model.pack import Pack
from rekindle.model.plan import Plan
from rekindle.model.spoken import spoken_bytes
from rekindle.scripts.quoting import Quoted, comment, plain_word
from rekindle.scripts.templates import find_template


def pack_texts(pack: Pack, plan: Plan) -> dict[str, bytes]:
    """The files by name; without packages (a pack of sources) there is nothing to install and so no script."""
    texts = {"README.txt": _readme(pack, plan).encode("utf-8")}
    if not pack.packages:
        return texts
    program = resources.files("rekindle.scripts").joinpath("pack_install.py").read_bytes().replace(b"\r\n", b"\n")
    windows = pack.system == "windows"
    major, minor = pack.python.split(".")[:2]
    script = find_template("pack.bat.j2" if windows else "pack.sh.j2").render(
        title=pack.title,
        version=Quoted(__version__),
        python=plain_word(f"{major}.{minor}"),
        major=int(major),
        minor=int(minor),
        digest=Quoted(hashlib.sha256(program).hexdigest()),
    )
    name = "install.bat" if windows else "install.sh"
    return texts | {"install.py": program, name: (script.replace("\n", "\r\n") if windows else script).encode("utf-8")}


def _readme(pack: Pack, plan: Plan) -> str:
    """Everything a person needs to know there, as text."""
    windows = pack.system == "windows"
    size = sum(package.bytes or 0 for package in pack.packages)
    lines = [f"{pack.title}, packed by {pack.tool}", ""]
    libc = f", glibc {pack.glibc} or newer" if pack.glibc else ""
    lines += [f"For: {pack.system} on {pack.arch}, Python {pack.python}{libc}"]
    if pack.packages:
        lines += [f"Holds: {len(pack.packages)} packages, {spoken_bytes(size)}", "", "Install (no network is needed):"]
        lines += ["    install.bat C:\\torch" if windows else "    sh install.sh ~/torch"]
        lines += ["It first holds every file against SHA256SUMS and does nothing where one differs."]
        lines += ["With rekindle: rekindle up --offline --find-links THIS-FOLDER", ""]
    if plan.env:
        lines += [
            "Whenever it is used, this must be set:",
            *(f"    {name}={value}" for name, value in plan.env.items()),
        ]
    groups = (
        ("Why this one:", [reason.text for reason in plan.because]),
        ("Know before:", [warning.text for warning in plan.warnings if not warning.handled]),
        ("Not in this pack:", pack.left_out),
        ("Notes:", pack.notes),
    )
    for title, texts in groups:
        if texts:
            lines += ["", title, *(f"  - {comment(text)}" for text in texts)]
    lines += [
        "",
        "The graphics driver and, on Windows, the Visual C++ run-time belong to the machine and are not here.",
    ]
    lines += ["Whether every file is unchanged: rekindle pack check THIS-FOLDER (or sha256sum -c SHA256SUMS)"]
    return "\n".join(lines) + "\n"
