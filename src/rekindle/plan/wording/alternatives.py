"""What else there is, beside the best way: each keeps something that the best one gives up."""

from __future__ import annotations

import msgspec

from rekindle.model.plan import Alternative
from rekindle.model.version import minor
from rekindle.plan.assess import ANCIENT_RELEASES, Alone, Outcome
from rekindle.plan.candidates import Assessed
from rekindle.plan.question import Question
from rekindle.plan.rules_gpu import card


def alternatives(outcome: Outcome, best: Assessed) -> tuple[Alternative, ...]:
    """A few that differ in kind: each keeps something the best one gives up."""
    chosen: list[Alternative] = []
    seen = {_signature(best)}
    kinds: set[tuple[str, ...]] = {_kind(best)}
    for assessed in outcome.feasible:
        if assessed is best or len(chosen) >= 5:
            continue
        kind = _kind(assessed)
        if best.candidate.answer == "install" and _is_poor(assessed, best, outcome.question):
            continue
        if _signature(assessed) in seen or kind in kinds:
            continue
        kinds.add(kind)
        seen.add(_signature(assessed))
        chosen.append(alternative(assessed, _for_which(outcome), best.candidate.python))
    if outcome.whole is not None:
        chosen.insert(0, _for_cards(outcome.whole, "all cards"))
    chosen += [_for_cards(alone, f"{', '.join(map(card, alone.gpus))} alone") for alone in outcome.alone]
    keeps = _keeps_the_driver(outcome, best)
    if keeps is not None and _signature(keeps) not in seen:
        chosen.append(alternative(keeps, "with the driver as it is: "))
    if outcome.question.backend != "cpu":
        chosen.append(
            Alternative(
                answer="install", torch=best.candidate.torch, variant="cpu", why="without the GPU: the CPU wheel"
            )
        )
    return tuple(chosen)


def _for_which(outcome: Outcome) -> str:
    """Where the plan serves a part of the cards, so does what stands beside it."""
    if not outcome.unserved:
        return ""
    served = [card(gpu) for gpu in outcome.question.gpus if gpu not in outcome.unserved]
    return f"for {', '.join(served)}: " if served else ""


def _for_cards(alone: Alone, names: str) -> Alternative:
    driver = f", with NVIDIA driver {alone.driver}" if alone.driver else ""
    only = alternative(alone.best, f"for {names}{driver}: ")
    return msgspec.structs.replace(only, driver=only.driver or alone.driver)


def _keeps_the_driver(outcome: Outcome, best: Assessed) -> Assessed | None:
    """Where the best way wants another driver: the best one that does not, however old."""
    if all(change.what != "driver" for change in best.changes):
        return None
    same = (one for one in outcome.feasible if all(change.what != "driver" for change in one.changes))
    return next((one for one in same if not is_guess(one)), None)


def is_guess(assessed: Assessed) -> bool:
    """The wheel has no machine code for a card: whether the driver can make some is anyone's guess."""
    return any(refusal.code == "gpu-only-ptx" for refusal in assessed.doubts)


def _is_poor(assessed: Assessed, best: Assessed, question: Question) -> bool:
    """Beside a good wheel: PTX that may not compile, or a torch of another age nobody asked for."""
    if is_guess(assessed):
        return True
    order = question.facts.minors
    behind = order[minor(best.candidate.torch)] - order[minor(assessed.candidate.torch)]
    return question.torch is None and behind > ANCIENT_RELEASES


def _kind(assessed: Assessed) -> tuple[str, ...]:
    candidate = assessed.candidate
    changed = sorted(change.what for change in assessed.changes)
    kit = (candidate.cuda or candidate.rocm or "").split(".")[0] if "torch" not in changed else ""
    return (candidate.answer, kit, *changed)


def _signature(assessed: Assessed) -> tuple[str | None, ...]:
    candidate = assessed.candidate
    return candidate.answer, candidate.torch, candidate.flavour.name if candidate.flavour else candidate.cuda


def alternative(assessed: Assessed, lead: str = "", beside: str | None = None) -> Alternative:
    """``beside``: the Python of the best way; another one is named."""
    candidate = assessed.candidate
    changes = assessed.changes
    parts = [f"{change.what} {change.from_} → {change.to}" for change in changes if change.what != "machine"]
    notes = [coverage.text for _, coverage in assessed.covered if coverage.kind in ("override", "jit")]
    doubts = [refusal.reason for refusal in assessed.doubts if refusal.reason not in notes]
    why = "; ".join(parts) if parts else ("an official wheel" if candidate.answer == "install" else "a source build")
    if beside and candidate.python and candidate.python != beside and all(c.what != "python" for c in changes):
        why += f", for Python {candidate.python}"
    if candidate.answer == "build" and assessed.evidence is not None:
        why += f", evidence: {assessed.evidence.grade}"
    if notes or doubts:
        why += " (" + " ".join((notes or doubts)[:1]) + ")"
    driver = next((change.to for change in changes if change.what == "driver"), None)
    return Alternative(
        answer=candidate.answer,
        torch=candidate.torch,
        variant=candidate.flavour.name if candidate.flavour else None,
        cuda=candidate.cuda,
        rocm=candidate.rocm,
        python=candidate.python,
        compiler=candidate.compiler,
        driver=driver,
        why=lead + why,
    )
