"""Sets paragraphs of docstrings and comments anew where a line became too long."""

import json
import re
import subprocess
import textwrap
from pathlib import Path

for _ in range(30):
    found = json.loads(subprocess.run(["/work/main/.venv/bin/ruff", "check", "--select", "E501", "--output-format", "json", "src", "tests", "benchmarks"], capture_output=True, text=True).stdout)
    done = set()
    for each in found:
        path, row = each["filename"], each["location"]["row"]
        if path in done:
            continue
        lines = Path(path).read_text().split("\n")
        line = lines[row - 1]
        comment = line.lstrip().startswith("#")
        indent = re.match(r"\s*(# )?", line).group(0)

        def part(text):
            body = text.strip()
            if comment:
                return text.startswith(indent) and len(body) > 1
            return re.match(r"\s*", text).group(0) == indent and body and not body.startswith((">>>", "...", "- ", "* ", "```", "|"))

        first = last = row - 1
        while first and part(lines[first - 1]) and not lines[first].lstrip().startswith('"""'):
            first -= 1
        while last + 1 < len(lines) and part(lines[last + 1]) and not lines[last].endswith('"""'):
            last += 1
        text = " ".join(l[len(indent):].strip() for l in lines[first : last + 1])
        new = textwrap.wrap(text, 120, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
        if new == lines[first : last + 1]:
            print("by hand", path, row)
            continue
        lines[first : last + 1] = new
        Path(path).write_text("\n".join(lines))
        done.add(path)
    if not done:
        break
