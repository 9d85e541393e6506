"""The commands to paste. They work without rekindle; ``rekindle up`` does the same and watches over it."""

from __future__ import annotations

from rekindle.model.plan import BuildRecipe
from rekindle.model.version import compare
from rekindle.plan.candidate import Assessed, Candidate
from rekindle.plan.question import Question

_STABLE = "https://download.pytorch.org/whl/torch_stable.html"


def install_commands(assessed: Assessed, question: Question) -> tuple[str, ...]:
    candidate = assessed.candidate
    flavour = candidate.flavour
    assert flavour is not None
    windows = question.machine.os.system == "windows"
    python = f"py -{candidate.python}" if windows else f"python{candidate.python}"
    commands = []
    for name, value in dict(pair for _, coverage in assessed.covered for pair in coverage.env).items():
        commands.append(f"setx {name} {value}" if windows else f"export {name}={value}")
    if candidate.wheel:
        commands.append(f'{python} -m pip install "{candidate.wheel}"')
    elif flavour.publisher == "amd":
        targets = ",".join(f"device-{gfx.name}" for gfx in question.gfxs)
        commands.append(f'{python} -m pip install --index-url {flavour.index} "torch[{targets}]=={candidate.torch}"')
    elif compare(candidate.torch, "1.11") < 0 and flavour.index:
        commands.append(f"{python} -m pip install torch=={candidate.torch}{_local(candidate, question)} -f {_STABLE}")
    else:
        packages = " ".join((f"torch=={candidate.torch}", *_companions(candidate, question)))
        index = "" if _is_default(candidate, question) else f" --index-url {flavour.index}"
        commands.append(f"{python} -m pip install {packages}{index}")
    if question.facts.era(candidate.torch).numpy_linux or (
        windows and question.facts.era(candidate.torch).numpy_windows
    ):
        commands.append(f'{python} -m pip install "numpy<2"')
    return tuple(commands)


def _companions(candidate: Candidate, question: Question) -> list[str]:
    row = question.facts.release(candidate.torch)
    assert row is not None
    pairs = (("torchvision", row.torchvision), ("torchaudio", row.torchaudio))
    return [f"{name}=={version}" for name, version in pairs if version]


def _is_default(candidate: Candidate, question: Question) -> bool:
    flavour = candidate.flavour
    return flavour is not None and question.facts.is_pypi_default(candidate.torch, flavour.name, question.platform)


def _local(candidate: Candidate, question: Question) -> str:
    """Old indexes hold all flavours on one page: the local version picks one, the default has none."""
    assert candidate.flavour is not None
    return "" if _is_default(candidate, question) else f"+{candidate.flavour.name}"


def build_commands(candidate: Candidate, recipe: BuildRecipe, question: Question) -> tuple[str, ...]:
    windows = question.machine.os.system == "windows"
    python = f"py -{candidate.python}" if windows else f"python{candidate.python}"
    activate = r".venv\Scripts\activate" if windows else ". .venv/bin/activate"
    pins = " ".join(f'"{name}{spec}"' for name, spec in recipe.pins.items())
    setting = [f"set {n}={v}" if windows else f"export {n}={_quoted(v)}" for n, v in recipe.env.items()]
    return (
        f"git clone --branch v{candidate.torch} --depth 1 --recurse-submodules --shallow-submodules {recipe.source}",
        "cd pytorch",
        f"{python} -m venv .venv",
        activate,
        f"python -m pip install {pins}",
        "python -m pip install -r requirements.txt",
        *setting,
        "python setup.py bdist_wheel",
    )


def _quoted(value: str) -> str:
    return f'"{value}"' if any(letter in value for letter in " ;<>") else value
