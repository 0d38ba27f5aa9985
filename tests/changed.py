"""Runs the tests that what changed since a commit can concern: python -m tests.changed [COMMIT] [OPTIONS OF PYTEST].

Who imports what is read from the sources: a name that a package's front offers counts as imported from the module that
defines it. Where something that is no Python file of ours changed, all modules of its folder count as changed;
outside of them, all tests run.
"""

import ast
import subprocess
import sys
from functools import cache

from tests.paths import ROOT

TREES = {ROOT / "src": "chary", ROOT / "research" / "src": "chary_research", ROOT: "tests"}
PAGES = ("README.md", "docs/")


@cache
def modules():
    """The path of each module of ours by its name."""
    found = {}
    for tree, package in TREES.items():
        for path in (tree / package).rglob("*.py"):
            found[".".join(path.relative_to(tree).with_suffix("").parts).removesuffix(".__init__")] = path
    for path in (ROOT / "research" / "tests").glob("*.py"):
        found[f"research.tests.{path.stem}"] = path
    return found


@cache
def tree(name):
    return ast.parse(modules()[name].read_text())


@cache
def offered(name):
    """Of the names of a package's front, the module that each comes from."""
    known = {}
    if modules()[name].name == "__init__.py":
        for node in ast.walk(tree(name)):
            if isinstance(node, ast.ImportFrom) and node.module in modules():
                known |= {each.asname or each.name: defining(node.module, each.name) for each in node.names}
    return known


def defining(module, name):
    """The module that a name is from."""
    inner = f"{module}.{name}"
    return inner if inner in modules() else offered(module).get(name, module)


def imported(name):
    """What a module rests on: what it imports, or names in a text for later; a test also on conftests above it."""
    for node in ast.walk(tree(name)):
        if isinstance(node, ast.ImportFrom) and node.module in modules():
            yield from (defining(node.module, each.name) for each in node.names)
        elif isinstance(node, ast.Import):
            yield from (each.name for each in node.names if each.name != "chary" and each.name in modules())
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            beside, _, _ = node.value.partition(":")
            named = (node.value, f"{name.rpartition('.')[0]}.{beside}")
            yield from (each for each in named if each != "chary" and each in modules())
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules():
            yield defining(node.value.id, node.attr)
    parent = name
    while "." in (parent := parent.rpartition(".")[0]):
        if f"{parent}.conftest" in modules() and name != f"{parent}.conftest":
            yield f"{parent}.conftest"


def concerned(names):
    """All modules that rest on one of these."""
    resting = {}
    for name in modules():
        for other in set(imported(name)):
            resting.setdefault(other, set()).add(name)
    found, new = set(), set(names)
    while new:
        found |= new
        new = {name for each in new for name in resting.get(each, ())} - found
    return found


def concerning(paths):
    """The files of tests for changed files, and changed pages; None where all tests are concerned."""
    names, pages = set(), set()
    for path in paths:
        if path.startswith(PAGES):
            pages.add(path)
            continue
        if path.endswith((".toml", ".txt")):
            return None
        places = [ROOT / path, *(ROOT / path).parents]
        found = ({name for name, other in modules().items() if each in (other, other.parent)} for each in places)
        beside = next(filter(None, found), set())
        names |= beside
    if names & {"tests.conftest", *imported("tests.conftest")}:
        return None
    chosen = [modules()[name] for name in concerned(names)]
    found = {str(path.relative_to(ROOT)) for path in chosen if path.name.startswith("test_")}
    return sorted(found | {path for path in pages if path.endswith(".md") and (ROOT / path).exists()})


def changed(commit):
    """What differs from a commit, and what git does not know yet."""
    asked = (["diff", "--name-only", commit], ["ls-files", "--others", "--exclude-standard"])
    told = [subprocess.run(["git", *each], cwd=ROOT, check=True, capture_output=True, text=True) for each in asked]
    return {line for each in told for line in each.stdout.splitlines()}


def main(commit="HEAD", *options):
    found = concerning(changed(commit))
    if found == []:
        sys.stdout.write(f"nothing that tests can see changed since {commit}\n")
        return 0
    return subprocess.call([sys.executable, "-m", "pytest", *options, *(found or [])], cwd=ROOT)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
