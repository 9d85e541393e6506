"""The answers of the question scripts about cards and torches, with types: what does not have them is no answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """One card by NVML."""

    name: str | None = None
    compute_capability: str | None = None
    memory: int | None = None
    pci_id: str | None = None
    pci_slot: str | None = None
    error: str | None = None


class Nvml(msgspec.Struct, frozen=True, kw_only=True):
    """What NVIDIA's management library says."""

    driver: str | None = None
    cuda: str | None = None
    devices: tuple[Device, ...] = ()
    error: str | None = None
    code: int | None = None
    missing: bool = False
    timed_out: bool = False


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """What loading a torch led to."""

    works: bool | None = None
    gpu_works: bool | None = None
    gpu_error: str | None = None
    arch_list: tuple[str, ...] = ()
    error: str | None = None
    exit_code: int | None = None
    timed_out: bool = False


A = TypeVar("A", Nvml, Tried)


def read_answer(raw: Mapping[str, Any] | None, kind: type[A]) -> A:
    """The typed answer; nonsense becomes an answer whose ``error`` says so."""
    try:
        return msgspec.convert(dict(raw or {}), kind)
    except msgspec.ValidationError as error:
        return kind(error=f"its answer makes no sense ({error})")
