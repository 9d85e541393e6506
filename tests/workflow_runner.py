"""A small runner of GitHub workflows for tests: ``run`` steps are really run, known actions have stand-ins.

What it knows is what our exported workflows use: ``${{ github.workspace }}``, ``github.run_id``, ``always()``, a
repository that is private or not, ``continue-on-error``, ``needs``, ``GITHUB_ENV``, ``GITHUB_PATH``, the summary.
Anything else is an error, so that a new feature is not passed over in silence.
"""

from __future__ import annotations

import glob
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

Shell = Callable[[str, Path, Mapping[str, str]], tuple[int, str]]


@dataclass
class Runner:
    """``store`` is what outlives a job: caches and artifacts. ``shells`` run a text in the workspace; bash is given."""

    store: Path
    env: Mapping[str, str]
    shells: dict[str, Shell] = field(default_factory=dict)
    private: bool = False
    log: list[str] = field(default_factory=list)
    outcome: dict[str, str] = field(default_factory=dict)
    attested: dict[str, str] = field(default_factory=dict)
    pythons: list[str] = field(default_factory=list)

    def run(self, text: str, folder: Path) -> bool:
        """Every job of a workflow, one after the other; each begins in an empty workspace."""
        jobs = yaml.safe_load(text)["jobs"]
        good: set[str] = set()
        for number, (name, job) in enumerate(jobs.items()):
            if job.get("needs") and job["needs"] not in good:
                self.outcome[name] = "skipped"
                continue
            workspace = folder / f"workspace {number}"
            workspace.mkdir(parents=True)
            self.outcome[name] = "success" if self._job(job, workspace) else "failure"
            if self.outcome[name] == "success":
                good.add(name)
        return all(value == "success" for value in self.outcome.values())

    def _job(self, job: Mapping[str, Any], workspace: Path) -> bool:
        env = {**self.env, "GITHUB_WORKSPACE": str(workspace)}
        files = {name: workspace.parent / f"{workspace.name}.{name}" for name in ("ENV", "PATH", "STEP_SUMMARY")}
        good = True
        for step in job["steps"]:
            wanted = self._wanted(str(self._value(step.get("if", "success()"), workspace)), good)
            self.log.append(f"{'run' if wanted else 'skip'} {step['name']}")
            if not wanted:
                continue
            for name, path in files.items():
                path.touch()
                env[f"GITHUB_{name}"] = str(path)
            own = {key: str(self._value(value, workspace)) for key, value in step.get("env", {}).items()}
            done = self._step(step, workspace, {**env, **own})
            if not done and not step.get("continue-on-error"):
                good = False
            env |= dict(line.split("=", 1) for line in files["ENV"].read_text().splitlines())
            added = files["PATH"].read_text().splitlines()
            env["PATH"] = os.pathsep.join([*reversed(added), self.env["PATH"]])
        return good

    def _step(self, step: Mapping[str, Any], workspace: Path, env: Mapping[str, str]) -> bool:
        if "run" in step:
            shell = self.shells.get(step["shell"], bash)
            code, text = shell(step["run"], workspace, env)
            self.log.append(text)
            return code == 0
        action = step["uses"].partition("@")[0]
        assert re.fullmatch(r"v\d+", step["uses"].partition("@")[2]), "a version"
        given = {key: str(self._value(value, workspace)) for key, value in step["with"].items()}
        acts: dict[str, Callable[[Mapping[str, str], Path], bool]] = {
            "actions/setup-python": self._python,
            "actions/cache/restore": self._restore,
            "actions/cache/save": self._save,
            "actions/upload-artifact": self._upload,
            "actions/attest-build-provenance": self._attest,
        }
        return acts[action](given, workspace)

    def _python(self, given: Mapping[str, str], workspace: Path) -> bool:
        self.pythons.append(given["python-version"])
        return True

    def _caches(self) -> list[Path]:
        folder = self.store / "caches"
        return sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns) if folder.is_dir() else []

    def _restore(self, given: Mapping[str, str], workspace: Path) -> bool:
        found = [path for path in self._caches() if path.name == given["key"]]
        found += [path for path in reversed(self._caches()) if path.name.startswith(given.get("restore-keys", "\0"))]
        if found:
            shutil.copytree(found[0], workspace / given["path"], dirs_exist_ok=True)
            self.log.append(f"restored {found[0].name}")
        return True

    def _save(self, given: Mapping[str, str], workspace: Path) -> bool:
        target = self.store / "caches" / given["key"]
        assert not target.exists(), "GitHub does not write a cache twice"
        if (workspace / given["path"]).is_dir():
            shutil.copytree(workspace / given["path"], target)
        return True

    def _upload(self, given: Mapping[str, str], workspace: Path) -> bool:
        target = self.store / "artifacts" / given["name"]
        assert not target.exists(), "GitHub does not take an artifact's name twice"
        found = [file for pattern in given["path"].split() for file in glob.glob(str(workspace / pattern))]
        for file in found:
            target.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target)
        return bool(found) or given.get("if-no-files-found", "warn") != "error"

    def _attest(self, given: Mapping[str, str], workspace: Path) -> bool:
        found = [Path(name) for name in glob.glob(str(workspace / given["subject-path"]))]
        self.attested |= {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in found}
        return bool(found)

    def _value(self, value: object, workspace: Path) -> object:
        if not isinstance(value, str):
            return value
        known = {
            "github.workspace": str(workspace),
            "github.run_id": "4711",
            "!github.event.repository.private": "always()" if not self.private else "never()",
        }
        return re.sub(r"\$\{\{ (.*?) \}\}", lambda found: known[found[1]], value)

    @staticmethod
    def _wanted(condition: str, good: bool) -> bool:
        return {"success()": good, "always()": True, "never()": False}[condition]


def bash(text: str, workspace: Path, env: Mapping[str, str]) -> tuple[int, str]:
    """As GitHub starts it."""
    script = workspace.parent / f"{workspace.name}.step.sh"
    script.write_text(text)
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
        cwd=workspace, env=dict(env), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr
