"""Since when a package has a name: the tables hold together, look-ups know modules, names and parameters."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import cast

import pytest

import measure_names as measuring
from rekindle.explain.engine import diagnose
from rekindle.facts import names
from rekindle.facts.names import find_module, find_name, find_parameter
from rekindle.formats.simple_index import IndexWheel
from rekindle.model.version import key

TABLES = sorted((Path(names.__file__).parent / "names/history").glob("*.toml"))


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_a_table_is_in_order_and_says_each_thing_once(path: Path) -> None:
    history = names._load(path.stem)
    assert history is not None and history.how == "measured" and history.source.endswith(f"/{history.project}/")
    assert path.stat().st_size < 600_000
    for table in (history.came, history.gone):
        assert list(table) == sorted(table, key=key)
        assert all(key(history.first) < key(release) <= key(history.last) for release in table)
        for listed in table.values():
            lines = [line.split() for line in listed.splitlines() if line]
            assert len({line[0] for line in lines}) == len(lines)
            assert all(len(line) > 1 and len(set(line)) == len(line) for line in lines)


# Each from the release notes (or the documentation's "added in") of its project.
@pytest.mark.parametrize(
    ("module", "name", "came", "gone"),
    [
        ("torch", "get_default_device", "2.3", None),
        ("torch", "float8_e8m0fnu", "2.7", None),
        ("torch", "float8_e4m3fn", "2.1", None),
        ("torch.nn", "RMSNorm", "2.4", None),
        ("torch.compiler", "set_stance", "2.6", None),
        ("torch._six", "inf", None, "2.0"),
        ("torch", "_six", None, "2.0"),
        ("packaging.version", "LegacyVersion", None, "22.0"),
        ("huggingface_hub", "cached_download", None, "0.26"),
        ("transformers", "AdamW", None, "4.50"),
        # Behind a module's __getattr__ until 10.0, with a warning from 9.1 on.
        ("PIL.Image", "ANTIALIAS", None, "10.0"),
        # A module of 2.0 that torch itself imports since 2.1.
        ("torch", "_dynamo", "2.0", None),
        # A module stays, though numpy no longer imports it.
        ("numpy", "dtypes", "1.25", None),
    ],
)
def test_names(module: str, name: str, came: str | None, gone: str | None) -> None:
    span = find_name(module, name)
    assert span is not None and (span.came, span.gone) == (came, gone)


def test_what_was_always_there_or_never_is_not_told() -> None:
    assert find_name("PIL.Image", "LANCZOS") is find_name("PIL.Image", "BICUBIC") is None
    # Submodules that later releases import by themselves, or make known in another way.
    assert find_name("torch.backends", "mkldnn") is find_name("librosa", "beat") is find_name("onnx", "helper") is None
    assert find_name("torch", "zeros") is find_name("torch", "zerooos") is find_name("nobody_knows_this", "x") is None
    assert find_module("torch.nn") is find_module("torch") is find_module("../../etc/passwd.x") is None


def test_a_module_that_came_brings_what_lies_in_it() -> None:
    span = find_module("torch.nn.attention.flex_attention")
    assert span is not None and span.came == "2.5"
    assert find_name("torch.nn.attention", "flex_attention") == span
    for inside in (find_name("torch._dynamo", "whatever"), find_name("torch._dynamo.a.b", "whatever")):
        assert inside is not None and (inside.came, inside.gone) == ("2.0", None)


def test_parameters() -> None:
    span = find_parameter("ReduceLROnPlateau.__init__", "verbose", "")
    assert span is not None and (span.project, span.came, span.gone) == ("torch", None, "2.7")
    span = find_parameter("Trainer.__init__", "tokenizer", "site-packages/transformers/trainer.py")
    assert span is not None and (span.project, span.gone) == ("transformers", "4.46")
    assert find_parameter("ReduceLROnPlateau.__init__", "patience", "torch") is None
    assert find_parameter("no_such_function_at_all", "x", "torch") is None


def test_a_long_name_is_nobody_elses() -> None:
    span = find_parameter("ElasticTransform.__init__", "alpha_affine", "")  # sixteen letters
    assert span is not None and (span.project, span.gone) == ("albumentations", "1.4")
    assert find_parameter("RandomSizedCrop.__init__", "always_apply", "") is None  # fifteen
    assert find_parameter("RandomSizedCrop.__init__", "always_apply", "albumentations") is not None


@pytest.mark.parametrize("log", ["", "import own_transformersx", "sentencetransformers", "Transformers"])
def test_a_short_name_is_of_no_package_the_log_does_not_name(log: str) -> None:
    assert find_parameter("Trainer.__init__", "tokenizer", log) is None
    assert find_parameter("Trainer.__init__", "tokenizer", f"{log} transformers==4.50") is not None


def test_a_parameter_of_several_packages_is_torchs_or_nobodys(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {name: f"\nstep() fast\nLoader.step() {name} fast\n" for name in ("torch", "lightning", "peft")}
    monkeypatch.setattr(names, "_packages", lambda: tuple(texts))
    monkeypatch.setattr(names, "_text_of", texts.__getitem__)
    table = {
        name: names._HistoryFile(
            source="", date="", how="measured", project=name, first="1", last="3", came={"2": text}, gone={}
        )
        for name, text in texts.items()
    }
    monkeypatch.setattr(names, "_load", table.get)
    assert find_parameter("step", "fast", "torch peft lightning") == ("torch", "2", None)
    assert find_parameter("Loader.step", "peft", "peft") == ("peft", "2", None)
    monkeypatch.setattr(names, "_packages", lambda: ("lightning", "peft"))
    assert find_parameter("step", "fast", "peft and lightning") is None
    assert find_parameter("step", "fast", "lightning alone") == ("lightning", "2", None)


@pytest.mark.parametrize(
    ("have", "words"),
    [("2.1.0", ("too old", "Installed is 2.1.0", "torch>=2.6")), (None, ("too old", "torch>=2.6"))],
)
def test_the_answer_names_the_release(have: str | None, words: tuple[str, ...]) -> None:
    head = f"torch=={have}\n" if have else ""
    text = f"{head}AttributeError: module 'torch.compiler' has no attribute 'set_stance'\n"
    match = diagnose([text.encode()]).matches[0]
    said = " ".join((match.title, match.cause, *match.fix))
    assert all(word in said for word in words), said


def test_where_the_installed_release_has_the_name_its_age_is_not_the_reason() -> None:
    text = "torch==2.9.0\nAttributeError: module 'torch.compiler' has no attribute 'set_stance'\n"
    assert all("too old" not in match.title for match in diagnose([text.encode()]).matches)


def package(**modules: str) -> set[str]:
    """The names of a small package, whose modules are given as text (``p__sub`` for p.sub)."""
    names = {name.replace("__", "."): body for name, body in modules.items()}
    parents = {name.rpartition(".")[0] for name in names}
    trees = {name: (ast.parse(body), name in parents or "." not in name) for name, body in names.items()}
    return set(measuring._Package(trees).names())


def test_what_counts_as_a_name() -> None:
    names = package(
        p="from .sub import *\nfrom .sub import _hidden\nimport os\nfrom typing import Any\nif True:\n    one = 1\n",
        p__sub="__all__ = ['Made']\nclass Made:\n    def run(self, fast=False, *, slow): ...\n"
        "def other(x, **rest): ...\n_hidden = 2\n",
    )
    assert {"p:", "p.sub:", "p:Made", "p:_hidden", "p:one", "p.sub:other", "Made.run(fast)", "Made.run(slow)"} <= names
    # Others' names, what a star leaves out, and parameters of a function that takes any.
    assert not {"p:os", "p:Any", "p:other", "other(x)", "Made.run(self)"} & names


def test_a_new_module_is_said_once() -> None:
    lines = list(
        measuring._by_module(["p.new:", "p.new.part:", "p.new:Made", "p:Made", "Made.run()", "Made.run(fast)", "f(x)"])
    )
    assert lines == [": p.new", "f() x", "p Made"]


def test_a_name_that_is_made_while_a_module_runs_may_be_there() -> None:
    text = 'def __getattr__(name):\n    """The old ONE."""\n    if name in {"OLD": 1}:\n        return 1\n'
    assert measuring._DYNAMIC.search(text) and not measuring._DYNAMIC.search("OLD = 1\n")
    words = frozenset(measuring._words(ast.parse(text)))
    release = measuring.Release(frozenset(), {"p": words})
    assert measuring._may_be_there("p:OLD", release)
    assert not any(measuring._may_be_there(name, release) for name in ("p:ONE", "q:OLD", "p:", "OLD()", "OLD(OLD)"))


def test_a_submodule_is_there_though_no_statement_takes_it_in() -> None:
    release = measuring.Release(frozenset({"p:", "p.sub:"}), {})
    assert measuring._may_be_there("p:sub", release) and not measuring._may_be_there("p:other", release)


def test_a_module_for_a_newer_python_is_there_with_all_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "_sources", lambda *_: [("p/__init__.py", b""), ("p/new.py", b"type of = Made x")])
    release = measuring.read_release(measuring.Wanted("p", ("p",), "0"), cast("IndexWheel", None))
    assert "p.new:" in release.names
    assert measuring._may_be_there("p.new:Made", release) and not measuring._may_be_there("p.new:Other", release)


@pytest.mark.parametrize(("code", "is_there"), [(b"__getattr__, *_ = attach_stub(__name__)", True), (b"x = 1", False)])
def test_a_stub_says_what_a_module_makes_while_it_runs(
    code: bytes, is_there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [("p/__init__.py", code), ("p/__init__.pyi", b"from .sub import Made"), ("p/sub.py", b"class Made: pass")]
    monkeypatch.setattr(measuring, "_sources", lambda *_: files)
    wheel = cast("IndexWheel", None)
    assert ("p:Made" in measuring.read_release(measuring.Wanted("p", ("p",), "0"), wheel).names) == is_there


@pytest.mark.parametrize("name", ["float8_e4m3fn", "xpu", "compiler"])
def test_one_answer_names_one_release(name: str) -> None:
    """The table that people keep and the measured one do not speak of two releases."""
    text = f"AttributeError: module 'torch' has no attribute '{name}'\n"
    match = diagnose([text.encode()]).matches[0]
    said = " ".join((match.title, match.cause, *match.fix))
    span = find_name("torch", name)
    assert span is not None and span.came is not None and f"torch>={span.came}" in said
    assert set(re.findall(r"(?:release|from|torch>=) ?(\d+\.\d+)", said)) == {span.came}, said
