"""The small errors the mutation run plants: one change each, in a copy of a module's syntax tree.

Boundaries (``<`` and ``<=``), comparisons turned round, ``and`` and ``or`` swapped, conditions negated, numbers one
off, True and False swapped, ``+`` and ``-`` swapped, values returned as None. Not touched: text, annotations,
what stands in a ``raise``, an ``assert`` or ``zip(…, strict=)``, what only a type checker runs, and for how long a tool
is waited for (``timeout=``, also by the name of a constant, ``left(…)``): a second more or less is no error.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.BitAnd: ast.BitOr,
}  # fmt: skip
_SIGNS = {
    "Lt": "<", "LtE": "<=", "Gt": ">", "GtE": ">=", "Eq": "==", "NotEq": "!=", "In": "in", "NotIn": "not in",
    "Is": "is", "IsNot": "is not", "Add": "+", "Sub": "-", "Mult": "*", "Div": "/", "FloorDiv": "//", "Mod": "%",
    "LShift": "<<", "RShift": ">>", "BitAnd": "&", "BitOr": "|", "And": "and", "Or": "or",
}  # fmt: skip
_CHANGED_THEMSELVES = (ast.UnaryOp, ast.Constant, ast.Compare)
Change = Callable[[ast.AST], ast.AST]


@dataclass(frozen=True)
class Mutant:
    """``number`` counts the nodes in walking order; ``what`` says the change; ``lines`` are those of its statement;
    ``function`` is the outermost one around it with its first line, or None where the change takes effect when the
    module is imported; ``private`` says that only the module itself can see it then."""

    number: int
    line: int
    what: str
    lines: tuple[int, int]
    function: tuple[str, int] | None
    change: Change
    private: bool = False


def mutants_of(source: str) -> list[Mutant]:
    """Every planted error of a module, in the order of its lines."""
    tree = ast.parse(source)
    found: list[Mutant] = []
    left_out = _left_out(tree)
    homes, spans, private = _homes(tree), _spans(tree), _private(tree)
    for number, node in enumerate(ast.walk(tree)):
        if id(node) in left_out:
            continue
        for what, change in _changes(node):
            line = node.iter.lineno if isinstance(node, ast.comprehension) else node.lineno  # type: ignore[attr-defined]
            span = spans.get(id(node), (line, line))
            found.append(Mutant(number, line, what, span, homes.get(id(node)), change, id(node) in private))
    return sorted(found, key=lambda mutant: mutant.line)


def planted(source: str, mutant: Mutant) -> ast.Module:
    """The module's tree with that one error in it."""
    tree = ast.parse(source)
    wanted = next(node for number, node in enumerate(ast.walk(tree)) if number == mutant.number)
    _Replace(wanted, mutant.change(copy.copy(wanted))).visit(tree)
    return ast.fix_missing_locations(tree)


class _Replace(ast.NodeTransformer):
    def __init__(self, wanted: ast.AST, instead: ast.AST) -> None:
        self.wanted, self.instead = wanted, instead

    def visit(self, node: ast.AST) -> ast.AST:
        return ast.copy_location(self.instead, node) if node is self.wanted else self.generic_visit(node)


def _changes(node: ast.AST) -> Iterator[tuple[str, Change]]:
    match node:
        case ast.Compare():
            for place, sign in enumerate(node.ops):
                other = _COMPARISONS[type(sign)]
                yield f"{_sign(type(sign))} becomes {_sign(other)}", _compare(place, other)
        case ast.BoolOp():
            other_bool = ast.Or if isinstance(node.op, ast.And) else ast.And
            yield f"{_sign(type(node.op))} becomes {_sign(other_bool)}", _set(op=other_bool())
        case ast.BinOp() if type(node.op) in _OPERATORS:
            operator = _OPERATORS[type(node.op)]
            yield f"{_sign(type(node.op))} becomes {_sign(operator)}", _set(op=operator())
        case ast.UnaryOp(op=ast.Not()):
            yield "not taken away", lambda each: each.operand  # type: ignore[attr-defined]
        case ast.If() | ast.While() | ast.IfExp() if not isinstance(
            node.test, ast.UnaryOp | ast.Constant | ast.Compare
        ):
            yield "condition negated", lambda each: _negated(each)
        case ast.comprehension(ifs=[ast.AST(), *_]):
            yield "filter taken away", _set(ifs=[])
        case ast.Constant(value=bool(truth)):
            yield f"{truth} becomes {not truth}", _set(value=not truth)
        case ast.Constant(value=int(number) | float(number)):
            yield f"{number} becomes {number + 1}", _set(value=number + 1)
        case ast.Return(value=ast.expr()) if not (isinstance(node.value, ast.Constant) and node.value.value is None):
            yield "None returned", _set(value=ast.Constant(None))


def _sign(kind: type[ast.AST]) -> str:
    return _SIGNS[kind.__name__]


def _set(**fields: object) -> Change:
    def change(node: ast.AST) -> ast.AST:
        for name, value in fields.items():
            setattr(node, name, value)
        return node

    return change


def _compare(place: int, other: type[ast.cmpop]) -> Change:
    def change(node: ast.AST) -> ast.AST:
        assert isinstance(node, ast.Compare)
        node.ops = [other() if number == place else sign for number, sign in enumerate(node.ops)]
        return node

    return change


def _negated(node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.If | ast.While | ast.IfExp)
    node.test = ast.UnaryOp(op=ast.Not(), operand=node.test)
    return node


def _left_out(tree: ast.Module) -> set[int]:
    """What no test can be asked to notice: text, annotations, messages of errors, code for type checkers."""
    out: set[int] = set()
    waits = {
        node.value.id
        for node in ast.walk(tree)
        if isinstance(node, ast.keyword) and node.arg == "timeout" and isinstance(node.value, ast.Name)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant() as seconds) if name in waits:
                out.add(id(seconds))
            case ast.Raise() | ast.Assert() | ast.JoinedStr() | ast.Import() | ast.ImportFrom():
                out.update(id(each) for each in ast.walk(node))
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                out.update(id(each) for each in ast.walk(node))
            case ast.keyword(arg="timeout" | "strict", value=value):
                out.update(id(each) for each in ast.walk(value) if isinstance(each, ast.Constant))
            case ast.Call(func=ast.Attribute(attr="left"), args=[ast.Constant() as seconds]):
                out.add(id(seconds))
            case ast.AnnAssign() | ast.arg() if node.annotation is not None:
                out.update(id(each) for each in ast.walk(node.annotation))
            case ast.FunctionDef() | ast.AsyncFunctionDef():  # a decorator's numbers are sizes of caches
                signs = [*node.decorator_list, *([node.returns] if node.returns else [])]
                out.update(id(each) for sign in signs for each in ast.walk(sign))
            case ast.ClassDef():  # frozen=True and its like change nothing a test should look at
                out.update(id(each) for word in (*node.keywords, *node.decorator_list) for each in ast.walk(word))
            case ast.Subscript() if isinstance(node.value, ast.Name) and node.value.id in ("Literal", "Annotated"):
                out.update(id(each) for each in ast.walk(node))
    return out


def _spans(tree: ast.Module) -> dict[int, tuple[int, int]]:
    """Each node with the lines of the innermost statement around it, without that statement's body."""
    spans: dict[int, tuple[int, int]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            last = max(node.lineno, body[0].lineno - 1) if body else node.end_lineno or node.lineno
            spans.update((id(each), (node.lineno, last)) for each in ast.walk(node))
    return spans


def _private(tree: ast.Module) -> set[int]:
    """The nodes of module-level constants named with ``_`` and of the default values of functions."""
    private: set[int] = set()
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                if name.startswith("_"):
                    private.update(id(node) for node in ast.walk(statement))
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                defaults = [*statement.args.defaults, *(each for each in statement.args.kw_defaults if each)]
                private.update(id(node) for default in defaults for node in ast.walk(default))
    return private


def _homes(tree: ast.Module) -> dict[int, tuple[str, int]]:
    """Each node inside a function's body, with the outermost function's qualified name and first line."""
    homes: dict[int, tuple[str, int]] = {}

    def enter(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.ClassDef):
                enter(node.body, f"{prefix}{node.name}.")
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
                for statement in node.body:
                    for each in ast.walk(statement):
                        homes[id(each)] = (f"{prefix}{node.name}", first)
            elif isinstance(node, ast.If | ast.Try | ast.With):
                enter([each for each in ast.iter_child_nodes(node) if isinstance(each, ast.stmt)], prefix)

    enter(tree.body, "")
    return homes
