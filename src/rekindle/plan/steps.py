"""The commands to paste. They work without rekindle; ``rekindle up`` does the same and watches over it."""

import functools

from rekindle.compat.toolkit import cudnn_covers
from rekindle.facts import Facts, paired_companions
from rekindle.model.facts import Flavour, FrontEndRow
from rekindle.model.plan import CUDNN_SWITCH, HERE, BuildRecipe, Reason, Request, Step, pip_arguments
from rekindle.model.version import compare, key, minor, same_prefix
from rekindle.plan.candidates import Assessed, Candidate
from rekindle.plan.question import Question
from rekindle.scripts.quoting import cache_line

# From this release on each flavour has an index of its own; before, one page of files held all of them.
FIRST_OWN_INDEX = "1.11"
_STABLE = "https://download.pytorch.org/whl/torch_stable.html"
# Before this release a version did not name its flavour, so that each flavour had a page of its own.
FIRST_NAMED_FLAVOUR = "1.2"
_CUDNN_PLACES = {"CUDNN_INCLUDE_DIR": "include", "CUDNN_LIBRARY": "lib"}


def install_requests(assessed: Assessed, question: Question) -> tuple[tuple[Request, ...], tuple[Reason, ...]]:
    """Torch, the companions that exist, and a NumPy this torch was made for; and what is left out, with the reason."""
    candidate = assessed.candidate
    flavour = candidate.flavour
    assert flavour is not None
    requests = [_torch_request(candidate, flavour, question)]
    left_out: list[Reason] = []
    if requests[0].url is None and flavour.publisher == "pytorch":
        companions, left_out = _companion_requests(candidate, flavour, requests[0], question)
        requests += companions
    for name, version in flavour.companions.items():
        extras = requests[0].extras if name == "torchvision" else ()
        why = f"the one made for torch {candidate.torch}, from the same index"
        requests.append(Request(name=name, version=version, extras=extras, index=flavour.index, why=why))
    if numpy := numpy_limit(candidate, question):
        why = f"torch {candidate.torch} was compiled for NumPy 1"
        requests.append(Request(name="numpy", specifier=numpy, why=why))
    return tuple(requests), tuple(left_out)


def _torch_request(candidate: Candidate, flavour: Flavour, question: Question) -> Request:
    if candidate.wheel and candidate.answer == "install":
        return Request(name="torch", version=candidate.torch, url=candidate.wheel, why="a wheel built before")
    if flavour.publisher == "jetson":
        why = f"a wheel for JetPack with CUDA {candidate.cuda}"
        return Request(name="torch", version=candidate.torch, index=flavour.index, url=flavour.url, why=why)
    default = question.facts.is_pypi_default(candidate.torch, flavour.name, question.platform, candidate.python)
    local = "" if default else f"+{flavour.name}"
    if flavour.publisher == "amd":
        targets = tuple(f"device-{gfx.name}" for gfx in question.gfxs)
        why = f"AMD's own wheel for ROCm {candidate.rocm}"
        return Request(name="torch", version=candidate.torch, extras=targets, index=flavour.index, why=why)
    why = f"the {flavour.name} wheel" if local else "PyPI's own wheel"
    if local and compare(candidate.torch, FIRST_OWN_INDEX) < 0 and flavour.index:
        if compare(candidate.torch, FIRST_NAMED_FLAVOUR) < 0:
            page = _STABLE.replace("/torch_stable", f"/{flavour.name}/torch_stable")
            return Request(name="torch", version=candidate.torch, links=page, why=why)
        return Request(name="torch", version=candidate.torch + local, links=_STABLE, why=why)
    return Request(name="torch", version=candidate.torch + local, index=flavour.index if local else None, why=why)


def _companion_requests(
    candidate: Candidate, flavour: Flavour, torch: Request, question: Question
) -> tuple[list[Request], list[Reason]]:
    """Only what exists for this index, platform and Python is asked for; one missing package would stop the line."""
    place = question.facts, candidate.torch, flavour.name, question.platform, candidate.python or ""
    pairs = paired_companions(*place, pypi=torch.index is None and torch.links is None)
    if torch.links is not None:
        # Beside such a page torchaudio is on PyPI; the first torchvisions are Python alone and fit any flavour.
        early = compare(candidate.torch, FIRST_NAMED_FLAVOUR) < 0
        pairs = () if early else (pairs[0], paired_companions(*place, pypi=True)[1])
    requests, missing = [], []
    for pair in pairs:
        if pair.exists and pair.version:
            why = f"the one made for torch {candidate.torch}"
            # A page of all flavours names that of torchvision; torchaudio had no flavours then.
            named = torch.index is not None or (torch.links is not None and pair.package == "torchvision")
            version = pair.version + (f"+{flavour.name}" if named else "")
            requests.append(Request(name=pair.package, version=version, index=torch.index, links=torch.links, why=why))
        elif pair.why:
            text = f"{pair.package} is left out of the line to paste. {pair.why}"
            missing.append(Reason(code="companion-left-out", text=text, source=pair.source[0] if pair.source else None))
    return requests, missing


def lasting_env(assessed: Assessed, question: Question) -> dict[str, str]:
    """Variables that must be set whenever torch is used, not only now: for a card that runs its neighbour's code, for
    known problems, for a card beside the processor's graphics, and for one that cuDNN has no code for."""
    env = dict(pair for _, coverage in assessed.covered for pair in coverage.env)
    for hazard in assessed.hazards:
        env |= hazard.running
    amd = [gpu for gpu in question.machine.gpus if gpu.vendor == "amd"]
    if question.idle_gpus and all(gpu.how == "kfd" for gpu in amd):  # HIP counts them in the kernel's order
        env["HIP_VISIBLE_DEVICES"] = ",".join(str(n) for n, gpu in enumerate(amd) if gpu not in question.idle_gpus)
    cuda, flavour = assessed.candidate.cuda, assessed.candidate.flavour
    lacking = (cudnn_covers(flavour.cudnn if flavour else None, cuda, sm, question.facts) for sm in question.sms)
    if any(answer.kind == "partly" for answer in lacking):
        env[CUDNN_SWITCH] = "off"
    return env


def install_steps(requests: tuple[Request, ...], env: dict[str, str], python: str | None, system: str) -> list[Step]:
    """Variables to keep, then one pip command per index."""
    pip = (*interpreter_words(python, system), "-m", "pip", "install")
    steps = [Step(kind="run", argv=(*pip, *words)) for words in pip_arguments(requests)]
    return [Step(kind="keep", env=env), *steps] if env else steps


def interpreter_words(python: str | None, system: str) -> tuple[str, ...]:
    """How a person starts that Python: ``py -3.12`` on Windows, ``python3.12`` elsewhere."""
    if system == "windows":
        return ("py", f"-{python}") if python else ("py",)
    return (f"python{python or 3}",)


def numpy_limit(candidate: Candidate, question: Question) -> str:
    """``<2`` where the wheel was compiled for NumPy 1, else nothing."""
    era = question.facts.era(candidate.torch)
    return era.numpy_windows if question.platform == "windows" else era.numpy_linux


@functools.lru_cache(maxsize=64)
def front_end(torch: str, facts: Facts) -> FrontEndRow:
    """How a wheel of this release is made from its tree."""
    rows = [row for row in facts.sources.front if compare(row.since, torch) <= 0]
    return max(rows or facts.sources.front[:1], key=lambda row: key(row.since))


def cudnn_package(candidate: Candidate, cudnn: str | None, question: Question) -> str | None:
    """The package that brings this cuDNN with headers; None where it is there already, or the index has none."""
    if candidate.cuda is None or cudnn is None or question.tegra or question.has_toolkit("cudnn"):
        return None
    for row in question.facts.cudnn.package:
        first = row.first.get(question.platform)
        if row.cuda == key(candidate.cuda)[0] and first is not None and compare(cudnn, first) >= 0:
            return f"{row.name}=={'.'.join(cudnn.split('.')[:3])}.*"
    return None


def _cudnn_steps(candidate: Candidate, cudnn: str | None, question: Question) -> list[Step]:
    """Its library goes by its full name only in the package; CMake looks for the short one."""
    if (package := cudnn_package(candidate, cudnn, question)) is None or cudnn is None:
        return []
    folder = f".venv/lib/python{candidate.python}/site-packages/nvidia/cudnn"
    return [
        _pip_step("--no-deps", package),
        Step(kind="run", argv=("ln", "-sf", f"libcudnn.so.{key(cudnn)[0]}", f"{folder}/lib/libcudnn.so")),
        Step(kind="set", env={name: f"{HERE}/{folder}/{place}" for name, place in _CUDNN_PLACES.items()}),
    ]


def build_steps(
    candidate: Candidate, recipe: BuildRecipe, question: Question, *, cudnn: str | None, blas_folder: str | None
) -> list[Step]:
    """The whole build by hand. ``blas_folder`` is a folder of the environment that CMake must search."""
    system = question.machine.os.system
    interpreter = interpreter_words(candidate.python, system)
    clone = ("git", "clone", "--branch", f"v{candidate.torch}", "--depth", "1")
    steps = [
        Step(kind="run", argv=(*clone, "--recurse-submodules", "--shallow-submodules", recipe.source)),
        Step(kind="cd", folder="pytorch"),
        Step(kind="run", argv=(*interpreter, "-m", "venv", ".venv")),
        Step(kind="activate", folder=".venv"),
        _pip_step(*(f"{name}{spec}" for name, spec in recipe.pins.items())),
        _pip_step("-r", "requirements.txt"),
    ]
    steps += _cudnn_steps(candidate, cudnn, question)
    if candidate.backend == "rocm":
        steps.append(Step(kind="run", argv=("python", "tools/amd_build/build_amd.py")))
    if recipe.patches:  # before one goes there, where ``./rekindle`` of a clone is
        steps.insert(1, Step(kind="run", argv=("rekindle", "source", "patch", "pytorch")))
    if system == "windows":
        steps.insert(0, Step(kind="run", argv=("git", "config", "--global", "core.longpaths", "true")))
    kind, _, version = (candidate.compiler or "").partition("-")
    if kind == "msvc":
        steps.append(Step(kind="vcvars", argv=(f"14.{version.split('.')[1]}" if "." in version else "",)))
    kits = (("CUDA_HOME", "cuda", None if question.tegra else candidate.cuda), ("ROCM_PATH", "rocm", candidate.rocm))
    for variable, name, release in kits:
        if release and (home := toolkit_folder(name, release, question)):
            steps.append(Step(kind="set", env={variable: home}))
    if blas_folder is not None:
        steps.append(Step(kind="set", env={"CMAKE_PREFIX_PATH": f"{HERE}/.venv/{blas_folder}".removesuffix("/.")}))
    if recipe.cmake:
        lines = tuple(cache_line(name, value) for name, value in recipe.cmake.items())
        steps.append(Step(kind="write", folder="rekindle-settings.cmake", argv=lines))
        steps.append(Step(kind="set", env={"CMAKE_PROJECT_INCLUDE": f"{HERE}/rekindle-settings.cmake"}))
    build = Step(kind="run", argv=front_end(candidate.torch, question.facts).command)
    return [*steps, Step(kind="set", env=recipe.env), build, Step(kind="install-built", folder="dist")]


def toolkit_folder(kind: str, version: str, question: Question) -> str | None:
    """Where this very toolkit is, or its maker's installer puts it; None for a ROCm that is nowhere on Windows."""
    kits = (kit for kit in question.machine.toolkits if kit.kind == kind and same_prefix(kit.version or "0", version))
    if here := next((kit.path for kit in kits if kit.path is not None), None):
        return here
    windows = question.machine.os.system == "windows"
    if kind != "cuda":
        return None if windows else "/opt/rocm"
    place = "C:\\Program Files\\NVIDIA GPU Computing Toolkit\\CUDA\\v" if windows else "/usr/local/cuda-"
    return place + minor(version)


def _pip_step(*words: str) -> Step:
    return Step(kind="run", argv=("python", "-m", "pip", "install", *words))
