"""Git asked about a strange tree: what it says of the checkout, and that nothing of the tree's own making runs."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

import needs
from bare_host import BareHost
from rekindle.errors import BadInput, CommandFailed, MissingTool
from rekindle.host.git import Git, harmless
from rekindle.host.protocol import Completed

NO = Completed(argv=(), code=1, err="fatal: no")


class Answering(BareHost):
    """Says what it was taught for the words that a command holds; everything else fails."""

    def __init__(self, answers: Mapping[str, Completed | str], env: Mapping[str, str] | None = None) -> None:
        super().__init__(env=env or {})
        self.answers, self.asked = answers, [("", dict[str, str](), 0.0)]

    def which(self, name: str) -> str | None:
        return None if name in self.answers.get("missing", "") else f"/usr/bin/{name}"  # type: ignore[operator]

    def run(self, argv: Sequence[str], *, timeout: float = 5.0, env: Mapping[str, str] | None = None) -> Completed:
        line = " ".join(argv)
        self.asked.append((line, dict(env or {}), timeout))
        for words, answer in self.answers.items():
            if words in line:
                return Completed(argv=tuple(argv), code=0, out=answer) if isinstance(answer, str) else answer
        return NO


def git(root: Path, answers: Mapping[str, Completed | str], *, private: Path | None = None, **env: str) -> Git:
    return Git(root, Answering(answers, env), private)


def test_what_is_checked_out(tmp_path: Path) -> None:
    assert git(tmp_path, {"rev-parse HEAD": "abc123\n"}).head() == "abc123"
    assert git(tmp_path, {"rev-parse HEAD": "\n"}).head() is None
    assert git(tmp_path, {}).head() is None


def test_the_release_is_the_shortest_tag_that_is_not_ours(tmp_path: Path) -> None:
    tags = {"tag --points-at": "v2.7.1-rc3\nrekindle\nrekindle-base\nv2.7.1\n"}
    assert git(tmp_path, tags).tag_at_head() == "v2.7.1"
    assert git(tmp_path, {"tag --points-at": "rekindle-base\n"}).tag_at_head() is None
    assert git(tmp_path, {"tag --points-at": Completed(argv=(), code=128, out="v1")}).tag_at_head() is None


def test_changed_files_are_named_whole(tmp_path: Path) -> None:
    tree = git(tmp_path, {"status --porcelain": " M a b.cpp\0M  x\0"})
    assert tree.dirty("lib") == ("a b.cpp", "x")
    assert tree.host.asked[-1][0].endswith("-- lib")  # type: ignore[attr-defined]
    assert git(tmp_path, {"status": Completed(argv=(), code=1, out=" M a\0")}).dirty() == ()


@pytest.mark.parametrize(
    ("there", "force", "ran"), [(False, False, ["tag v"]), (True, False, []), (True, True, ["tag --force v"])]
)
def test_a_mark_is_set_once_and_moved_only_by_force(tmp_path: Path, there: bool, force: bool, ran: list[str]) -> None:
    tree = git(tmp_path, {"rev-parse": "abc" if there else NO, " tag ": ""})
    tree.tag("v", force=force)
    lines = [line for line, _, _ in tree.host.asked if " tag " in line]  # type: ignore[attr-defined]
    assert [line[line.index("tag") :] for line in lines] == ran


def test_a_failure_has_git_s_own_words(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed) as caught:
        git(tmp_path, {"fetch": Completed(argv=("git", "fetch"), code=128, err="\nfatal: gone\n\n")}).run("fetch")
    assert caught.value.code == 128 and "fatal: gone" in str(caught.value)
    with pytest.raises(CommandFailed, match="said on stdout"):
        git(tmp_path, {"fetch": Completed(argv=("git", "fetch"), code=1, out="said on stdout")}).run("fetch")
    assert git(tmp_path, {"log": "text"}).run("log") == "text"
    with pytest.raises(MissingTool, match="git is not installed"):
        git(tmp_path, {"missing": "git"}).run("log")


def test_a_tree_is_one_only_at_its_top_and_with_git(tmp_path: Path) -> None:
    assert not git(tmp_path, {}).present
    (tmp_path / ".git").mkdir()
    assert git(tmp_path, {}).present and not git(tmp_path, {"missing": "git"}).present


def test_a_question_fetches_nothing_and_asks_nobody(tmp_path: Path) -> None:
    tree = git(tmp_path, {"log": "x"})
    tree.ask("log", timeout=7.0, env={"EXTRA": "1"})
    line, env, timeout = tree.host.asked[-1]  # type: ignore[attr-defined]
    assert line == f"git -C {tmp_path} log" and timeout == 7.0
    assert env["GIT_ALLOW_PROTOCOL"] == "none" and env["GIT_TERMINAL_PROMPT"] == "0" and env["EXTRA"] == "1"
    private = git(tmp_path, {"log": "x"}, private=tmp_path / "own")
    private.ask("log")
    assert private.host.asked[-1][0] == f"git --git-dir={tmp_path / 'own'} --work-tree={tmp_path} log"  # type: ignore[attr-defined]


def test_the_user_s_ssh_counts_and_the_tree_s_does_not(tmp_path: Path) -> None:
    own = {"--get core.sshCommand": "ssh -i key\n"}
    assert git(tmp_path, own).environment()["GIT_SSH_COMMAND"] == "ssh -i key"
    assert git(tmp_path, own, GIT_SSH_COMMAND="mine").environment()["GIT_SSH_COMMAND"] == "mine"
    plain = git(tmp_path, {"core.sshCommand": Completed(argv=(), code=1, out="x")}).environment()
    assert plain["GIT_SSH_COMMAND"] == "ssh" and plain["GIT_PROXY_COMMAND"] == ""


def settings(environment: Mapping[str, str]) -> dict[str, str]:
    count = int(environment["GIT_CONFIG_COUNT"])
    assert f"GIT_CONFIG_KEY_{count}" not in environment
    return {environment[f"GIT_CONFIG_KEY_{n}"]: environment[f"GIT_CONFIG_VALUE_{n}"] for n in range(count)}


def test_programs_that_a_tree_names_are_switched_off() -> None:
    keys = [("local", "filter.lfs.clean"), ("global", "filter.mine.smudge"), ("local", "user.name")]
    off = settings(harmless([("core.autocrlf", "false")], keys))
    assert off["filter.lfs.clean"] == off["filter.mine.smudge"] == "" and "user.name" not in off
    assert off["core.hooksPath"] == "/dev/null" and off["core.fsmonitor"] == "false"
    assert list(off)[-1] == "core.autocrlf", "what is asked for counts last"
    named = settings(harmless((), [("local", "credential.x.helper"), ("worktree", "credential.y.helper")]))
    mine = settings(harmless((), [("global", "credential.x.helper")]))
    assert {"credential.x.helper", "credential.y.helper"} <= set(named) and "credential.x.helper" not in mine


def test_submodules_are_looked_into_where_asked(tmp_path: Path) -> None:
    for name in ("a", "b/c"):
        (tmp_path / ".git/modules" / name).mkdir(parents=True)
        (tmp_path / ".git/modules" / name / "config").write_text("")
    answers = {
        "rev-parse --show-toplevel": f"{tmp_path}\n",
        "--show-scope": "local\0filter.top.clean\0global\0user.name\0",
        "modules/b/c/config": "filter.deep.process\0",
        "modules/a/config": "",
    }
    alone = settings(git(tmp_path, answers).environment())
    whole = settings(git(tmp_path, answers).environment(modules=True))
    assert "filter.top.clean" in alone and "filter.deep.process" not in alone
    assert {"filter.top.clean", "filter.deep.process"} <= set(whole)


def test_a_tree_of_somebody_else_or_one_that_points_away_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    theirs = Completed(argv=(), code=128, err="fatal: detected dubious ownership in repository")
    with pytest.raises(BadInput, match="belongs to another user") as caught:
        git(tmp_path, {"--show-toplevel": theirs}).environment()
    assert "safe.directory" in str(caught.value.remedy)
    with pytest.raises(BadInput, match="point to another work tree"):
        git(tmp_path, {"--show-toplevel": "/somewhere/else\n"}).environment()
    for silent in (NO, "", Completed(argv=(), code=1, out="/somewhere/else")):
        git(tmp_path, {"--show-toplevel": silent, "--show-scope": ""}).environment()


@needs.tool("git")
def test_every_setting_is_read_with_its_scope(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    for number in range(5):
        subprocess.run(["git", "-C", str(tmp_path), "config", f"filter.f{number}.clean", "x"], check=True)
    keys = Git(tmp_path)._keys(modules=False)
    assert {scope for scope, _ in keys} <= {"system", "global", "local", "worktree", "command"}
    assert [key for scope, key in keys if scope == "local" and key.startswith("filter.")] == [
        f"filter.f{number}.clean" for number in range(5)
    ]


def test_a_tree_with_more_submodules_than_are_looked_into_is_refused(tmp_path: Path) -> None:
    """The settings of one that was passed over could name a program for git to start."""
    modules = tmp_path / ".git" / "modules"
    for number in range(2000):
        (modules / f"m{number}").mkdir(parents=True)
        (modules / f"m{number}" / "config").touch()
    tree = git(tmp_path, {f"{modules / 'm1999' / 'config'}": "filter.evil.smudge\0"})
    assert "filter.evil.smudge" in tree.environment(modules=True).values(), "the last is looked into, too"
    (modules / "one-more").mkdir()
    (modules / "one-more" / "config").touch()
    with pytest.raises(BadInput, match="git settings of 2001 submodules, more than any tree; nothing was done"):
        tree.environment(modules=True)
    tree.environment()
