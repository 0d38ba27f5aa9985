"""Merges and moves modules of `src/chary` by a mapping, and sends every import, dotted name and document after them."""

import ast
import re
import subprocess
import textwrap
import tomllib
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

IMPORTED = re.compile(r"from (chary(?:\.\w+)*) import (\((?:[^()]*)\)|[^\n()]+)")
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass
class Spec:
    modules: dict[str, list[str]] = field(default_factory=dict)
    docs: dict[str, str] = field(default_factory=dict)
    renames: dict[tuple[str, str], str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    leave: set[str] = field(default_factory=set)
    same: set[str] = field(default_factory=set)

    @classmethod
    def read(cls, paths, prefixes=()):
        spec = cls()
        for path in paths:
            found = tomllib.loads(Path(path).read_text())
            for target, sources in found.get("modules", {}).items():
                if not prefixes or any(target == p or target.startswith(p + ".") for p in prefixes):
                    assert target not in spec.modules, target
                    spec.modules[target] = sources
            spec.docs |= found.get("docs", {})
            spec.renames |= {tuple(k.split(":")): v for k, v in found.get("renames", {}).items()}
            spec.same |= set(found.get("same", []))
            spec.leave |= set(found.get("leave_fronts", []))
            spec.files |= {
                k: v
                for k, v in found.get("files", {}).items()
                if not prefixes or any(v.startswith("src/" + p.replace(".", "/")) for p in prefixes)
            }
        return spec


def bound_in(statements, *, deep=True):
    """Names that statements bind in their own scope."""
    names = set()

    def visit(node):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
            for part in node.decorator_list:
                visit(part)
            return
        if isinstance(node, ast.Lambda):
            return
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            for each in ast.walk(node):
                if isinstance(each, ast.NamedExpr):
                    names.add(each.target.id)
            return
        if isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del)):
            names.add(node.id)
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                names.add((alias.asname or alias.name).split(".")[0])
        if isinstance(node, ast.ExceptHandler) and node.name:
            names.add(node.name)
        if isinstance(node, (ast.MatchAs, ast.MatchStar)) and node.name:
            names.add(node.name)
        for child in ast.iter_child_nodes(node):
            visit(child)

    for statement in statements:
        visit(statement)
    return names


class Module:
    def __init__(self, name, path, source=None):
        self.name, self.path = name, path
        self.source = path.read_text() if source is None else source
        self.tree = ast.parse(self.source)
        self.package = path.name == "__init__.py"
        self.starts = [0]
        for line in self.source.encode().splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.imports, self.typed, self.defs = {}, set(), {}
        self.import_nodes = []
        self._read(self.tree.body, False)

    def _read(self, body, typed):
        for node in body:
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                self.import_nodes.append(node)
                for local, found in imported(node):
                    if typed and local in self.imports:
                        continue
                    self.imports[local] = found
                    if typed:
                        self.typed.add(local)
            elif isinstance(node, ast.If) and is_type_checking(node.test) and only_imports(node):
                self._read(node.body, True)
            else:
                for name in bound_in([node]):
                    self.defs.setdefault(name, []).append(node)

    def offset(self, line, column):
        return self.starts[line - 1] + column

    def span(self, node):
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
        start = self.offset(node.lineno, node.col_offset) if first == node.lineno else self.starts[first - 1]
        return start, self.offset(node.end_lineno, node.end_col_offset)


def is_type_checking(test):
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )


def only_imports(node):
    return not node.orelse and all(isinstance(each, (ast.Import, ast.ImportFrom)) for each in node.body)


def imported(node):
    """Local name and (module, attribute or None, asname) of what an import binds."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            if alias.asname:
                yield alias.asname, (alias.name, None)
            else:
                yield alias.name.split(".")[0], (alias.name.split(".")[0], None) if alias.name.split(".")[0] == alias.name else (alias.name, "")
    else:
        home = "." * node.level + (node.module or "")
        for alias in node.names:
            yield alias.asname or alias.name, (home, alias.name)


class House:
    direct = False  # whether modules of the house take names from where they are, past all fronts

    def __init__(self, root, spec, others=("tests", "benchmarks")):
        self.root, self.spec, self.notes = Path(root), spec, []
        self.modules = {}
        for path in sorted((self.root / "src").rglob("*.py")):
            name = ".".join(path.relative_to(self.root / "src").with_suffix("").parts).removesuffix(".__init__")
            self.modules[name] = Module(name, path)
        self.others = [Module("", path) for part in others for path in sorted((self.root / part).rglob("*.py"))]
        self.place = {}  # old module (fronts without .__init__) -> new module
        self.target_of = {}
        for target, sources in spec.modules.items():
            for source in sources:
                old = source.removesuffix(".__init__")
                assert old in self.modules, source
                assert old not in self.place, source
                self.place[old] = target.removesuffix(".__init__")
        for name, module in self.modules.items():
            if not module.package:
                self.place.setdefault(name, name)
        homes = {p.rpartition(".")[0] for p in self.place.values()}
        packages = set()
        for home in homes:
            while home:
                packages.add(home)
                home = home.rpartition(".")[0]
        self.packages = packages
        taken = {t.removesuffix(".__init__") for t in spec.modules}
        self.gone = set()
        for name, module in self.modules.items():
            if module.package and name not in self.place:
                if name in packages and name not in taken:
                    self.place[name] = name
                else:
                    self.gone.add(name)
        self.groups = defaultdict(list)
        for target, sources in spec.modules.items():
            self.groups[target.removesuffix(".__init__")] = [s.removesuffix(".__init__") for s in sources]
        for old, new in self.place.items():
            if new not in self.groups:
                self.groups[new] = [old]
        self._names()

    # Where names come from.
    def origin(self, module, name, seen=()):
        """(module, name) of a definition, (module, None) of a module; None if the house does not know it."""
        if (module, name) in seen:
            return None
        found = self.modules.get(module)
        if found is None:
            return None
        if name in found.defs:
            return module, name
        if name in found.imports:
            source, attribute = found.imports[name]
            if attribute is None or attribute == "":
                return (source, None) if source in self.modules else None
            if not source.startswith("chary"):
                return (source, attribute)
            return self.origin(source, attribute, (*seen, (module, name)))
        if f"{module}.{name}" in self.modules:
            return f"{module}.{name}", None
        return None

    # What names are called in their new place.
    def _names(self):
        self.new_name = {}  # (old module, name) -> name in the target
        self.dropped = set()  # (old module, name) whose text stands in the target already
        for target, sources in self.groups.items():
            taken = {}
            for source in sources:
                module = self.modules[source]
                for name, nodes in module.defs.items():
                    new = self.spec.renames.get((source, name), name)
                    if name in ("__all__",) and len(sources) > 1:
                        continue
                    if new in taken:
                        first = taken[new]
                        if f"{source}:{name}" in self.spec.same or same(self.modules[first[0]].defs[first[1]], nodes):
                            self.dropped.add((source, name))
                            self.notes.append(f"SAME TEXT {target}: {new} of {first[0]} and {source}")
                        else:
                            self.notes.append(f"CLASH {target}: {new} of {first[0]} and {source}")
                            new = f"{new}_of_{source.rpartition('.')[2]}"
                    taken.setdefault(new, (source, name))
                    self.new_name[source, name] = new
            self.target_of[target] = taken

    def resolve(self, into, module, name):
        """Where `from module import name` is to be taken from within the new module `into`: (module, name) or None."""
        if not module.startswith("chary"):
            return module, name
        found = self.origin(module, name)
        if found is None:
            self.notes.append(f"UNKNOWN {into}: from {module} import {name}")
            return module, name
        old, attribute = found
        if not old.startswith("chary"):
            return found
        if attribute is None:
            if old in self.gone:
                self.notes.append(f"GONE {into}: from {module} import {name}")
                return module, name
            home, _, last = self.place[old].rpartition(".")
            return home, last
        front = self.modules[module].package and module in self.place and module != old
        if self.direct and into.startswith("chary"):
            front = False
        if front and f"{module}:{name}" not in self.spec.leave:
            place = self.place[module]
            if not (into == place or into.startswith(place + ".")):
                local = name if name in self.modules[module].imports else attribute
                return place, local
        return self.place[old], self.new_name[old, attribute]

    # Changes of text.
    def rewritten(self, module, into, *, body_of=None):
        """The text of a module with its imports sent after the moves; of `body_of` nothing but the body."""
        edits, renames = [], {}
        merged = body_of is not None
        top = {}
        for node in ast.walk(self._with_parents(module)):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                above = node.parent
                at_top = node in module.import_nodes
                if at_top and merged:
                    continue
                self._import_edit(module, node, above, into, edits, renames if at_top else None, merged)
        if merged:
            for local, (source, attribute) in module.imports.items():
                new = self._merged_import(module, local, source, attribute, into, body_of)
                if new is not None and new != local:
                    renames[local] = new
        for name in module.defs:
            new = self.new_name.get((module.name, name), name)
            if new != name:
                renames[name] = new
        if renames:
            edits += rename_edits(module, renames)
        return edits

    def _with_parents(self, module):
        for node in ast.walk(module.tree):
            for child in ast.iter_child_nodes(node):
                child.parent = node
        return module.tree

    def _import_edit(self, module, node, above, into, edits, renames, merged):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("chary.") and self.place.get(alias.name, alias.name) != alias.name:
                    start, end = module.span(node)
                    text = module.source.encode()[start:end].decode()
                    edits.append((start, end, text.replace(alias.name, self.place[alias.name])))
                    if not alias.asname:
                        self.notes.append(f"BY HAND {module.path}: import {alias.name}")
            return
        if node.level or not node.module.startswith("chary"):
            return
        lines, own = defaultdict(list), []
        for alias in node.names:
            if alias.name == "*":
                lines[self.place.get(node.module, node.module)].append("*")
                continue
            local = alias.asname or alias.name
            if f"{module.name}:{local}" in self.spec.leave:
                continue
            home, name = self.resolve(into, node.module, alias.name)
            if home == into:
                own.append((local, name))
                continue
            if alias.asname is None and name != alias.name:
                found = self.origin(node.module, alias.name)
                if found and renames is not None and (found[1] is not None or name not in every_name(module)):
                    renames[alias.name] = name
                    local = name
            plain = name == local and alias.asname is None
            lines[home].append(name if plain else f"{name} as {local}")
        start, end = module.span(node)
        indent = " " * node.col_offset
        texts = [f"from {home} import {', '.join(names)}" for home, names in sorted(lines.items())]
        texts += [f"{local} = {name}" for local, name in own if local != name]
        if not texts:
            siblings = next(
                value for _, value in ast.iter_fields(above) if isinstance(value, list) and node in value
            )
            rest = module.source.encode()[end : module.starts[node.end_lineno]]
            if len(siblings) == 1:
                texts = ["pass"]
            else:
                end = end + len(rest)
                start = module.starts[node.lineno - 1]
                edits.append((start, end, ""))
                return
        joined = f"\n{indent}".join(texts)
        before = f"from {node.module} import {', '.join(a.name if a.asname is None else f'{a.name} as {a.asname}' for a in node.names)}"
        if joined != before:
            edits.append((start, end, joined))

    def _merged_import(self, module, local, source, attribute, into, state):
        """Notes an import of a merged module; gives the name it has now, or None if it does not change."""
        key_typed = local in module.typed
        if attribute is None or attribute == "":
            if source in self.place and self.place[source] != source:
                home, _, last = self.place[source].rpartition(".")
                local = last if local == source.rpartition(".")[2] else local
                return state.want(home, last, local, key_typed, ("module", self.place[source]))
            return state.want_module(source, local, attribute == "", key_typed)
        home, name = self.resolve(into, source, attribute)
        if home == into:
            return name
        found = self.origin(source, attribute)
        if found and found[1] is None:
            mine = name if local == attribute else local
            return state.want(home, name, mine, key_typed, ("module", self.place.get(found[0], found[0])))
        if (module.name, local) in self.spec.renames:
            local = self.spec.renames[module.name, local]
            if local == name:
                attribute = local
        return state.want(home, name, local if local != attribute else name, key_typed, self.origin(source, attribute))

    # Writing.
    def merge(self):
        """Texts of all new modules: {new module: (text or None if it only keeps its own, path)}."""
        written = {}
        for target, sources in self.groups.items():
            if len(sources) == 1:
                module = self.modules[sources[0]]
                package = module.package
                text = apply_edits(module, self.rewritten(module, target))
                if not package and target in self.spec.docs:
                    text = with_doc(text, self.spec.docs[target])
                if target in self.packages and not package:
                    self.notes.append(f"MODULE AND PACKAGE {target}")
                written[target] = (text, package)
            else:
                written[target] = (self._merged(target, sources), target in self.packages)
        for package in self.packages:
            if package not in written:
                written[package] = (f'"""{self.spec.docs.get(package, "?")}"""\n', True)
                if package not in self.spec.docs:
                    self.notes.append(f"NO DOC for the new package {package}")
        return written

    def _merged(self, target, sources):
        order = self._ordered(target, sources)
        state = Imports(self.target_of[target], self, target)
        for source in order:
            state.reserve(self.modules[source])
        parts = []
        for source in order:
            module = self.modules[source]
            edits = self.rewritten(module, target, body_of=state)
            for node in module.tree.body:
                if (
                    isinstance(node, (ast.Import, ast.ImportFrom))
                    or (isinstance(node, ast.If) and is_type_checking(node.test) and only_imports(node))
                    or is_docstring(module, node)
                    or (isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "__all__")
                    or any((source, name) in self.dropped for name in own_names(node))
                ):
                    start, end = module.span(node)
                    end = module.starts[node.end_lineno] if node.end_lineno < len(module.starts) else end
                    edits = [e for e in edits if not (start <= e[0] < end)]
                    edits.append((start, end, ""))
            text = apply_edits(module, edits).strip("\n")
            text = re.sub(r"\A(\s*\n)+", "", text)
            says = ast.get_docstring(module.tree) or ""
            parts.append((source, says, text))
        doc = self.spec.docs.get(target) or parts[0][1]
        examples = [s for _, s, _ in parts if ">>>" in s]
        head = f'"""{doc.strip()}"""\n'
        if examples and target in self.spec.docs:
            self.notes.append(f"EXAMPLES in module docstrings of {target}")
            head = f'"""{doc.strip()}\n\n' + "\n\n".join(examples) + '\n"""\n'
        text = head + "\n" + state.text() + "\n"
        for number, (source, says, body) in enumerate(parts):
            if not body:
                continue
            comment = "" if (number == 0 and target not in self.spec.docs) or not says or ">>>" in says else comment_of(says)
            text += f"\n{comment}\n{body}\n" if comment else f"\n{body}\n"
        return text

    def _ordered(self, target, sources):
        """Sources in an order in which what runs at import finds what it needs; as the mapping has them where it can."""
        needs = {s: set() for s in sources}
        for source in sources:
            module = self.modules[source]
            for name in eager_names(module):
                if name in module.imports:
                    home, attribute = module.imports[name]
                    if attribute:
                        found = self.origin(home, attribute)
                        if found and found[0] in needs and found[0] != source:
                            needs[source].add(found[0])
        for source, name in list(self.dropped):
            if source in needs and not isinstance(self.modules[source].defs[name][0], ast.FunctionDef):
                first = self.target_of[target][self.new_name[source, name]][0]
                if first != source:
                    needs[source].add(first)
        order, left = [], list(sources)
        while left:
            ready = next((s for s in left if not needs[s] & set(left) - {s}), None)
            if ready is None:
                self.notes.append(f"ORDER {target}: circle among {left}")
                ready = left[0]
            order.append(ready)
            left.remove(ready)
        return order

    def dotted(self, text, where=""):
        """Dotted names of modules in text, and imports in examples, sent after the moves."""

        def imports(match):
            home, names = match.group(1), match.group(2)
            if home not in self.modules:
                return match.group(0)
            inner = names.strip("()").replace("...", " ")
            lines = defaultdict(list)
            for part in (p.strip() for p in re.split(r",", inner)):
                if not part:
                    continue
                found = re.fullmatch(r"(\w+)(?: as (\w+))?(\s*#.*)?", part)
                if not found:
                    return match.group(0)
                name, local = found.group(1), found.group(2) or found.group(1)
                place, new = self.resolve("", home, name)
                lines[place].append(new if new == local else f"{new} as {local}")
            if len(lines) == 1 and not any(" as " in n for ns in lines.values() for n in ns):
                return match.group(0).replace(home, next(iter(lines)), 1)
            before = text[: match.start()].rpartition("\n")[2]
            return f"\n{before}".join(f"from {h} import {', '.join(n)}" for h, n in sorted(lines.items()))

        text = IMPORTED.sub(imports, text)

        def name(match):
            parts = match.group(0).split(".")
            for k in range(len(parts), 1, -1):
                old = ".".join(parts[:k])
                if old in self.modules:
                    rest = parts[k:]
                    if rest:
                        found = self.origin(old, rest[0])
                        if found and found[1] is not None and found[0] in self.place:
                            front = self.modules[old].package and old in self.place
                            if front:
                                return ".".join([self.place[old], *rest])
                            return ".".join([self.place[found[0]], self.new_name[found], *rest[1:]])
                    if old in self.gone:
                        self.notes.append(f"DOTTED {where}: {match.group(0)}")
                        return match.group(0)
                    return ".".join([self.place[old], *rest])
            return match.group(0)

        return re.sub(r"\bchary(?:\.\w+)+", name, text)


class Imports:
    """Imports of a merged module: one local name for one thing."""

    def __init__(self, defined, house, target):
        self.taken = {name: ("defined", name) for name in defined}
        self.house, self.target = house, target
        self.froms, self.plain, self.typing, self.held = {}, {}, {}, {}

    def reserve(self, module):
        pass

    def _local(self, thing, local):
        if self.taken.get(local, thing) != thing:
            base = f"{thing[0].rpartition('.')[2]}_{local}" if thing[1] else f"{local}_module"
            self.house.notes.append(f"IMPORT CLASH {self.target}: {local} is {self.taken[local]} and {thing} -> {base}")
            local = base
        self.taken[local] = thing
        return local

    def want(self, home, name, local, typed, origin=None):
        thing = origin or (home, name)
        if self.taken.get(local) == thing and local in self.held:
            home, name = self.held[local]  # through a front and directly: one import will do
        local = self._local(thing, local)
        self.held[local] = home, name
        key = (home, name, local)
        (self.typing if typed else self.froms)[key] = True
        return local

    def want_module(self, source, local, dotted, typed):
        local = self._local((source, None), local) if not dotted else local
        (self.plain)[source, None if dotted or local == source else local] = typed
        return local

    def text(self):
        lines = [f"import {s}" if a is None else f"import {s} as {a}" for s, a in self.plain]
        by = defaultdict(list)
        for home, name, local in self.froms:
            by[home].append(name if name == local else f"{name} as {local}")
        lines += [f"from {home} import {', '.join(names)}" for home, names in by.items()]
        typing = defaultdict(list)
        for home, name, local in self.typing:
            if (home, name, local) not in self.froms:
                typing[home].append(name if name == local else f"{name} as {local}")
        if typing:
            lines.append("\nif TYPE_CHECKING:")
            lines += [f"    from {home} import {', '.join(names)}" for home, names in typing.items()]
        return "\n".join(lines) + "\n"


def every_name(module):
    found = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
    return found


def own_names(node):
    if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)):
        return [node.name]
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        return [node.targets[0].id]
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return [node.target.id]
    return []


def same(one, other):
    return len(one) == len(other) == 1 and ast.dump(one[0]) == ast.dump(other[0])


def is_docstring(module, node):
    return node is module.tree.body[0] and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def comment_of(says):
    """A docstring as a comment of its section; paragraphs are set anew, lists keep their lines."""
    lines = []
    for paragraph in re.split(r"\n\s*\n", says.strip()):
        rows = paragraph.split("\n")
        listed = any(re.match(r"\s+|[-*|0-9]", row) for row in rows)
        for text in rows if listed else [" ".join(row.strip() for row in rows)]:
            space = re.match(r"\s*", text).group(0)
            lines += textwrap.wrap(text.strip(), 120, initial_indent=f"# {space}", subsequent_indent=f"# {space}")
        lines.append("#")
    return "\n".join(lines[:-1]) + "\n"


def with_doc(text, doc):
    tree = ast.parse(text)
    if not ast.get_docstring(tree):
        return f'"""{doc}"""\n\n{text}'
    if ">>>" in ast.get_docstring(tree):
        return text
    node = tree.body[0]
    lines = text.splitlines(keepends=True)
    return f'"""{doc}"""\n' + "".join(lines[node.end_lineno :])


def eager_names(module):
    """Names that are looked up while a module is imported: bases, decorators, defaults, annotations, constants."""
    names = set()

    def expression(node):
        for each in ast.walk(node):
            if isinstance(each, ast.Name):
                names.add(each.id)

    def visit(node):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for part in [*node.decorator_list, *node.args.defaults, *(d for d in node.args.kw_defaults if d)]:
                expression(part)
            for arg in [*node.args.args, *node.args.kwonlyargs, *node.args.posonlyargs, node.args.vararg, node.args.kwarg]:
                if arg is not None and arg.annotation is not None:
                    expression(arg.annotation)
            if node.returns is not None:
                expression(node.returns)
        elif isinstance(node, ast.ClassDef):
            for part in [*node.decorator_list, *node.bases, *(k.value for k in node.keywords)]:
                expression(part)
            for part in node.body:
                visit(part)
        elif not isinstance(node, (ast.Import, ast.ImportFrom)):
            expression(node)

    for node in module.tree.body:
        visit(node)
    return names


def rename_edits(module, renames):
    edits = []

    def edit(node, old):
        start = module.offset(node.lineno, node.col_offset)
        edits.append((start, start + len(old.encode()), renames[old]))

    def scope(node, hidden):
        """Visits with the names that enclosing functions bind themselves."""
        if isinstance(node, ast.Name) and node.id in renames and node.id not in hidden:
            edit(node, node.id)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            if node.name in renames and node.col_offset == 0:
                line = module.source.splitlines()[node.lineno - 1]
                column = len(line[: line.index(node.name)].encode())
                start = module.offset(node.lineno, column)
                edits.append((start, start + len(node.name.encode()), renames[node.name]))
            for part in node.decorator_list:
                scope(part, hidden)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            args = node.args
            for part in [*args.defaults, *(d for d in args.kw_defaults if d)]:
                scope(part, hidden)
            every = [*args.args, *args.kwonlyargs, *args.posonlyargs, *([args.vararg] if args.vararg else []), *([args.kwarg] if args.kwarg else [])]
            for arg in every:
                if arg.annotation is not None:
                    scope(arg.annotation, hidden)
            if getattr(node, "returns", None) is not None:
                scope(node.returns, hidden)
            body = node.body if isinstance(node.body, list) else [node.body]
            own = {arg.arg for arg in every} | bound_in(body)
            for each in body:
                for deep in ast.walk(each):
                    if isinstance(deep, ast.Global):
                        own -= set(deep.names)
            for each in body:
                scope(each, hidden | own)
            return
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            own = set()
            for generator in node.generators:
                own |= bound_in([ast.Expr(generator.target)])
            for child in ast.iter_child_nodes(node):
                scope(child, hidden | own)
            return
        if isinstance(node, ast.comprehension):
            for child in ast.iter_child_nodes(node):
                scope(child, hidden)
            return
        if isinstance(node, ast.ClassDef):
            own = bound_in(node.body)
            for part in [*node.bases, *node.keywords]:
                scope(part, hidden)
            for each in node.body:
                if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                    scope(each, hidden)
                else:
                    scope(each, hidden | own)
            return
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            start, end = module.span(node)
            raw = module.source.encode()[start:end].decode()
            quoted = any(re.search(rf"(?<![\w.]){re.escape(old)}\b", raw) for old in renames if len(old) > 3)
            if quoted and (raw.startswith('"""') or annotation(node)):
                new = raw
                for old in renames:
                    new = re.sub(rf"(?<![\w.]){re.escape(old)}\b", renames[old], new)
                if new != raw:
                    edits.append((start, end, new))
            return
        for child in ast.iter_child_nodes(node):
            scope(child, hidden)

    def annotation(node):
        above = node
        while hasattr(above, "parent"):
            below, above = above, above.parent
            if isinstance(above, ast.arg) or (isinstance(above, ast.AnnAssign) and above.annotation is below):
                return True
            if isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef)):
                return above.returns is below
            if isinstance(above, ast.stmt):
                return False
        return False

    for node in module.tree.body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            continue
        scope(node, set())
    return sorted(set(edits))


def apply_edits(module, edits):
    data = module.source.encode()
    last = len(data) + 1
    for start, end, text in sorted(set(edits), reverse=True):
        assert end <= last, (module.path, start, end, text)
        data = data[:start] + text.encode() + data[end:]
        last = start
    return data.decode()


def circles(house):
    """Strongly connected modules of the new house, with all imports: at the top, in functions, under TYPE_CHECKING, by name."""
    edges = defaultdict(lambda: defaultdict(set))
    for old, module in house.modules.items():
        if old not in house.place:
            continue
        into = house.place[old]
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("chary"):
                for alias in node.names:
                    if alias.name == "*":
                        continue
                    home, name = house.resolve(into, node.module, alias.name)
                    if f"{home}.{name}" in house.groups:
                        home = f"{home}.{name}"
                    # A front stands for where its name comes from.
                    found = house.origin(node.module, alias.name)
                    if found and found[0] in house.place and home in house.packages:
                        edges[into][house.place[found[0]]].add(old)
                    edges[into][home].add(old)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and re.fullmatch(r"chary(\.\w+)+", node.value):
                if node.value in house.place:
                    edges[into][house.place[node.value]].add(old)
    return {k: {t: w for t, w in v.items() if t != k and t in house.groups} for k, v in edges.items()}


def components(edges):
    index, low, stack, on, found, k = {}, {}, [], set(), [], [0]

    def go(v):
        index[v] = low[v] = k[0]
        k[0] += 1
        stack.append(v)
        on.add(v)
        for w in edges.get(v, ()):
            if w not in index:
                go(w)
                low[v] = min(low[v], low[w])
            elif w in on:
                low[v] = min(low[v], index[w])
        if low[v] == index[v]:
            part = []
            while True:
                w = stack.pop()
                on.discard(w)
                part.append(w)
                if w == v:
                    break
            if len(part) > 1:
                found.append(part)

    for v in list(edges):
        if v not in index:
            go(v)
    return found


def git(root, *words):
    return subprocess.run(["git", *words], cwd=root, check=True, capture_output=True, text=True).stdout
