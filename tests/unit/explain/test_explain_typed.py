"""Typed events, the tables behind them, and what is said where no cause is known."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from rekindle import api
from rekindle.explain import rule
from rekindle.explain.engine import diagnose
from rekindle.explain.ranking import CONDITIONS, FILLS
from rekindle.explain.rule import Proof, capped, compiled, kind_of, load_forms, load_kinds
from rekindle.facts import names
from rekindle.facts.names import load_names, owner_of
from rekindle.model.diagnosis import Match


def first(text: str) -> Match:
    return api.explain(text).matches[0]


HEADER = {
    "gcc": "/s/a.cpp:3:10: fatal error: glm/glm.hpp: No such file or directory",
    "gcc in German": "/s/a.cpp:3:10: schwerwiegender Fehler: glm/glm.hpp: Datei oder Verzeichnis nicht gefunden",
    "gcc in Chinese": "/s/a.cpp:3:10: 致命错误：glm/glm.hpp：没有那个文件或目录",
    "gcc in French": "/s/a.cpp:3:10: erreur fatale: glm/glm.hpp : Aucun fichier ou dossier de ce type".replace(
        " :", ":"
    ),
    "clang": "/s/a.cpp:3:10: fatal error: 'glm/glm.hpp' file not found",
    "MSVC": r"C:\s\a.cpp(3): fatal error C1083: Cannot open include file: 'glm/glm.hpp': No such file or directory",
    "MSVC in Chinese": r"C:\s\a.cpp(3): fatal error C1083: 无法打开包括文件: “glm/glm.hpp”: No such file or directory",
    "nvcc": '/s/a.cu(3): catastrophic error: cannot open source file "glm/glm.hpp"',
    "docker": "#12 34.5 /s/a.cpp:3:10: fatal error: glm/glm.hpp: No such file or directory",
    "colours": "\x1b[1m/s/a.cpp:3:10:\x1b[0m \x1b[31mfatal error:\x1b[0m glm/glm.hpp: No such file or directory",
    "a time stamp": "[2024-06-30 23:35] /s/a.cpp:3:10: fatal error: glm/glm.hpp: No such file or directory",
}


@pytest.mark.parametrize("tool", HEADER)
def test_a_missing_header_is_one_thing_whoever_says_it(tool: str) -> None:
    match = first(HEADER[tool])
    assert match.id == "missing-header" and "libglm-dev" in " ".join(match.fix), match


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("ImportError: libsndfile.so.1: cannot open shared object file: No such file or directory", "libsndfile1"),
        ("/usr/bin/ld: cannot find -lnuma: No such file or directory", "libnuma"),
        ("ModuleNotFoundError: No module named 'sklearn'", "scikit-learn"),
        ("bash: line 1: hipcc: command not found", "rocm-dev"),
        ('  package configuration file provided by "pybind11" with any', "pybind11-dev"),
        ("AttributeError: module 'collections' has no attribute 'Mapping'", "collections.abc"),
        ('a.cu(3): error: identifier "cudaThreadSynchronize" is undefined', "cudaDeviceSynchronize"),
    ],
)
def test_the_tables_say_whose_a_name_is(text: str, word: str) -> None:
    match = first(text)
    assert word in " ".join((match.title, match.cause, *match.fix)) and match.confidence != "high", match


def test_a_missing_header_nobody_knows_is_said_with_little_confidence() -> None:
    match = first("/s/a.cpp:3:10: fatal error: zork/zork.h: No such file or directory")
    assert (match.id, match.confidence) == ("missing-header", "low") and "zork/zork.h" in match.title


# What some forms capture beside the values of their kind.
EXTRA = {"package", "value", "arch", "host", "status", "what", "code", "program", "version"}


def test_every_dialect_is_described_and_speaks_of_known_kinds_and_values() -> None:
    files = (Path(rule.__file__).parent / "dialects").glob("*.toml")
    abouts = {path.stem: tomllib.loads(path.read_text("utf-8"))["about"] for path in files}
    assert len(abouts) >= 20 and all(abouts.values()) and abouts.keys() == {form.dialect for form in load_forms()}
    for form in load_forms():
        kind = load_kinds()[form.event]
        for pattern in form.match:
            names = {name.rstrip("234567") for name in compiled(pattern.regex or "").groupindex}
            assert names - set(kind.values) <= EXTRA, (form.key, names)
    assert kind_of(load_forms()[0].key) == load_forms()[0].event


def test_every_kind_is_answered() -> None:
    from rekindle.explain.rule import load_rules

    answered = {kind for rule in load_rules() for kind in rule.on}
    assert set(load_kinds()) - answered == {"disk-full"}  # a full disk has a rule by words


def test_an_error_nobody_has_seen_is_quoted_and_never_more_than_a_guess() -> None:
    found = api.explain("error: something nobody has seen\n")
    assert [(match.id, match.confidence) for match in found.matches] == [("plain-error", "low")]
    assert "something nobody has seen" in found.matches[0].cause and found.unexplained is not None


@pytest.mark.parametrize("kind", sorted(path.stem for path in Path(names.__file__).with_name("names").glob("*.toml")))
def test_names_are_sourced_and_every_row_can_match(kind: str) -> None:
    file = load_names(kind)
    assert file.source and re.fullmatch(r"\d{4}-\d\d-\d\d", file.date) and file.how == "documented"
    for row in file.row:
        says = row.install() or row.note or row.gone or row.came or row.submodule or "owner" in row.__struct_fields__
        assert re.compile(row.match) and row.owner and says


def test_an_endless_name_is_nobodys() -> None:
    assert owner_of("symbols", "_ZN3c10" + "x" * 500) is None


def test_fills_and_conditions_come_in_pairs() -> None:
    owners = {name.removesuffix("-owner") for name in FILLS if name.endswith("-owner")}
    assert owners and all(f"{name}-known" in CONDITIONS for name in owners)


def test_what_the_log_says_of_python_contradicts() -> None:
    gone = "ModuleNotFoundError: No module named 'distutils.util'\n"
    assert first("Python 3.12.1\n" + gone).id == "distutils-removed-py312"
    assert first("Python 3.10.12\n" + gone).id == "distutils-package-missing"


def test_where_no_cause_is_known_it_says_so_and_helps() -> None:
    log = "Python 3.11.4\nTraceback (most recent call last):\nFrobError: the frobnicator is upside down\n"
    found = api.explain(log)
    assert [(match.id, match.confidence) for match in found.matches] == [("python-exception", "low")]
    help_ = found.unexplained
    assert help_ is not None and help_.line == 3 and "upside down" in help_.quote and len(help_.steps) == 3
    assert help_.facts["python"] == "3.11" and "upside down" in help_.post and "3.11" in help_.post


def test_a_log_without_an_error_has_no_answer_and_no_help() -> None:
    found = api.explain("all is well\n[1/2] Building CXX object a.o\n")
    assert found.matches == () and found.unexplained is None


def test_a_known_cause_needs_no_help() -> None:
    assert api.explain("c++: fatal error: Killed signal terminated program cc1plus\n").unexplained is None


def test_the_first_error_of_a_build_is_the_one_to_help_with() -> None:
    found = api.explain(
        "/s/a.cpp:9:3: error: zork zork\n/s/b.cpp:7:1: error: other thing\nninja: build stopped: subcommand failed.\n"
    )
    assert found.unexplained is not None and (found.unexplained.place, found.unexplained.line) == ("/s/a.cpp:9", 1)


def test_nobody_is_certain_without_proof() -> None:
    assert capped("x", "w", "high", {}) == "medium" and capped("x", "w", "low", {}) == "low"
    assert capped("x", "w", "high", {"x": Proof(right=1, ways=("w",))}) == "high"
    assert capped("x", "other words", "high", {"x": Proof(right=1, ways=("w",))}) == "medium"
    assert capped("x", None, "high", {"x": Proof(right=1, ways=("w",))}) == "high"
    assert capped("x", "w", "high", {"x": Proof(right=9, wrong=1, ways=("w",))}) == "medium"
    assert capped("x", "w", "high", {"x": Proof(right=10, wrong=1, ways=("w",))}) == "high"
    text = b"c++: fatal error: Killed signal terminated program cc1plus\n"
    assert diagnose([text], proofs={}).matches[0].confidence == "medium"


def test_two_roots_far_apart_leave_doubt() -> None:
    one = "nvcc fatal   : Unsupported gpu architecture 'compute_120'\n"
    other = "/s/x.s:1: Error: no such instruction: `vpdpbusd %zmm1'\n"
    assert first(one).confidence == "high"
    assert first(one + "x\n" * 20 + other).confidence == "medium"
