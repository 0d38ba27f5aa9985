"""What of the project's prose breaks its rules of words: python -m tests.docs.style [PATH ...].

The rules are Vale's, in docs/style. Vale reads pages. This reads docstrings, messages and templates too, and needs no
program that a machine without a network cannot install. `--record` lowers the counts that are still allowed.
"""

import ast
import inspect
import json
import re
import sys
import tomllib
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml
from markdown_it import MarkdownIt

from tests.paths import ROOT

HOME = ROOT / "docs" / "style"
RULES = HOME / "styles" / "chary"
ALLOWED = HOME / "allowed.toml"
# What is prose to somebody: pages, and whatever the code says.
PROSE = (
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "CODE_OF_CONDUCT.md",
    "docs",
    "src",
    "research/src",
    "client",
)
SUFFIXES = {".md", ".ipynb", ".py", ".jinja"}
# A single word is a name or a key.
WORDS_OF_A_MESSAGE = 2
MARKDOWN = MarkdownIt("commonmark").enable(["table", "strikethrough"])
# Directives of pages that hold prose; those of code, figures and lists of pages are skipped.
SPOKEN = re.compile(
    r"\{(note|tip|warning|important|caution|admonition|dropdown|tab-item|tab-set|grid|grid-item|card|grid-item-card)\}"
)
END_OF_SENTENCE = re.compile(
    r"(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\bal\.)(?<!\bvs\.)(?<!\bcf\.)(?<=[.!?])[)\"'*]*\s+(?=[^a-z\s])"
)
NO_PROSE = re.compile(
    r"^\W*(SELECT|WITH|INSERT|UPDATE|DELETE|CREATE|ALTER|DROP|GRANT|FROM|COPY|PRAGMA|BEGIN|DO)\b|\bLEFT JOIN\b|[a-z]-src\b|://\S+$|[{}<>\\]\S*[;{}\\]"
)


@dataclass(frozen=True)
class Block:
    """A paragraph, a heading, a cell or a message, with the line on which it begins."""

    line: int
    text: str
    heading: bool = False


@dataclass(frozen=True)
class Finding:
    path: str
    line: int
    rule: str
    text: str

    def __str__(self):
        return f"{self.path}:{self.line}: {self.rule}: {self.text}"


@dataclass(frozen=True)
class Rule:
    """One file of Vale's: existence, substitution or occurrence."""

    name: str
    said: dict

    @property
    def patterns(self):
        return _patterns(self.name)

    def findings(self, block):
        """Where a block breaks it, and how."""
        scope = self.said.get("scope", "text")
        if scope == "heading" and not block.heading:
            return
        for start, text in sentences(block.text) if scope == "sentence" else [(0, flat(block.text))]:
            for at, told in self._broken(text):
                yield block.line + block.text.count("\n", 0, start + at), told

    def _broken(self, text):
        message = self.said["message"]
        if self.said["extends"] == "occurrence":
            [(pattern, _)] = self.patterns
            found = len(pattern.findall(text))
            if found > self.said["max"]:
                yield 0, f"{message} ({found}) {text[:60].strip()} ..."
            return
        for pattern, better in self.patterns:
            for match in pattern.finditer(text):
                words = (match[0],) if better is None else (better, match[0])
                yield match.start(), message % words


@cache
def rules():
    return [Rule(f"chary.{path.stem}", yaml.safe_load(path.read_text())) for path in sorted(RULES.glob("*.yml"))]


@cache
def _patterns(name):
    [said] = [rule.said for rule in rules() if rule.name == name]
    flags = re.IGNORECASE if said.get("ignorecase") else 0
    listed = {
        "occurrence": lambda: [(said["token"], None)],
        "existence": lambda: [(token, None) for token in said["tokens"]],
        "substitution": lambda: list(said["swap"].items()),
    }[said["extends"]]()
    bounded = said["extends"] != "occurrence" and not said.get("nonword")
    return [(re.compile(rf"\b(?:{words})\b" if bounded else words, flags), better) for words, better in listed]


def flat(text):
    """The text in one line, every letter where it was."""
    return text.replace("\n", " ")


def sentences(text):
    """Where each sentence of a block begins, and the sentence."""
    start = 0
    for end in END_OF_SENTENCE.finditer(flat(text)):
        yield start, flat(text[start : end.end()]).rstrip()
        start = end.end()
    yield start, flat(text[start:])


def markdown(text, first=1):
    """The blocks of a page or docstring, code, links' targets and mathematics left out."""
    text = re.sub(r"\$\$.+?\$\$", lambda found: "\n" * found[0].count("\n"), text, flags=re.DOTALL)
    text = re.sub(r"^(:{3,}|%|\(.+\)=$|---$).*", "", text, flags=re.MULTILINE)
    line, heading = 0, False
    for token in MARKDOWN.parse(text):
        line = token.map[0] if token.map else line
        heading = token.type == "heading_open" if token.type.endswith("_open") else heading
        if token.type == "fence" and SPOKEN.match(token.info):
            yield from markdown(re.sub(r"^:[\w-]+:.*$", "", token.content, flags=re.MULTILINE), first + line + 1)
        if token.type == "inline":
            yield Block(first + line, _spoken(token.children), heading)


def _spoken(children):
    """What is said of a paragraph: code, formulas and addresses are one word each, which no rule knows."""
    parts, inside = [], 0
    for child in children:
        if child.type in {"link_open", "link_close"} and child.markup == "autolink":
            inside += 1 if child.nesting > 0 else -1
        if child.type in {"softbreak", "hardbreak"}:
            parts.append("\n")
        elif child.type == "code_inline" or (child.type == "text" and inside):
            parts.append("X")
        elif child.type == "text":
            parts.append(child.content)
    return re.sub(r"\$[^$\n]+\$", "X", "".join(parts))


def without_doctests(text):
    """Examples run: what they print is no prose."""
    lines, inside = [], False
    for line in text.split("\n"):
        inside = line.lstrip().startswith(">>>") or (inside and bool(line.strip()))
        lines.append("" if inside else line)
    return "\n".join(lines)


def python(source):
    """The docstrings of a module and its messages."""
    tree = ast.parse(source)
    docstrings, parts = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            docstrings.add(node.value)
            text = without_doctests(inspect.cleandoc(node.value.value))
            # A line for each option of a calculator or a command is a list.
            yield from markdown(re.sub(r"^\w+: ", "- ", text, flags=re.MULTILINE), node.lineno)
        if isinstance(node, ast.JoinedStr):
            parts.update(node.values)
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield from message("".join(str(p.value) if isinstance(p, ast.Constant) else "X" for p in node.values), node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in docstrings | parts:
            yield from message(node.value, node)


def message(text, node):
    """A string of code, if it is said to somebody."""
    words = re.findall(r"(?<!\S)[A-Za-z][a-z]*(?=[\s.,;:?!)]|$)", text)
    if len(words) >= WORDS_OF_A_MESSAGE and not NO_PROSE.search(text):
        text = re.sub(r"\b[a-z_]+=(?!=)", "X", text)  # an argument keeps its name
        yield from markdown(re.sub(r"^( {4,}|\t+)", "", text, flags=re.MULTILINE), node.lineno)


def template(text):
    """What a template says, a line each: it has no paragraphs."""
    text = re.sub(r"\{#.*?#\}|\{%.*?%\}|<style.*?</style>", lambda f: "\n" * f[0].count("\n"), text, flags=re.DOTALL)
    text = re.sub(r"\{\{.*?\}\}", "X", text, flags=re.DOTALL)
    text = re.sub(r"<[^>]*>", lambda found: " " + "\n" * found[0].count("\n"), text)
    for number, line in enumerate(text.split("\n"), 1):
        yield Block(number, line)


def notebook(text):
    for cell in json.loads(text)["cells"]:
        if cell["cell_type"] == "markdown":
            yield from markdown("".join(cell["source"]))


READERS = {".md": markdown, ".ipynb": notebook, ".py": python, ".jinja": template}


def files(paths):
    """The files of prose among these and in them."""
    for path in paths:
        inside = path.rglob("*") if path.is_dir() else [path]
        yield from sorted(
            file for file in inside if file.suffix in SUFFIXES and ".css" not in file.suffixes and file.is_file()
        )


def findings(paths):
    """All of them, by file and line."""
    for path in files(paths):
        name = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)
        found = [
            Finding(name, line, rule.name, told)
            for block in READERS[path.suffix](path.read_text())
            for rule in rules()
            for line, told in rule.findings(block)
        ]
        yield from sorted(found, key=lambda finding: finding.line)


def folder(finding):
    """The folder at the top that a file is in; files at the top are in "."."""
    return finding.path.split("/")[0] if "/" in finding.path else "."


def everything():
    return list(findings(ROOT / name for name in PROSE))


def allowed():
    """How many findings each folder may still have; one that is not named may have none."""
    return tomllib.loads(ALLOWED.read_text()) if ALLOWED.exists() else {}


def record(found):
    """Lowers what is allowed to what is there, and never raises it."""
    counts = Counter(folder(finding) for finding in found)
    lowered = {name: min(number, counts[name]) for name, number in allowed().items()}
    said = "# Findings that are still to be mended, by folder: python -m tests.docs.style --record lowers them.\n"
    ALLOWED.write_text(said + "".join(f'"{name}" = {number}\n' for name, number in sorted(lowered.items()) if number))


def main(asked):
    paths = [Path(name).resolve() for name in asked if not name.startswith("--")]
    found = list(findings(paths)) if paths else everything()
    if "--record" in asked and not paths:
        record(found)
    lines = [str(finding) for finding in found]
    for title, counts in (("rule", Counter(f.rule for f in found)), ("folder", Counter(map(folder, found)))):
        lines.append(
            f"by {title}: " + (", ".join(f"{name} {number}" for name, number in counts.most_common()) or "none")
        )
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
