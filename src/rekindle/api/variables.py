"""``configure``: the variables that this machine's torch needs, set in a running process before torch is imported."""

import json
import os
import sys
import warnings
from pathlib import Path

from rekindle.errors import BadInput, RekindleError
from rekindle.model.plan import CUDNN_SWITCH, Wish


def configure(*, quiet: bool = False) -> dict[str, str]:
    """Set what torch needs here (``HSA_OVERRIDE_GFX_VERSION`` and its like); those that were set now.

    What ``adopt`` or ``up`` left in this environment is taken; without it, this machine is looked at and planned for. A
    variable that is set already stays. To be called before ``import torch``, which reads them once: afterwards it is a
    :class:`~rekindle.errors.BadInput`, unless nothing would have to be set. A machine that nothing is known about gets
    a warning (``quiet``: none), never an error: the program goes on without.

    >>> configure() == {}  # nothing is needed here
    True
    """
    try:
        document = json.loads((Path(sys.prefix) / "rekindle" / "adopted.json").read_text(encoding="utf-8"))
        needed = {str(name): str(value) for name, value in document["env"].items()}
        needed.pop("UV_CONSTRAINT", None)  # constraints for installers are none of torch's
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        try:
            needed = _planned()
        except RekindleError as error:
            if not quiet:
                warnings.warn(f"rekindle set nothing: {error.message}", stacklevel=3)
            return {}
    missing = {name: value for name, value in needed.items() if name not in os.environ}
    if missing and "torch" in sys.modules:
        names = ", ".join(f"{name}={value}" for name, value in missing.items())
        remedy = "call rekindle.configure() before the first import of torch, or set them before Python starts"
        raise BadInput(f"torch is imported already, and reads {names} only when it is", remedy=remedy)
    os.environ.update(missing)
    if CUDNN_SWITCH in missing:
        from rekindle.host.questions import adopted

        adopted.switch_cudnn()  # type: ignore[no-untyped-call]  # old syntax: it runs in any Python
    return missing


def _planned() -> dict[str, str]:
    from rekindle.api.plan_torch import plan, this_machine

    release = f"{sys.version_info[0]}.{sys.version_info[1]}"
    return plan(this_machine(), Wish(python=release), wheelhouses=()).env
