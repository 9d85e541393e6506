"""``up`` before an index that answers as it likes: a card or one line, nothing outside its folder."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from canary import in_process, within
from strange_servers import ANSWERS, Answer, page_of, same, strange_server, whole

from bare_host import BareHost
from rekindle.errors import CommandFailed
from rekindle.host.protocol import Completed
from rekindle.journey import resolve
from rekindle.journey.resolve import size_of
from rekindle.model.plan import Request
from tiny_wheels import make_wheel

SECONDS = 40.0
# pip reads what the others bring as it reads any page; these are the ones in which it is led somewhere.
KINDS = (
    "no-http", "status-of-digits", "cut-short", "length-of-5000-digits", "redirect-to-itself", "redirect-to-a-file",
    "redirect-to-no-address", "redirect-to-letters", "dripping", "endless", "no-text", "json-deep", "json-number",
    "json-no-list", "json-odd-rows", "json-names-out", "links-to-files", "link-no-address", "names-out",
)  # fmt: skip


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in {
        "PIP_CONFIG_FILE": "/dev/null", "PIP_RETRIES": "0", "PIP_DEFAULT_TIMEOUT": "2", "PIP_NO_CACHE_DIR": "1",
        "XDG_DATA_HOME": str(tmp_path / "data"), "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(resolve, "RESOLVE_SECONDS", 4.0)
    monkeypatch.setattr(resolve, "HEAD_SECONDS", 1.0)


def _up(url: str, folder: Path, *more: str) -> tuple[int, str]:
    with within(SECONDS):
        return in_process(
            "up", "--variant", "cpu", "--torch", "2.6.0", "--torch-only", "--index", f"{url}/simple",
            "--workspace", str(folder / "w"), "-q", *more,
        )  # fmt: skip


def _refused(code: int, said: str, folder: Path) -> None:
    assert code in (1, 2, 3), said
    assert "bug in rekindle" not in said and "Traceback" not in said, said
    assert max(map(len, said.splitlines())) < 1000
    assert sum(line.startswith("rekindle: ") for line in said.splitlines()) == 1, said
    assert "root:" not in said and "\x1b[2J" not in said
    assert not list(folder.rglob("*.whl")) and not (folder / "w/envs").exists()


@pytest.mark.parametrize("kind", KINDS)
def test_a_dry_run_ends_in_one_line(kind: str, tmp_path: Path) -> None:
    with strange_server(ANSWERS[kind]) as url:
        code, said = _up(url, tmp_path, "--dry-run")
    if code == 0 and "no network" in said:  # a card is shown all the same, and says that nobody answers
        code, said = 1, said.replace("✗ no network", "\nrekindle: no network")
    _refused(code, said, tmp_path)


@pytest.mark.parametrize("kind", ["json-names-out", "names-out", "links-to-files", "redirect-to-a-file"])
def test_an_installation_ends_in_one_line(kind: str, tmp_path: Path) -> None:
    with strange_server(ANSWERS[kind]) as url:
        _refused(*_up(url, tmp_path, "--yes", "--venv", str(tmp_path / "env")), tmp_path)
    assert not (tmp_path / "env").exists()


@pytest.fixture(scope="module")
def planned() -> str:
    """The version that is asked for on this machine: with a local part or without."""
    _, said = in_process("plan", "--torch", "2.6.0", "--variant", "cpu", "--json", "-q")
    return str(next(row["version"] for row in json.loads(said)["requests"] if row["name"] == "torch"))


def _index_of(wheel: Path, **row: object) -> Answer:
    """A page of one wheel whose metadata can be had apart, so that pip's dry run does not fetch the wheel."""
    metadata = f"Metadata-Version: 2.1\nName: torch\nVersion: {wheel.name.split('-')[1]}\n".encode()
    told = {"filename": wheel.name, "url": f"/files/{wheel.name}", "hashes": {}, "core-metadata": True} | row

    def answer(path: str, heads: str) -> Iterator[bytes]:
        if path.endswith(".metadata"):
            yield whole(metadata)
        elif path.endswith(".whl"):
            yield whole(wheel.read_bytes())
        else:
            yield page_of(told)

    return answer


def test_a_wheel_with_another_digest_is_not_installed(
    tmp_path: Path, planned: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # This server is honest about everything else: on a busy machine two seconds and no second try may not reach it.
    monkeypatch.setenv("PIP_DEFAULT_TIMEOUT", "20")
    monkeypatch.setenv("PIP_RETRIES", "3")
    wheel = make_wheel(tmp_path / "index", "torch", planned)
    with strange_server(_index_of(wheel, hashes={"sha256": "0" * 64})) as url:
        code, said = _up(url, tmp_path, "--yes", "--venv", str(tmp_path / "env"))
    assert code == 1 and "Traceback" not in said, said
    assert "hash" in said.lower() or "sha256" in said.lower(), said
    assert not list((tmp_path / "env").rglob("torch*"))


class _Reporting(BareHost):
    """Its pip resolves, and its report says what an index's page said: newer ones fetch no wheel for that."""

    def __init__(self, sha256: object) -> None:
        info = {"url": "file:///no/such.whl", "archive_info": {"hashes": {"sha256": sha256}}}
        self.report = {"install": [{"download_info": info, "metadata": {"name": "torch", "version": "2.6.0"}}]}

    def run(self, argv: Sequence[str], **_: object) -> Completed:
        Path(argv[argv.index("--report") + 1]).write_text(json.dumps(self.report), encoding="utf-8")
        return Completed(argv=tuple(argv), code=0)


@pytest.mark.parametrize(
    "odd", ["0" * 64 + "\n--extra-index-url http://x/", "0" * 64 + " --no", "", "0" * 63, 7, ["0" * 64]]
)
def test_a_digest_that_is_none_writes_no_line_for_pip(odd: object) -> None:
    """What stands in a page goes into pip's list of requirements, where a second line could be an option."""
    group = [Request(name="torch", version="2.6.0")]
    with pytest.raises(CommandFailed, match="is no SHA-256"):
        resolve.resolve(_Reporting(odd), "python", group, fresh=True, substituted=True)
    found = resolve.resolve(_Reporting("0" * 64), "python", group, fresh=True, substituted=True)
    assert found is not None and resolve.lock_lines(found).count("\n") == 1


@pytest.mark.parametrize("length", ["many", "-1", "9" * 5000, "9" * 30, "\u00b2", "", "1e9", "0x10", "1 2"])
def test_a_size_that_is_none_is_unknown(length: str) -> None:
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n".encode("latin-1")
    with strange_server(same(head)) as url, within(5):
        assert size_of(f"{url}/x.whl") is None


@pytest.mark.parametrize("kind", ["nothing", *KINDS[:8], "headers-without-end"])
def test_the_size_of_a_strange_answer(kind: str) -> None:
    with strange_server(ANSWERS[kind]) as url, within(5):
        assert size_of(f"{url}/x.whl") == (5000 if kind == "cut-short" else None)


@pytest.mark.parametrize(
    "url", ["http://[bad/x", "http://127.0.0.1:port/x", "gopher://x/", "", "file:///no/such", "file:///\0"]
)
def test_the_size_of_what_is_no_address(url: str) -> None:
    assert size_of(url) is None
