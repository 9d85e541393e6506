"""A host that remembers every question and its answer, has a deadline, and a place for what could not be learned.

What it remembers is the evidence of a probe and the content of a capture. :func:`ask_each` asks several things at once.
"""

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from rekindle.host.capture import Record
from rekindle.host.protocol import Completed, Cpuid, Disk, Host, Memory, RegistryKey
from rekindle.model.machine import Gap, ProbeEvidence

_SAID_CHARACTERS = 160
# Commands end this long before the deadline, so that their processes are gone when the doctor is.
_TO_END_S = 0.5
Q = TypeVar("Q")
A = TypeVar("A")


class _WatchedEnv(Mapping[str, str]):
    """Only the variables somebody asked for are remembered: an environment holds secrets."""

    def __init__(self, real: Mapping[str, str], seen: dict[str, str]) -> None:
        self._real = real
        self._seen = seen

    def __getitem__(self, key: str) -> str:
        value = self._real[key]
        self._seen[key] = value
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._real)

    def __len__(self) -> int:
        return len(self._real)


class Asking:
    """Satisfies :class:`rekindle.host.protocol.Host` by asking ``host`` and remembering. ``deadline`` is monotonic."""

    def __init__(self, host: Host, probe: str = "", deadline: float = math.inf) -> None:
        self._host = host
        self._probe = probe
        self._deadline = deadline
        self.gaps: list[Gap] = []
        self.evidence: list[ProbeEvidence] = []
        self.system, self.machine = host.system, host.machine
        self.record = Record(system=host.system, machine=host.machine)
        self.env: Mapping[str, str] = _WatchedEnv(host.env, self.record.env)

    def gap(self, what: str, why: str) -> None:
        self.gaps.append(Gap(what=what, why=" ".join(why.split())[:300]))

    def left(self, at_most: float) -> float:
        """Seconds a command may take: its own limit or what the deadline leaves."""
        return max(0.05, min(at_most, self._deadline - _TO_END_S - time.monotonic()))

    def _note(self, asked: str, answer: object) -> None:
        text = " ".join(str(answer).split()) if answer not in (None, "", {}) else "nothing"
        self.evidence.append(ProbeEvidence(probe=self._probe, asked=asked, said=text[:_SAID_CHARACTERS]))

    def run(self, argv: Sequence[str], *, timeout: float = 5.0, env: Mapping[str, str] | None = None) -> Completed:
        done = self._host.run(argv, timeout=timeout, env=env)
        self.record.runs.append(done)
        ending = "timed out" if done.timed_out else "" if done.ok else f"exit {done.code}"
        output = done.out.strip() or done.err.strip()
        self._note(" ".join(argv), f"{ending}: {output}" if ending else output)
        return done

    def read(self, path: str, *, limit: int = 1 << 20) -> bytes | None:
        data = self.record.files[path] = self._host.read(path, limit=limit)
        if data is not None:
            self._note(path, data[: 4 * _SAID_CHARACTERS].decode("utf-8", "replace"))
        return data

    def glob(self, pattern: str) -> tuple[str, ...]:
        paths = self._host.glob(pattern)
        self.record.paths.update(dict.fromkeys(paths))
        if paths:
            self._note(pattern, f"{len(paths)}: {', '.join(paths)}")
        return paths

    def which(self, name: str) -> str | None:
        path = self._host.which(name)
        self.record.programs.setdefault(name, (path,) if path else ())
        return path

    def which_all(self, name: str) -> tuple[str, ...]:
        paths = self.record.programs[name] = self._host.which_all(name)
        return paths

    def realpath(self, path: str) -> str:
        real = self._host.realpath(path)
        if real != path:
            self.record.links[path] = real
        return real

    def access(self, path: str) -> bool | None:
        may = self.record.access[path] = self._host.access(path)
        if may is not None:
            self._note(path, "may be used" if may else "no permission")
        return may

    def hwcap(self) -> tuple[int, int] | None:
        words = self.record.hwcap = self._host.hwcap()
        if words is not None:
            self._note("AT_HWCAP, AT_HWCAP2", ", ".join(map(hex, words)))
        return words

    def disk(self, path: str) -> Disk | None:
        disk = self.record.disks[path] = self._host.disk(path)
        self._note(f"disk space at {path}", disk)
        return disk

    def memory(self) -> Memory | None:
        memory = self.record.memory = self._host.memory()
        self._note("memory", memory)
        return memory

    def cores(self) -> int | None:
        count = self.record.cores = self._host.cores()
        return count

    def cpuid(self) -> Cpuid | None:
        answer = self.record.cpuid = self._host.cpuid()
        if answer is not None:
            self._note("cpuid", f"{len(answer.leaves)} leaves")
        return answer

    def registry(self, key: str) -> RegistryKey | None:
        answer = self.record.registry[key] = self._host.registry(key)
        if answer is not None:
            self._note(key, dict(answer.values) or ", ".join(answer.keys))
        return answer

    def nvml(self, *, timeout: float = 4.0) -> Mapping[str, Any] | None:
        answer = self.record.nvml = self._host.nvml(timeout=timeout)
        self._note("NVML", answer)
        return answer

    def python(self, path: str, *, timeout: float = 4.0) -> Mapping[str, Any] | None:
        answer = self.record.pythons[path] = self._host.python(path, timeout=timeout)
        self._note(f"{path} about itself", (answer or {}).get("version") or answer)
        return answer

    def torch(self, path: str, *, deep: bool = False, timeout: float = 6.0) -> Mapping[str, Any] | None:
        answer = self.record.torches[path] = self._host.torch(path, deep=deep, timeout=timeout)
        self._note(f"torch in {path}", answer)
        return answer


def ask_each(host: Asking, questions: Sequence[Q], ask: Callable[[Q], A], *, at_once: int) -> dict[Q, A]:
    """Ask several things at the same time. Whoever does not answer in time is missing from the result."""
    answers: dict[Q, A] = {}
    waiting = list(reversed(questions))

    def work() -> None:
        with contextlib.suppress(IndexError):
            while True:
                question = waiting.pop()
                answers[question] = ask(question)

    workers = [threading.Thread(target=work, daemon=True) for _ in range(min(at_once, len(questions)))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(host.left(60))
    return dict(answers)
