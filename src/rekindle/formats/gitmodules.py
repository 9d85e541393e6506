"""``.gitmodules``: the third parties that a source tree names."""

import configparser


def read_gitmodules(text: str) -> dict[str, str | None]:
    """Path and origin of each submodule; :class:`configparser.Error` where the text is no such file."""
    parser = configparser.RawConfigParser(strict=False, allow_no_value=True)
    # Git indents with tabs; configparser would read that as a continuation.
    parser.read_string("\n".join(line.strip() for line in text.splitlines()))
    sections = [parser[name] for name in parser.sections()]
    return {section["path"]: section.get("url") for section in sections if section.get("path")}
