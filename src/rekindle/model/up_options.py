"""What ``up`` can be told: one value, from the command line to the legs that use it."""

from pathlib import Path

import msgspec

from rekindle.model.plan import Wish
from rekindle.model.verify import Level


class UpOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What ``up`` can be told; everything has a default.

    wish        which torch: release, variant, toolkit, companions, settings by hand
    gpu, cpu    what a built torch is for (``("sm_35", "sm_90")``, ``"ivybridge"``) where that is not what this machine
                has; it is proved on what this machine has
    workspace   where everything is kept (default: the user's data directory)
    python      an interpreter that gets torch itself, or a release (``3.12``) for the environment that is made
    venv        where that environment is (default: in the workspace)
    installer   ``pip`` (default) or ``uv``
    find_links  folders or pages of wheels that are looked through besides
    offline     ask no index at all
    index       this package index instead of the plan's: a mirror, or ``default`` for pip's own
    torch_only  without torchvision and torchaudio
    source      a tree to build instead of fetching one
    wheel       a torch that is built already: it is taken as it is, and torchvision and torchaudio are built against it
    level       how hard the result is proved
    memory, jobs, launcher, farm, farm_check   for the compilers, as in a build
    trace       write a time line of the last build there, for Perfetto or Chrome
    target      build only that CMake target, and stop
    bundle      put libraries of this machine that a built wheel needs into it
    clean       remove what another plan left in the build tree; without it, such a tree is refused
    dry_run     stop after the plan and its card, and write nothing
    """

    wish: Wish = Wish()
    gpu: tuple[str, ...] = ()
    cpu: str | None = None
    workspace: Path | None = None
    python: str | None = None
    venv: Path | None = None
    installer: str | None = None
    find_links: tuple[str, ...] = ()
    offline: bool = False
    index: str | None = None
    torch_only: bool = False
    source: Path | None = None
    wheel: Path | None = None
    level: Level = "smoke"
    memory: str | None = None
    jobs: int | None = None
    launcher: str | None = None
    farm: str | None = None
    farm_check: int | None = None
    trace: Path | None = None
    target: str | None = None
    bundle: bool = True
    clean: bool = False
    dry_run: bool = False
