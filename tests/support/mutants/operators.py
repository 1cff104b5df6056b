"""Every mutant of a source file: what a hurried hand might have written instead.

Left alone is what decides nothing that a test should know: text, annotations, decorators, `assert` and `strict=`,
which only check ourselves, and what is written for type checkers.
"""

import ast
import copy
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

COMPARISONS = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
ARITHMETIC = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
REMOVABLE = (ast.AugAssign, ast.Raise, ast.Continue, ast.Break, ast.Delete)


@dataclass(frozen=True)
class Mutant:
    """One place of a file, and what stands there instead."""

    path: str  # from the root of the project
    operator: str
    line: int
    lines: tuple[int, int]  # first and last of the statement it is in
    at_import: bool  # runs when the module is imported, not when a function is called
    span: tuple[int, int]  # of bytes that are replaced
    before: str
    after: str
    source: str  # a digest of the whole file as it was

    @cached_property
    def id(self) -> str:
        return hashlib.sha256(repr((self.path, self.source, self.span, self.after)).encode()).hexdigest()[:16]

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.operator}: {_short(self.before)} -> {_short(self.after)}"

    def applied(self, source: bytes) -> bytes:
        start, end = self.span
        return source[:start] + self.after.encode() + source[end:]


def mutants_of(path: str, source: bytes) -> list[Mutant]:
    """In the order of the file.

    >>> for mutant in mutants_of("a.py", b"def f(a, b=2):\\n    return a < b"):
    ...     print(mutant)
    a.py:1: default value: 2 -> 3
    a.py:2: return value: return a < b -> return None
    a.py:2: comparison: a < b -> (a <= b)
    """
    return list(_Reading(path, source).mutants())


def replacement(path: str, source: bytes, before: str, after: str) -> Mutant:
    """The mutant that has `after` where the file says `before`, which must stand there once."""
    found = source.count(before.encode())
    if found != 1:
        raise ValueError(f"{path} says {before!r} {found} times; a named mutant must stand in one place")
    start = source.index(before.encode())
    reading = _Reading(path, source)
    line = source[:start].count(b"\n") + 1
    statement, inside = reading.statement_at(line)
    return reading.mutant("named", statement, inside, line, (start, start + len(before.encode())), after)


class _Reading:
    def __init__(self, path: str, source: bytes) -> None:
        self.path, self.source = path, source
        self.digest = hashlib.sha256(source).hexdigest()
        self.tree = ast.parse(source)
        lengths = [len(line) for line in source.splitlines(keepends=True)]
        self.starts = [sum(lengths[:number]) for number in range(len(lengths) + 1)]

    def mutants(self) -> Iterator[Mutant]:
        for statement, inside in self._statements(self.tree, inside=False):
            for node, operator, after in _changes(statement):
                found = self.mutant(operator, statement, inside, node.lineno, self._span(node), after)
                if found.before != after:
                    yield found

    def mutant(
        self, operator: str, statement: ast.stmt, inside: bool, line: int, span: tuple[int, int], after: str
    ) -> Mutant:
        before = self.source[slice(*span)].decode()
        lines = statement.lineno, _last_line(statement)
        return Mutant(self.path, operator, line, lines, not inside, span, before, after, self.digest)

    def statement_at(self, line: int) -> tuple[ast.stmt, bool]:
        """The innermost statement on a line, and whether it is inside a function."""
        *_, found = (
            (statement, inside)
            for statement, inside in self._statements(self.tree, inside=False)
            if statement.lineno <= line <= (statement.end_lineno or line)
        )
        return found

    def _statements(self, parent: ast.AST, inside: bool) -> Iterator[tuple[ast.stmt, bool]]:
        for node in ast.iter_child_nodes(parent):
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                continue
            if isinstance(node, ast.stmt):
                yield node, inside
            if isinstance(node, ast.stmt | ast.excepthandler | ast.match_case):
                yield from self._statements(node, inside or isinstance(node, ast.FunctionDef))

    def _span(self, node: ast.AST) -> tuple[int, int]:
        return self.starts[node.lineno - 1] + node.col_offset, self.starts[node.end_lineno - 1] + node.end_col_offset


def _changes(statement: ast.stmt) -> Iterator[tuple[ast.AST, str, str]]:
    """What is changed, how that is called, and what stands there then; not in statements inside this one."""
    if isinstance(statement, ast.Assert | ast.Import | ast.ImportFrom):
        return
    is_call = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    if (
        isinstance(statement, REMOVABLE)
        or is_call
        or any(isinstance(t, ast.Attribute | ast.Subscript) for t in targets)
    ):
        yield statement, "removed statement", "pass"
    if isinstance(statement, ast.Return) and statement.value and ast.unparse(statement.value) != "None":
        yield statement, "return value", "return None"
    if isinstance(statement, ast.AugAssign) and type(statement.op) in ARITHMETIC:
        yield statement, "arithmetic", ast.unparse(_with(statement, op=ARITHMETIC[type(statement.op)]()))
    defaults = _defaults(statement)
    for expression in _expressions(statement):
        operator = "default value" if any(expression is default for default in defaults) else None
        yield from ((expression, operator or kind, after) for kind, after in _changed_expressions(expression))
        for test in _bare_tests(expression):
            yield test, "boolean", f"(not {ast.unparse(test)})"
    for test in _bare_tests(statement):
        yield test, "boolean", f"(not {ast.unparse(test)})"


def _changed_expressions(node: ast.expr) -> Iterator[tuple[str, str]]:
    match node:
        case ast.Compare():
            for place, operator in enumerate(node.ops):
                ops = [*node.ops[:place], COMPARISONS[type(operator)](), *node.ops[place + 1 :]]
                yield "comparison", f"({ast.unparse(_with(node, ops=ops))})"
        case ast.BinOp() if type(node.op) in ARITHMETIC and not any(map(_is_text, (node.left, node.right))):
            yield "arithmetic", f"({ast.unparse(_with(node, op=ARITHMETIC[type(node.op)]()))})"
        case ast.UnaryOp(op=ast.USub() | ast.Invert()):
            yield "arithmetic", f"({ast.unparse(node.operand)})"
        case ast.UnaryOp(op=ast.Not()):
            yield "boolean", f"({ast.unparse(node.operand)})"
        case ast.BoolOp():
            other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield "boolean", f"({ast.unparse(_with(node, op=other))})"
        case ast.Constant(value=bool()):
            yield "constant", str(not node.value)
        case ast.Constant(value=int()):
            yield "constant", str(node.value + 1)
        case ast.Constant(value=float()):
            yield "constant", str(2 * node.value or 1.0)


def _expressions(node: ast.AST) -> Iterator[ast.expr]:
    """Those of a statement, outermost first; neither text nor what is said of types."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.JoinedStr) or (isinstance(child, ast.keyword) and child.arg == "strict"):
                continue
            if isinstance(child, ast.expr):
                yield child
            if isinstance(child, ast.expr | ast.arguments | ast.arg | ast.keyword | ast.comprehension | ast.withitem):
                yield from _expressions(child)


def _bare_tests(node: ast.AST) -> Iterator[ast.expr]:
    """Conditions that no other operator turns round."""
    match node:
        case ast.If() | ast.While() | ast.IfExp():
            tests = [node.test]
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            tests = [test for one in node.generators for test in one.ifs]
        case _:
            tests = []
    yield from (test for test in tests if isinstance(test, ast.Name | ast.Attribute | ast.Call | ast.Subscript))


def _defaults(statement: ast.stmt) -> list[ast.expr]:
    if isinstance(statement, ast.FunctionDef):
        return [one for one in (*statement.args.defaults, *statement.args.kw_defaults) if one]
    return [statement.value] if isinstance(statement, ast.AnnAssign) and statement.value else []


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))


def _with(node: ast.AST, **changes: object) -> ast.AST:
    other = copy.copy(node)
    for name, value in changes.items():
        setattr(other, name, value)
    return other


def _last_line(statement: ast.stmt) -> int:
    """Of the statement itself, without those inside it."""
    body = getattr(statement, "body", None) or getattr(statement, "cases", None)
    first = body[0] if body else None
    if isinstance(first, ast.match_case):
        first = first.pattern
    return max(statement.lineno, first.lineno - 1) if first else statement.end_lineno or statement.lineno


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 80 else text[:77] + "..."
