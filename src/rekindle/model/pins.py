"""A plan's pins as pip is told them: requirement specifiers and nothing else."""

from __future__ import annotations

from rekindle.errors import BadInput


def pin_requirement(name: str, pin: str) -> str:
    """``setuptools`` and ``<60`` or ``59.5`` into one word for pip; what is no specifier is refused.

    An address (``@ file:…`` runs its setup.py), an option (``-r FILE`` prints the file) or a second word never passes.
    """
    from packaging.requirements import InvalidRequirement, Requirement

    text = f"{name}=={pin}" if pin[:1].isdigit() else f"{name}{pin}"
    try:
        read = Requirement(text)
    except InvalidRequirement as error:
        raise BadInput(f"the plan pins {text!r}, which is no requirement: {str(error).splitlines()[0]}") from error
    if read.url or read.marker or read.extras or read.name != name:
        raise BadInput(f"the plan pins {text!r}; a pin is a package and its versions, nothing else")
    return text
