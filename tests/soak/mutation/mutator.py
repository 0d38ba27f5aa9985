"""Every small wrong change that can be made to a module: one change, one mutant."""

import ast
import copy
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

OPERATORS: dict[type, type] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult,
    ast.Pow: ast.Mult, ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitOr,
}  # fmt: skip
COMPARISONS: dict[type, type] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
NAMES = {
    "min": "max", "max": "min", "floor": "ceil", "ceil": "floor", "any": "all", "all": "any", "exp": "expm1",
    "log": "log1p", "minimum": "maximum", "maximum": "minimum",
}  # fmt: skip
# Endings that say which way is rounded; exchanged where the module knows the other name.
DIRECTIONS = {"_up": "_down", "_down": "_up", "_upper": "_lower", "_lower": "_upper"}
PERCENT = 1.01
# What is said or shown is no law.
UNTOUCHED = ("__repr__", "__str__", "describe")


@dataclass(frozen=True)
class Mutant:
    """One change: where, what, and a key that outlives moved lines."""

    path: str
    place: str
    line: int
    change: str
    number: int
    occurrence: int = 1

    @property
    def key(self) -> str:
        repeated = f" #{self.occurrence}" if self.occurrence > 1 else ""
        return f"{self.path} {self.place}: {self.change}{repeated}"


class _Changes(ast.NodeVisitor):
    """Walks a module and offers every change as (place, node, replacement)."""

    def __init__(self, names: set[str]) -> None:
        self.found: list[tuple[str, ast.AST, ast.AST]] = []
        self._names, self._places = names, ["module"]

    def offer(self, node: ast.AST, replacement: ast.AST) -> None:
        self.found.append((".".join(self._places[1:]) or "module", node, replacement))

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if node.name in UNTOUCHED:
            return
        self._places.append(node.name)
        for default in [*node.args.defaults, *filter(None, node.args.kw_defaults)]:
            self.visit(default)
        for statement in node.body:
            self.visit(statement)
        self._places.pop()

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._places.append(node.name)
        for statement in node.body:
            self.visit(statement)
        self._places.pop()

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Raise(self, node: ast.Raise) -> None:
        self.offer(node, ast.Pass())

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call):
            self.offer(node, ast.Pass())
            self.visit(node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.offer(node, ast.Pass())
        if type(node.op) in OPERATORS:
            self.offer(node, _with(node, op=OPERATORS[type(node.op)]()))
        self.visit(node.value)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if type(node.op) in OPERATORS:
            self.offer(node, _with(node, op=OPERATORS[type(node.op)]()))
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        self.offer(node, _with(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And()))
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        self.offer(node, node.operand)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        for position, operator in enumerate(node.ops):
            changed = COMPARISONS[type(operator)]()
            self.offer(node, _with(node, ops=[*node.ops[:position], changed, *node.ops[position + 1 :]]))
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self.offer(node, _with(node, body=node.orelse, orelse=node.body))
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, bool):
            self.offer(node, ast.Constant(not value))
        elif isinstance(value, int):
            self.offer(node, ast.Constant(value + 1))
            self.offer(node, ast.Constant(value - 1))
        elif isinstance(value, float):
            self.offer(node, ast.Constant(value * PERCENT))
            self.offer(node, ast.Constant(value / PERCENT))

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        return

    def visit_Name(self, node: ast.Name) -> None:
        other = self._other(node.id)
        if other is not None:
            self.offer(node, ast.Name(other, node.ctx))

    def visit_Attribute(self, node: ast.Attribute) -> None:
        other = NAMES.get(node.attr) or self._other(node.attr)
        if other is not None:
            self.offer(node, _with(node, attr=other))
        if node.attr == "inf":
            self.offer(node, ast.UnaryOp(ast.USub(), node))
        self.visit(node.value)

    def _other(self, name: str) -> str | None:
        if name in ("min", "max", "any", "all"):
            return NAMES[name]
        for ending, other in DIRECTIONS.items():
            if name.endswith(ending) and name.removesuffix(ending) + other in self._names:
                return name.removesuffix(ending) + other
        return None


def _with(node: ast.AST, **changed: object) -> ast.AST:
    fresh = copy.copy(node)
    for name, value in changed.items():
        setattr(fresh, name, value)
    return fresh


def changes(source: str) -> tuple[ast.Module, list[tuple[str, ast.AST, ast.AST]]]:
    """The module and every change to it, in order."""
    tree = ast.parse(source)
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    names |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
    names |= {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    walker = _Changes(names)
    walker.visit(tree)
    return tree, walker.found


def mutants_of(path: str, source: str) -> Iterator[Mutant]:
    """All mutants of a module, in the order of its text."""
    seen: Counter[tuple[str, str]] = Counter()
    for number, (place, node, replacement) in enumerate(changes(source)[1]):
        change = f"{_shown(node)} -> {_shown(replacement)}"
        seen[place, change] += 1
        yield Mutant(path, place, node.lineno, change, number, seen[place, change])


def _shown(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 100 else f"{text[:97]}..."


def mutated(source: str, mutant: Mutant) -> ast.Module:
    """The module with the change."""
    tree, found = changes(source)
    _, node, replacement = found[mutant.number]
    return ast.fix_missing_locations(_Replacing(node, ast.copy_location(replacement, node)).visit(tree))


class _Replacing(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self.new if node is self.old else super().generic_visit(node)
