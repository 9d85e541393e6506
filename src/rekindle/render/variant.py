"""Variables to paste into a shell."""

from __future__ import annotations

import os
import shlex

from rekindle.model.variant import VariantEnvironment
from rekindle.render.screen import Screen


def render_environment(document: VariantEnvironment, screen: Screen) -> None:
    for note in document.notes:
        screen.line(f"# {note}" if os.name != "nt" else f"rem {note}")
    for name, value in document.variables.items():
        screen.line(f"export {name}={shlex.quote(value)}" if os.name != "nt" else f"set {name}={value}")
