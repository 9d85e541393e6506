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
from rekindle.model.toml import read_beside
from rekindle.toolkits.libraries import find_libc
from rekindle.toolkits.sccache import farm_needs, find_sccache, status_from

_LEAST_GIB, _GOOD_GIB = 2.0, 12.0
# A worker's certificate counts from the second it was made: a builder whose clock is behind refuses it.
_CLOCK_SECONDS = 30.0
_ASK_SECONDS = 5.0
NAMESPACE = ("unshare", "--user", "--map-root-user", "--mount", "--")
_TABLE = read_beside(__file__, "checks.toml", dict[str, dict[str, str]])
_FIX = _TABLE["fix"]
# As sccache-dist does it for each compilation.
_TRIAL = Path(__file__).with_name("sandbox_trial.sh").read_text(encoding="utf-8")


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
        return (_row("system", False, host.system, "linux"),)
    reply = host.run(["bwrap", "--version"])
    return (
        _row("architecture", host.machine == invitation.machine, host.machine, invitation.machine),
        _check_program(host),
        _row_of_version("glibc", find_libc(host)[1]),
        _row_of_version("bubblewrap", version_in(reply.out) if reply.ok else None),
        _check_sandbox(host, scratch),
        _check_disk(host, scratch),
        *_check_network(invitation.scheduler, invitation.address or ""),
    )


def _row(
    name: str, status: CheckStatus | bool, found: str | None, want: str | None = None, fix: str | None = None
) -> Check:
    """``fix`` where it is not the one of the table."""
    spoken: CheckStatus = status if isinstance(status, str) else "ok" if status else "fail"
    return Check(id=name, status=spoken, found=found, want=want, fix=None if spoken == "ok" else fix or _FIX.get(name))


def _check_program(host: Host) -> Check:
    try:
        tool = find_sccache(host, "sccache-dist")
    except MissingTool as error:
        return _row("sccache-dist", False, error.message, fix=error.remedy)
    return _row("sccache-dist", True, f"{tool.version} ({tool.path})")


def _row_of_version(name: str, version: str | None) -> Check:
    needed = farm_needs(name)
    if name == "glibc" and version is None:
        return _row(name, "warn", "none was found", needed, _FIX["musl"])
    return _row(name, version_key(version) >= version_key(needed), version, f"{needed} or newer")


def _check_sandbox(host: Host, scratch: Path) -> Check:
    """The overlay and the sandbox as a compilation needs them, tried on the same disk."""
    who = "as root" if not start_words(host) else "without root, in a user namespace"
    if not host.which("bwrap"):
        return Check(id="sandbox", status="warn", found="not tried without bubblewrap")
    try:
        parent = next(place for place in (scratch, *scratch.parents) if place.is_dir())
        with tempfile.TemporaryDirectory(prefix=".rekindle-trial-", dir=parent) as folder:
            mount = start_words(host) or ["unshare", "--mount", "--propagation", "private", "--"]
            reply = host.run([*mount, "sh", "-c", _TRIAL, "sh", folder], timeout=20.0)
    except OSError as error:
        return _row("sandbox", False, f"{scratch}: {error.strerror or error}", fix="another folder: --scratch DIR")
    if reply.ok:
        return _row("sandbox", True, f"works {who}")
    words = (reply.err.strip() or "no answer").splitlines()[-1]
    return _row("sandbox", False, f"{who}: {words}", "an overlay and user namespaces", _sandbox_fix(host, words))


def _sandbox_fix(host: Host, words: str) -> str | None:
    if "overlay" in words:
        return _FIX["overlay"]
    for path, allowed in _TABLE["namespaces"].items():
        value = (host.read(f"/proc/sys/{path}") or b"").strip()
        if value and (value == b"0") != (allowed == "0"):
            return f"sudo sysctl {path.replace('/', '.')}={allowed}, or run it with sudo"
    return None


def _check_disk(host: Host, scratch: Path) -> Check:
    if (disk := host.disk(str(scratch))) is None:
        return Check(id="disk", status="warn", found="unknown", want=f"{_GOOD_GIB:.0f} GiB")
    free = disk.free / GIB
    status: CheckStatus = "ok" if free >= _GOOD_GIB else "warn" if free >= _LEAST_GIB else "fail"
    return _row("disk", status, f"{free:.1f} GiB free", f"{_GOOD_GIB:.0f} GiB for toolchains")


def _check_network(scheduler: str, address: str) -> list[Check]:
    host_name, port = split_address(address)
    ours = host_name in own_addresses() or is_loopback(host_name)
    whose = host_name if ours else f"{host_name} is not this machine's"
    invite = _FIX["address"].format(ours=(own_addresses() or ["ADDRESS"])[0], port=port)
    free, other = is_free(address) if ours else True, _FIX["port"].format(host_name, port + 1)
    status, ahead = ask_scheduler(scheduler)
    checks = [
        _row("address", ours, whose, fix=invite),
        _row("port", free, f"{port} {'is free' if free else 'is taken'}", "free", other),
        _row("scheduler", not status.why, status.why or scheduler),
    ]
    if ahead is not None:
        words = f"{abs(ahead):.0f} s {'behind' if ahead > 0 else 'ahead of'} the scheduler's"
        checks.append(_row("clock", abs(ahead) <= _CLOCK_SECONDS, words, f"within {_CLOCK_SECONDS:.0f} s"))
    return checks
