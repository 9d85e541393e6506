"""An nvcc whose device compiler takes a unit's module id from us, so that internal names come out as in the wheel.

Names with internal linkage carry the *module id* of their source file, in which the compiler puts a digest and a
process id. nvcc lets its device compiler (``cicc``) make that id and hand it on in a file; ours writes the wanted id
there and does not ask for one. nvcc finds cicc by the profile beside itself: a folder of ours holds a link to nvcc and
a profile that names our cicc first.
"""

import re
import shlex
from pathlib import Path

from rekindle.errors import MissingTool
from rekindle.graft.compile import write_if_changed

MODULE_ID = "REKINDLE_MODULE_ID"
# POSIX shell alone: started once per unit. Options stay in their order; only the wish for a new id is dropped.
_CICC = """#!/bin/sh
file= previous=
for word; do
  [ "$previous" = --module_id_file_name ] && file=$word
  previous=$word
done
if [ -n "$file" ] && [ -n "${MODULE_ID-}" ]; then
  printf %s "$MODULE_ID" >"$file" || exit 1
  count=$#
  while [ "$count" -gt 0 ]; do
    word=$1
    shift
    count=$((count - 1))
    [ "$word" = --gen_module_id_file ] || set -- "$@" "$word"
  done
fi
exec REAL "$@"
"""


# ccache caches what -c makes and nothing else: behind this name it makes a cubin. It hashes the script in place of the
# compiler, so the script says which compiler it is.
_CACHED = """#!/bin/sh
# STAMP
for word; do
  shift
  [ "$word" = -c ] && word=--cubin
  set -- "$@" "$word"
done
exec REAL "$@"
"""
CACHED = "cached/nvcc"


def wrap_nvcc(nvcc: Path, folder: Path) -> Path:
    """The nvcc to call: in ``folder``, with the toolkit of ``nvcc`` and a device compiler that takes a given module id.

    The id is told in the variable ``REKINDLE_MODULE_ID`` of each call. For a compiler cache there is :data:`CACHED`
    beside it, which makes a cubin where ``-c`` is asked for.
    """
    # Debian's /usr/bin/nvcc is a script; the program and its profile lie below /usr/lib.
    inner = nvcc.parent.parent / "lib/nvidia-cuda-toolkit/bin/nvcc"
    if not (nvcc.parent / "nvcc.profile").is_file() and inner.is_file():
        nvcc = inner
    profile = nvcc.parent / "nvcc.profile"
    if not profile.is_file():
        raise MissingTool(
            f"beside {nvcc} there is no nvcc.profile, by which it finds its own compilers",
            remedy="name the toolkit's own folder with --toolkit DIR (the one with bin/nvcc.profile)",
        )
    text = profile.read_text(encoding="utf-8")
    cicc = _find_cicc(nvcc.parent, text)
    ours = folder / "device"
    ours.mkdir(parents=True, exist_ok=True)
    script = _CICC.replace("MODULE_ID", MODULE_ID).replace("REAL", shlex.quote(str(cicc)))
    write_if_changed(ours / "cicc", script.encode())
    (ours / "cicc").chmod(0o755)
    # $(_HERE_) is where nvcc was called; everything else of the toolkit stays where it is.
    lines = [line for line in text.replace("$(_HERE_)", str(nvcc.parent)).splitlines() if "CICC_PATH" not in line]
    kept = [line.replace("$(CICC_PATH)", str(cicc.parent)) for line in lines]
    kept += [f"CICC_PATH = {ours}", f"PATH += {ours}:{cicc.parent}:{nvcc.parent}:"]
    write_if_changed(folder / "nvcc.profile", ("\n".join(kept) + "\n").encode())
    link = folder / "nvcc"
    if not (link.is_symlink() and link.readlink() == nvcc):
        link.unlink(missing_ok=True)
        link.symlink_to(nvcc)
    stamp = " ".join(f"{tool.stat().st_size}-{tool.stat().st_mtime_ns}" for tool in (nvcc, cicc))
    cached = folder / CACHED
    cached.parent.mkdir(exist_ok=True)
    write_if_changed(cached, _CACHED.replace("STAMP", stamp).replace("REAL", shlex.quote(str(link))).encode())
    cached.chmod(0o755)
    return link


def _find_cicc(here: Path, profile: str) -> Path:
    """The toolkit's own device compiler: in ``nvvm/bin`` beside ``bin``, or where distributions put it."""
    told = re.findall(r"\$\(TOP\)/(\S*?nvvm/bin)", profile)
    places: list[Path] = [here.parent / place for place in (*told, "nvvm/bin")] + [
        here,
        here.parent / "lib/nvidia-cuda-toolkit/bin",
    ]
    for place in places:
        if (place / "cicc").is_file():
            return place / "cicc"
    raise MissingTool(
        f"the toolkit in {here.parent} has no cicc, which compiles device code",
        remedy="install the whole CUDA compiler (pip: nvidia-cuda-nvcc and nvidia-nvvm)",
    )
