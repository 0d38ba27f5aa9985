"""Merges and moves: python tools/move/apply.py ROOT kernel.toml[,data.toml] [chary.accounting chary.noise ...]"""

import io
import re
import subprocess
import sys
import tokenize
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.setrecursionlimit(100000)
from moving import House, Module, Spec, apply_edits, git

HERE = Path(__file__).parent


def strings_moved(text, house, where):
    """Dotted names in strings and comments; code itself was rewritten by its syntax tree."""
    edits, starts = [], [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.STRING, tokenize.COMMENT) and "chary" in token.string:
            new = house.dotted(token.string, where)
            if new != token.string:
                edits.append((starts[token.start[0] - 1] + token.start[1], starts[token.end[0] - 1] + token.end[1], new))
    for start, end, new in reversed(edits):
        text = text[:start] + new + text[end:]
    return text


def doors_moved(text, house):
    """Commands that are named as `module:name` within `chary.cli`."""

    def moved(match):
        old, name = f"chary.cli.{match.group(1)}", match.group(2)
        if old not in house.place:
            return match.group(0)
        return f'"{house.place[old].removeprefix("chary.cli.")}:{house.new_name.get((old, name), name)}"'

    return re.sub(r'"([a-z_.]+):([a-z_]+)"', moved, text)


def main():
    root = Path(sys.argv[1]).resolve()
    specs = [HERE / name for name in sys.argv[2].split(",")]
    spec = Spec.read(specs, tuple(sys.argv[3:]))
    house = House(root, spec)
    source = root / "src"
    written = house.merge()
    changed = {}
    for old, module in house.modules.items():
        if old not in house.place or module.package:
            changed[module.path] = None
    for target, (text, package) in written.items():
        path = source / Path(*target.split("."))
        path = path / "__init__.py" if package else path.with_suffix(".py")
        changed[path] = strings_moved(text, house, str(path))
        if target.startswith("chary.cli"):
            changed[path] = doors_moved(changed[path], house)
    for module in house.others:
        into = ".".join(module.path.relative_to(root).with_suffix("").parts)
        module.name = into
        text = strings_moved(apply_edits(module, house.rewritten(module, into)), house, str(module.path))
        if text != module.source:
            changed[module.path] = text
    for old in house.modules:
        module = house.modules[old]
        changed.setdefault(module.path, None)
    touched = []
    for path, text in changed.items():
        if text is None:
            path.unlink(missing_ok=True)
        elif not path.exists() or path.read_text() != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            touched.append(path)
    for part in ("docs", "README.md", "CONTRIBUTING.md", "deploy", "tests", "benchmarks"):
        here = root / part
        for path in [here] if here.is_file() else here.rglob("*.md"):
            text = path.read_text()
            new = house.dotted(text, str(path))
            if new != text:
                path.write_text(new)
    for old, new in spec.files.items():
        if (root / old).exists():
            (root / new).parent.mkdir(parents=True, exist_ok=True)
            git(root, "mv", old, new)
    for cache in sorted(source.rglob("__pycache__"), reverse=True):
        if not list(cache.parent.glob("*.py")):
            subprocess.run(["rm", "-rf", str(cache)], check=True)
    for folder in sorted((p for p in source.rglob("*") if p.is_dir()), reverse=True):
        if not any(folder.iterdir()):
            folder.rmdir()
    subprocess.run(["git", "add", "-A", "src", "tests", "benchmarks", "docs"], cwd=root, check=True)
    ruff = "/work/main/.venv/bin/ruff"
    for words in (["check", "--fix", "--quiet", "--select", "I,F401,RUF022,UP", *map(str, touched)], ["format", "--quiet", *map(str, touched)]):
        subprocess.run([ruff, *words], cwd=root)
    for note, n in Counter(house.notes).items():
        if not note.startswith("SAME TEXT"):
            print(note)
    print(len(touched), "files written")


main()
