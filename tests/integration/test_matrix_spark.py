"""A matrix of the miniature, for real: on this machine, on a Dask cluster on loopback, through kills.

The figures of many random kills come from tools/matrix_faults.py, which uses the same pieces; here a few run each time.
"""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from matrix_cluster import Cluster, cli, light_table, orphans, wheels_of

pytestmark = pytest.mark.integration
LONG = pytest.mark.skipif(not os.environ.get("REKINDLE_LONG"), reason="minutes of building: REKINDLE_LONG=1")


@pytest.fixture(scope="module")
def one_by_one(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """The matrix built without any trouble: what every other way must equal."""
    place = tmp_path_factory.mktemp("matrix")
    table = light_table(place)
    assert cli("matrix", "plan", str(table)).returncode == 0
    done = cli("matrix", "run", str(table), "--slots", "1", "--json")
    assert done.returncode == 0, done.stderr
    return place, wheels_of(table)


def test_a_matrix_is_planned_built_proven_and_not_built_twice(one_by_one: tuple[Path, dict[str, str]]) -> None:
    place, wheels = one_by_one
    table = place / "matrix.toml"
    assert len(wheels) == 2
    status = json.loads(cli("matrix", "status", str(table), "--json").stdout)
    assert {row["state"]["stage"] for row in status["rows"]} == {"proven"}
    assert not any(row["rebuild"] for row in status["rows"])
    assert [cell["name"] for cell in status["refused"]] == ["spark-py3.11-cu99-3.5"]
    again = json.loads(cli("matrix", "run", str(table), "--json").stdout)
    assert again["started"] == 0
    # The second cell shares the first one's compiled tree.
    steps = [row["state"]["steps"] for row in status["rows"]]
    assert min(steps) < max(steps)


def test_it_can_be_published_and_reported(one_by_one: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    table = one_by_one[0] / "matrix.toml"
    house = tmp_path / "house"
    published = json.loads(cli("matrix", "publish", str(table), "--wheelhouse", str(house), "--json").stdout)
    assert len(published["added"]) == 2
    assert published["unproven"] == []
    assert sorted(path.name for path in house.rglob("*.whl")) == sorted(published["added"])
    page = tmp_path / "page.html"
    cli("matrix", "report", str(table), "--out", str(page))
    text = page.read_text(encoding="utf-8")
    assert text.count("✓ proven") == 2
    assert "http" not in text.split("</style>")[1]


def test_the_matrix_of_the_docs_runs_and_every_wheel_can_be_published(tmp_path: Path) -> None:
    """As docs/matrix.md has it, in a folder with a space; its CPUs are those of this machine."""
    docs = (Path(__file__).parents[2] / "docs" / "matrix.md").read_text(encoding="utf-8")
    written = docs.split("# mini.toml\n")[1].split("```")[0]
    if platform.machine() == "aarch64":
        written = written.replace('["x86-64", "x86-64-v2"]', '["armv8-a", "armv8.2-a"]')
    table = tmp_path / "a lab" / "mini.toml"
    table.parent.mkdir()
    table.write_text(written, encoding="utf-8")
    for step in (["plan"], ["run"], ["publish", "--wheelhouse", str(tmp_path / "house")]):
        done = cli("matrix", step[0], str(table), *step[1:])
        assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "house").rglob("*.whl"))) == 2


@LONG
def test_dask_makes_the_same_bytes_and_survives_a_killed_worker(
    one_by_one: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    pytest.importorskip("distributed")
    table = light_table(tmp_path)
    assert cli("matrix", "plan", str(table)).returncode == 0
    with Cluster(workers=2) as cluster:
        run = subprocess.Popen(
            [sys.executable, "-m", "rekindle", "matrix", "run", str(table), "--engine", "dask",
             "--scheduler", cluster.address, "--json"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        cluster.wait_for_build(table)
        cluster.kill_busy_worker(table)
        cluster.start_worker()
        out, err = run.communicate(timeout=600)
    assert run.returncode == 0, err
    assert wheels_of(table) == one_by_one[1]
    assert orphans(tmp_path) == []
    assert json.loads(out)["retried"] >= 1


@LONG
def test_a_killed_client_leaves_nothing_behind_and_the_rerun_continues(
    one_by_one: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    table = light_table(tmp_path)
    assert cli("matrix", "plan", str(table)).returncode == 0
    run = subprocess.Popen(
        [sys.executable, "-m", "rekindle", "matrix", "run", str(table)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    cluster = Cluster(workers=0)
    cluster.wait_for_build(table)
    os.kill(run.pid, signal.SIGKILL)
    run.wait()
    deadline = time.monotonic() + 20
    while orphans(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert orphans(tmp_path) == []
    done = cli("matrix", "run", str(table), "--json")
    assert done.returncode == 0, done.stderr
    assert wheels_of(table) == one_by_one[1]


@pytest.fixture
def two_clients(tmp_path: Path) -> Iterator[tuple[Path, list[subprocess.Popen[str]]]]:
    table = light_table(tmp_path)
    assert cli("matrix", "plan", str(table)).returncode == 0
    argv = [sys.executable, "-m", "rekindle", "matrix", "run", str(table), "--json"]
    runs = [subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    yield table, runs
    for run in runs:
        if run.poll() is None:
            run.kill()
            run.wait()


@LONG
def test_two_clients_build_each_cell_once(
    one_by_one: tuple[Path, dict[str, str]], two_clients: tuple[Path, list[subprocess.Popen[str]]]
) -> None:
    table, runs = two_clients
    outs = [run.communicate(timeout=600) for run in runs]
    assert [run.returncode for run in runs] == [0, 0], outs
    status = json.loads(cli("matrix", "status", str(table), "--json").stdout)
    assert [len(row["state"]["attempts"]) for row in status["rows"]] == [1, 1]
    assert wheels_of(table) == one_by_one[1]
