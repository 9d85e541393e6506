"""Redaction: nobody can tell from a capture whose machine it was, and the capture still fits together."""

from __future__ import annotations

from pathlib import Path

import pytest

from rekindle.host.capture import Record, RecordedHost
from rekindle.host.protocol import Completed, RegistryKey
from rekindle.host.redact import Redactor, fill_template, redactor_here, without_password, without_secrets

ME = Redactor(user="kimberly", home="/data/people/kimberly", host="kims-box.lab.example")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("/data/people/kimberly/miniconda3/bin", "/home/user/miniconda3/bin"),
        ("/home/anna/.pyenv", "/home/user/.pyenv"),
        (r"C:\Users\Anna Maria\AppData", r"C:\Users\user\AppData"),
        (r"C:\\Users\\anna\\x", r"C:\\Users\\user\\x"),
        (r"C:\Users\ANNAMA~1\AppData\Local\Temp", r"C:\Users\user\AppData\Local\Temp"),
        ("Linux kims-box 6.1", "Linux host 6.1"),
        ("kims-box.lab.example says", "host says"),
        ("GPU-73ab278d-1681-f7b4-3d79-f98f21f3d184", "GPU-redacted"),
        ("  Uuid:                    GPU-b85e402c0fb3757f", "  Uuid:                    GPU-redacted"),
        ("\t\t<serial>1652826071547</serial>", "\t\t<serial>redacted</serial>"),
        (
            "    Serial Number                         : 0324017030912",
            "    Serial Number                         : redacted",
        ),
        ("unique_id 12345678901234567", "unique_id redacted"),
        ("link/ether 52:54:00:12:34:56 brd", "link/ether 00:00:00:00:00:00 brd"),
        ("mail kim@lab.example now", "mail someone@example.invalid now"),
        ("4:memory:/docker/" + "0f" * 32, "4:memory:/docker/redacted-id"),
    ],
)
def test_what_names_somebody_goes(before: str, after: str) -> None:
    assert ME.text(before) == after


@pytest.mark.parametrize(
    "text",
    [
        r"HKLM\SYSTEM\CurrentControlSet\Control\Class\{4d36e968-e325-11ce-bfc1-08002be10318}",
        "0000:65:00.0",
        "/usr/bin/python3",
        "/home/user/.pyenv",
        "NVIDIA GeForce RTX 3060, 00000000:01:00.0, 0x250310DE, 535.183.01, 12288",
        "    Serial Number                         : N/A",
        r"C:\Users\Public\x",
        "clang version 15.0.6",
    ],
)
def test_what_names_nobody_stays(text: str) -> None:
    assert ME.text(text) == text


def test_a_user_called_root_changes_nothing() -> None:
    user = "root"
    text = f"/{user}/.pyenv on vm of {user}"
    assert Redactor(user=user, home=f"/{user}", host="vm").text(text) == text


@pytest.mark.parametrize(
    ("home", "after"),
    [("/h/a", "/home/user/x"), ("/h/a/", "/home/user/x"), ("/ha", "/h/a/x"), ("", "/h/a/x")],
)
def test_a_short_home_is_hidden_but_no_folder_of_everybodys(home: str, after: str) -> None:
    assert Redactor(home=home).text("/h/a/x").replace("//", "/") == after


@pytest.mark.parametrize(("user", "hidden"), [("kim", True), ("ki", False), ("root", False), ("Python", False)])
def test_a_name_is_hidden_unless_it_is_too_short_or_a_word(user: str, hidden: bool) -> None:
    text = f"{user} was here"
    assert (Redactor(user=user).text(text) == "user was here") is hidden


def test_a_page_hides_who_and_keeps_what_is_to_be_copied() -> None:
    assert without_secrets("mail kim@lab.example now") == "mail someone@example.invalid now"
    assert without_secrets("GPU-73ab278d-1681-f7b4-3d79-f98f21f3d184") == "GPU-redacted"
    for kept in ("/home/anna/.pyenv", r"C:\Users\anna\x", "0f" * 32):
        assert without_secrets(kept) == kept, "commands and digests on a page are there to be used"
    assert without_secrets(7) == 7


def test_a_redacted_record_still_fits_together() -> None:
    python = "/home/anna/.pyenv/versions/3.11.7/bin/python"
    record = Record(
        machine="x86_64",
        runs=[Completed(argv=(python, "--version"), code=0, out=f"{python} 3.11")],
        files={"/home/anna/x": b"caf\xe9 of anna /home/anna/y"},
        pythons={python: {"version": "3.11.7", "prefix": "/home/anna/.pyenv/versions/3.11.7"}},
        links={"/home/anna/python": python},
        env={"HOME": "/home/anna"},
        registry={r"HKCU\X": RegistryKey(values={"p": r"C:\Users\anna\x"})},
    )
    host = RecordedHost(Redactor(user="anna", home="/home/anna", host="").record(record))
    found = host.realpath("/home/user/python")
    assert host.python(found) == {"version": "3.11.7", "prefix": "/home/user/.pyenv/versions/3.11.7"}
    assert host.run([found, "--version"]).ok
    assert host.read("/home/user/x") == b"caf\xe9 of user /home/user/y"
    assert "anna" not in repr(host.record)


def test_of_the_mounts_only_control_groups_are_kept() -> None:
    mounts = (
        b"29 1 254:0 / / rw - ext4 /dev/vda rw\n"
        b"33 25 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
        b"44 29 254:0 /secret /mnt/secret rw - ext4 /dev/vdb rw\n"
    )
    redacted = ME.record(Record(machine="x86_64", files={"/proc/self/mountinfo": mounts}))
    assert redacted.files["/proc/self/mountinfo"] == b"33 25 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"


def test_the_words_of_this_machine_are_redacted_where_nobody_knows_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.node", lambda: "annas-laptop")
    monkeypatch.setattr("getpass.getuser", lambda: "anna")
    monkeypatch.setenv("HOME", "/home/anna")
    assert redactor_here().text("/home/anna/x on annas-laptop") == "/home/user/x on host"

    def nobody() -> str:
        raise KeyError("uid not found")

    monkeypatch.setattr("getpass.getuser", nobody)
    monkeypatch.setenv("USER", "berta")
    assert redactor_here().text("/home/anna/x of berta") == "/home/user/x of user"
    for name in ("USER", "HOME"):
        monkeypatch.delenv(name)
    assert redactor_here().text("on annas-laptop") == "on host"


def test_of_a_page_no_password_and_no_markup_comes_through(tmp_path: Path) -> None:
    template = tmp_path / "page.j2"
    template.write_text("<p>{{ said }}</p>\n", encoding="utf-8")
    page = fill_template(template, said="<b>https://bob:hunter2@example.org/x</b>")
    assert "hunter2" not in page and "<b>" not in page and page.startswith("<p>&lt;b&gt;")
    with pytest.raises(Exception, match="'said' is undefined"):
        fill_template(template)
    assert without_password("see https://bob:pw@h/x and https://h/y") == "see https://redacted@h/x and https://h/y"
