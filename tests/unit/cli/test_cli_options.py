"""What was typed reaches the options value of its verb, each under its own name."""

from __future__ import annotations

import argparse
import platform
from pathlib import Path
from typing import Any

import pytest

from cli_calls import session
from rekindle.api import machine_from_flags
from rekindle.cli.verb import Session, add_arguments, path
from rekindle.model.build_options import BuildOptions
from rekindle.model.journey import UpOptions

BUILD = (
    "torch-scatter --plan p.json --source tree --project x --python 3.11 --python 3.12 --workspace w --target c10 "
    "--memory 8G --jobs 3 --launcher ccache --cmake /c --clean --against torch==2.6.0 --as-is --gpu sm_80"
)
UP = (
    "--gpu sm_35 --gpu sm_90 --cpu ivybridge --workspace w --python 3.12 --venv v --installer uv --find-links a "
    "--find-links b --offline --index i --torch-only --source s --wheel t.whl --level full --memory 8G --jobs 2 "
    "--launcher ccache --target c10 --no-bundle --clean --dry-run"
)


def typed(verb: str, line: str) -> Session:
    parser = argparse.ArgumentParser()
    add_arguments(parser, verb)
    return session(**vars(parser.parse_args(line.split())))


def test_every_option_of_a_build_arrives() -> None:
    assert typed("build", BUILD).options(BuildOptions, settings=()) == BuildOptions(
        package="torch-scatter",
        plan=Path("p.json"),
        source=Path("tree"),
        project="x",
        pythons=("3.11", "3.12"),
        workspace=Path("w"),
        target="c10",
        memory="8G",
        jobs=3,
        launcher="ccache",
        cmake="/c",
        clean=True,
        against="torch==2.6.0",
        as_is=True,
        gpus=("sm_80",),
    )


def test_every_option_of_up_arrives() -> None:
    assert typed("up", UP).options(UpOptions) == UpOptions(
        gpu=("sm_35", "sm_90"),
        cpu="ivybridge",
        workspace=Path("w"),
        python="3.12",
        venv=Path("v"),
        installer="uv",
        find_links=("a", "b"),
        offline=True,
        index="i",
        torch_only=True,
        source=Path("s"),
        wheel=Path("t.whl"),
        level="full",
        memory="8G",
        jobs=2,
        launcher="ccache",
        target="c10",
        bundle=False,
        clean=True,
        dry_run=True,
    )


@pytest.mark.parametrize(("verb", "kind"), [("build", BuildOptions), ("up", UpOptions)])
def test_nothing_typed_is_every_default(verb: str, kind: type) -> None:
    assert typed(verb, "").options(kind, **({"settings": ()} if kind is BuildOptions else {})) == kind()


def test_an_empty_path_names_none() -> None:
    assert (path(""), path(None), path("x")) == (None, None, Path("x"))


def test_a_function_gets_its_keywords_from_the_arguments_of_their_names() -> None:
    def answer(*words: str, level: int = 1, only: tuple[str, ...] = (), progress: object = None) -> tuple[object, ...]:
        return words, level, only, progress

    held = session(level=None, only=["a", "b"], other="never asked for")
    assert held.call(answer, "tree") == (("tree",), 1, ("a", "b"), held.progress)
    assert held.call(answer, level=3, only=()) == ((), 3, (), held.progress)
    assert held.call(lambda *, other: other) == "never asked for"


@pytest.mark.parametrize(
    ("here", "described", "arch"),
    [
        ("aarch64", {"cpu": "ivybridge"}, "x86_64"),
        ("x86_64", {"cpu": "ivybridge"}, None),
        ("x86_64", {"cpu": "cortex-a72"}, "aarch64"),
        ("aarch64", {"gpu": ["sm_61"]}, None),
        ("AMD64", {"arch": "x86_64"}, None),
    ],
)
def test_a_described_processor_of_another_kind_means_its_wheels(
    here: str, described: dict[str, Any], arch: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rekindle.cli.inspect import _other_arch

    monkeypatch.setattr(platform, "machine", lambda: here)
    assert _other_arch(machine_from_flags(**described)) == arch
    assert _other_arch(None) is None
