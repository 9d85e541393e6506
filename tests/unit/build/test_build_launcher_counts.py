"""What a launcher is told by the plan and the machine, and how its counters and logs are read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

import needs
from bare_host import BareHost
from rekindle.build import launchers
from rekindle.build.launchers import behind_one_name, count_from_here, farm_jobs, find_launcher, statistics
from rekindle.errors import MissingTool
from rekindle.host.protocol import Completed
from rekindle.model.farm import FarmStatus


class Machine(BareHost):
    """Any launcher is here; each of its calls is answered by the next of ``answers`` (the last one for ever)."""

    def __init__(self, *answers: str, code: int = 0, env: Mapping[str, str] | None = None) -> None:
        super().__init__(env=env)
        self.answers, self.code = list(answers), code
        self.started: list[dict[str, str]] = []

    def which(self, name: str) -> str | None:
        return f"/bin/{name}"

    def run(self, argv: Sequence[str], *, timeout: float = 5.0, env: Mapping[str, str] | None = None) -> Completed:
        if "--start-server" in argv:
            self.started.append(dict(env or {}))
            return Completed(argv=tuple(argv), code=0)
        said = self.answers.pop(0) if len(self.answers) > 1 else "".join(self.answers)
        return Completed(argv=tuple(argv), code=self.code, out=said)

    def read(self, path: str, *, limit: int = 1 << 20) -> bytes | None:
        return Path(path).read_bytes()[:limit] if Path(path).is_file() else None


@pytest.mark.parametrize(("cores", "here"), [(1, 1), (2, 1), (8, 7)])
def test_a_farm_fills_its_own_room_and_all_cores_here_but_one(
    cores: int, here: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launchers, "cores", lambda: cores)
    status = FarmStatus(servers=2, slots=8)
    assert farm_jobs(status) == status.room + here
    assert farm_jobs(FarmStatus(servers=2)) == cores, "without a slot everything is compiled here"


@pytest.mark.parametrize(("name", "taken"), [("ccache", True), ("sccache", True), ("icecc", True), ("distcc", False)])
def test_the_plans_own_settings_of_a_launcher(name: str, taken: bool, tmp_path: Path) -> None:
    """distcc reads its own from the environment of the plan, where they are anyway."""
    setting = f"{name.upper()}_X"
    machine = Machine("4")
    launcher = find_launcher(machine, name, {setting: "1", "USE_CUDA": "1"}, tmp_path, tmp_path)
    assert (launcher.env.get(setting) == "1") is taken and "USE_CUDA" not in launcher.env
    assert ("ICECC_LOGFILE" in launcher.env) == (name == "icecc")
    assert ("CCACHE_BASEDIR" in launcher.env) == (name == "ccache")
    assert (launcher.jobs is not None) == (name == "distcc")
    assert [env[setting] for env in machine.started] == (["1"] if name == "sccache" else [])


def test_icecc_writes_its_log_where_the_build_reads_it(tmp_path: Path) -> None:
    launcher = find_launcher(Machine(), "icecc", {}, tmp_path, tmp_path / "logs")
    assert launcher.env["ICECC_LOGFILE"] == str(tmp_path / "logs" / "icecc.log")
    assert statistics(Machine(), launcher) == {"launcher": "icecc", "compiled elsewhere": "0"}, "no log yet"


@pytest.mark.parametrize(
    ("setting", "told"), [("1", True), ("ON", True), ("on", True), ("0", False), ("OFF", False), (None, False)]
)
def test_ccache_is_told_of_precompiled_headers(setting: str | None, told: bool, tmp_path: Path) -> None:
    settings = {"USE_PRECOMPILED_HEADERS": setting} if setting else {}
    launcher = find_launcher(Machine(), "ccache", settings, tmp_path, tmp_path)
    assert ("CCACHE_DEPEND" in launcher.env) is ("CCACHE_SLOPPINESS" in launcher.env) is told


@pytest.mark.parametrize(("said", "code"), [("many", 0), ("", 0), ("14", 1)])
def test_distcc_without_hosts_is_refused(said: str, code: int, tmp_path: Path) -> None:
    with pytest.raises(MissingTool, match="distcc knows no hosts"):
        find_launcher(Machine(said, code=code), "distcc", {}, tmp_path, tmp_path)
    named = find_launcher(
        Machine(said, code=code, env={"DISTCC_HOSTS": "localhost/2"}), "distcc", {}, tmp_path, tmp_path
    )
    assert named.jobs is None, "it did not say how many"
    assert statistics(Machine(), named) == {"launcher": "distcc"}, "it does not count"


def test_counters_that_ccache_does_not_name_are_nothing(tmp_path: Path) -> None:
    machine = Machine("cache_miss\t2\n", "a heading\nodd\t1\t2\ncache_miss\t5\n")
    launcher = find_launcher(machine, "ccache", {}, tmp_path, tmp_path)
    assert statistics(machine, launcher) == {"launcher": "ccache", "hits": "0", "misses": "3", "hit rate": "0 %"}
    machine = Machine("direct_cache_hit\t2\npreprocessed_cache_hit\t3\n")
    told = statistics(machine, launchers.Launcher(name="ccache", path="/bin/ccache"))
    assert (told["hits"], told["misses"], told["hit rate"]) == ("5", "0", "100 %")


def test_a_ccache_that_does_not_answer_counts_nothing(tmp_path: Path) -> None:
    for machine in (Machine("cache_miss\t2\n", code=1), Machine("nonsense")):
        launcher = find_launcher(machine, "ccache", {}, tmp_path, tmp_path)
        assert statistics(machine, launcher) == {"launcher": "ccache"}


def test_nothing_compiled_is_no_rate(tmp_path: Path) -> None:
    machine = Machine("direct_cache_hit\t2\ncache_miss\t2\n")
    launcher = count_from_here(machine, find_launcher(machine, "ccache", {}, tmp_path, tmp_path))
    assert statistics(machine, launcher)["hit rate"] == "no compilations"


def test_an_sccache_that_answers_late_is_counted_from_nothing(tmp_path: Path) -> None:
    counts = {"stats": {"cache_hits": {"counts": {"C/C++": 3}}, "cache_misses": {"counts": {"C/C++": 1}}}}
    machine = Machine("not yet", json.dumps(counts))
    launcher = find_launcher(machine, "sccache", {}, tmp_path, tmp_path)
    told = statistics(machine, launcher)
    assert (told["hits"], told["misses"], told["hits, C/C++"]) == ("3", "1", "3 of 4")


def test_a_log_of_an_earlier_build_is_gone_or_never_was(tmp_path: Path) -> None:
    machine = Machine("cache_miss\t2\n")
    launcher = find_launcher(machine, "ccache", {}, tmp_path, tmp_path)
    (tmp_path / "ccache-stats.log").write_text("# /t/old.cpp\ncache_miss\n")
    for _ in range(2):
        launcher = count_from_here(machine, launcher)
    assert not (tmp_path / "ccache-stats.log").exists() and launcher.before == {"": (0, 2)}


def test_lines_of_a_ccache_log_count_for_the_file_before_them(tmp_path: Path) -> None:
    machine = Machine("cache_miss\t2\n")
    launcher = find_launcher(machine, "ccache", {}, tmp_path, tmp_path)
    log = "cache_miss\n# /t/A.CPP\nlocal_storage_miss\ncache_miss\n# /t/b.c\ndirect_cache_hit\n"
    (tmp_path / "ccache-stats.log").write_text(log)
    told = statistics(machine, launcher)
    assert (told["hits"], told["misses"], told["hits, C"], told["hits, C++"]) == ("1", "1", "1 of 1", "0 of 1")


@needs.posix("scripts stand before compilers")
def test_scripts_are_for_everybody_to_run_and_for_nobody_else_to_change(tmp_path: Path) -> None:
    behind_one_name({}, tmp_path / "deep" / "tools")
    for name in ("launch", "launch-gpu"):
        mode = (tmp_path / "deep" / "tools" / name).stat().st_mode
        assert mode & 0o555 == 0o555 and not mode & 0o022
