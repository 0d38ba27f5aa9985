"""Prints how large the code is and how it hangs together, beside its aims: python -m tests.figures.

Code is without blank lines, comments and docstrings.
"""

import ast
import io
import re
import statistics
import subprocess
import sys
import tokenize
from graphlib import CycleError, TopologicalSorter

import chary
from tests.paths import ROOT

CHARY = ROOT / "src" / "chary"
_LAYOUT = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
# Modules whose names end so for reasons of the field: a verb's noun, or another word altogether.
FIELD_WORDS = {"target_charging", "opening", "streaming", "upcasting"}
OPENED = "import chary; chary.open"
# What one grouped question enters, once a session is open.
WATCHED = """
import sys, pandas, chary
from chary import count
rows = pandas.DataFrame({"unit": range(60), "ward": [n % 3 for n in range(60)]})
session = chary.open(rows, privacy_unit="unit", ledger=":memory:", budget=chary.Budget(epsilon=1, delta=1e-6))
question, entered, calls = count().by("ward", range(3)), set(), 0
def enter(frame, event, _):
    global calls
    if event == "call" and "/chary/" in frame.f_code.co_filename:
        entered.add(frame.f_code.co_filename)
        calls += 1
sys.setprofile(enter)
session.release_if(question, above=1000, epsilon="0.1")
sys.setprofile(None)
print(len(entered), calls)
"""


class Source:
    """A module: its lines of code and of imports, and the modules that it imports."""

    def __init__(self, path):
        self.path, text = path, path.read_text()
        self.name = ".".join(path.relative_to(CHARY.parent).with_suffix("").parts).removesuffix(".__init__")
        self.tree, told, imports, code = ast.parse(text), set(), set(), set()
        for node in ast.walk(self.tree):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                if ast.get_docstring(node) is not None:
                    told.update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                imports.update(range(node.lineno, node.end_lineno + 1))
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type not in _LAYOUT:
                code.update(range(token.start[0], token.end[0] + 1))
        self.code, self.imports = len(code - told), len(imports - told)

    def edges(self, known):
        """The modules, no fronts of packages, that this one imports anywhere."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("chary"):
                for name in [f"{node.module}.{alias.name}" for alias in node.names] + [node.module]:
                    if name in known and name != self.name:
                        yield name


def circles(sources):
    """Whether imports run in a circle."""
    known = {each.name for each in sources if each.path.name != "__init__.py"}
    try:
        list(
            TopologicalSorter(
                {each.name: set(each.edges(known)) for each in sources if each.name in known}
            ).static_order()
        )
    except CycleError as circle:
        return " -> ".join(circle.args[1])
    return "none"


def seconds(code):
    """The least processor time of five new processes."""
    told = f"import time, atexit; atexit.register(lambda: sys.stderr.write(str(time.process_time()))); {code}"
    return min(float(_run(f"import sys; {told}").stderr) for _ in range(5))


def _run(code):
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)


def table():
    """Each figure, what it is, and its aim."""
    sources = [Source(path) for path in sorted(CHARY.rglob("*.py"))]
    modules = [each for each in sources if each.path.name != "__init__.py"]
    folders = {each.path.parent for each in sources}
    code = sum(each.code for each in sources)
    stems = {each.path.stem for each in modules if re.search(r"(^|_)\w+ing$", each.path.stem)}
    yield "modules", len(modules), "<= 260"
    yield "median of their code lines", f"{statistics.median(each.code for each in modules):.0f}", "150-300"
    yield "folders", len(folders), "<= 40"
    yield "depth of folders", max(len(each.relative_to(CHARY).parts) for each in folders), "<= 3"
    yield "code lines", code, "<= 50,500"
    yield "share of lines that are imports", f"{sum(each.imports for each in sources) / code:.1%}", "<= 8 %"
    yield "a circle of imports", circles(sources), "none"
    yield "names in -ing that are no terms", ", ".join(sorted(stems - FIELD_WORDS)) or "none", "none"
    yield "files and calls of one session.release_if", ", ".join(_run(WATCHED).stdout.split()), "<= 35"
    yield "import chary; chary.open, seconds of processor", f"{seconds(OPENED):.2f}", "<= 1.2"
    yield "import chary, seconds of processor", f"{seconds('import chary'):.2f}", "<= 0.4"
    yield "public members of Session", len([name for name in dir(chary.Session) if name[0] != "_"]), "<= 20"
    yield "names in chary.__all__", len(chary.__all__), "<= 36"


if __name__ == "__main__":
    for told, figure, aim in table():
        sys.stdout.write(f"{told:48} {figure!s:>10} {aim:>10}\n")
