"""The Windows registry as plain values; elsewhere there is none."""

from __future__ import annotations

import sys

from rekindle.host.protocol import RegistryKey

_MAX_ENTRIES = 512


def read_registry(key: str) -> RegistryKey | None:
    r"""``HKLM\…`` or ``HKCU\…`` in the 64-bit view; None where the key is missing or may not be read."""
    if sys.platform != "win32":
        return None
    import winreg  # type: ignore[unreachable,unused-ignore]

    roots = {"HKLM": winreg.HKEY_LOCAL_MACHINE, "HKCU": winreg.HKEY_CURRENT_USER}
    root, _, path = key.partition("\\")
    values: dict[str, str | int] = {}
    keys: list[str] = []
    try:
        with winreg.OpenKey(roots[root], path, 0, winreg.KEY_READ | winreg.KEY_WOW64_64KEY) as handle:
            subkeys, entries, _ = winreg.QueryInfoKey(handle)
            for number in range(min(entries, _MAX_ENTRIES)):
                name, value, _ = winreg.EnumValue(handle, number)
                if isinstance(value, (str, int)):
                    values[name] = value
                elif isinstance(value, list):
                    values[name] = "\n".join(map(str, value))
            keys = [winreg.EnumKey(handle, number) for number in range(min(subkeys, _MAX_ENTRIES))]
    except OSError:
        return None
    return RegistryKey(values=values, keys=tuple(keys))
