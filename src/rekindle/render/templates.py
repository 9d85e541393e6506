"""The HTML templates beside this file, filled in so that no name of a stranger's becomes markup and no secret stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rekindle.host.redact import without_secrets

_FOLDER = Path(__file__).with_name("templates")


def filled(template: str, **values: Any) -> str:
    # Late: most commands write no page, and jinja2 takes long to import.
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_FOLDER),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=without_secrets,
    )
    return environment.get_template(template).render(**values)
