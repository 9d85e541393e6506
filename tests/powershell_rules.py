"""What a grammar does not see in a PowerShell script: a walk over its parse tree, with the rules of Windows PowerShell
5.1 under ``Set-StrictMode -Version 2``. No PowerShell can be had here, so this is from its documentation, not run.

``python powershell_rules.py GRAMMAR SCRIPT`` prints one fault per line.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Cmdlets that Windows PowerShell 5.1 has, and the parameters of each that we use.
COMMON = {"erroraction"}
CMDLETS = {
    "add-content": {"literalpath", "value", "encoding"}, "foreach-object": set(), "get-childitem": {"path"},
    "get-ciminstance": set(), "get-command": set(), "get-content": {"literalpath", "tail", "totalcount"},
    "get-date": {"format"}, "get-item": {"literalpath"}, "get-itemproperty": {"path", "name"}, "get-location": set(),
    "join-path": set(), "move-item": {"force", "literalpath", "destination"},
    "new-item": {"itemtype", "force", "path"}, "out-null": set(), "out-string": set(), "read-host": set(),
    "remove-item": {"recurse", "force", "literalpath", "path"}, "resolve-path": {"literalpath"},
    "select-object": {"first"}, "set-content": {"literalpath", "value"}, "set-location": {"literalpath"},
    "set-strictmode": {"version"}, "split-path": {"parent"}, "test-path": {"literalpath", "path"},
    "where-object": set(), "write-host": set(),
}  # fmt: skip
NATIVE = {"cmd", "git", "nvcc"}
AUTOMATIC = {"_", "true", "false", "null", "lastexitcode", "erroractionpreference"}
BLOCKS = ("statement_block", "script_block", "program")


def walk(node: Any) -> Iterator[Any]:
    yield node
    for child in node.children:
        yield from walk(child)


def text(node: Any) -> str:
    return str(node.text.decode("utf-8"))


def name_of(variable: Any) -> str:
    """``$script:Step`` and ``$Step`` are one name to whoever reads it at the script's own level."""
    bare = text(variable).lstrip("$@").strip("{}").lower()
    return bare.removeprefix("script:").removeprefix("global:")


def above(node: Any, *kinds: str) -> Any:
    node = node.parent
    while node is not None and node.type not in kinds:
        node = node.parent
    return node


class Script:
    def __init__(self, root: Any) -> None:
        self.root = root
        self.functions = {
            text(next(c for c in node.children if c.type == "function_name")).lower(): node
            for node in walk(root) if node.type == "function_statement"
        }  # fmt: skip
        self.commands = [node for node in walk(root) if node.type == "command"]

    def faults(self) -> Iterator[str]:
        for node in walk(self.root):
            if node.type == "ERROR" or node.is_missing:
                yield self.at(node, f"is no PowerShell: {text(node)[:60]!r}")
        yield from self.names()
        yield from self.calls()
        yield from self.matches()
        yield from self.endings()

    def at(self, node: Any, what: str) -> str:
        return f"line {node.start_point.row + 1}: {what}"

    def names(self) -> Iterator[str]:
        """Strict mode: a variable that nothing has set on the way here is an error."""
        sets: list[tuple[str, Any]] = []
        for node in walk(self.root):
            if node.type == "left_assignment_expression":
                sets += [(name_of(v), v) for v in walk(node) if v.type == "variable"]
            elif node.type in ("script_parameter", "foreach_statement"):
                sets += [(name_of(v), v) for v in node.children if v.type == "variable"]
        targets = {v.id for _, v in sets}
        for node in walk(self.root):
            if node.type != "variable" or node.id in targets:
                continue
            name = name_of(node)
            if name in AUTOMATIC or name == "matches" or name.startswith("env:"):
                continue
            if not any(name == other and self.reaches(place, node) for other, place in sets):
                yield self.at(node, f"{text(node)} is used, and nothing has set it on the way there")

    def reaches(self, place: Any, use: Any) -> bool:
        """Has the assignment been passed when the use is reached, whichever way was taken?"""
        function = above(use, "function_statement")
        if above(place, "function_statement") == function and function is not None:
            return bool(place.start_byte < use.start_byte)
        if function is not None:  # a name of the script, read in a function: it must be set before the first call
            name = text(next(c for c in function.children if c.type == "function_name")).lower()
            calls = [
                c.start_byte for c in self.commands if self.called(c) == name and above(c, "function_statement") is None
            ]
            return bool(calls) and place.start_byte < min(calls)
        # A loop's own name and an assignment inside a block hold inside that block alone.
        room = above(place, "foreach_statement") if place.parent.type == "foreach_statement" else above(place, *BLOCKS)
        if place.parent.type == "script_parameter":
            return True
        return bool(place.start_byte < use.start_byte and (room is None or self.inside(use, room)))

    def inside(self, node: Any, room: Any) -> bool:
        while node is not None:
            if node == room:
                return True
            node = node.parent
        return False

    def called(self, command: Any) -> str:
        found = next((c for c in command.children if c.type == "command_name"), None)
        return text(found).lower() if found is not None else ""

    def arguments(self, command: Any) -> list[Any]:
        elements = next((c for c in command.children if c.type == "command_elements"), None)
        if elements is None:
            return []
        return [c for c in elements.children if c.type not in ("command_argument_sep", "redirection")]

    def calls(self) -> Iterator[str]:
        for command in self.commands:
            name, arguments = self.called(command), self.arguments(command)
            if name in self.functions:
                function = self.functions[name]
                if function.start_byte > command.start_byte:
                    yield self.at(command, f"{name} is called before it is defined")
                wanted = sum(1 for node in walk(function) if node.type == "script_parameter")
                if len(arguments) != wanted:
                    yield self.at(command, f"{name} takes {wanted} arguments and gets {len(arguments)}")
            elif name in CMDLETS:
                for argument in arguments:
                    if argument.type == "command_parameter":
                        given = text(argument).lstrip("-").lower()
                        if given not in CMDLETS[name] | COMMON:
                            yield self.at(command, f"{name} has no parameter -{given}")
            elif name and name not in NATIVE:
                yield self.at(command, f"{name} is no cmdlet of Windows PowerShell and no function here")
            if (not name or name in NATIVE - {"cmd"}) or name == "invoke-tool":
                yield from self.native(command, arguments)

    def native(self, command: Any, arguments: list[Any]) -> Iterator[str]:
        """Windows PowerShell hands a double quote on without a backslash, and the program reads it as an end."""
        for argument in arguments[1:] if self.called(command) == "invoke-tool" else arguments:
            for node in walk(argument):
                literal = node.type in ("verbatim_string_characters", "expandable_string_literal")
                if literal and '"' in text(node)[1:-1]:
                    yield self.at(
                        node, f"a program gets a double quote, which Windows PowerShell loses: {text(node)[:60]}"
                    )

    def matches(self) -> Iterator[str]:
        """``$Matches`` is of the last match that succeeded: it is read only where that was this one."""
        for node in walk(self.root):
            if node.type == "variable" and name_of(node) == "matches":
                asked = above(node, "if_statement")
                condition = asked.children[2] if asked is not None and len(asked.children) > 2 else None
                if condition is None or "-match" not in text(condition) or self.inside(node, condition):
                    yield self.at(node, "$Matches is read where no -match has just succeeded")

    def endings(self) -> Iterator[str]:
        """0 at the end and nowhere else; before anything is begun 2, afterwards 1."""
        exits = [
            node for node in walk(self.root) if node.type == "flow_control_statement" and text(node).startswith("exit")
        ]
        for node in exits:
            last = node == exits[-1]
            if (text(node) == "exit 0") != last or (not last and text(node) != "exit $script:Code"):
                yield self.at(node, f"ends with {text(node)!r}")
        codes = [
            (node.start_byte, text(node).replace(" ", "")) for node in walk(self.root)
            if node.type == "assignment_expression" and text(node).startswith("$script:Code")
        ]  # fmt: skip
        if [words for _, words in codes] != ["$script:Code=2", "$script:Code=1"]:
            yield f"the exit codes are {codes}"
            return
        for command in self.commands:
            words = text(command)
            begins = re.search(r"'clone'|'pip'|'venv'|remove-item", words, re.IGNORECASE)
            if begins and above(command, "function_statement") is None and command.start_byte < codes[1][0]:
                yield self.at(command, "something is begun while the exit code still says that nothing was")


def faults(grammar: str, script: bytes) -> list[str]:
    sys.path.insert(0, grammar)
    sitter, powershell = importlib.import_module("tree_sitter"), importlib.import_module("tree_sitter_powershell")
    parser = sitter.Parser(sitter.Language(powershell.language()))
    return list(Script(parser.parse(script.removeprefix(b"\xef\xbb\xbf")).root_node).faults())


if __name__ == "__main__":
    print("\n".join(faults(sys.argv[1], Path(sys.argv[2]).read_bytes())))
