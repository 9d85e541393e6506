"""Verbs that do more than one thing: what is written beside the answer, which view is taken, and what is a yes."""

from __future__ import annotations

import io
import platform
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cli_calls import Called, run
from rekindle import api
from rekindle.cli import inspect as inspect_verb
from rekindle.errors import BadInput, WorkspaceBusy
from rekindle.model.build import BuildFailure
from rekindle.model.document import encode
from rekindle.model.matrix import BUSY_CODE
from rekindle.model.plan import Plan, Wish

Replace = Callable[..., Called]


@pytest.fixture
def replace(monkeypatch: pytest.MonkeyPatch) -> Replace:
    """Put something in the place of a function of the api."""

    def act(name: str, answer: object) -> Called:
        called = Called(getattr(api, name), answer)
        monkeypatch.setattr(api, name, called)
        return called

    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    return act


@pytest.mark.parametrize(("purpose", "good"), [("", False), ("--for use", False), ("--for build", True)])
def test_a_machine_is_ready_for_what_was_asked(purpose: str, good: bool, replace: Replace, tmp_path: Path) -> None:
    ready = SimpleNamespace(ready=SimpleNamespace(build=True, use=False), machine="M")
    doctor, plan = replace("doctor", ready), replace("plan", None)
    answer = run(f"doctor {purpose} --save {tmp_path}/ --workspace w --try-torch")
    assert answer.good is good and answer.view is not None and plan.words == ("M",)
    assert doctor.named["save"] == tmp_path / "machine.json" and doctor.named["workspace"] == "w"
    assert doctor.named["try_torch"] is True


@pytest.mark.parametrize("session", [{"json": True}, {"verbose": 1}, {}])
def test_a_glance_is_for_people_who_ask_for_no_details(session: dict[str, Any], replace: Replace) -> None:
    replace("doctor", SimpleNamespace(ready=SimpleNamespace(build=True, use=True), machine="M"))
    plan = replace("plan", None)
    answer = run("doctor --details" if not session else "doctor", **session)
    assert answer.view is None and plan.words == (), "no plan is made for it either"
    assert run("doctor --plan p.json").view is not None and plan.words == ()


def test_a_build_is_signed_reported_or_only_shown(replace: Replace, monkeypatch: pytest.MonkeyPatch) -> None:
    script, signed = replace("build_script", "script"), replace("sign_results", "signed")
    build, saved = replace("build", "built"), replace("save_bug_report", None)
    assert run("build --dry-run").document == "script" and script.words and not build.words
    answer = run("build --trust --set A=1")
    assert answer.document == "built" and answer.good and not signed.words and build.named["trust"] is True
    assert build.words[0].settings == (("A", "1"),)
    assert run("build --sign me").document == "signed" and signed.words == ("built", "me")
    assert build.named["trust"] is False
    failure = BuildFailure(project="torch", phase="compile", message="no")
    replace("build", failure)
    answer = run("build --bug-report r.md --sign me")
    assert answer.document is failure and answer.good is False and saved.words == (failure, Path("r.md"))


@pytest.mark.parametrize(("person", "quiet", "bell"), [(True, False, True), (True, True, False), (False, False, False)])
def test_whoever_waits_for_a_build_is_called(
    person: bool, quiet: bool, bell: bool, replace: Replace, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace("build", "built")
    said = io.StringIO()
    monkeypatch.setattr(said, "isatty", lambda: person)
    monkeypatch.setattr("sys.stderr", said)
    run("build", quiet=quiet)
    assert ("\a" in said.getvalue()) is bell


@pytest.mark.parametrize(
    ("line", "system"),
    [
        ("bat --gpu sm_86", "windows"),
        ("ps1 --cpu ivybridge", "windows"),
        ("sh --gpu sm_86", "linux"),
        ("github --gpu sm_86", None),
        ("sh --gpu sm_86 --os windows", "windows"),
        ("bat", None),
        ("bat --machine this", None),
    ],
)
def test_a_described_machine_has_the_system_of_its_script(line: str, system: str | None, replace: Replace) -> None:
    machine = api.machine_from_flags(gpu=["sm_86"], os="linux")
    described, here = replace("machine_from_flags", machine), replace("this_machine", machine)
    replace("find_machine", (machine, Wish()))
    replace("plan", "plan")
    exported = replace("export", "exported")
    assert run(f"export {line} --image i").document == "exported"
    assert described.named.get("os") == system and here.words == ()
    assert exported.words == ("plan", line.split()[0])
    assert exported.named == {"out": None, "image": "i", "distro": None}


def test_a_finished_plan_is_exported_for_another_system(
    replace: Replace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plan = Plan(answer="install", torch="2.6.0")
    (tmp_path / "plan.json").write_bytes(encode(plan))
    exported, planned = replace("export", "exported"), replace("plan", None)
    for place in (str(tmp_path / "plan.json"), "-"):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(encode(plan))))
        run(f"export sh --plan {place} --os windows --arch aarch64 --out {tmp_path}/new/")
        assert exported.words == (plan, "sh") and not planned.words
        assert exported.named["system"] == "windows" and exported.named["arch"] == "aarch64"
    assert exported.named["out"] == tmp_path / "new" and (tmp_path / "new").is_dir()
    table = replace("export_table", "table")
    assert run(f"export table --out {tmp_path}/file").document == "table"
    assert table.words == (tmp_path / "file",) and not (tmp_path / "file").exists()


@pytest.mark.parametrize(
    ("system", "arch", "tag"),
    [
        (None, None, None),
        ("windows", None, "win_amd64"),
        ("windows", "aarch64", "win_arm64"),
        ("macos", None, "macosx_x86_64"),
        ("macos", "aarch64", "macosx_arm64"),
        ("linux", None, "linux_x86_64"),
        (None, "aarch64", "linux_aarch64"),
    ],
)
def test_a_system_and_an_architecture_mean_a_wheel(
    system: str | None, arch: str | None, tag: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    assert inspect_verb._platform(system, arch) == tag


@pytest.mark.parametrize(("runs", "good"), [(True, True), (None, True), (False, False)])
def test_a_wheel_that_does_not_run_there_is_a_no(
    runs: bool | None, good: bool, replace: Replace, tmp_path: Path
) -> None:
    verdict = SimpleNamespace(runs=runs)
    replace("holds_wheels", False)
    report, page = replace("inspect", SimpleNamespace(verdict=verdict)), replace("inspect_page", None)
    assert run(f"inspect a.whl --gpu sm_86 --gpu sm_90 --os linux --no-cpu --html {tmp_path}/").good is good
    options = report.words[1]
    assert (options.cpu, options.platform) == (False, "linux_x86_64")
    assert options.machine_name == "sm_86 + sm_90 (linux)" and page.words[1] == tmp_path / "inspect.html"
    replace("inspect", SimpleNamespace(verdict=None))
    assert run("inspect a.whl").good is True
    replace("holds_wheels", True)
    shelf = SimpleNamespace(findings=(), wheels=(SimpleNamespace(verdict=None), SimpleNamespace(verdict=verdict)))
    replace("inspect_shelf", shelf)
    assert run("inspect folder").good is good
    replace("inspect_shelf", SimpleNamespace(findings=("odd",), wheels=()))
    assert run("inspect folder").good is False
    with pytest.raises(BadInput, match="shows one wheel"):
        run("inspect folder --html x")
    compared = replace("inspect_diff", "diff")
    assert run("inspect --diff a b --quick").document == "diff" and compared.words[:2] == ("a", "b")


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("--gpu sm_86", "sm_86"),
        ("--cpu ivybridge --glibc 2.28", "ivybridge, glibc 2.28"),
        ("--gpu sm_86 --driver 550.1 --arch x86_64", "sm_86 (x86_64, driver 550.1)"),
    ],
)
def test_a_described_machine_is_called_as_it_was_described(line: str, name: str, replace: Replace) -> None:
    replace("holds_wheels", False)
    report = replace("inspect", SimpleNamespace(verdict=None))
    run(f"inspect a.whl {line}")
    assert report.words[1].machine_name == name


@pytest.mark.parametrize(
    ("matches", "unexplained", "good"), [(("x",), None, True), ((), None, False), (("x",), "y", False)]
)
def test_words_without_a_cause_are_no_answer(
    matches: tuple[str, ...], unexplained: str | None, good: bool, replace: Replace
) -> None:
    found = SimpleNamespace(matches=matches, unexplained=unexplained)
    for name, line in (("explain", "explain 'some text'"), ("explain_watch", "explain --watch x.log")):
        replace(name, found)
        assert run(line).good is good


@pytest.mark.parametrize(("outcomes", "good"), [(("lost", "won"), True), (("lost",), False)])
def test_a_tried_rule_is_a_yes_where_it_wins(outcomes: tuple[str, ...], good: bool, replace: Replace) -> None:
    replace("explain_try", SimpleNamespace(trials=[SimpleNamespace(outcome=each) for each in outcomes]))
    assert run("explain 'some text' --try rule").good is good


def test_where_a_failure_happened_may_be_named(replace: Replace, tmp_path: Path) -> None:
    plan = Plan(answer="install", torch="2.6.0")
    (tmp_path / "plan.json").write_bytes(encode(plan))
    replace("this_machine", "here")
    replace("find_machine", ("there", None))
    torch = replace("installed_torch", "torch")
    explained = replace("explain", SimpleNamespace(matches=(), unexplained=None))
    run(f"explain text --machine this --plan {tmp_path}/plan.json --torch")
    assert explained.named == {"machine": "here", "plan": plan, "wheel": "torch"} and torch.words == (None,)
    run("explain text --machine name --torch=/t")
    assert explained.named["machine"] == "there" and list(torch.words) == ["/t"]
    run("explain text")
    assert explained.named == {"machine": None, "plan": None, "wheel": None}


def test_a_plan_is_a_yes_where_it_has_an_answer(replace: Replace, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = api.machine_from_flags(gpu=["sm_86"], os="linux")
    replace("machine_from_flags", machine)
    remembered = replace("remember_plan", None)
    for kind, good in (("install", True), ("build", True), ("none", False)):
        planned = replace("plan", Plan(answer=kind))  # type: ignore[arg-type]
        assert run("plan --gpu sm_86 --torch 2.6 --with a,b==1 --with 'c>=1,<2' --wheelhouse w").good is good
        assert not remembered.words and planned.words[0] == machine
        wish = planned.words[1]
        assert (wish.torch, wish.companions, wish.build) == ("2.6", ("a", "b==1", "c>=1,<2"), False)
        assert planned.named["wheelhouses"] == ["w"] and planned.named["proofs"] is None
    run("plan --gpu sm_86 --compiler msvc-14.29", json=True, quiet=False)
    assert remembered.named == {"other_machine": False}
    replace("find_machine", (machine, Wish()))
    run("plan --machine m", json=True, quiet=False)
    assert remembered.named == {"other_machine": True}
    asked = replace("why_not", "reasons")
    assert run("plan --gpu sm_86 --why-not torch=2.15").document == "reasons" and asked.words[2] == "torch=2.15"
    assert replace("plan", Plan(answer="none")) and run("plan --gpu sm_86 --compiler msvc-14.29 --build").good is False


@pytest.mark.parametrize(
    ("line", "told"), [("--gpu sm_86", True), ("--gpu sm_86 --os linux", False), ("--cpu ivybridge", True), ("", False)]
)
def test_linux_is_assumed_only_of_a_described_machine(
    line: str, told: bool, replace: Replace, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = api.machine_from_flags(gpu=["sm_86"], os="linux")
    for name in ("machine_from_flags", "this_machine"):
        replace(name, machine)
    replace("plan", Plan(answer="none"))
    view: Any = run(f"plan {line}").view
    assert ("Linux (--os)" in view.keywords["assumed"]) is told


def test_a_matrix_that_ran_leaves_its_page(replace: Replace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pages: list[tuple[object, Path]] = []
    monkeypatch.setattr("rekindle.render.pages.write_report", lambda status, place: pages.append((status, place)))
    status = SimpleNamespace(good=True, root=str(tmp_path))
    ran = replace("matrix_run", SimpleNamespace(report=str(tmp_path / "r.html"), status=status))
    assert run("matrix run --only a --engine dask --scheduler s --slots 3 --force").good is True
    assert pages == [(status, tmp_path / "r.html")] and ran.named["trust"] is False
    options = ran.words[1]
    assert (options.only, options.engine, options.scheduler, options.slots) == (("a",), "dask", "s", 3)
    replace("matrix_run", SimpleNamespace(report=None, status=SimpleNamespace(good=False)))
    assert run("matrix run --trust").good is False and len(pages) == 1
    replace("matrix_status", status)
    assert run("matrix report").good and run(f"matrix report --out {tmp_path}/").good
    assert [place for _, place in pages[1:]] == [tmp_path / "report.html"] * 2
    assert run("matrix status").document is status and len(pages) == 3
    replace("matrix_watch", iter([SimpleNamespace(good=False), status]))
    monkeypatch.setattr("rekindle.render.matrix.watch", lambda statuses, progress: [*statuses][-1])
    assert run("matrix watch").document is status


def test_a_cell_that_somebody_builds_ends_with_a_code_of_its_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Busy(Called):
        def __call__(self, *words: Any, **named: Any) -> object:
            raise WorkspaceBusy("another run builds it")

    monkeypatch.setattr(api, "matrix_cell", Busy(api.matrix_cell, None))
    with pytest.raises(SystemExit) as ended:
        run("matrix cell c --root r")
    assert ended.value.code == BUSY_CODE and "another run builds it" in capsys.readouterr().err


def test_a_proof_is_written_where_it_was_wished(replace: Replace, tmp_path: Path) -> None:
    report = SimpleNamespace(good=True)
    proved, page, shared = replace("verify", report), replace("verify_page", None), replace("share_proof", None)
    replace("check_shareable", None)
    run(f"verify --save {tmp_path}/ --html {tmp_path}/ --share {tmp_path}/ --sign me --env A=b=c --no-gpu --no-deps")
    options = proved.words[0]
    assert (options.save, options.env) == (tmp_path / "verify.json", {"A": "b=c"})
    assert (options.gpu, options.dependencies) == (False, False)
    assert page.words == (report, tmp_path / "verify.html")
    assert shared.words == (report, tmp_path / "proof.json") and shared.named == {"sign": "me"}
    run("verify --with a,b")
    assert (proved.words[0].gpu, proved.words[0].dependencies, proved.words[0].companions) == (None, True, ("a", "b"))


def test_a_record_that_cannot_be_is_refused_before_minutes_of_checks(
    replace: Replace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    proved = replace("verify", SimpleNamespace(good=True))
    replace("share_proof", None)
    with pytest.raises(BadInput, match="names no wheel"):
        run(f"verify --share {tmp_path}/")
    assert proved.words == ()
    run(f"verify --wheel a.whl --share {tmp_path}/")
    assert proved.words


def test_steps_of_a_source_tree(replace: Replace, monkeypatch: pytest.MonkeyPatch) -> None:
    found = replace("find_tree", Path("/tree"))
    ready = SimpleNamespace(missing_submodules=(), conflicts=())
    lacks = SimpleNamespace(missing_submodules=("x",), conflicts=())
    for step, name in (("fill", "source_fill"), ("status", "source_status"), ("patch", "source_patch")):
        for tree, good in ((ready, True), (lacks, False)):
            called = replace(name, tree)
            assert run(f"source {step} there").good is good and called.words[0] == Path("/tree")
            assert found.words == (Path("there"), None)
    called = replace("source_patch", SimpleNamespace(missing_submodules=(), conflicts=("x",)))
    answer = run("source patch --source named --dry-run --only a --compiler 'gcc 13'")
    assert answer.good is False and answer.view is not None and found.words == (Path("named"), None)
    chosen = called.words[1]
    assert chosen.given["compiler"] == "gcc 13" and chosen.given["cuda"] is None
    assert (chosen.only, called.named["dry_run"]) == (("a",), True)
    assert run("source patch").view is None
    hipified = replace("source_hipify", "hip")
    assert run("source hipify --undo").document == "hip" and hipified.named["undo"] is True
    saved = replace("save_patches", "saved")
    assert run("source save-patches --output o --base t").document == "saved"
    assert saved.words == (Path("/tree"), Path("o")) and saved.named == {"base": "t"}
    assert replace("source_unpatch", "un") and run("source unpatch").document == "un"
