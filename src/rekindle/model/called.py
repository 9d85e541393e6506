"""The name by which Rekindle was called: every command that a person may paste here is printed under it.

What is written for other machines (scripts, documents, pages) says ``rekindle``.
"""

import os
import re

# Set by the scripts of a clone, whose folder is on nobody's PATH.
CALLED_AS = "REKINDLE_CALLED_AS"
# The program's name in front of a verb or an option; where sentences speak of it, it is Rekindle.
_COMMAND = re.compile(r"(?<![\w./\\-])(?<!-m )rekindle(?= (?:[a-z]|--|VERB))")


def commands_as_called(text: str) -> str:
    """``text`` with its commands as they can be typed here (``./rekindle plan``)."""
    called = os.environ.get(CALLED_AS)
    return _COMMAND.sub(lambda _: called, text) if called else text
