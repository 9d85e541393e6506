"""A host that remembers every question and its answer, has a deadline, and a place for what could not be learned. What
it remembers is the evidence of a probe and the content of a capture. :func:`ask_each` asks several things at once."""

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
        """What could not be learned, in one line."""
        self.gaps.append(Gap(what=what, why=" ".join(why.split())[:300]))

    def left(self, at_most: float) -> float:
        """Seconds a command may take: its own limit or what the deadline leaves."""
        return max(0.05, min(at_most, self._deadline - _TO_END_S - time.monotonic()))

    def _note(self, asked: str, answer: A, said: object) -> A:
        """Write down what was said, unless it is None; gives the answer."""
        if said is not None:
            text = " ".join(str(said).split()) if said not in ("", {}) else "nothing"
            self.evidence.append(ProbeEvidence(probe=self._probe, asked=asked, said=text[:_SAID_CHARACTERS]))
        return answer

    def run(self, argv: Sequence[str], *, timeout: float = 5.0, env: Mapping[str, str] | None = None) -> Completed:
        """Noted with how it ended, where that was not well."""
        done = self._host.run(argv, timeout=timeout, env=env)
        self.record.runs.append(done)
        ending = "timed out" if done.timed_out else "" if done.ok else f"exit {done.code}"
        output = done.out.strip() or done.err.strip()
        return self._note(" ".join(argv), done, f"{ending}: {output}" if ending else output)

    def read(self, path: str, *, limit: int = 1 << 20) -> bytes | None:
        """Kept whole, noted with its beginning."""
        data = self.record.files[path] = self._host.read(path, limit=limit)
        return self._note(path, data, None if data is None else data[: 4 * _SAID_CHARACTERS].decode("utf-8", "replace"))

    def glob(self, pattern: str) -> tuple[str, ...]:
        """Every path found is kept; a pattern that finds nothing is not noted."""
        paths = self._host.glob(pattern)
        self.record.paths.update(dict.fromkeys(paths))
        return self._note(pattern, paths, f"{len(paths)}: {', '.join(paths)}" if paths else None)

    def which(self, name: str) -> str | None:
        """Kept unless all places of that name are known already."""
        path = self._host.which(name)
        self.record.programs.setdefault(name, (path,) if path else ())
        return path

    def which_all(self, name: str) -> tuple[str, ...]:
        """Kept in place of what ``which`` found."""
        paths = self.record.programs[name] = self._host.which_all(name)
        return paths

    def realpath(self, path: str) -> str:
        """Kept where it is another path."""
        real = self._host.realpath(path)
        if real != path:
            self.record.links[path] = real
        return real

    def access(self, path: str) -> bool | None:
        """Noted where there is such a file."""
        may = self.record.access[path] = self._host.access(path)
        return self._note(path, may, None if may is None else "may be used" if may else "no permission")

    def hwcap(self) -> tuple[int, int] | None:
        """Noted as hexadecimal words."""
        words = self.record.hwcap = self._host.hwcap()
        return self._note("AT_HWCAP, AT_HWCAP2", words, words and ", ".join(map(hex, words)))

    def disk(self, path: str) -> Disk | None:
        """Kept by the path that was asked about, not by its file system."""
        disk = self.record.disks[path] = self._host.disk(path)
        return self._note(f"disk space at {path}", disk, disk or "")

    def memory(self) -> Memory | None:
        """Noted even where nothing is known."""
        memory = self.record.memory = self._host.memory()
        return self._note("memory", memory, memory or "")

    def cores(self) -> int | None:
        """Kept, not noted: a number alone says little."""
        count = self.record.cores = self._host.cores()
        return count

    def cpuid(self) -> Cpuid | None:
        """Noted by how many leaves there are."""
        answer = self.record.cpuid = self._host.cpuid()
        return self._note("cpuid", answer, answer and f"{len(answer.leaves)} leaves")

    def registry(self, key: str) -> RegistryKey | None:
        """Noted with its values, or else with the keys below it."""
        answer = self.record.registry[key] = self._host.registry(key)
        return self._note(key, answer, answer and (dict(answer.values) or ", ".join(answer.keys)))

    def nvml(self, *, timeout: float = 4.0) -> Mapping[str, Any] | None:
        """Noted even where there is no such library."""
        answer = self.record.nvml = self._host.nvml(timeout=timeout)
        return self._note("NVML", answer, answer or "")

    def python(self, path: str, *, timeout: float = 4.0) -> Mapping[str, Any] | None:
        """Noted with its version, where it tells one."""
        answer = self.record.pythons[path] = self._host.python(path, timeout=timeout)
        return self._note(f"{path} about itself", answer, (answer or {}).get("version") or answer or "")

    def torch(self, path: str, *, deep: bool = False, timeout: float = 6.0) -> Mapping[str, Any] | None:
        """Noted with all it says."""
        answer = self.record.torches[path] = self._host.torch(path, deep=deep, timeout=timeout)
        return self._note(f"torch in {path}", answer, answer or "")


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
