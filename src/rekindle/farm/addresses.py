"""Addresses of a farm: where its scheduler listens, where its workers answer, and who else may hear what passes there.

sccache's scheduler speaks plain HTTP, so whoever can read the network between it, its workers and its builders can
read their tokens; what builders and workers say to each other is encrypted by certificates that pass there, too.
"""

import contextlib
import ipaddress
import socket
from collections.abc import Iterable
from urllib.parse import urlsplit

from rekindle.errors import BadInput, StageFailed

SCHEDULER_PORT = 10600
WORKER_PORT = 10501
_SAFE_WAYS = (
    "a private network between the machines (WireGuard, or ssh -L), or HTTPS before the scheduler (--url https://…, "
    "docs/farm.md); --private-network says that you have one"
)


def read_address(text: str, port: int) -> str:
    """``192.168.1.10``, ``desk.local:10600`` or ``[fd00::1]:10600`` as sccache wants it: numbers, with a port."""
    split = urlsplit(f"//{text}" if text.count(":") < 2 or text.startswith("[") else f"//[{text}]")
    try:
        host, given_port = split.hostname, split.port
        if not host or split.path or split.username:
            raise ValueError(text)
        results = socket.getaddrinfo(host, given_port if given_port is not None else port, type=socket.SOCK_STREAM)
    except (OSError, ValueError) as error:
        remedy = "192.168.1.10 or 192.168.1.10:10600"
        raise BadInput(f"{text!r} is no address of a machine: {error}", remedy=remedy) from None
    numbers, number = str(results[0][4][0]), int(results[0][4][1])
    if ipaddress.ip_address(numbers).is_unspecified:
        message = f"{text} means every address of this machine; the others must know one that they reach"
        raise BadInput(message, remedy=f"one of: {', '.join(own_addresses()) or 'ip address lists them'}")
    return write_address(numbers, number)


def write_address(host: str, port: int) -> str:
    """A host and a port in one word; IPv6 stands in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def split_address(address: str) -> tuple[str, int]:
    """The host and the port of what :func:`read_address` wrote, or of an address of HTTP."""
    split = urlsplit(address if "//" in address else f"//{address}")
    return split.hostname or "", split.port or (443 if split.scheme == "https" else 80)


def own_addresses() -> list[str]:
    """Where other machines may reach this one."""
    import psutil

    texts = {str(row.address) for rows in psutil.net_if_addrs().values() for row in rows}
    numbers = {text: _number(text) for text in sorted(texts)}
    return [text for text, number in numbers.items() if number and not (number.is_loopback or number.is_link_local)]


def _number(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(text)
    return None


def address_towards(url: str) -> str:
    """Which address of this machine the scheduler sees when we speak to it; nothing is sent."""
    host, port = split_address(url)
    try:
        family, kind, _, _, target = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(target)
            return str(probe.getsockname()[0])
    except OSError as error:
        raise StageFailed(f"there is no way to {host} from here: {error.strerror or error}") from error


def judge_network(url: str, *, private_network: bool = False) -> str | None:
    """A warning about tokens on the way to ``url``, or None; refused where strangers could read them."""
    if url.startswith("https:") or private_network:
        return None
    host, port = split_address(url)
    number = ipaddress.ip_address(split_address(read_address(host, port))[0])
    if number.is_loopback:
        return None
    if number.is_global:
        raise BadInput(f"{host} is open to the world, and tokens would travel there in clear", remedy=_SAFE_WAYS)
    where = f"tokens travel in clear on the network of {host}"
    return f"{where}: right only where everybody on it is trusted; else {_SAFE_WAYS}"


def judge_reach(url: str, workers: Iterable[str]) -> str | None:
    """A warning where machines are invited to a scheduler that only its own machine reaches, or None."""
    far = [address for address in workers if not is_loopback(split_address(address)[0])]
    if not far or not is_loopback(split_address(url)[0]):
        return None
    why = f"{far[0]} does not reach {url}, which is this machine alone (unless a tunnel leads here)"
    ours = ", ".join(own_addresses()) or "ADDRESS"
    return f"{why}: rekindle farm down, then rekindle farm up --listen with one of {ours}"


def is_loopback(host: str) -> bool:
    """Does it mean the very machine?"""
    number = _number(host)
    return number.is_loopback if number else host == "localhost"


def answers(address: str) -> bool:
    """Does something take connections there?"""
    with contextlib.suppress(OSError):
        socket.create_connection(split_address(address), timeout=2.0).close()
        return True
    return False


def is_free(address: str) -> bool:
    """Could a server of ours listen there?"""
    host, port = split_address(address)
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe, contextlib.suppress(OSError):
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((host, port))
        return True
    return False
