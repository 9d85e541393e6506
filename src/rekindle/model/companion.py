"""Rows about what runs beside torch: packages, their wheels and sources, forks that go further, and applications that
bring a torch of their own. A package is ``extension`` (compiled against one torch), ``python`` (Triton or torch
compiles at run time) or ``own`` (brings its own libraries and does not care which torch is there)."""

from typing import Literal

from rekindle.model.arch import Gfx, Sm
from rekindle.model.document import Line, Part
from rekindle.model.facts import Platform, Row

Kind = Literal["extension", "python", "own"]
Backend = Literal["cpu", "cuda", "rocm", "xpu"]


class CompanionPackage(Row, frozen=True, kw_only=True):
    """One package. ``first`` and ``last`` are versions on the package index, or upstream's own where it is not there.
    ``names`` are other ways people write it, ``module`` what Python imports."""

    title: str
    kind: Kind
    module: str
    first: str
    last: str
    names: tuple[str, ...] = ()


class Bounds(Row, frozen=True, kw_only=True):
    """Where something runs. What is not said is no limit; ``backends`` are the kinds of machine it uses. ``torch``,
    ``python``: version conditions. ``cuda``, ``rocm``: those of the torch it goes with (``12``: any 12.x). ``targets``:
    the code inside, per platform or ``any``; ``toolkit`` made it. ``sm_min``, ``sm_max``: what its own code asks for at
    run time. ``limits`` is what does not work everywhere (``below sm_75: no int8``)."""

    package: str
    version: str
    since: str | None = None
    torch: str = ""
    python: str = ""
    cuda: tuple[str, ...] = ()
    rocm: tuple[str, ...] = ()
    backends: tuple[Backend, ...] = ("cuda",)
    targets: dict[str, tuple[str, ...]] = {}
    toolkit: str | None = None
    sm_min: Sm | None = None
    sm_max: Sm | None = None
    gfx: tuple[Gfx, ...] = ()
    limits: dict[str, str] = {}


class CompanionPackageWheel(Bounds, frozen=True, kw_only=True):
    """Published wheels of ``since`` to ``version``; the newest of them is proposed.

    ``pythons`` per platform (``any``: what ``python`` allows); a platform that is missing has no wheel, and ``lacks``
    may say why. ``place`` is an index or page other than PyPI (``{variant}``: one per flavour); ``name`` the
    distribution where it is called otherwise (``cupy-cuda12x``); ``glibc`` the oldest one the tags allow; ``flags``
    what else pip must be told. ``abi`` is how its C++ spells strings, measured (torch up to 2.6 is mostly pre-cxx11);
    ``code_in`` the library whose code decides, where others hold extras for a few cards; ``brings`` the other
    companions that it asks for in one version. ``with_torch``: torch's own line brings it, and none goes over it."""

    pythons: dict[Platform, tuple[str, ...]]
    name: str | None = None
    place: str | None = None
    glibc: dict[Platform, str] = {}
    lacks: dict[Platform, str] = {}
    flags: tuple[str, ...] = ()
    abi: Literal["cxx11", "pre-cxx11"] | None = None
    code_in: str | None = None
    brings: dict[str, str] = {}
    with_torch: bool = False


class CompanionSource(Bounds, frozen=True, kw_only=True):
    """Sources that compile. ``place``: ``pypi`` for an sdist, or a repository. ``arch_env`` names the variable that
    takes the architectures, ``arch_form`` how it wants them (``8.6``, ``86``). ``job_gib``: of one compiler."""

    platforms: tuple[Platform, ...]
    place: str = "pypi"
    env: dict[str, str] = {}
    arch_env: str | None = None
    arch_form: Literal["dotted", "number", "cmake"] = "dotted"
    needs: tuple[str, ...] = ()
    job_gib: float | None = None
    minutes: tuple[int, int] | None = None
    cuda_min: str | None = None


class CompanionFork(Bounds, frozen=True, kw_only=True):
    """Somebody else's build or branch of a package. ``stands_in`` marks another package that does the same work.
    ``first`` prefers it to compiling. ``install`` is what pip is told; ``{torch}`` (2.9), ``{cuda}`` (128),
    ``{python}`` (313) and ``{abi}`` (313t) in the address of a wheel are those of the plan."""

    name: str
    url: str
    state: str
    platforms: tuple[Platform, ...] = ()
    install: tuple[str, ...] = ()
    stands_in: bool = False
    first: bool = False


class App(Row, frozen=True, kw_only=True):
    """How an application is recognised, where its Python is, and what touches its torch.

    All paths are relative to the folder with its sources, which may itself lie ``inside`` the folder people name.
    ``marks`` are files that must all be there, ``lacks`` ones that must not (its forks have them). ``pythons`` are
    environments or folders with an interpreter, first found first. ``version`` are files that say its version, the
    first that is there. ``backend`` is another application inside it whose torch it is; the version is then that one's.
    ``extensions`` are patterns of files in which extensions state requirements. ``settings`` are the files its launcher
    reads variables from, by system, ``start_line`` the line in the one for Windows that starts the program;
    ``torch_variable`` is the one that holds its command for torch. ``never_installed`` are its extension manager's
    lists of packages that it installs for nobody. ``disabled`` is the ending of an extension's folder that it passes
    over. ``package`` is its name on the package index, where it is installed from there. ``replaces`` says in words
    what of its own replaces torch."""

    title: str
    names: tuple[str, ...] = ()
    marks: tuple[str, ...]
    lacks: tuple[str, ...] = ()
    inside: tuple[str, ...] = ()
    pythons: tuple[str, ...] = ()
    version: tuple[str, ...] = ()
    backend: str | None = None
    requirements: tuple[str, ...] = ()
    extensions: tuple[str, ...] = ()
    settings: dict[str, str] = {}
    start_line: str | None = None
    torch_variable: str | None = None
    never_installed: tuple[str, ...] = ()
    disabled: str | None = None
    package: str | None = None
    replaces: tuple[str, ...] = ()


class AppTorch(Row, frozen=True, kw_only=True):
    """From version ``since`` on (up to the next row's): the torch that an application takes (None: it states no
    bounds), and the one that its own installer brings."""

    app: str
    since: str
    torch: str | None = None
    installs: str | None = None


class AppUse(Part, frozen=True, kw_only=True):
    """An application somebody plans for: its name in the tables, and its version where a folder tells it. ``torch`` is
    what the metadata of the installed version asks for, where it is a package; ``python`` that of its environment."""

    name: Line
    version: Line | None = None
    torch: Line | None = None
    python: Line | None = None


class Wanted(Part, frozen=True, kw_only=True):
    """A requirement about a torch package or a companion, stated by an ``extension`` or the application itself."""

    requirement: Line
    file: Line
    extension: Line | None = None
