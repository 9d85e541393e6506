"""A farm of real processes: sccache's scheduler and a worker in its sandbox, set up by 'farm up' and 'farm join'.

tools/farm_faults.py does more of this, ten times over.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import farm_faults
import rekindle.spark
import tiny_s3
from farm_faults import COMPILER, RealFarm, Round
from rekindle import api
from rekindle.build import build
from rekindle.farm.folder import load_secrets
from rekindle.host.live import LiveHost
from rekindle.host.workspace import Workspace
from rekindle.model.build_options import BuildOptions
from rekindle.model.farm import FarmCounts
from rekindle.model.plan import BuildRecipe, Plan
from rekindle.model.source import SourceTree
from rekindle.toolkits.sccache import find_sccache, run_client

REASON = farm_faults.can_farm()
pytestmark = [pytest.mark.integration, pytest.mark.skipif(REASON is not None, reason=str(REASON))]


@pytest.fixture(scope="module")
def farm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealFarm]:
    made = RealFarm(tmp_path_factory.mktemp("farm"), workers=1, link=False)
    try:
        yield made
    finally:
        made.close()


def test_a_worker_killed_in_the_middle_costs_nothing(farm: RealFarm) -> None:
    """The first file is compiled by the worker, the rest at home: all are the bytes that the compiler makes alone."""
    farm.files = 4
    result = Round("worker killed")
    place = farm.folder.root

    def kill_after_one() -> None:
        """Two are sent at a time: the third goes when the first is back."""
        deadline = time.monotonic() + 120
        while sum(machine.compiled + machine.running for machine in api.farm_status(farm=place).machines) < 3:
            assert time.monotonic() < deadline, "the worker compiled nothing"
            time.sleep(0.1)
        farm.kill(farm.worker_pid(0))

    farm.compile_all(result, kill_after_one)
    assert not result.wrong and result.good == 4 and result.remote >= 1
    (machine,) = api.farm_status(farm=place).machines
    assert machine.compiled >= 1 and machine.state == "silent"
    hidden = load_secrets(farm.folder)
    assert hidden is not None
    logs = "".join(path.read_text() for path in farm.root.rglob("*.log"))
    assert hidden.client_token not in logs and hidden.server_key not in logs


def test_a_wrong_token_compiles_at_home(farm: RealFarm) -> None:
    farm.files = 1
    result = Round("wrong token")
    farm.compile_all(result, token="not-the-token-of-this-farm")
    assert not result.wrong and (result.good, result.remote) == (1, 0)
    said = {failure.why for failure in api.farm_status(farm=farm.folder.root).failures}
    assert "somebody builds with a token that is not this farm's" in said


@pytest.fixture(params=["dir", "redis", "s3"])
def cache(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A place that builders share, of each kind."""
    if request.param == "dir":
        yield f"dir:{tmp_path / 'cache'}"
    elif request.param == "s3":
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", tiny_s3.KEY)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", tiny_s3.SECRET)
        with tiny_s3.tiny_store() as store:
            yield f"s3://{tiny_s3.BUCKET}/torch?region=us-east-1&endpoint={store.url}&use_ssl=false"
    else:
        if not shutil.which("redis-server"):
            pytest.skip("needs redis-server on PATH")
        port = farm_faults.free_port()
        server = subprocess.Popen(
            ["redis-server", "--port", str(port), "--save", "", "--dir", str(tmp_path)], stdout=-3
        )
        yield f"redis://127.0.0.1:{port}/torch"
        server.kill()
        server.wait()


def test_a_second_user_compiles_nothing(tmp_path: Path, cache: str) -> None:
    """Two users, each with a folder of their own, and one cache; the farm itself is down, its cache is not."""
    place = tmp_path / "farm"
    raised = api.farm_up(farm=place, listen=f"127.0.0.1:{farm_faults.free_port()}", cache=cache, client=True)
    api.farm_down(farm=place)
    host = LiveHost()
    tool = find_sccache(host)
    made, counted = [], []
    for user in ("ann", "bob"):
        home = tmp_path / user
        project = home / "project"
        shutil.copytree(_project(tmp_path), project)
        api.farm_join(raised.invitations[0].line, farm=home / "farm")
        own = {"SCCACHE_BASEDIRS": str(project)}
        with run_client(host, tool, home / "farm" / "client.conf", home / "sccache.log", own) as client:
            for source in sorted(project.glob("*.cpp")):
                words = [tool.path, COMPILER, "-O1", "-c", source.name, "-o", f"{source.stem}.o"]
                subprocess.run(words, cwd=project, env={**os.environ, **client.env}, check=True)
            counted.append(client.counts(host) or FarmCounts())
        made.append([path.read_bytes() for path in sorted(project.glob("*.o"))])
    first, second = (counts.languages["C/C++"] for counts in counted)
    assert (first.compiled, first.cached) == (3, 0)
    assert (second.compiled, second.cached, counted[1].compiled) == (0, 3, 0)
    assert made[0] == made[1] and len(made[0]) == 3


def test_a_second_build_in_another_folder_compiles_nothing(tmp_path: Path) -> None:
    """With the flags of a real build, which hide where the tree lies; and the bytes are those of no farm."""
    place = tmp_path / "farm"
    api.farm_up(farm=place, listen=f"127.0.0.1:{farm_faults.free_port()}", cache=f"dir:{tmp_path / 'cache'}")
    api.farm_down(farm=place)
    quick = {"USE_HEAVY": "0", "SPARK_OPS": "1", "CMAKE_POLICY_VERSION_MINIMUM": "3.5"}
    recipe = BuildRecipe(source="spark", env=quick, pins={"setuptools": "<74"})
    plan = Plan(answer="build", project="spark", variant="cpu", build=recipe)
    workspace = Workspace(tmp_path / "ws")
    objects, hits = [], []
    for user in ("ann", "bob", "nobody's farm"):
        root = tmp_path / user / "spark"
        shutil.copytree(Path(rekindle.spark.__file__).parent / "tree", root)
        farm = None if "farm" in user else str(place)
        options = BuildOptions(jobs=2, target="spark_core", farm=farm, farm_check=0)
        tree = SourceTree(project="spark", version="0.3.0", root=str(root))
        result = build(plan, tree, workspace, python=sys.executable, options=options)
        hits.append(result.launcher.get("hit rate"))
        objects.append({path.name: path.read_bytes() for path in root.rglob("*.cpp.o")})
    assert hits == ["0 %", "100 %", None] and len(objects[0]) >= 5
    assert objects[0] == objects[1] == objects[2]


def _project(folder: Path) -> Path:
    project = folder / "sources"
    project.mkdir(exist_ok=True)
    (project / "shared.h").write_text("inline int twice(int x) { return 2 * x; }\n")
    for number in range(3):
        (project / f"part{number}.cpp").write_text(
            f'#include "shared.h"\nint f{number}() {{ return twice({number}); }}\n'
        )
    return project
