"""Says what a mapping leaves out, how large its targets are, which names clash, and which modules run in circles.

python tools/move/simulate.py [data.toml ...]   (all mappings, unless some are named)
"""

import ast
import io
import sys
import tokenize
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.setrecursionlimit(100000)
from moving import House, Spec, circles, components

HERE = Path(__file__).parent


def code_lines(source, tree):
    docs, imports = set(), set()
    for n in ast.walk(tree):
        if isinstance(n, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and ast.get_docstring(n) is not None:
            docs |= set(range(n.body[0].lineno, n.body[0].end_lineno + 1))
        if isinstance(n, (ast.Import, ast.ImportFrom)):
            imports |= set(range(n.lineno, n.end_lineno + 1))
    got = set()
    skip = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    for k in tokenize.generate_tokens(io.StringIO(source).readline):
        if k.type not in skip:
            got |= set(range(k.start[0], k.end[0] + 1))
    return len(got - docs - imports), len(imports - docs)


def main():
    names = sys.argv[1:] or [str(p) for p in sorted(HERE.glob("*.toml"))]
    names = [n if Path(n).exists() else str(HERE / n) for n in names]
    spec = Spec.read(names)
    root = HERE.parent.parent
    house = House(root, spec, others=())
    targets = set(spec.modules)
    rooms = {".".join(s.split(".")[:2]) for ss in spec.modules.values() for s in ss}
    for name, module in sorted(house.modules.items()):
        covered = any(name in [s.removesuffix(".__init__") for s in ss] for ss in spec.modules.values())
        if ".".join(name.split(".")[:2]) in rooms and not covered:
            if module.package:
                if [d for d in module.defs if d != "__all__"]:
                    print("FRONT WITH DEFINITIONS, not covered:", name, [d for d in module.defs if d != "__all__"][:6])
            else:
                print("NOT COVERED", name)
    print()
    for target in sorted(targets):
        sizes = [code_lines(house.modules[s.removesuffix(".__init__")].source, house.modules[s.removesuffix(".__init__")].tree) for s in spec.modules[target]]
        print(f"{sum(c for c, _ in sizes):5} code {sum(i for _, i in sizes):4} imports {len(sizes):3} sources  {target}" + ("" if target in spec.docs else "   (no doc)"))
    print(len(targets), "targets;", len(house.packages), "packages")
    house.merge()
    edges = circles(house)
    print()
    for note, n in Counter(house.notes).items():
        print(note)
    print()
    for part in components(edges):
        print("CIRCLE of", len(part), sorted(part))
        for a in sorted(part):
            for b in sorted(edges.get(a, {})):
                if b in part:
                    print("   ", a, "->", b, "by", sorted(edges[a][b])[:4])


main()
