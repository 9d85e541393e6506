"""Applications whose torch is swapped, kept and given back, with real pip and uv and an index of tiny wheels."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import tiny_wheels
from app_trees import add_extension, make_app
from rekindle import api
from rekindle.errors import BadInput, NotReady
from rekindle.facts import load_facts
from rekindle.host.live import LiveHost
from rekindle.host.processes import processes_of
from rekindle.interpreters.app_folder import find_app
from rekindle.interpreters.packages import look_into
from rekindle.journey import adopt, adopt_forecast
from rekindle.journey import install as installing
from rekindle.journey.adopt_forecast import recover_environment
from rekindle.model.adopt import Adoption
from rekindle.model.companion import AppUse
from rekindle.model.machine import Machine
from rekindle.model.plan import Companion, Plan, Reason, Request, Wish
from rekindle.model.verify import VerifyReport

pytestmark = [pytest.mark.integration]
# A process that is killed shares what was prepared here: nothing is imported anew.
FORK = multiprocessing.get_context("fork")


def torch_wheel(folder: Path, version: str, mark: str = "") -> Path:
    source = f"__version__ = {version!r}\ncuda = None\nhip = None\n"
    files = {"torch/__init__.py": mark.encode(), "torch/version.py": source.encode()}
    files |= {f"torch/part_{number}.py": f"# {version} {number}\n".encode() for number in range(60)}
    return tiny_wheels.make_wheel(folder, "torch", version, files=files)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> str:
    """torch 2.4.0 and 2.9.1+cpu with what hangs on them, and nodes that want one or the other."""
    folder = tmp_path_factory.mktemp("wheels")
    pages: dict[str, list[Path]] = {}
    made = [torch_wheel(folder, "2.4.0"), torch_wheel(folder, "2.9.1+cpu")]
    made += [tiny_wheels.make_wheel(folder, "torchvision", version) for version in ("0.19.0", "0.24.1+cpu")]
    made += [
        tiny_wheels.make_wheel(folder, "xformers", "0.0.27", metadata="Requires-Dist: torch==2.4.0\n"),
        tiny_wheels.make_wheel(folder, "numpy", "2.1.0"),
        tiny_wheels.make_wheel(folder, "triton", "3.5.1"),
        tiny_wheels.make_wheel(folder, "triton", "3.0.0"),
        tiny_wheels.make_wheel(folder, "strict-node", "1.0", metadata="Requires-Dist: torch==2.4.0\n"),
        tiny_wheels.make_wheel(folder, "easy-node", "1.0", metadata="Requires-Dist: torch\n"),
    ]
    for wheel in made:
        pages.setdefault(wheel.name.split("-")[0].replace("_", "-"), []).append(wheel)
    root = tmp_path_factory.mktemp("simple")
    for name, wheels in pages.items():
        (root / name).mkdir()
        links = (f'<a href="{wheel.as_uri().replace("+", "%2B")}">{wheel.name}</a>' for wheel in wheels)
        (root / name / "index.html").write_text("<br>".join(links))
    return root.as_uri() + "/"


def planned(index: str) -> Plan:
    """The plan of a machine without a GPU whose torch is 2.9.1, beside an xformers that has none for it."""
    return Plan(
        answer="install",
        torch="2.9.1",
        variant="cpu",
        python="3.11",
        requests=(
            Request(name="torch", version="2.9.1+cpu", index=index, why="the plan"),
            Request(name="torchvision", version="0.24.1+cpu", index=index),
        ),
        env={"OMP_NUM_THREADS": "3"},
        because=(Reason(code="app-torch", text="the application takes it"),),
        companions=(
            Companion(name="xformers", answer="none", why="no xformers was made for torch 2.9.1 without a GPU"),
            Companion(
                name="triton",
                answer="runs",
                version="3.5.1",
                why="runs",
                requests=(Request(name="triton", version="3.5.1", index=index),),
            ),
        ),
    )


def stand_in(monkeypatch: pytest.MonkeyPatch, index: str, *, good: bool = True) -> list[dict[str, object]]:
    """The machine, its plan and the proof of a torch that is none; what the proof was asked."""
    asked: list[dict[str, object]] = []

    def verify(**words: object) -> VerifyReport:
        asked.append(words)
        return VerifyReport(verdict="proven" if good else "failed", passed=3 if good else 0, failed=0 if good else 1)

    def plan(machine: Machine, wish: Wish, *, app: AppUse) -> Plan:
        made = planned(index)
        return make_plan_with(made, wish)

    monkeypatch.setattr(adopt_forecast, "this_machine", lambda: None)
    monkeypatch.setattr(adopt_forecast, "make_plan", plan)
    monkeypatch.setattr(adopt, "verify", verify)
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_INDEX_URL", index)
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    return asked


def make_plan_with(made: Plan, wish: Wish) -> Plan:
    import msgspec

    return msgspec.structs.replace(
        made, companions=tuple(row for row in made.companions if row.name in wish.companions)
    )


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory, index: str) -> Path:
    """An environment with an old torch and what hangs on it, copied for every test."""
    folder = tmp_path_factory.mktemp("template") / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    words = ["torch==2.4.0", "torchvision==0.19.0", "xformers", "triton==3.0.0", "numpy"]
    python = folder / "bin" / "python"
    env = {**os.environ, "PIP_INDEX_URL": index, "PIP_EXTRA_INDEX_URL": ""}
    subprocess.run([python, "-m", "pip", "install", "-q", *words], check=True, env=env)
    return folder


@pytest.fixture
def app(tmp_path: Path, template: Path) -> Path:
    """ComfyUI in a folder with a space in its name, with a manager and two nodes."""
    folder = make_app(tmp_path / "my apps" / "ComfyUI", "comfyui", version="0.38.1")
    (folder / "requirements.txt").write_text("torch\ntorchvision\n", encoding="utf-8")
    add_extension(folder, "old-node", "torch==2.4.0\n")
    add_extension(folder, "good-node", "torch>=2.0\n")
    (folder / "user" / "__manager").mkdir(parents=True)
    shutil.copytree(template, folder / "venv", symlinks=True)
    return folder


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, index: str) -> Iterator[list[dict[str, object]]]:
    yield stand_in(monkeypatch, index)


def state_of(folder: Path) -> dict[str, object]:
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not path.is_file():
            found[str(path)] = os.readlink(path) if path.is_symlink() else "folder"
        else:
            found[str(path)] = (path.stat().st_mode, path.read_bytes())
    return found


def python_of(app: Path) -> str:
    return str(app / "venv" / "bin" / "python")


def install(app: Path, index: str, *words: str, uv: bool = False, cwd: Path | None = None) -> tuple[int, str]:
    python = python_of(app)
    tool = shutil.which("uv") or str(Path(sys.executable).with_name("uv"))
    argv = [tool, "pip", "install", "--python", python] if uv else [python, "-m", "pip", "install"]
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_"))}
    done = subprocess.run([*argv, *words, "--index-url", index], env=env, cwd=cwd, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def versions(app: Path) -> dict[str, str]:
    return look_into(LiveHost(), python_of(app)).versions


def test_from_the_old_torch_to_the_new_and_back(
    app: Path, tmp_path: Path, asked: list[dict[str, object]], index: str
) -> None:
    before = state_of(app)
    shown: list[Adoption] = []

    def yes(planned: Adoption) -> bool:
        shown.append(planned)
        return True

    dry = api.adopt(app, dry_run=True, workspace=tmp_path / "ws")
    assert dry.state == "planned" and state_of(app) == before and dry.card is not None
    done = api.adopt(app, workspace=tmp_path / "ws", confirm=yes)
    assert done.state == "adopted" and asked[0]["python"] == python_of(app)
    assert {(one.name, one.from_, one.to) for one in shown[0].changes} == {
        ("torch", "2.4.0", "2.9.1+cpu"),
        ("torchvision", "0.19.0", "0.24.1+cpu"),
        ("triton", "3.0.0", "3.5.1"),
        ("xformers", "0.0.27", None),
    }
    assert len(shown[0].conflicts) == 1 and "old-node wants torch==2.4.0" in shown[0].conflicts[0]
    assert "--leave-out old-node" in shown[0].conflicts[0]
    now = versions(app)
    assert (now["torch"], now["torchvision"], now["triton"]) == ("2.9.1+cpu", "0.24.1+cpu", "3.5.1")
    assert "xformers" not in now
    code = "import os; print(os.environ['OMP_NUM_THREADS'])"
    told = subprocess.run([python_of(app), "-c", code], capture_output=True, text=True)
    assert told.stdout == "3\n"
    assert api.adopt(app, workspace=tmp_path / "ws").state == "already" and len(asked) == 1
    assert api.guard(python=python_of(app)).good
    assert api.adopt(app, undo=True).state == "undone"
    assert state_of(app) == before


@pytest.fixture
def invokeai(tmp_path: Path, template: Path) -> Path:
    """The published InvokeAI, from the package index, in an environment whose torch is too old for it."""
    folder = tmp_path / "invoke ai"
    folder.mkdir()
    shutil.copytree(template, folder / ".venv", symlinks=True)
    python = folder / ".venv/bin/python"
    argv = [str(python), "-m", "pip", "install", "-q", "--no-deps", "invokeai==6.14.2"]
    done = subprocess.run(argv, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"no package index, or none that has InvokeAI: {done.stderr[-200:]}")
    return folder


@pytest.mark.network
def test_a_published_application_says_itself_what_it_takes(
    invokeai: Path, tmp_path: Path, asked: list[dict[str, object]], index: str
) -> None:
    found = find_app(invokeai, load_facts())
    assert (found.words, found.torch) == ("InvokeAI 6.14.2", "<3.0,>=2.7.0")
    before = state_of(invokeai)
    done = api.adopt(invokeai, workspace=tmp_path / "ws")
    assert done.state == "adopted" and not [said for said in done.conflicts if "torch" in said.split(" wants ")[-1]]
    assert look_into(LiveHost(), str(invokeai / ".venv/bin/python")).versions["torch"] == "2.9.1+cpu"
    assert api.adopt(invokeai, undo=True).state == "undone" and state_of(invokeai) == before


def test_a_node_does_not_replace_it_and_the_message_says_why(
    app: Path, tmp_path: Path, asked: list[dict[str, object]], index: str
) -> None:
    api.adopt(app, workspace=tmp_path / "ws")
    for words in (["strict-node"], ["torch==2.4.0"], ["-r", str(app / "custom_nodes/old-node/requirements.txt")]):
        code, said = install(app, index, *words)
        assert code == 1 and "keeps torch 2.9.1+cpu" in said and "--undo" in said, said
        assert "(constraint) torch==2.9.1+cpu" in said
    for words in (["easy-node"], ["--upgrade", "torch"], ["--upgrade", "easy-node", "torchvision"]):
        assert install(app, index, *words)[0] == 0
    assert versions(app)["torch"] == "2.9.1+cpu"
    # uv: started in the folder, and through the environment's own Python from anywhere.
    code, said = install(app, index, "strict-node", uv=True, cwd=app)
    assert code == 1 and "torch==2.9.1+cpu" in said
    assert install(app, index, "easy-node", uv=True, cwd=app)[0] == 0
    inner = "import os, subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))"
    tool = shutil.which("uv") or str(Path(sys.executable).with_name("uv"))
    words = [tool, "pip", "install", "--python", python_of(app), "strict-node", "--index-url", index]
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_"))}
    refused = subprocess.run(
        [python_of(app), "-c", inner, *words], env=env, cwd=tmp_path, capture_output=True, text=True
    )
    assert refused.returncode == 1 and "torch==2.9.1+cpu" in refused.stderr
    assert versions(app)["torch"] == "2.9.1+cpu" and api.guard(python=python_of(app)).good
    lists = (app / "user/__manager/pip_blacklist.list").read_text()
    assert lists.split() == ["torch", "torchvision", "triton"]


def test_what_slips_through_is_told_by_guard_and_adopted_again(
    app: Path, tmp_path: Path, asked: list[dict[str, object]], index: str
) -> None:
    before = state_of(app)
    api.adopt(app, workspace=tmp_path / "ws")
    assert install(app, index, "--no-deps", "strict-node")[0] == 0
    env = {**os.environ, "PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": index}
    subprocess.run([python_of(app), "-m", "pip", "install", "-q", "torch==2.4.0"], check=True, env=env)
    report = api.guard(python=python_of(app))
    assert not report.good and report.replaced[0].now == "2.4.0" and "strict-node" in report.replaced[0].why
    assert api.adopt(app, workspace=tmp_path / "ws").state == "adopted"
    assert versions(app)["torch"] == "2.9.1+cpu" and "strict-node" in versions(app)
    undone = api.adopt(app, undo=True)
    assert undone.state == "undone" and state_of(app) == before


@pytest.fixture
def conda(tmp_path: Path, template: Path) -> Path:
    """text-generation-webui with an environment as conda makes them: an interpreter of its own, no pyvenv.cfg."""
    folder = make_app(tmp_path / "text-generation-webui", "text-generation-webui")
    env = folder / "installer_files" / "env"
    release = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    (env / "bin").mkdir(parents=True)
    (env / "conda-meta").mkdir()
    (env / "conda-meta" / "history").touch()
    shutil.copy2(os.path.realpath(sys.executable), env / "bin" / "python")
    shutil.copytree(template / "lib" / release / "site-packages", env / "lib" / release / "site-packages")
    for part in Path(os.__file__).parent.iterdir():
        if part.name not in ("site-packages", "EXTERNALLY-MANAGED"):
            (env / "lib" / release / part.name).symlink_to(part)
    return folder


def test_an_environment_of_conda_is_adopted_and_given_back(
    conda: Path, tmp_path: Path, asked: list[dict[str, object]]
) -> None:
    python = conda / "installer_files" / "env" / "bin" / "python"
    told = subprocess.run([python, "-c", "import sys; print(sys.prefix)"], capture_output=True, text=True)
    if told.stdout.strip() != str(python.parents[1]):
        pytest.skip("this Python does not find its library beside a copy of itself")
    before = state_of(conda)
    done = api.adopt(conda, workspace=tmp_path / "ws")
    assert (done.state, done.python) == ("adopted", str(python))
    assert look_into(LiveHost(), str(python)).versions["torch"] == "2.9.1+cpu"
    assert (python.parents[1] / "pip.conf").is_file() and api.guard(python=str(python)).good
    assert api.adopt(conda, undo=True).state == "undone" and state_of(conda) == before


def test_an_undo_says_what_came_since(app: Path, tmp_path: Path, asked: list[dict[str, object]], index: str) -> None:
    api.adopt(app, workspace=tmp_path / "ws")
    install(app, index, "easy-node")
    seen: list[Adoption] = []

    def no(planned: Adoption) -> bool:
        seen.append(planned)
        return False

    with pytest.raises(BadInput, match="needs a yes"):
        api.adopt(app, undo=True, confirm=no)
    assert "easy-node" in seen[0].verdict and versions(app)["torch"] == "2.9.1+cpu"


def test_what_is_not_proven_is_put_back(app: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, index: str) -> None:
    before = state_of(app)
    stand_in(monkeypatch, index, good=False)
    done = api.adopt(app, workspace=tmp_path / "ws")
    assert (done.state, done.good) == ("not-proven", False) and state_of(app) == before
    with pytest.raises(BadInput, match="nothing is adopted"):
        api.adopt(app, undo=True)


def test_an_install_that_fails_is_put_back(
    app: Path, tmp_path: Path, asked: list[dict[str, object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = state_of(app)

    def interrupted(*_words: object, **_more: object) -> None:
        (app / "venv" / "half").touch()
        raise KeyboardInterrupt

    monkeypatch.setattr(installing, "install", interrupted)
    with pytest.raises(KeyboardInterrupt):
        api.adopt(app, workspace=tmp_path / "ws")
    assert state_of(app) == before


def test_a_node_that_conflicts_for_good_is_left_out_and_returns(
    app: Path, tmp_path: Path, asked: list[dict[str, object]]
) -> None:
    before = state_of(app)
    with pytest.raises(BadInput, match="no such extension"):
        api.adopt(app, workspace=tmp_path / "ws", leave_out=["none"])
    done = api.adopt(app, workspace=tmp_path / "ws", leave_out=["old-node"])
    assert done.state == "adopted" and (app / "custom_nodes/old-node.disabled/requirements.txt").is_file()
    assert done.conflicts == () and not (app / "custom_nodes/old-node").exists()
    api.adopt(app, undo=True)
    assert state_of(app) == before


def test_a_running_application_is_left_alone(app: Path, tmp_path: Path, asked: list[dict[str, object]]) -> None:
    with subprocess.Popen([python_of(app), "-c", "input()"], stdin=subprocess.PIPE) as running:
        time.sleep(0.5)
        with pytest.raises(NotReady, match=f"ComfyUI is running: .*{running.pid}"):
            api.adopt(app, workspace=tmp_path / "ws")
        running.kill()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_is_refused(app: Path, tmp_path: Path, asked: list[dict[str, object]]) -> None:
    app.chmod(0o555)
    try:
        with pytest.raises(NotReady, match="may not be written by you"):
            api.adopt(app, workspace=tmp_path / "ws")
    finally:
        app.chmod(0o755)


def adopt_apart(app: Path, workspace: Path) -> None:
    """One adoption in a group of processes of its own."""
    os.setsid()
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        api.adopt(app, workspace=workspace)


def kill_during(app: Path, workspace: Path, seconds: float) -> None:
    """A real kill, so long after its start, of an adoption and of all that it started."""
    running = FORK.Process(target=adopt_apart, args=(app, workspace))
    running.start()
    time.sleep(seconds)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(running.pid or 0, signal.SIGKILL)
    running.join()
    # A pip that the killed one had started is a program that runs there, and is waited for as any other.
    while processes_of(app / "venv"):
        time.sleep(0.1)


def test_ten_kills_and_each_time_the_next_run_arrives(
    app: Path, tmp_path: Path, asked: list[dict[str, object]], index: str
) -> None:
    """Spread over the time that an adoption takes. After two of them the next one comes to its end, after the others
    an undo finds what was."""
    before = state_of(app)
    begin = time.monotonic()
    assert api.adopt(app, workspace=tmp_path / "ws").state == "adopted"
    whole = time.monotonic() - begin
    assert api.adopt(app, undo=True).state == "undone" and state_of(app) == before
    for moment in range(10):
        kill_during(app, tmp_path / "ws", whole * (moment + 1) / 11)
        if moment in (4, 9):
            again = api.adopt(app, workspace=tmp_path / "ws")
            assert again.state in ("adopted", "already") and versions(app)["torch"] == "2.9.1+cpu"
        with contextlib.suppress(BadInput):  # nothing was adopted yet
            api.adopt(app, undo=True)
        assert state_of(app) == before, f"after the kill at moment {moment}"


def test_a_second_adoption_that_is_killed_is_as_it_was_after_the_first(
    app: Path, tmp_path: Path, asked: list[dict[str, object]], index: str
) -> None:
    before = state_of(app)
    begin = time.monotonic()
    api.adopt(app, workspace=tmp_path / "ws", leave_out=["old-node"])
    whole = time.monotonic() - begin
    env = {**os.environ, "PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": index}
    subprocess.run([python_of(app), "-m", "pip", "install", "-q", "torch==2.4.0"], check=True, env=env)
    slipped = state_of(app / "venv")
    for part in (0.6, 0.8):
        kill_during(app, tmp_path / "ws", whole * part)
        recover_environment(app / "venv")
        assert state_of(app / "venv") == slipped or versions(app)["torch"] == "2.9.1+cpu"
        assert not (app / "custom_nodes/old-node").exists(), "what was left out stays so"
    assert api.adopt(app, workspace=tmp_path / "ws").state in ("adopted", "already")
    assert api.adopt(app, undo=True).state == "undone" and state_of(app) == before


def test_the_answer_is_one_json_document(
    app: Path, tmp_path: Path, asked: list[dict[str, object]], capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    from rekindle.cli.main import main

    assert main(["adopt", str(app), "--dry-run", "--json"]) == 0
    told = json.loads(capsysbinary.readouterr().out)
    assert (told["schema"], told["state"], told["app"], told["before"]) == (1, "planned", "comfyui", "2.4.0")
    assert {"name": "torch", "from": "2.4.0", "to": "2.9.1+cpu", "why": "the plan"} in told["changes"]
    assert main(["adopt", str(app)]) == 2, "nobody can say yes"
    assert main(["adopt", str(app), "--yes", "--workspace", str(tmp_path / "ws")]) == 0
    assert main(["adopt", str(app), "--undo", "--yes"]) == 0
