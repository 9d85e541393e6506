"""``facts``: the form of the tables, and measuring them again."""

import importlib
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

from rekindle.errors import BadInput
from rekindle.facts.browse import reformat
from rekindle.facts.tables import HERE, MAX_FILE_BYTES
from rekindle.host.files import write_for_user
from rekindle.model.document import read_bounded
from rekindle.model.facts import FactsCheck, FactsFormat
from rekindle.model.progress import Progress, Silent


def facts_format(files: Sequence[Path] = (), *, write: bool = True) -> FactsFormat:
    """Bring facts files into their canonical form; without names all tables of this installation.

    >>> facts_format(write=False).changed
    ()
    """
    chosen = tuple(files) or tuple(sorted(HERE.glob("*.toml")))
    changed = []
    for path in chosen:
        raw = read_bounded(path, MAX_FILE_BYTES, "facts file")
        try:
            text = raw.decode("utf-8").replace("\r\n", "\n")
            canonical = reformat(text)
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise BadInput(f"{path} is not valid TOML: {error}") from error
        except ValueError as error:
            raise BadInput(f"{path}: {error}") from error
        if canonical.encode() != raw:
            changed.append(path.name)
            if write:
                write_for_user(path, canonical)
    return FactsFormat(files=tuple(path.name for path in chosen), changed=tuple(changed), written=write)


def facts_check(
    *,
    torch: Sequence[str] = (),
    cuda: Sequence[str] = (),
    companions: Sequence[str] = (),
    images: Sequence[str] = (),
    progress: Progress | None = None,
) -> FactsCheck:
    """Measure again, in a source tree. Without names: the index pages, the newest torch wheel and the newest ptxas.

    ``companions`` names companions whose newest wheel is read: its torch, and the GPU code inside. ``images`` names
    container images (``all``: those that exports pin) whose registry is asked for their digest alone.
    """
    tools = Path(__file__).parents[3] / "tools"
    if not (tools / "measure_facts.py").is_file():
        raise BadInput(
            "the tables are measured again where they are edited, in a source tree; this is an installation",
            remedy="get the source of this version, and there: ./rekindle facts check",
        )
    if str(tools) not in sys.path:
        sys.path.append(str(tools))
    measured: FactsCheck = importlib.import_module("measure_facts").measure_facts(
        torch=torch, cuda=cuda, companions=companions, images=images, listener=progress or Silent()
    )
    return measured
