"""The same words in another place are less certain there."""

from __future__ import annotations

from rekindle.explain.engine import diagnose, scene_of
from rekindle.explain.rule import Proof, load_proofs
from rekindle.model.diagnosis import Match

PORT = (
    "RuntimeError: The server socket has failed to listen on any local network address. "
    "port: 29500, useIpv6: 0, code: -98, name: EADDRINUSE, message: address already in use\n"
)
WSL = "Linux 5.15.167.4-microsoft-standard-WSL2 x86_64\n"


def matches(text: str) -> tuple[Match, ...]:
    return diagnose([text.encode()]).matches


def test_the_place_is_all_that_the_log_tells_of_it() -> None:
    assert scene_of([PORT.encode()]).place == ""
    assert scene_of([(WSL + PORT).encode()]).place == " in wsl"
    assert scene_of([b"JetPack 6, aarch64\n"]).place == " in jetson in arm"


def test_a_folder_called_integrations_is_no_jetson() -> None:
    assert scene_of([b"Linux 5.15.148-tegra\n"]).place == " in jetson"
    assert scene_of([b'File "/venv/transformers/integrations/peft.py", line 3\n']).place == ""


def test_what_was_proven_in_one_place_is_not_certain_in_another() -> None:
    proofs = {"port-in-use": Proof(right=9, ways=("server socket has failed to listen",))}
    for log, confidence in ((PORT, "high"), (WSL + PORT, "medium")):
        first = diagnose([log.encode()], proofs=proofs).matches[0]
        assert (first.id, first.confidence) == ("port-in-use", confidence)


def test_every_way_that_may_be_certain_was_right_in_its_place() -> None:
    ways = [way for proof in load_proofs().values() for way in proof.ways]
    assert any(way.endswith(" in windows") for way in ways)
    assert len(ways) == len({(name, way) for name, proof in load_proofs().items() for way in proof.ways})


def test_a_python_within_the_releases_range_is_not_the_reason() -> None:
    refused = (
        "ERROR: Could not find a version that satisfies the requirement torchvision==0.20.1 (from versions: 0.2.0)\n"
        "ERROR: No matching distribution found for torchvision==0.20.1\n"
    )
    outside = matches("Python 3.13.1\n" + refused)[0]
    assert "torchvision 0.20.1 has wheels for Python 3.9 to 3.12 there." in outside.cause
    within = matches("Python 3.11.2\n" + refused)[0]
    assert (outside.confidence, within.confidence) == ("medium", "low")
