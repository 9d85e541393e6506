"""Who may stay connected, and for how long: no client, however slow or many, keeps the others out.

Every connection has a deadline for the whole of what it does now (sending its request, or taking its answer), not
for each read. When all places are taken, the one that has waited longest without a complete request makes room.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from dataclasses import dataclass

MAX_CONNECTIONS = 64
MAX_PER_CLIENT = 32
HEAD_SECONDS = 10.0
ANSWER_SECONDS = 60.0
# Slower than this over a whole file nobody is served: 3 GB then may take thirteen hours.
SLOWEST_BYTES_PER_SECOND = 64 << 10


@dataclass
class _Connection:
    client: str
    deadline: float
    since: float
    waiting: bool = True


class OpenConnections:
    def __init__(self) -> None:
        self._open: dict[socket.socket, _Connection] = {}
        self._lock = threading.Lock()

    def enter(self, connection: socket.socket, client: str) -> bool:
        """Let a connection in, if need be instead of an idle one; False where all others are being served."""
        now = time.monotonic()
        with self._lock:
            same = [one for one, peer in self._open.items() if peer.client == client]
            crowd = same if len(same) >= MAX_PER_CLIENT else list(self._open)
            if len(crowd) >= (MAX_PER_CLIENT if crowd is same else MAX_CONNECTIONS):
                idle = [one for one in crowd if self._open[one].waiting]
                if not idle:
                    return False
                oldest = min(idle, key=lambda one: self._open[one].since)
                del self._open[oldest]
                _hang_up(oldest)
            self._open[connection] = _Connection(client, now + HEAD_SECONDS, now)
        return True

    def awaits(self, connection: socket.socket) -> None:
        """A new request may come on this connection: from now on its head is waited for."""
        now = time.monotonic()
        with self._lock:
            if peer := self._open.get(connection):
                peer.deadline, peer.since, peer.waiting = now + HEAD_SECONDS, now, True

    def answers(self, connection: socket.socket, size: int = 0) -> None:
        """The request is complete; its answer has so many bytes."""
        with self._lock:
            if peer := self._open.get(connection):
                peer.waiting = False
                peer.deadline = time.monotonic() + ANSWER_SECONDS + size / SLOWEST_BYTES_PER_SECOND

    def leave(self, connection: socket.socket) -> None:
        with self._lock:
            self._open.pop(connection, None)

    def sweep(self) -> None:
        """End what is past its deadline."""
        now = time.monotonic()
        with self._lock:
            for connection in [one for one, peer in self._open.items() if peer.deadline < now]:
                del self._open[connection]
                _hang_up(connection)


def _hang_up(connection: socket.socket) -> None:
    # Shut down, not closed: the thread that reads from it wakes up and closes it itself.
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
