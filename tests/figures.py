"""Prints how large the surface of the library is, beside its aims: python -m tests.figures."""

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections import Counter

import chary
from tests.paths import ROOT

SOURCES = sorted((ROOT / "src" / "chary").rglob("*.py"))
_VERSION = "import sys; sys.argv = ['chary', '--version']; from chary.cli import main; main()"
_LAYOUT = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


def members():
    """Methods and properties of a session that have no underscore."""
    return len([name for name in dir(chary.Session) if not name.startswith("_")])


def largest_folder():
    """How many modules the fullest folder has, without its __init__."""
    return max(Counter(path.parent for path in SOURCES if path.name != "__init__.py").values())


def source_lines():
    """Lines with code: blank ones, comments and docstrings do not count."""
    return sum(len(_lines_of(path.read_text())) for path in SOURCES)


def _lines_of(text):
    told, found = set(), set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            told.update(range(node.lineno, (node.end_lineno or 0) + 1))
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _LAYOUT:
            found.update(range(token.start[0], token.end[0] + 1))
    return found - told


def comments():
    """Whole-line comments for each thousand lines of code."""
    whole = sum(len(re.findall(r"^\s*#", path.read_text(), re.MULTILINE)) for path in SOURCES)
    return 1000 * whole / source_lines()


def seconds(code):
    """The least processor time of five new processes."""
    told = f"import time, atexit; atexit.register(lambda: sys.stderr.write(str(time.process_time()))); {code}"
    return min(_run(f"import sys; {told}") for _ in range(5))


def _run(code):
    return float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stderr)


def words():
    """Words of the README up to the end of the block of code in which a session is first asked."""
    parts = re.split(r"(```.*?```)", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    asked = re.compile(r"session\.(ask|release|test|watch|release_if)\(")
    first = next(place for place, part in enumerate(parts) if part.startswith("```") and asked.search(part))
    return sum(len(part.split()) for part in parts[:first] if not part.startswith("```"))


def table():
    """Each figure, what it is, and its aim."""
    yield "public members of Session", members(), "<= 20"
    yield "names in chary.__all__", len(chary.__all__), "<= 35"
    yield "modules in the largest flat folder", largest_folder(), "<= 14"
    yield "source lines", source_lines(), "<= 17,000"
    yield "import chary, seconds of processor", f"{seconds('import chary'):.2f}", "<= 0.4"
    yield "chary --version, seconds of processor", f"{seconds(_VERSION):.2f}", "<= 0.3"
    yield "whole-line comments per 1,000 lines", f"{comments():.1f}", "10-25"
    yield "words of the README to the first question", words(), "<= 300"


if __name__ == "__main__":
    for told, figure, aim in table():
        sys.stdout.write(f"{told:45} {figure:>8} {aim:>10}\n")
