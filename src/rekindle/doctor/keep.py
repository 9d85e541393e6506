"""Keeps an examination as a capture: everything that was asked and answered, with nobody named in it."""

from __future__ import annotations

import platform
from pathlib import Path

from rekindle import __version__
from rekindle.doctor.examine import Examined
from rekindle.host.capture import write_capture
from rekindle.host.record import join_records
from rekindle.host.redact import redactor_for


def keep(examined: Examined, directory: Path, *, host_name: str | None = None) -> Path:
    """Write the capture, so that the machine can be replayed anywhere."""
    record = join_records(asking.record for asking in examined.answers.asked)
    record.about = {
        "kind": "recorded",
        "title": f"{examined.examination.os.distro or examined.examination.os.system}, "
        + (", ".join(gpu.name or gpu.vendor for gpu in examined.examination.gpus) or "no GPU"),
        "written_by": f"rekindle {__version__} doctor --capture",
    }
    name = platform.node() if host_name is None else host_name
    return write_capture(redactor_for(record.env, name).record(record), directory)
