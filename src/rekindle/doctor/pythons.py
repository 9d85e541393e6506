"""The Pythons of the machine, what pip brought into them, and their torches: one probe, each follows from the last."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from rekindle.doctor.torches import find_torches
from rekindle.host.asking import Asking, ask_each
from rekindle.host.text import version_key
from rekindle.interpreters.search import candidate_paths, distinct_paths, identity_of, started_directly
from rekindle.model.interpreter import Interpreter, read_interpreter
from rekindle.model.machine import InstalledTorch, Python, Toolkit
from rekindle.toolkits.libraries import pip_pieces

_MAX_PYTHONS = 24
_AT_ONCE = 4


class Installations(msgspec.Struct, frozen=True, kw_only=True):
    """The Pythons, the toolkits that pip installed into them, and the torches they have."""

    pythons: tuple[Python, ...] = ()
    pieces: tuple[Toolkit, ...] = ()
    torches: tuple[InstalledTorch, ...] = ()


def probe_installations(try_torch: bool) -> Callable[[Asking], Installations]:
    """The probe; ``try_torch`` imports each torch and uses the card."""

    def probe(host: Asking) -> Installations:
        pythons, answers = probe_pythons(host)
        return Installations(
            pythons=pythons, pieces=pip_pieces(answers), torches=find_torches(host, answers, try_it=try_torch)
        )

    return probe


def probe_pythons(host: Asking) -> tuple[tuple[Python, ...], Mapping[str, Interpreter]]:
    """The Pythons, and what each said about itself by its path."""
    distinct = distinct_paths(host, candidate_paths(host))
    paths = distinct[:_MAX_PYTHONS]
    if len(distinct) > _MAX_PYTHONS:
        host.gap("some Pythons", f"only the first {_MAX_PYTHONS} of {len(distinct)} were asked")
    answers = ask_each(
        host, paths, lambda path: read_interpreter(path, host.python(path, timeout=host.left(4))), at_once=_AT_ONCE
    )
    known: dict[str, Interpreter] = {}
    for path in paths:
        answer = answers.get(path, "it did not answer in time")
        if isinstance(answer, str):
            host.gap(f"Python {path}", answer)
        else:
            known.setdefault(identity_of(host, answer), started_directly(host, answer))
    pythons = sorted(map(_row, known.values()), key=lambda python: version_key(python.version), reverse=True)
    return tuple(pythons), {found.path: found for found in known.values()}


def _row(found: Interpreter) -> Python:
    note = None if found.headers else "no headers (Python.h)"
    if found.bits == 32:
        note = "32 bit: no torch is published for it"
    return Python(version=found.version, path=found.path, abi=found.abi, kind=found.kind, note=note)
