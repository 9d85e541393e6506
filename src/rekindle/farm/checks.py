"""What a worker needs before it can compile for others: each need tried, with what to do where it is not met.

sccache-dist's sandbox wants to be root: it mounts an overlay of the toolchain and calls bubblewrap in it. Being root
in a user namespace of one's own is enough (overlays can be mounted there since Linux 5.11), so root is not needed
where the kernel allows such namespaces. Both are tried for real, in the folder where the work will be.
"""

import contextlib
import os
import tempfile
import time
import urllib.error
import urllib.request
from email.utils import parsedate_to_datetime
from pathlib import Path

import msgspec

from rekindle.errors import MissingTool
from rekindle.farm.addresses import is_free, is_loopback, own_addresses, split_address
from rekindle.farm.folder import InvitationText
from rekindle.host.protocol import Host
from rekindle.host.text import version_in, version_key
from rekindle.model.farm import FarmStatus
from rekindle.model.machine import Check, CheckStatus
from rekindle.model.spoken import GIB
from rekindle.toolkits.libraries import find_libc
from rekindle.toolkits.sccache import farm_needs, find_sccache, status_from

_LEAST_GIB, _GOOD_GIB = 2.0, 12.0
# A worker's certificate counts from the second it was made: a builder whose clock is behind refuses it.
_CLOCK_SECONDS = 30.0
_ASK_SECONDS = 5.0
NAMESPACE = ("unshare", "--user", "--map-root-user", "--mount", "--")
# What a system may forbid them by, and the value that allows them.
_NAMESPACES_ALLOWED = {
    "kernel/unprivileged_userns_clone": "1",
    "kernel/apparmor_restrict_unprivileged_userns": "0",
    "user/max_user_namespaces": "1",
}
# As sccache-dist does it for each compilation.
_TRIAL = """
cd "$1" && mkdir low up work top && mount -t overlay -o lowerdir=low,upperdir=up,workdir=work overlay top &&
: > top/file && exec bwrap --die-with-parent --cap-drop ALL --unshare-user --unshare-cgroup --unshare-ipc \\
    --unshare-pid --unshare-net --unshare-uts --ro-bind / / --bind top "$1/top" --proc /proc --dev /dev -- true"""


def start_words(host: Host) -> list[str]:
    """What stands before ``sccache-dist server``: nothing for root, a user namespace for everybody else."""
    return [] if os.geteuid() == 0 else [host.which(NAMESPACE[0]) or NAMESPACE[0], *NAMESPACE[1:]]


def ask_scheduler(url: str) -> tuple[FarmStatus, float | None]:
    """The scheduler's status, and how many seconds its clock is ahead of ours (None: it sends no time)."""
    if not url.startswith(("http://", "https://")):
        return FarmStatus(scheduler=url, why=f"{url} is no address of a scheduler"), None
    place, form = f"{url.rstrip('/')}/api/v1/scheduler/status", {"Accept": "application/json"}
    request = urllib.request.Request(place, headers=form)  # noqa: S310 (the scheme is looked at above)
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(request, timeout=_ASK_SECONDS) as reply:
            dated = reply.headers.get("Date", "")
            status = status_from(url, msgspec.json.decode(reply.read(1 << 16)))
    except (OSError, urllib.error.URLError, msgspec.MsgspecError, KeyError, TypeError, ValueError) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        return FarmStatus(scheduler=url, why=f"no scheduler answers at {url}: {reason}"), None
    with contextlib.suppress(ValueError):
        return status, parsedate_to_datetime(dated).timestamp() - time.time()
    return status, None


def check_worker(host: Host, invitation: InvitationText, scratch: Path) -> tuple[Check, ...]:
    """Every need of the invited worker here; ``fail`` means that it would take work and return none."""
    if host.system != "linux":
        only = "sccache-dist's server runs on Linux alone; from Windows and macOS one can build, not help building"
        return (_row("system", "fail", host.system, "linux", only),)
    fix = "toolchains come from the machine that builds; a worker must be able to run them"
    same = host.machine == invitation.machine
    reply = host.run(["bwrap", "--version"])
    bubblewrap = version_in(reply.out) if reply.ok else None
    return (
        _row("architecture", "ok" if same else "fail", host.machine, invitation.machine, fix),
        _check_program(host),
        _check_glibc(host),
        _row_of_version("bubblewrap", bubblewrap, "install the package bubblewrap (apt, dnf, pacman, zypper)"),
        _check_sandbox(host, scratch),
        _check_disk(host, scratch),
        *_check_network(invitation.scheduler, invitation.address or ""),
    )


def _row(name: str, status: CheckStatus, actual: str | None, want: str | None = None, fix: str | None = None) -> Check:
    return Check(id=name, status=status, found=actual, want=want, fix=None if status == "ok" else fix)


def _check_program(host: Host) -> Check:
    try:
        tool = find_sccache(host, "sccache-dist")
    except MissingTool as error:
        return _row("sccache-dist", "fail", error.message, None, error.remedy)
    return _row("sccache-dist", "ok", f"{tool.version} ({tool.path})")


def _check_glibc(host: Host) -> Check:
    version = find_libc(host)[1]
    if version is None:
        fix = "a system with musl needs a sccache-dist built for it"
        return _row("glibc", "warn", "none was found", farm_needs("glibc"), fix)
    return _row_of_version("glibc", version, "a newer system")


def _row_of_version(name: str, version: str | None, fix: str) -> Check:
    needed = farm_needs(name)
    new = version_key(version) >= version_key(needed)
    return _row(name, "ok" if new else "fail", version, f"{needed} or newer", fix)


def _check_sandbox(host: Host, scratch: Path) -> Check:
    """The overlay and the sandbox as a compilation needs them, tried on the same disk."""
    who = "as root" if not start_words(host) else "without root, in a user namespace"
    if not host.which("bwrap"):
        return _row("sandbox", "warn", "not tried without bubblewrap")
    try:
        parent = next(place for place in (scratch, *scratch.parents) if place.is_dir())
        with tempfile.TemporaryDirectory(prefix=".rekindle-trial-", dir=parent) as folder:
            mount = start_words(host) or ["unshare", "--mount", "--propagation", "private", "--"]
            reply = host.run([*mount, "sh", "-c", _TRIAL, "sh", folder], timeout=20.0)
    except OSError as error:
        return _row("sandbox", "fail", f"{scratch}: {error.strerror or error}", None, "another folder: --scratch DIR")
    if reply.ok:
        return _row("sandbox", "ok", f"works {who}")
    words = (reply.err.strip() or "no answer").splitlines()[-1]
    return _row("sandbox", "fail", f"{who}: {words}", "an overlay and user namespaces", _sandbox_fix(host, words))


def _sandbox_fix(host: Host, words: str) -> str:
    if "overlay" in words:
        return "overlays do not lie on NFS or on another overlay: a folder on a local disk (--scratch DIR), or sudo"
    for path, allowed in _NAMESPACES_ALLOWED.items():
        value = (host.read(f"/proc/sys/{path}") or b"").strip()
        if value and (value == b"0") != (allowed == "0"):
            return f"sudo sysctl {path.replace('/', '.')}={allowed}, or run it with sudo"
    return "run it with sudo; a container needs CAP_SYS_ADMIN (podman run --privileged)"


def _check_disk(host: Host, scratch: Path) -> Check:
    disk = host.disk(str(scratch))
    if disk is None:
        return _row("disk", "warn", "unknown", f"{_GOOD_GIB:.0f} GiB")
    free = disk.free / GIB
    status: CheckStatus = "ok" if free >= _GOOD_GIB else "warn" if free >= _LEAST_GIB else "fail"
    want, fix = f"{_GOOD_GIB:.0f} GiB for toolchains", "--scratch DIR on a larger disk"
    return _row("disk", status, f"{free:.1f} GiB free", want, fix)


def _check_network(scheduler: str, address: str) -> list[Check]:
    host_name, port = split_address(address)
    ours = host_name in own_addresses() or is_loopback(host_name)
    fix = f"invite the address it has: rekindle farm up --invite {(own_addresses() or ['ADDRESS'])[0]}:{port}"
    whose = host_name if ours else f"{host_name} is not this machine's"
    checks = [_row("address", "ok" if ours else "fail", whose, None, fix)]
    free = is_free(address) if ours else True
    fix = f"another port: rekindle farm up --invite {host_name}:{port + 1}"
    checks.append(_row("port", "ok" if free else "fail", f"{port} {'is free' if free else 'is taken'}", "free", fix))
    status, ahead = ask_scheduler(scheduler)
    fix = "is it up (rekindle farm status there), and does its firewall let this machine in?"
    checks.append(_row("scheduler", "fail" if status.why else "ok", status.why or scheduler, None, fix))
    if ahead is not None:
        near = abs(ahead) <= _CLOCK_SECONDS
        words = f"{abs(ahead):.0f} s {'behind' if ahead > 0 else 'ahead of'} the scheduler's"
        want, fix = f"within {_CLOCK_SECONDS:.0f} s", "timedatectl set-ntp true"
        checks.append(_row("clock", "ok" if near else "fail", words, want, fix))
    return checks
