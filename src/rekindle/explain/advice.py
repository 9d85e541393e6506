"""Where no cause is known: what is known nevertheless, and how to go on.

The first real error with its place, its kind in words, the machine as far as the log tells it, three things to try,
and the text to post. Nothing of it claims a cause.
"""

from __future__ import annotations

from rekindle.explain.events import Event
from rekindle.explain.form import kind_of, load_kinds
from rekindle.explain.ranking import is_harmless
from rekindle.explain.scene import Scene
from rekindle.explain.setting import facts_of
from rekindle.model.diagnosis import Unexplained

_LATE = ("exception", "gpu-error", "gpu-library-error", "crashed", "killed", "wrong-use")
_STEPS = {
    "compile-refused": "Compare the versions of torch, CUDA, compiler and Python with those the project was made for.",
    "configure-refused": "Read what CMake names as missing, install it, and configure in an empty build directory.",
    "exception": "Look at the last line of the traceback that is your own code, and at the versions (pip list).",
    "step-failed": "Run it again with all output (pip -v, ninja -v, make VERBOSE=1): the reason is not in this log.",
}
_GENERAL = "Search for the quoted message together with the name of the package it comes from."
_FRESH = "Try it once in a fresh environment with only what is needed: it tells a broken environment from a real fault."
_WHOLE = "Give 'rekindle explain' the whole log: the reason often stands far above the end."


def unexplained(scene: Scene) -> Unexplained | None:
    """None where the log holds no error at all."""
    found = _first_error(scene)
    if found is None:
        return None
    kind, event = found
    words = load_kinds()[kind].words
    facts = facts_of(scene)
    file, at = event.values.get("file"), event.values.get("at")
    place = f"{file}:{at}" if file and at else file
    steps = [_STEPS.get(kind, _GENERAL), _GENERAL, _FRESH, _WHOLE]
    known = ", ".join(f"{name} {value}" for name, value in facts.items()) or "not said"
    return Unexplained(
        kind=kind,
        words=words,
        quote=event.evidence,
        line=event.line,
        place=place,
        facts=facts,
        steps=tuple(dict.fromkeys(steps))[:3],
        post=f"{words[:1].upper()}{words[1:]}:\n\n    {event.evidence}\n\nWhat the log says of the machine: {known}.",
    )


def _first_error(scene: Scene) -> tuple[str, Event] | None:
    """The first error of a build, the last of a run; what drivers say afterwards only where there is nothing else."""
    inner: list[tuple[str, Event]] = []
    outer: list[tuple[str, Event]] = []
    for key, seen in scene.reading.forms.items():
        kind = kind_of(key)
        if kind == "waiting":
            continue
        place = outer if load_kinds()[kind].outer else inner
        place += [(kind, event) for event in seen.all if not is_harmless(event)]
    pool = inner or outer
    if not pool:
        return None
    if all(kind in _LATE for kind, _ in pool):
        return max(pool, key=lambda found: found[1].line)
    early = [found for found in pool if found[0] not in _LATE] or pool
    return min(early, key=lambda found: (found[1].line, found[0]))
