"""Whole views of answers: plans, cards before a yes, builds and explanations.

Documents are small, and each shows another branch; the texts lie in one file.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from rekindle.model.adopt import Adoption, AdoptionChange
from rekindle.model.build import BuildFailure, BuildResult, BuildResults, Fact, Phase
from rekindle.model.diagnosis import (
    Catalogue,
    Confidence,
    Diagnosis,
    FixAttempt,
    FixReport,
    InstallPackages,
    Match,
    RulePage,
    Unexplained,
)
from rekindle.model.document import Document
from rekindle.model.journey import Card, Journey, Leg
from rekindle.model.plan import (
    Alternative,
    BuildRecipe,
    Change,
    Companion,
    CompanionChoice,
    Considered,
    GraftOutline,
    Plan,
    PlannedFor,
    Reason,
    Refusal,
    TorchChoice,
    TorchReady,
    WhyNot,
)
from rekindle.model.words import Exported, Text, VariantEnvironment, Versions
from views import expected_views, shown_both_ways


def warned(*codes: str) -> tuple[Reason, ...]:
    return tuple(Reason(code=code, text=f"Beware: {code}.", source="https://w") for code in codes)


LINUX = PlannedFor(system="linux", arch="x86_64")
HAS_CODE = (Reason(code="wheel-has-code", text="It has code for sm_90.", source="https://a"),)
SIX = tuple(Reason(code=f"r{n}", text=f"Reason {n}.", source=f"https://{n}") for n in range(6))
INSTALL = Plan(
    answer="install", as_asked=True, torch="2.12.1", variant="cu130", python="3.12", commands=("pip install torch",)
)
RECIPE = BuildRecipe(
    source="git",
    toolchain={"CUDA": "11.8: https://developer", "gcc": "11"},
    cmake={"USE_X": "0"},
    minutes=(30, 90),
    disk_gib=40,
    memory_gib=8,
    losses=("flash attention", "cuDNN"),
)
BUILD = Plan(
    answer="build",
    as_asked=True,
    torch="2.6.0",
    cuda="11.8",
    python="3.11",
    asked=("torch 2.6",),
    evidence="compiled",
    commands=("git clone x",),
    powershell=("git clone y",),
    build=RECIPE,
    because=SIX,
    changes=(Change(what="python", from_="3.14", to="3.11", why="no wheel; and more"),),
    warnings=(
        *warned("cudnn-by-hand", "a", "b", "c", "d", "e"),
        Reason(code="h", text="Avoided.", source="https://h", handled=True),
    ),
    alternatives=(
        Alternative(answer="install", torch="2.5.1", variant="cpu", cuda="12", why="CPU only"),
        Alternative(answer="build", torch="2.0.1", cuda="11.7", why="older"),
    ),
    os=LINUX,
)
OUTLINE = GraftOutline(
    wheel="torch-2.12.1.whl",
    archs=("sm_61", "sm_70"),
    toolkit="13.0",
    units=220,
    jobs=8,
    cpu_minutes=90,
    minutes=(10, 14),
    disk_gib=12,
    keeps=("NCCL",),
    losses=("cuDNN",),
)
GRAFT = Plan(answer="graft", as_asked=True, torch="2.12.1", variant="cu130", evidence="proven", graft=OUTLINE)
MADE = Plan(
    answer="graft",
    torch="2.12.1",
    evidence="untried",
    changes=(Change(what="cuda", from_="12.3", to="13.0", why="newer."),),
    graft=GraftOutline(wheel="t.whl", archs=("sm_61",), file="/g/t.graft", toolkit="13.0", toolkit_here="/usr/cuda"),
)
COMPANIONS = Plan(
    answer="install",
    as_asked=True,
    torch="2.6.0",
    because=HAS_CODE,
    companions=(
        Companion(name="torchvision", answer="runs", version="0.21", why="Same release.", source="https://v"),
        Companion(
            name="xformers", answer="last", version="0.0.29", why="Last.", wants="2.7", commands=("pip install x",)
        ),
        Companion(name="flash-attn", answer="build", version="2.7", why="No wheel.", cost="an hour", notes=("Note.",)),
        Companion(
            name="vllm", answer="alternative", version="1", why="Theirs.", instead="Ours", state="kept", url="https://o"
        ),
        Companion(name="triton", answer="none", why="None.", instead="Other", state="old", url="https://p"),
        Companion(name="apex", answer="unknown", why="Nobody knows.", commands=("pip install x",)),
    ),
    choices=(
        CompanionChoice(
            answer="install",
            torch="2.6.0",
            variant="cu124",
            taken=True,
            gives=("torchvision",),
            costs=("older", "slow"),
        ),
        CompanionChoice(answer="install", torch="2.5.1"),
    ),
)
BYTES = 2_500_000_000
CARD = Card(
    what=("torch 2.6", "numpy"),
    places=("https://index",),
    packages=12,
    download_bytes=BYTES,
    download_unknown=2,
    largest=("torch 800 MB",),
    disk_gib=10,
    disk_free_gib=5,
    into="/e",
    new=True,
    python="3.12",
    installer="uv",
    wont=("a", "b", "c", "d"),
    others=("x",),
)
CARDS = {
    "local": Card(
        what=("t",), places=("/w",), packages=1, download_bytes=9, disk_gib=1, disk_free_gib=5, largest=("t",)
    ),
    "network": Card(what=("t",), network="refused", reachable=("rekindle up --offline",), disk_free_gib=5),
    "compile": Card(what=("t",), places=("https://g",), memory_gib=8, minutes=(30, 60), disk_gib=40),
    "compile-here": Card(what=("t",), memory_gib=8),
    "beside": Card(what=("t",), packages=2, largest=("t",), minutes=(5, 9)),
    "nothing": Card(what=("t",), packages=0),
    "untold": Card(what=("t",), packages=None),
    "enough": Card(what=("t",), packages=0, disk_gib=5, disk_free_gib=5),
    "unsized": Card(what=("t",), packages=1, largest=("t",), download_unknown=1),
}
LEGS = (
    Leg(name="plan", status="kept", seconds=3, detail="torch 2.6"),
    Leg(name="install", status="done", seconds=75, detail="into /e"),
    Leg(name="prove", status="failed", seconds=1.5, detail="no"),
    Leg(name="keep", status="skipped"),
)
CAUSE = Match(id="x", confidence="high", title="X", cause="Because.", fix=("do",))
FAILURE = BuildFailure(
    project="torch",
    phase="compile",
    message="3 objects failed",
    command="ninja",
    error=tuple(f"error {n}" for n in range(13)),
    log="/l",
    failed_log="/f",
    facts=(Fact(name="USE_CUDA", wanted="1", found="0", ok=False), Fact(name="Y", wanted="1", found="1", ok=True)),
    diagnosis=Diagnosis(matches=(CAUSE,)),
)
BUILT = BuildResult(
    project="torchvision",
    wheel="/w/a b.whl",
    wheel_sha256="ab",
    plan=INSTALL,
    plan_digest="d",
    phases=(Phase(name="configure", seconds=30), Phase(name="compile", seconds=3600)),
    peak_memory_bytes=3 << 30,
    paused=2,
    retried=("a.o", "b.o"),
    report="/r",
    log="/l",
    notes=("note",),
    environment={"PYTORCH_VERSION": "2.6.0+debian"},
    toolchain={"python": "3.11 (/usr/bin/python3)"},
)
TARGET = BuildResult(project="torch", wheel="", wheel_sha256="", plan=INSTALL, plan_digest="d", target="c10")
SURE: tuple[Confidence, ...] = ("high", "medium", "low", "low", "low", "low")
MATCHES = tuple(
    Match(
        id=f"m{n}",
        confidence=sure,
        title=f"Title {n}",
        cause="A cause.",
        evidence="line",
        line=n or None,
        fix=("one", "two"),
        source="https://m" if n else None,
    )
    for n, sure in enumerate(SURE)
)
UNEXPLAINED = Unexplained(
    kind="import",
    words="an import",
    quote="ImportError: x",
    line=3,
    place="a.py",
    facts={"python": "3.12"},
    steps=("a",),
    post="b\nc",
)
PAGES = tuple(
    RulePage(
        id=f"r{n}",
        family="cuda",
        title=f"T{n}",
        cause="C",
        fix=("f",),
        words=("w",),
        stage="run",
        confidence="high",
        source="s",
    )
    for n in (2, 1)
)
ATTEMPT = FixAttempt(
    cause="x",
    title="NumPy 1",
    action=InstallPackages(packages=("numpy<2",)),
    shown=("pip install numpy<2", "again"),
    outcome="fixed",
)
VIEWS: dict[str, Document] = {
    "plan-install": INSTALL,
    "plan-install-gpu": Plan(answer="install", as_asked=True, torch="2.6.0", because=HAS_CODE),
    "plan-install-changed": Plan(answer="install", torch="2.6.0", changes=MADE.changes),
    "plan-install-asked": Plan(answer="install", torch="2.6.0", asked=("x",)),
    "plan-install-cpu": Plan(answer="install", torch="2.6.0", warnings=warned("gpu-unsupported")),
    "plan-install-part": Plan(answer="install", torch="2.6.0", warnings=warned("gpu-not-served")),
    "plan-install-ptx": Plan(answer="install", torch="2.6.0", warnings=warned("gpu-only-ptx")),
    "plan-install-unseen": Plan(answer="install", as_asked=True, torch="2.6.0", warnings=warned("cpu-not-seen")),
    "plan-install-crashes": Plan(answer="install", as_asked=True, torch="2.6.0", warnings=warned("cpu-seen-crashing")),
    "plan-build": BUILD,
    "plan-build-rocm": Plan(
        answer="build", as_asked=True, torch="2.6.0", rocm="6.4", warnings=warned("rocm-math-gap"), build=RECIPE
    ),
    "plan-build-untried": Plan(answer="build", torch="2.6.0", evidence="untried", build=RECIPE),
    "plan-graft": GRAFT,
    "plan-graft-made": MADE,
    "plan-install-older": Plan(answer="install", torch="2.6.0", changes=BUILD.changes),
    "plan-graft-asked": Plan(answer="graft", torch="2.12.1", asked=("x",), evidence="proven", graft=OUTLINE),
    "plan-none": Plan(answer="none", because=SIX[:1]),
    "plan-none-asked": Plan(answer="none", asked=("x",)),
    "plan-none-gpu": Plan(answer="none", because=(Reason(code="gpu-unsupported", text="Too old."),)),
    "plan-companions": COMPANIONS,
    "why-not-proposed": WhyNot(asked="torch 2.6", possible=True, proposed=True),
    "why-not-graft": WhyNot(asked="torch 2.6", possible=True, way="graft", instead="torch 2.5"),
    "why-not-build": WhyNot(asked="torch 2.6", possible=True, way="build"),
    "why-not-later": WhyNot(asked="torch 2.6", possible=True, way="install"),
    "why-not": WhyNot(
        asked="torch 2.6",
        possible=False,
        considered=(
            Considered(
                name="torch 2.6+cu124",
                answer="install",
                feasible=False,
                refusals=(
                    Refusal(code="a", what="b", rule="R1", reason="No code.", remedy="another", source="https://r"),
                    Refusal(code="a", what="b", rule="R2", reason="May not.", certain=False),
                    Refusal(
                        code="a",
                        what="b",
                        rule="R3",
                        reason="Old driver.",
                        change=Change(what="driver", to="550", why="w"),
                    ),
                ),
            ),
            Considered(name="torch 2.6+cpu", answer="install", feasible=True),
        ),
    ),
    "choice": TorchChoice(
        answer="install",
        torch="2.6",
        variant="cu124",
        python="3.12",
        pip=(("torch==2.6", "a b"),),
        why=("w",),
        beware=("b",),
    ),
    "choice-none": TorchChoice(answer="none"),
    "ready": TorchReady(ready=True, verdict="torch 2.6 is ready", python="/e/bin/python", activate=". /e/bin/activate"),
    "ready-not": TorchReady(ready=False, verdict="no"),
    "adopt-planned": Adoption(
        state="planned",
        verdict="ComfyUI would get torch 2.6",
        folder="/c",
        python="/c/python",
        changes=(AdoptionChange(name="torch", from_="2.1", to="2.6"), AdoptionChange(name="x", from_="1", why="old")),
        conflicts=("y wants torch<2",),
        beware=("a node",),
        files=("/c/constraints.txt",),
        env={"PIP_CONSTRAINT": "/c"},
        card=CARD,
        plan=BUILD,
        next=("rekindle adopt /c --yes",),
    ),
    "adopt-why": Adoption(
        state="planned", verdict="v", plan=Plan(answer="install", torch="2.6", because=(*SIX, *SIX[:3])), changes=()
    ),
    "adopt-adopted": Adoption(
        state="adopted", verdict="adopted", before="2.6", plan=INSTALL, beware=("b",), files=("f",)
    ),
    "adopt-already": Adoption(state="already", verdict="as it is", before="2.6", plan=INSTALL, beware=("b",)),
    "adopt-undone": Adoption(state="undone", verdict="undone", plan=INSTALL),
    **{
        f"card-{name}": Journey(goal="g", arrived=True, verdict="v", workspace="/w", card=card)
        for name, card in CARDS.items()
    },
    "journey-dry": Journey(goal="torch", arrived=True, verdict="torch 2.6 fits", workspace="/w", legs=LEGS, card=CARD),
    "journey-failed": Journey(
        goal="torch",
        arrived=False,
        verdict="no",
        workspace="/w",
        legs=LEGS,
        failure=FAILURE,
        report="/r",
        keeps=("a", "b"),
        next=("again",),
    ),
    "build-failed": FAILURE,
    "build-done": BuildResults(results=(BUILT, TARGET)),
    "build-target": BuildResults(results=(TARGET,)),
    "text": Text(text="no line end"),
    "text-whole": Text(text="a line\n"),
    "versions": Versions(rekindle="1.0", python="3.12", system="Linux"),
    "exported": Exported(
        format="sh", text="x", title="The script", path="/s/a.sh", run="sh a.sh", beside=("/s/f/b", "c")
    ),
    "exported-alone": Exported(format="sh", text="x", title="The script", path="/s/a.sh", run="sh a.sh"),
    "exported-text": Exported(format="sh", text="#!/bin/sh\n", title="The script", run="sh a.sh"),
    "variables": VariantEnvironment(variables={"A": "b c"}, notes=("for uv",)),
    "build-causes": BuildFailure(
        project="torch", phase="compile", message="m", diagnosis=Diagnosis(matches=MATCHES[:4])
    ),
    "journey-causes": Journey(
        goal="g",
        arrived=False,
        verdict="v",
        workspace="/w",
        failure=BuildFailure(project="t", phase="p", message="m", diagnosis=Diagnosis(matches=MATCHES[:2])),
    ),
    "explained": Diagnosis(matches=MATCHES, lines=9),
    "explained-kind": Diagnosis(matches=MATCHES[1:2], unexplained=UNEXPLAINED),
    "explained-not": Diagnosis(lines=9, unexplained=UNEXPLAINED),
    "explained-nothing": Diagnosis(),
    "explained-somewhere": Diagnosis(unexplained=Unexplained(kind="k", words="w", quote="q", place="a.py", post="b")),
    "causes": Catalogue(families={"cuda": "CUDA", "none": "Others"}, rules=PAGES),
    "fixed": FixReport(command=("a",), exit_code=0, attempts=(ATTEMPT,), keep=("export A=1",)),
    "fixed-not": FixReport(command=("a",), exit_code=3, attempts=(ATTEMPT,), diagnosis=Diagnosis(matches=MATCHES[:1])),
}


EXPECTED = expected_views(Path(__file__).parent / "views" / "answers.txt")


@pytest.mark.parametrize("name", VIEWS)
def test_an_answer_is_read_as_it_was_written(name: str) -> None:
    assert shown_both_ways(VIEWS[name]) == EXPECTED[name], "if the new text is better, write it into views/answers.txt"
