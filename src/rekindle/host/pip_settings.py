"""Where pip would look for packages: read from pip itself (``pip config``, its variables and its default).

No index is named here: an address that is nowhere configured is asked of pip's own code.
"""

from __future__ import annotations

import ast
import sys
from dataclasses import dataclass

from rekindle.host.protocol import Host

_DEFAULT = "from pip._internal.models.index import PyPI; print(PyPI.simple_url)"


@dataclass(frozen=True, kw_only=True)
class PipSettings:
    """``index`` is None with ``--no-index`` or where no pip answers; ``extra`` and ``links`` come after it.

    ``index_was_told``: by a setting or a variable; else it is pip's own default.
    """

    index: str | None = None
    index_was_told: bool = False
    no_index: bool = False
    extra: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    certificates: str | None = None


def read_pip_settings(host: Host) -> PipSettings:
    """What our own ``pip install`` would use."""
    listed = host.run([sys.executable, "-m", "pip", "config", "list"], timeout=20)
    values: dict[str, str] = {}
    # `pip config list` prints key='value'; sections global, install, download and :env: in rising order here.
    order = {"global": 0, "install": 1, "download": 1, ":env:": 2}
    for line in sorted(listed.out.splitlines(), key=lambda line: order.get(line.split(".", 1)[0], -1)):
        key, _, shown = line.partition("=")
        section, _, name = key.partition(".")
        if section not in order:
            continue
        try:
            values[name] = str(ast.literal_eval(shown))
        except (ValueError, SyntaxError):
            values[name] = shown.strip("'\"")
    index = values.get("index-url") or host.env.get("UV_DEFAULT_INDEX")
    was_told = index is not None
    if index is None:
        asked = host.run([sys.executable, "-c", _DEFAULT], timeout=20)
        index = asked.out.strip() or None if asked.ok else None
    no_index = values.get("no-index", "").lower() in ("1", "true", "yes", "on")
    return PipSettings(
        index=None if no_index else index,
        index_was_told=was_told and not no_index,
        no_index=no_index,
        extra=tuple(values.get("extra-index-url", "").split()),
        links=tuple(values.get("find-links", "").split()),
        certificates=values.get("cert"),
    )
