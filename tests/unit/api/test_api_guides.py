"""``guide``: the page of a person, by what they call their machine."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

import rekindle
from rekindle import api
from rekindle.errors import BadInput

guiding: Any = importlib.import_module("rekindle.api.guide_pages")
PAGES = Path(__file__).parents[3] / "docs" / "guides"


def page(name: str) -> str:
    """The page that a name leads to, by its file."""
    text = api.guide(name).text
    return next(path.stem for path in PAGES.glob("*.md") if path.read_text(encoding="utf-8") == text)


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("kepler", "kepler"),
        ("Tesla K40c", "kepler"),
        ("K80", "kepler"),
        ("GTX 1080", "pascal-volta"),
        ("GeForce GTX 970", "pascal-volta"),
        ("RTX 5090", "rtx50"),
        ("RX 6700 XT", "amd"),
        ("Arc A770", "arc"),
        ("Arc B580", "arc"),
        ("no kernel image", "left-out"),
        ("laptop", "no-card"),
        ("ComfyUI", "app"),
    ],
)
def test_what_people_call_their_machine_leads_to_its_page(said: str, name: str) -> None:
    assert page(said) == name


def test_every_name_leads_somewhere_and_every_page_is_listed_with_its_title() -> None:
    for name, others in guiding._CALLED.items():
        for called in (name, name.upper(), *others):
            assert page(called) == name
    rows = api.guide().text.splitlines()
    assert rows[0] == "# Guides" and rows[1] == ""
    assert [row.split()[2] for row in rows[2:]] == list(guiding._CALLED)
    for row in rows[2:]:
        first = (PAGES / f"{row.split()[2]}.md").read_text(encoding="utf-8").splitlines()[0]
        assert first.startswith("# ") and row.endswith(f" {first[2:]}")


def test_a_card_that_needs_no_page_and_nonsense_are_told() -> None:
    for name in ("RTX 3060", "xyzzy"):
        with pytest.raises(BadInput, match="there is no guide") as refused:
            api.guide(name)
    assert "there are kepler, left-out" in (refused.value.remedy or "")
    with pytest.raises(BadInput) as refused:
        api.guide("kepller")
    assert refused.value.remedy == "did you mean 'rekindle guide kepler'?"


def test_guides_lie_beside_the_package_or_in_the_clone_or_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "src" / "rekindle"
    monkeypatch.setattr(rekindle, "__file__", str(package / "__init__.py"))
    assert "This installation has no guides" in api.guide("kepler").text
    for folder, text in ((tmp_path / "docs" / "guides", "# cloned\n"), (package / "guides", "# installed\n")):
        folder.mkdir(parents=True)
        (folder / "kepler.md").write_text(text, encoding="utf-8")
        assert api.guide("kepler").text == text
