"""The commands to paste. They work without rekindle; ``rekindle up`` does the same and watches over it."""

from __future__ import annotations

from rekindle.model.facts import Flavour
from rekindle.model.plan import BuildRecipe, Request, Step, pip_arguments
from rekindle.model.version import compare
from rekindle.plan.candidate import Assessed, Candidate
from rekindle.plan.question import Question

# From this release on each flavour has an index of its own; before, one page of files held all of them.
FIRST_OWN_INDEX = "1.11"
_STABLE = "https://download.pytorch.org/whl/torch_stable.html"


def install_requests(assessed: Assessed, question: Question) -> tuple[Request, ...]:
    """What gets installed: torch, its companions, and a NumPy that this torch was made for."""
    candidate = assessed.candidate
    flavour = candidate.flavour
    assert flavour is not None
    requests = [_torch(candidate, flavour, question)]
    if requests[0].url is None and requests[0].links is None and flavour.publisher == "pytorch":
        requests += _companions(candidate, requests[0].index, question)
    if numpy := numpy_limit(candidate, question):
        why = f"torch {candidate.torch} was compiled for NumPy 1"
        requests.append(Request(name="numpy", specifier=numpy, why=why))
    return tuple(requests)


def _torch(candidate: Candidate, flavour: Flavour, question: Question) -> Request:
    if candidate.wheel:
        return Request(name="torch", version=candidate.torch, url=candidate.wheel, why="a wheel built before")
    local = "" if _is_default(candidate, question) else f"+{flavour.name}"
    if flavour.publisher == "amd":
        targets = tuple(f"device-{gfx.name}" for gfx in question.gfxs)
        why = f"AMD's own wheel for ROCm {candidate.rocm}"
        return Request(name="torch", version=candidate.torch, extras=targets, index=flavour.index, why=why)
    why = f"the {flavour.name} wheel" if local else "PyPI's own wheel"
    if compare(candidate.torch, FIRST_OWN_INDEX) < 0 and flavour.index:
        return Request(name="torch", version=candidate.torch + local, links=_STABLE, why=why)
    index = flavour.index if local else None
    return Request(name="torch", version=candidate.torch + local, index=index, why=why)


def _companions(candidate: Candidate, index: str | None, question: Question) -> list[Request]:
    row = question.facts.release(candidate.torch)
    assert row is not None
    local = f"+{candidate.flavour.name}" if index and candidate.flavour else ""
    pairs = (("torchvision", row.torchvision), ("torchaudio", row.torchaudio))
    why = f"the one made for torch {candidate.torch}"
    return [Request(name=name, version=version + local, index=index, why=why) for name, version in pairs if version]


def lasting_env(assessed: Assessed) -> dict[str, str]:
    """Variables that must be set whenever torch is used, not only now."""
    return dict(pair for _, coverage in assessed.covered for pair in coverage.env)


def install_steps(requests: tuple[Request, ...], env: dict[str, str], python: str | None, system: str) -> list[Step]:
    """Variables to keep, then one pip command per index."""
    steps = [Step(kind="keep", env=env)] if env else []
    interpreter = interpreter_words(python, system)
    steps += [
        Step(kind="run", argv=(*interpreter, "-m", "pip", "install", *words)) for words in pip_arguments(requests)
    ]
    return steps


def interpreter_words(python: str | None, system: str) -> tuple[str, ...]:
    """How a person starts that Python: ``py -3.12`` on Windows, ``python3.12`` elsewhere."""
    if system == "windows":
        return ("py", f"-{python}") if python else ("py",)
    return (f"python{python or 3}",)


def numpy_limit(candidate: Candidate, question: Question) -> str:
    """``<2`` where the wheel was compiled for NumPy 1, else nothing."""
    era = question.facts.era(candidate.torch)
    return era.numpy_windows if question.platform == "windows" else era.numpy_linux


def _is_default(candidate: Candidate, question: Question) -> bool:
    flavour = candidate.flavour
    return flavour is not None and question.facts.is_pypi_default(
        candidate.torch, flavour.name, question.platform, candidate.python
    )


def build_steps(candidate: Candidate, recipe: BuildRecipe, question: Question) -> list[Step]:
    """Clone, environment, requirements, variables, build."""
    interpreter = interpreter_words(candidate.python, question.machine.os.system)
    clone = ("git", "clone", "--branch", f"v{candidate.torch}", "--depth", "1")
    return [
        Step(kind="run", argv=(*clone, "--recurse-submodules", "--shallow-submodules", recipe.source)),
        Step(kind="cd", folder="pytorch"),
        Step(kind="run", argv=(*interpreter, "-m", "venv", ".venv")),
        Step(kind="activate", folder=".venv"),
        _pip(*(f"{name}{spec}" for name, spec in recipe.pins.items())),
        _pip("-r", "requirements.txt"),
        Step(kind="set", env=recipe.env),
        Step(kind="run", argv=("python", "setup.py", "bdist_wheel")),
    ]


def _pip(*words: str) -> Step:
    return Step(kind="run", argv=("python", "-m", "pip", "install", *words))
