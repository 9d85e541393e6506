"""Makes realistic long logs around a sample: what real builds and runs print before and after the root error.

Nothing here is random but by its seed. The noise is full of red herrings on purpose: failed try-compiles, warnings that
speak of errors, files called error.cpp, handled exceptions, things that were mended on the way, consequences.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

NOISE = Path(__file__).parent / "logs" / "noise"


def noise(name: str) -> list[str]:
    return (NOISE / f"{name}.txt").read_text(encoding="utf-8").rstrip("\n").split("\n")


_FILES = noise("files")[0].split()
WARNINGS = noise("warnings")
PROBES = [probe.split("\n") for probe in "\n".join(noise("probes")).split("\n\n\n")]


def progress(rng: random.Random, count: int) -> list[str]:
    """Ninja or make lines with a warning now and then."""
    total = rng.randint(count + 50, 7000)
    ninja = rng.random() < 0.6
    lines = []
    for number in range(1, count + 1):
        name = rng.choice(_FILES)
        cuda = rng.random() < 0.3
        where = f"caffe2/CMakeFiles/torch_{'cuda' if cuda else 'cpu'}.dir/__/aten/src/ATen/native/{name}"
        step = f"[{number}/{total}]" if ninja else f"[{100 * number // total:3d}%]"
        lines.append(f"{step} Building {'CUDA' if cuda else 'CXX'} object {where}.{'cu' if cuda else 'cpp'}.o")
        if rng.random() < 0.04:
            lines.append(rng.choice(WARNINGS))
    return lines


def embed(text: str, stage: str, seed: int, *, size: int = 400) -> bytes:
    """The sample inside a log of its stage, carried the way some system carries logs."""
    rng = random.Random(seed)
    lines = text.split("\n")
    if stage in ("runtime", "import"):
        body = [*noise("pip"), *progress(rng, size // 4), "Finished processing dependencies for ext==0.1"]
        body += [*noise("run"), *lines, *noise("run_end")]
    elif stage == "install":
        body = [*noise("pip"), *lines, "[notice] To update, run: pip install --upgrade pip"]
    elif stage in ("source", "configure"):
        body = [*noise("configure"), *lines, *noise("build_end")]
    else:
        body = [*noise("configure"), *rng.choice(PROBES), *noise("summary"), *progress(rng, size)]
        body += [*_interleaved(rng, lines), *progress(rng, 6), *noise("build_end")]
    return rng.choice(CARRIERS)(body)


def _interleaved(rng: random.Random, lines: list[str]) -> list[str]:
    """A parallel make puts a line of another job in between; before or after, not inside, each of ours."""
    if rng.random() < 0.7 or len(lines) < 3:
        return lines
    at = rng.choice((1, len(lines) - 1))
    return [*lines[:at], *progress(rng, 2), *lines[at:]]


def _plain(lines: list[str]) -> bytes:
    return "\n".join(lines).encode()


def _crlf(lines: list[str]) -> bytes:
    return "\r\n".join(lines).encode()


def _powershell(lines: list[str]) -> bytes:
    return "\r\n".join(lines).encode("utf-16")


def _coloured(lines: list[str]) -> bytes:
    paint = (("error:", "\x1b[01;31m\x1b[Kerror:\x1b[m\x1b[K"), ("warning:", "\x1b[01;35m\x1b[Kwarning:\x1b[m\x1b[K"))
    text = "\n".join(lines)
    for word, painted in paint:
        text = text.replace(word, painted)
    return text.encode()


def _docker(lines: list[str]) -> bytes:
    return "\n".join(f"#14 {31 + number * 0.01:.2f} {line}".rstrip() for number, line in enumerate(lines)).encode()


def _compose(lines: list[str]) -> bytes:
    return "\n".join(f"trainer-1  | {line}".rstrip() for line in lines).encode()


def _actions(lines: list[str]) -> bytes:
    return "\n".join(f"2024-05-07T11:02:{n % 60:02d}.1234567Z {line}".rstrip() for n, line in enumerate(lines)).encode()


def _pip_indented(lines: list[str]) -> bytes:
    return "\n".join(f"      {line}".rstrip() for line in lines).encode()


CARRIERS: tuple[Callable[[list[str]], bytes], ...] = (
    _plain, _crlf, _powershell, _coloured, _docker, _compose, _actions, _pip_indented,
)  # fmt: skip
