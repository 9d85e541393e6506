"""The environment that an adoption may change: the application's own, writable, used by no program now, with no change
of it cut short; and the copies that are kept of it."""

import os
import sys
from pathlib import Path

from rekindle.errors import NotReady
from rekindle.facts import Facts
from rekindle.host.processes import processes_of
from rekindle.interpreters.app_folder import AppFolder
from rekindle.interpreters.kept_places import KeptPlaces
from rekindle.model.interpreter import Interpreter


def kept_environments(root: Path) -> tuple[KeptPlaces, KeptPlaces]:
    """As it was before its first adoption, kept until ``--undo``; and before one that follows, kept until its proof."""
    return KeptPlaces((root,)), KeptPlaces((root,), "-again")


def recover_environment(root: Path) -> bool:
    """Put it back where a change was cut short, the latest first; did that need doing?"""
    first, again = kept_environments(root)
    return any([again.recover(), first.recover()])


def finish_restoring(folder: Path, facts: Facts) -> bool:
    """Killed between its two renames, an undo left no environment by which an application could be recognised: the one
    that was kept takes its place. Was there one?"""
    places = {
        Path(os.path.normpath(folder / inside / python))
        for app in facts.apps.app.values()
        for inside in (".", *app.inside)
        for python in (".", *app.pythons)
    }
    return any([recover_environment(place) for place in places if not place.exists()])


def own_root(interpreter: Interpreter, app_folder: AppFolder) -> Path:
    """The environment as a folder that is the application's own; refused where it is the system's or ours."""
    root = Path(interpreter.prefix or "")
    inside = root.is_relative_to(app_folder.root) or root.is_relative_to(app_folder.root.parent)
    alone = (root / "pyvenv.cfg").is_file() or (root / "conda-meta").is_dir() or any(root.glob("python*._pth"))
    if not interpreter.prefix or not (alone or inside) or interpreter.externally_managed:
        raise NotReady(
            f"{interpreter.path} belongs to the system, not to {app_folder.app.title}",
            remedy="give the application an environment of its own (python3 -m venv venv in its folder), start its"
            " installer once, and adopt that",
        )
    if root == Path(sys.prefix):
        raise NotReady(
            f"this Rekindle runs inside the environment of {app_folder.app.title}, which is about to be exchanged",
            remedy="install Rekindle elsewhere (pipx install . in its clone) and run the same command again",
        )
    return root


def refuse_unwritable(root: Path) -> None:
    """A swap that could not be carried out, or not be taken back, is not begun."""
    for place in (root, root.parent):
        if not os.access(place, os.W_OK):
            raise NotReady(
                f"{place} may not be written by you",
                remedy="run this as the user whom the application belongs to, or move it to a folder of yours",
            )


def refuse_running(root: Path, app_folder: AppFolder) -> None:
    """A program that runs holds the old torch, and writes into what is being exchanged."""
    running = processes_of(root)
    if running:
        names = ", ".join(f"{process.name} (process {process.pid})" for process in running[:3])
        raise NotReady(f"{app_folder.app.title} is running: {names}", remedy="close it and run the same command again")
