"""A container builder without a registry: Debian 13's buildah in a root of its own, base images from that same root.

Nothing is installed on this machine: the root comes from debootstrap and lies in the cache of the checks. Where limits
may not be raised, buildah is told the ones there are, since it would raise them.
"""

from __future__ import annotations

import os
import resource
import shlex
import subprocess
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rekindle-ci"
ROOT = CACHE / "trixie"
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
INSIDE = ("buildah", "ca-certificates", "crun", "netavark", "passt", "python3-dev", "python3-venv")
# No server here has uv's Pythons: the system's own is "installed". Everything else is uv itself.
STAND_IN = """#!/bin/sh
if [ "$1 $2" = "python install" ]; then exec python3 --version; fi
exec "$(dirname "$0")/uv.real" "$@"
"""
BASES = """
set -eu
if ! buildah inspect --type image localhost/base >/dev/null 2>&1; then
  c=$(buildah from scratch); m=$(buildah mount "$c")
  tar -C / --one-file-system --exclude=./here --exclude=./proc --exclude=./sys --exclude=./dev --exclude=./tmp \
      --exclude=./var/lib/containers --exclude=./var/cache/apt/archives -cf - . | tar -C "$m" -xf -
  mkdir -p "$m/proc" "$m/sys" "$m/dev" "$m/tmp"; chmod 1777 "$m/tmp"
  for name in PIP_CERT SSL_CERT_FILE; do buildah config --env "$name=CERTIFICATES" "$c"; done
  buildah umount "$c"; buildah commit -q "$c" localhost/base; buildah rm "$c"
fi
if ! buildah inspect --type image localhost/uv >/dev/null 2>&1; then
  c=$(buildah from scratch); buildah copy -q "$c" /here/uv /; buildah commit -q "$c" localhost/uv; buildah rm "$c"
fi
""".replace("CERTIFICATES", CERTIFICATES)


def make_root() -> None:
    """Minutes, once."""
    if (ROOT / "usr/bin/buildah").exists() and (ROOT / "usr/include/python3.13/Python.h").exists():
        return
    subprocess.run(["debootstrap", "--variant=minbase", f"--include={','.join(INSIDE)}", "trixie", ROOT],
                   check=True, timeout=1500, stdout=subprocess.DEVNULL)  # fmt: skip


def inside(work: Path, script: str, limit: int) -> str:
    """Run a script in the root, with ``work`` as /here; mounts vanish with their namespace. Everything it said."""
    root, bind = shlex.quote(str(ROOT)), shlex.quote(str(work))
    # The root must be a mount of its own: buildah mounts it again.
    mounts = (
        f"mount --bind {root} {root} && mkdir -p {root}/here && mount --bind {bind} {root}/here && "
        f"mount -t proc proc {root}/proc && mount --rbind /sys {root}/sys && mount --rbind /dev {root}/dev && "
        f"cp /etc/resolv.conf /etc/hosts {root}/etc/ && exec chroot {root} bash /here/inside.sh"
    )
    (work / "inside.sh").write_text(script)
    given = {name: value for name, value in os.environ.items() if name.startswith(("PIP_INDEX", "UV_INDEX"))}
    env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "TMPDIR": "/var/tmp", "STORAGE_DRIVER": "overlay",
           "BUILDAH_ISOLATION": "chroot", **given}  # fmt: skip
    done = subprocess.run(["unshare", "--mount", "sh", "-c", mounts], env=env, timeout=limit,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
    said = done.stdout.decode("utf-8", "replace")
    assert done.returncode == 0, said[-8000:]
    return said


def limits() -> list[str]:
    found = {"nofile": resource.RLIMIT_NOFILE, "nproc": resource.RLIMIT_NPROC}
    hard = {name: resource.getrlimit(what)[1] for name, what in found.items()}
    return [word for name, most in hard.items() for word in ("--ulimit", f"{name}={most}:{most}")]


def run(work: Path, image: str, commands: list[list[str]], limit: int) -> str:
    """Each command in one container of the image; what they said."""
    start = shlex.join(["buildah", "from", "--pull-never", *limits(), image])
    lines = [
        f"c=$({start})",
        *(f'buildah run "$c" -- {shlex.join(words)}' for words in commands),
        'buildah rm "$c" >/dev/null',
    ]
    return inside(work, "\n".join(["set -eu", *lines, ""]), limit)


def build(work: Path, image: str, limit: int, *, stage: str = "run") -> str:
    """``work/context/Dockerfile`` as ``image``; BUILD_IMAGE and RUN_IMAGE are the root itself."""
    words = [
        "buildah", "bud", "--layers", "--pull-never", "--network", "host", "--format", "docker", *limits(),
        "--volume", f"/here/certificates.crt:{CERTIFICATES}:ro",
        "--build-arg", "BUILD_IMAGE=localhost/base", "--build-arg", "RUN_IMAGE=localhost/base",
        "--target", stage, "-t", image, "-f", "/here/context/Dockerfile", "/here/context",
    ]  # fmt: skip
    return inside(work, f"{BASES}\n{shlex.join(words)}\n", limit)
