"""Addresses: numbers with a port, and whether strangers could read what passes there."""

from __future__ import annotations

import socket
from types import SimpleNamespace

import pytest

from rekindle.errors import BadInput, StageFailed
from rekindle.farm import addresses


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("192.168.1.10", "192.168.1.10:10600"),
        ("192.168.1.10:7", "192.168.1.10:7"),
        ("[fd00::1]:7", "[fd00::1]:7"),
        ("fd00::1", "[fd00::1]:10600"),
        ("localhost:7", ":7"),
    ],
)
def test_an_address_is_read(text: str, expected: str) -> None:
    assert addresses.read_address(text, 10600).endswith(expected)
    host, port = addresses.split_address(addresses.read_address(text, 10600))
    assert addresses.write_address(host, port).endswith(expected)


@pytest.mark.parametrize("text", ["", "a b", "10.0.0.1:port", "10.0.0.1/24", "10.0.0.1:99999", "me@10.0.0.1"])
def test_no_address(text: str) -> None:
    with pytest.raises(BadInput):
        addresses.read_address(text, 1)


@pytest.mark.parametrize("text", ["0.0.0.0", "[::]:3"])
def test_every_address_is_none_that_others_can_use(text: str) -> None:
    with pytest.raises(BadInput, match="every address"):
        addresses.read_address(text, 1)


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "http://[::1]:1", "https://8.8.8.8", "https://farm.example.org"])
def test_nothing_to_say_where_nobody_listens(url: str) -> None:
    assert addresses.judge_network(url) is None


@pytest.mark.parametrize("host", ["192.168.1.10", "10.1.2.3", "172.16.0.9", "[fd00::1]", "100.64.0.7", "169.254.1.1"])
def test_a_network_of_ones_own_is_warned_of(host: str) -> None:
    said = addresses.judge_network(f"http://{host}:10600")
    assert said is not None and "in clear" in said and "WireGuard" in said
    assert addresses.judge_network(f"http://{host}:10600", private_network=True) is None


@pytest.mark.parametrize("host", ["8.8.8.8", "[2001:4860:4860::8888]", "172.32.0.1"])
def test_the_open_world_is_refused(host: str) -> None:
    with pytest.raises(BadInput, match="in clear") as caught:
        addresses.judge_network(f"http://{host}:10600")
    assert "--private-network" in (caught.value.remedy or "") and "https" in (caught.value.remedy or "")
    assert addresses.judge_network(f"http://{host}:10600", private_network=True) is None


def test_a_scheduler_may_be_named() -> None:
    assert addresses.judge_network("http://localhost:10600") is None
    assert addresses.judge_network("https://farm.invalid") is None, "what only the others resolve"
    with pytest.raises(BadInput, match="no address"):
        addresses.judge_network("http://farm.invalid:10600")


def test_a_port_that_answers_is_not_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        place = f"127.0.0.1:{server.getsockname()[1]}"
        assert (addresses.answers(place), addresses.is_free(place)) == (True, False)
    assert (addresses.answers(place), addresses.is_free(place)) == (False, True)


def test_the_address_that_the_scheduler_sees() -> None:
    assert addresses.address_towards("http://127.0.0.1:9") == "127.0.0.1"
    assert "127.0.0.1" not in addresses.own_addresses()


def test_an_address_of_the_web_has_its_usual_port() -> None:
    assert addresses.split_address("https://farm.example.org") == ("farm.example.org", 443)
    assert addresses.split_address("http://farm.example.org/") == ("farm.example.org", 80)
    assert addresses.split_address("https://farm.example.org:8443") == ("farm.example.org", 8443)


def test_who_is_invited_must_reach_the_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "own_addresses", lambda: ["192.168.1.10"])
    said = addresses.judge_reach("http://127.0.0.1:10600", ["127.0.0.1:10501", "192.168.1.11:10501"])
    assert said is not None and said.startswith("192.168.1.11:10501 does not reach http://127.0.0.1:10600")
    assert said.endswith("rekindle farm up --listen with one of 192.168.1.10")
    assert addresses.judge_reach("http://127.0.0.1:10600", ["127.0.0.2:10501", "[::1]:10501"]) is None
    assert addresses.judge_reach("https://farm.example.org", ["192.168.1.11:10501"]) is None
    assert addresses.judge_reach("http://localhost:1", ["desk:10501"]) is not None


def test_both_kinds_of_addresses_can_be_tried() -> None:
    try:
        server = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("this machine has no IPv6")
    with server:
        place = f"[::1]:{server.getsockname()[1]}"
        assert (addresses.answers(place), addresses.is_free(place)) == (True, False)
    assert addresses.address_towards(f"http://{place}") == "::1"
    assert (addresses.answers(place), addresses.is_free(place)) == (False, True)


def test_a_way_that_leads_nowhere_is_said() -> None:
    with pytest.raises(StageFailed, match=r"no way to farm\.invalid from here"):
        addresses.address_towards("http://farm.invalid:1")


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("localhost", True), ("127.0.0.9", True), ("::1", True), ("10.0.0.1", False), ("desk", False), ("", False)],
)
def test_the_very_machine(host: str, loopback: bool) -> None:
    assert addresses.is_loopback(host) is loopback


def test_addresses_that_others_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {
        "lo": ("127.0.0.1", "::1"),
        "a": ("169.254.3.4", "fe80::1%eth0", "fe80::2", "10.0.0.7", "aa:bb:cc:dd:ee:ff"),
        "b": ("10.0.0.6", "fd00::7"),
    }
    cards = {name: [SimpleNamespace(address=text) for text in each] for name, each in texts.items()}
    monkeypatch.setattr("psutil.net_if_addrs", lambda: cards)
    assert addresses.own_addresses() == ["10.0.0.6", "10.0.0.7", "fd00::7"]
    with pytest.raises(BadInput) as refused:
        addresses.read_address("0.0.0.0", 1)
    assert refused.value.remedy == "one of: 10.0.0.6, 10.0.0.7, fd00::7"
    cards.clear()
    with pytest.raises(BadInput) as refused:
        addresses.read_address("0.0.0.0", 1)
    assert refused.value.remedy == "one of: ip address lists them"
    said = addresses.judge_reach("http://127.0.0.1:1", ["10.0.0.9:2"])
    assert said is not None and said.endswith("with one of ADDRESS")


def test_a_port_of_zero_is_the_one_that_was_given() -> None:
    assert addresses.read_address("10.0.0.1:0", 7) == "10.0.0.1:0"
    assert addresses.split_address("10.0.0.1") == ("10.0.0.1", 80) and addresses.split_address("") == ("", 80)
