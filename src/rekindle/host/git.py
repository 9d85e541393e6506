"""Git, asked about one work tree of which nobody knows who made it.

A tree brings its own ``.git/config``, and git runs programs that stand there (monitors, hooks, filters, ssh commands,
credential helpers, updates of submodules): :func:`harmless` switches all of them off for every call, in submodules too.
Whose tree it is stays git's own question: where git refuses a tree of another user, so do we.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rekindle.errors import BadInput, CommandFailed, MissingTool
from rekindle.host.live import LiveHost
from rekindle.host.protocol import Completed, Host
from rekindle.model.toml import read_beside

_MAX_MODULES = 2000
_LIST = ("--list", "-z", "--name-only")


def harmless(settings: Sequence[tuple[str, str]] = (), keys: Iterable[tuple[str, str]] = ()) -> dict[str, str]:
    """The environment in which git runs nothing for any of the ``keys`` (scope and name); ``settings`` count last."""
    table = read_beside(__file__, "git_off.toml", dict[str, Any])
    chosen: list[tuple[str, str]] = list(table["settings"].items())
    for scope, key in keys:
        section, _, last = key.rpartition(".")
        kind = section.partition(".")[0].lower()
        off = table["named"].get(kind, {}).get(last.lower())
        # A tree's attributes choose among the user's own filters too; other settings of the user's are theirs.
        if off is not None and (kind == "filter" or scope in ("local", "worktree")):
            chosen.append((key, off))
    chosen += settings
    environment = {"GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1", "GIT_EDITOR": ":", "GIT_PAGER": "cat"}
    for number, (name, value) in enumerate(chosen):
        environment |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    return environment | {"GIT_CONFIG_COUNT": str(len(chosen))}


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

    @property
    def place(self) -> list[str]:
        """The words that tell git which tree is meant."""
        if self.private is not None:
            return [f"--git-dir={self.private}", f"--work-tree={self.root}"]
        return ["-C", str(self.root)]

    def environment(self, settings: Sequence[tuple[str, str]] = (), *, modules: bool = False) -> dict[str, str]:
        """What every git call about this tree runs with. ``modules`` looks into its submodules' settings too. The
        user's own settings (proxies, credentials, ``safe.directory``) count; the tree's cannot replace the ssh command
        or the proxy command, because variables win over any configuration."""
        own = self.host.run(["git", "config", "--global", "--includes", "--get", "core.sshCommand"], timeout=20.0)
        ssh = own.out.strip() if own.ok else ""
        ssh = self.host.env.get("GIT_SSH_COMMAND") or ssh or "ssh"
        base = {"GIT_SSH_COMMAND": ssh, "GIT_PROXY_COMMAND": self.host.env.get("GIT_PROXY_COMMAND", "")}
        return {**base, **harmless(settings, self._keys(modules=modules))}

    def _keys(self, *, modules: bool) -> list[tuple[str, str]]:
        """Every (scope, key) of the configuration that counts here. Reading it runs nothing."""
        home = self.private or self.root / ".git"
        if not home.exists():
            return []
        quiet = harmless()
        top = self.host.run(["git", *self.place, "rev-parse", "--show-toplevel"], timeout=60.0, env=quiet)
        if "dubious ownership" in top.err:
            remedy = f"if you do: git config --global --add safe.directory {self.root.resolve().as_posix()}"
            raise BadInput(f"{self.root} belongs to another user, so git does not trust it", remedy=remedy)
        shown = top.out.rstrip("\n")
        if top.ok and shown and Path(shown).resolve() != self.root.resolve():
            text = f"the git settings in {self.root} point to another work tree ({shown}); nothing was done"
            raise BadInput(text, remedy="take core.worktree out of its .git/config, or use another copy")
        done = self.host.run(["git", *self.place, "config", *_LIST, "--show-scope"], timeout=60.0, env=quiet)
        words = done.out.split("\0")
        keys = dict.fromkeys(zip(words[::2], words[1::2], strict=False))
        configs = sorted((home / "modules").rglob("config")) if modules else []
        if len(configs) > _MAX_MODULES:
            # One that nobody looked into could name a program that git would start.
            text = f"{self.root} has git settings of {len(configs)} submodules, more than any tree; nothing was done"
            raise BadInput(text, remedy="use a fresh clone of it")
        for path in configs:
            done = self.host.run(["git", "config", "--file", str(path), "--includes", *_LIST], timeout=60.0, env=quiet)
            keys.update(dict.fromkeys(("local", key) for key in done.out.split("\0") if key))
        return list(keys)

    def ask(self, *args: str, timeout: float = 60.0, env: Mapping[str, str] | None = None) -> Completed:
        """A question about what is here: nothing is fetched for it, from nowhere."""
        settings = {**self.environment(), "GIT_ALLOW_PROTOCOL": "none", **(env or {})}
        return self.host.run(["git", *self.place, *args], timeout=timeout, env=settings)

    def run(self, *args: str, timeout: float = 60.0, env: Mapping[str, str] | None = None) -> str:
        """Like ``ask``, but a failure is an error with git's own words."""
        if self.host.which("git") is None:
            raise MissingTool("git is not installed, and this step needs it", remedy="install git")
        done = self.ask(*args, timeout=timeout, env=env)
        if not done.ok:
            words = [line for line in (done.err or done.out).splitlines() if line.strip()]
            raise CommandFailed(done.argv, done.code, words)
        return done.out

    def head(self) -> str | None:
        """The commit that is checked out, in full."""
        done = self.ask("rev-parse", "HEAD")
        return done.out.strip() or None if done.ok else None

    def tag_at_head(self) -> str | None:
        """The release tag the checkout stands on (the shortest one), not counting our own."""
        done = self.ask("tag", "--points-at", "HEAD")
        tags = [tag for tag in done.out.split() if not tag.startswith("rekindle")] if done.ok else []
        return min(tags, key=len, default=None)

    def dirty(self, *paths: str) -> tuple[str, ...]:
        """Files with uncommitted changes, within ``paths`` if given."""
        words = ("--porcelain", "-z", "--untracked-files=no", "--ignore-submodules=dirty")
        done = self.ask("status", *words, "--", *paths)
        return tuple(entry[3:] for entry in done.out.split("\0") if len(entry) > 3) if done.ok else ()

    def tag(self, name: str, *, force: bool = False) -> None:
        """Mark this commit, unless the mark is set already; ``force`` moves it."""
        if force or not self.ask("rev-parse", "-q", "--verify", f"refs/tags/{name}").ok:
            self.run("tag", *(["--force"] if force else []), name)
