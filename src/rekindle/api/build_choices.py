"""What a build can be told: the options of ``build`` as one value, for all files that pass them on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from rekindle.model.plan import Plan
    from rekindle.model.source import SourceTree


class BuildChoices(TypedDict, total=False):
    """What a build can be told; everything has a default.

    plan        a plan or its file (default: ``plan.json`` of the workspace)
    source      a tree or its folder (default: the workspace's)
    project     torch, torchvision, torchaudio or spark (default: as the tree says)
    pythons     paths or versions, one wheel each (default: the plan's)
    workspace   where everything is kept (default: the user's data directory)
    target      build only this CMake target, make no wheel
    memory      what all compilers together may use, such as ``12G``
    jobs        never more than so many at once
    launcher    ccache, sccache, distcc or icecc
    cmake       the CMake to use
    clean       remove the build tree first
    settings    switches by hand, as pairs; they win over the plan's
    against     the torch a companion is compiled against: a wheel or ``torch==2.6.0`` (default: the workspace's)
    as_is       use the given Python with the packages it has instead of an environment made for the build
    package     an extension by name (``torch-scatter==2.1.2``): its sources come from the package index
    gpus        the cards an extension is for (``sm_80``, a product name), instead of this machine's
    """

    plan: Plan | Path | None
    source: SourceTree | Path | None
    project: str | None
    pythons: tuple[str, ...]
    workspace: Path | None
    target: str | None
    memory: str | None
    jobs: int | None
    launcher: str | None
    cmake: str | None
    clean: bool
    settings: tuple[tuple[str, str], ...]
    against: str | None
    as_is: bool
    package: str | None
    gpus: tuple[str, ...]
