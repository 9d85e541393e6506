"""The list of keys says whose private half is here."""

from __future__ import annotations

from pathlib import Path

from rekindle import api


def test_a_key_of_ones_own_has_its_private_half_here_and_a_trusted_one_has_not(tmp_path: Path) -> None:
    own = api.key_new("mine", folder=tmp_path / "keys")
    assert [(key.name, key.private) for key in own.keys] == [("mine", True)]
    api.key_new("theirs", folder=tmp_path / "other")
    believed = api.key_trust(tmp_path / "other" / "theirs.pub", folder=tmp_path / "keys")
    assert believed.note.startswith("what theirs (") and len(believed.keys) == 2
    listed = api.key_list(folder=tmp_path / "keys")
    assert [(key.name, key.private) for key in listed.keys] == [("mine", True), ("theirs", False)]
    assert listed.folder == str(tmp_path / "keys")
