"""Gives public names the field's words: python tools/move/names.py ROOT Old=New ...   (`old!` also as a plain word of prose)"""

import io
import re
import subprocess
import sys
import tokenize
from pathlib import Path

ROOT = Path(sys.argv[1]).resolve()
PAIRS = dict(pair.split("=") for pair in sys.argv[2:])
SINGLE = {name for name in PAIRS if re.fullmatch(r"[A-Z][a-z]+|[A-Z]+|[a-z]+", name)}
SAFE = {name: new for name, new in PAIRS.items() if name not in SINGLE}
LEFT = ("tests/net/recorded", "tests/golden", "CHANGELOG.md", "tools/")


def in_text(text):
    """In strings, comments and documents: names of several words wherever they stand, others where they are code."""
    for old, new in PAIRS.items():
        if old in SAFE:
            text = re.sub(rf"(?<![\w.])(chary\.(?:\w+\.)*)?{old}\b(?!-)", lambda m, new=new: (m.group(1) or "") + new, text)
            text = re.sub(rf"(?<=\w\.){old}\b", new, text)
        else:
            text = re.sub(rf"(?<![\w]){old}(?=\()", new, text)
            text = re.sub(rf"(?<=`){old}(?=[`.(])", new, text)
            text = re.sub(rf"(?<=`chary\.){old}\b|(?<=`chary\.calls\.){old}\b", new, text)
            text = re.sub(rf"(from chary[\w.]* import [^\n]*)\b{old}\b", rf"\1{new}", text)
            text = re.sub(rf"(>>> .*[\[(, ]){old}(?=[\]),])", rf"\1{new}", text)
            text = re.sub(rf"((?:chary|session|calls|data)\.){old}\b", rf"\1{new}", text)
    return text


def in_code(text):
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    edits = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        place = starts[token.start[0] - 1] + token.start[1], starts[token.end[0] - 1] + token.end[1]
        if token.type == tokenize.NAME and token.string in PAIRS:
            edits.append((*place, PAIRS[token.string]))
        elif token.type == tokenize.STRING and token.string.strip("\"'") in PAIRS and not TAGGED:
            edits.append((*place, token.string.replace(token.string.strip("\"'"), PAIRS[token.string.strip("\"'")])))
        elif token.type in (tokenize.STRING, tokenize.COMMENT):
            new = in_text(token.string)
            if new != token.string and not (TAGGED and token.string.strip("\"'") in PAIRS):
                edits.append((*place, new))
    for start, end, new in reversed(edits):
        text = text[:start] + new + text[end:]
    return text


touched = []
for path in sorted(ROOT.rglob("*")):
    where = str(path.relative_to(ROOT))
    if path.suffix not in (".py", ".md", ".jinja", ".toml") or where.startswith((".", *LEFT)) or ".venv" in where or "egg-info" in where:
        continue
    text = path.read_text()
    TAGGED = where == "src/chary/client/wire.py"
    new = in_code(text) if path.suffix == ".py" else in_text(text)
    if new != text:
        path.write_text(new)
        touched.append(path)
python = [str(p) for p in touched if p.suffix == ".py"]
ruff = "/work/main/.venv/bin/ruff"
subprocess.run([ruff, "check", "--fix", "--quiet", "--select", "I,RUF022", *python], cwd=ROOT)
subprocess.run([ruff, "format", "--quiet", *python], cwd=ROOT)
print(len(touched), "files")
