"""Package indexes and wheelhouses that answer as they like: one line, within seconds, nothing kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from canary import LONG, in_process, within
from strange_servers import ANSWERS, NAME, same, strange_server

from rekindle.formats import ranges
from rekindle.formats.simple_index import read_links, read_project_page, wheels_of
from rekindle.host import download

SECONDS = 15.0


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Real limits are minutes; pauses between tries are for real servers."""
    monkeypatch.setattr(ranges, "TRIES", 1)
    monkeypatch.setattr(ranges, "PAGE_SECONDS", 1.0)
    monkeypatch.setattr(download, "ATTEMPTS", 1)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    monkeypatch.setenv("TMPDIR", str(tmp_path))


VERBS = (
    ("inspect", "torch==2.6.0", "--quick", "-q"),
    ("build", "torch-scatter", "--workspace", "WORKSPACE", "--dry-run", "-q"),
    ("plan", "--gpu", "Tesla K40c", "--os", "linux", "--wheelhouse", "URL", "-q"),
    ("index", "search", "--root", "URL", "--gpu", "Tesla K40c", "-q"),
    ("index", "check", "--root", "URL", "-q"),
)
# inspect reads pages and wheels; for the others it is the connection that can be odd.
CONNECTIONS = list(ANSWERS)[: list(ANSWERS).index("marked-section")]


def _cases() -> list[object]:
    return [
        pytest.param(verb, kind, id=f"{verb[0]}-{verb[1]}-{kind}", marks=() if usual else LONG)
        for verb in VERBS
        for kind in ANSWERS
        for usual in (
            verb[0] == "inspect" or (kind in CONNECTIONS and (verb[0] != "plan" or kind in ("no-http", "dripping"))),
        )
    ]


@pytest.mark.parametrize(("argv", "kind"), _cases())
def test_one_line_within_seconds(
    kind: str, argv: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with strange_server(ANSWERS[kind]) as url, within(SECONDS):
        monkeypatch.setenv("PIP_INDEX_URL", f"{url}/simple")
        words = {"URL": url, "WORKSPACE": str(tmp_path / "w")}
        code, said = in_process(*(words.get(word, word) for word in argv))
    assert code in (0, 1, 2, 3), said
    assert "bug in rekindle" not in said and "Traceback" not in said
    assert "root:" not in said, "a file of this machine was read because a stranger's page named it"
    assert not list(tmp_path.rglob("*.whl")), "nothing of it is kept"


PAGE = "https://index.invalid/simple/torch/"


def test_a_page_leads_to_no_file_of_this_machine_and_out_of_no_folder() -> None:
    links = [f"file:///etc/{NAME}", f"http://[bad/{NAME}", NAME, "torch-2.6.0-py3-none-any%2f..%2fx.whl",
             "torch-2.7.0-py3-none-any%1b.whl"]  # fmt: skip
    html = "".join(f'<a href="{link}">x</a>' for link in links).encode()
    rows = [
        {"filename": link.rpartition("/")[2].replace("%2f", "/").replace("%1b", "\x1b"), "url": link} for link in links
    ]
    for page in (html, json.dumps({"files": rows}).encode()):
        [wheel] = wheels_of(read_project_page(page, PAGE), "torch")
        assert wheel.file.url == PAGE + NAME
        assert len(read_links(page, PAGE)) == len(links), "a check sees all of them"
    # In a folder of one's own, files are what is meant.
    assert read_project_page(html, "file:///srv/simple/torch/index.html")[0].url == f"file:///etc/{NAME}"


@pytest.mark.parametrize("told", ["bytes 0-99/200", "bytes 101-199/200", "bytes 100-199/201", "bytes 100-198/200"])
def test_another_part_than_was_asked_for_is_not_taken(told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges, "TAIL", 100)
    size = 1 + int(told[6:].split("/")[0].split("-")[1]) - int(told[6:].split("-")[0])
    body = f"HTTP/1.1 206 P\r\nContent-Range: {told}\r\nContent-Length: {size}\r\n\r\n".encode() + b"x" * size
    with strange_server(same(body)) as url, pytest.raises(ranges.NoRanges, match="other parts"):
        ranges.RangeFile(f"{url}/x")


def test_a_wheel_with_another_digest_than_its_page_says_is_not_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only where it comes whole; of parts nobody can know the digest, and the report names none."""
    with strange_server(ANSWERS["wheel-whole-wrong-digest"]) as url:
        monkeypatch.setenv("PIP_INDEX_URL", f"{url}/simple")
        code, said = in_process("inspect", "torch==2.6.0", "-q")
    assert code == 1 and "SHA-256" in said and "thrown away" in said
