"""Git, asked about one work tree. Every call trusts exactly that tree (``safe.directory``) and no other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rekindle.errors import CommandFailed, MissingTool
from rekindle.host.live import LiveHost
from rekindle.host.protocol import Completed, Host


def safe_directory(root: Path) -> dict[str, str]:
    """Environment in which git accepts this one tree although another user owns it (common on Windows)."""
    return {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "safe.directory",
        "GIT_CONFIG_VALUE_0": root.resolve().as_posix(),
    }


@dataclass(frozen=True)
class Git:
    """``private`` names a git directory outside the usual place, for trees that have none of their own."""

    root: Path
    host: Host = field(default_factory=LiveHost)
    private: Path | None = None

    @property
    def present(self) -> bool:
        """Whether this very directory is the top of a work tree and git is installed."""
        return (self.root / ".git").exists() and self.host.which("git") is not None

    def ask(self, *args: str, timeout: float = 60.0, env: Mapping[str, str] | None = None) -> Completed:
        place = ["-C", str(self.root)]
        if self.private is not None:
            place = [f"--git-dir={self.private}", f"--work-tree={self.root}"]
        settings = {**safe_directory(self.root), "GIT_TERMINAL_PROMPT": "0", **(env or {})}
        return self.host.run(["git", *place, *args], timeout=timeout, env=settings)

    def run(self, *args: str, timeout: float = 60.0, env: Mapping[str, str] | None = None) -> str:
        """Like ``ask``, but a failure is an error with git's own words."""
        if self.host.which("git") is None:
            raise MissingTool("git is not installed, and this step needs it", remedy="install git")
        done = self.ask(*args, timeout=timeout, env=env)
        if not done.ok:
            words = [line for line in (done.err or done.out).splitlines() if line.strip()]
            raise CommandFailed(done.argv, done.code, words)
        return done.out

    def shown(self, *args: str) -> str:
        """The command as a person would paste it into a shell."""
        import shlex
        import subprocess

        place = [f"--git-dir={self.private}", f"--work-tree={self.root}"] if self.private else ["-C", str(self.root)]
        argv = ["git", *place, *args]
        return subprocess.list2cmdline(argv) if self.host.system == "windows" else shlex.join(argv)

    def head(self) -> str | None:
        done = self.ask("rev-parse", "HEAD")
        return done.out.strip() or None if done.ok else None

    def tag_at_head(self) -> str | None:
        """The release tag the checkout stands on (the shortest one), not counting our own."""
        done = self.ask("tag", "--points-at", "HEAD")
        tags = [tag for tag in done.out.split() if not tag.startswith("rekindle")] if done.ok else []
        return min(tags, key=len, default=None)

    def dirty(self, *paths: str) -> tuple[str, ...]:
        """Files with uncommitted changes, within ``paths`` if given."""
        done = self.ask(
            "status", "--porcelain", "-z", "--untracked-files=no", "--ignore-submodules=dirty", "--", *paths
        )
        return tuple(entry[3:] for entry in done.out.split("\0") if len(entry) > 3) if done.ok else ()

    def tag(self, name: str, *, force: bool = False) -> None:
        if force or not self.ask("rev-parse", "-q", "--verify", f"refs/tags/{name}").ok:
            self.run("tag", *(["--force"] if force else []), name)
