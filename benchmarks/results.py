"""The record of benchmarks: `results.json`, and the page `RESULTS.md` that is written from it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from peer_libraries import peers

HERE = Path(__file__).parent
RECORD, PAGE = HERE / "results.json", HERE / "RESULTS.md"
INTRODUCTION = """# Results

Written by `make bench`; do not edit. Every section is one benchmark, run in a process of its own, and says when, for
how long, with how much processor time, and under which load (the mean of one minute when it started). Times of a busy
machine are long; ratios, whose two sides took turns in the same run, suffer less. Sizes are those with which all finish
in about 20 minutes of a quiet machine; `--full` measures larger ones too. A benchmark that takes too long is stopped;
its finished rows stand. `results.json` holds the same, and every ratio under its name; `make bench-guard` reads it."""
Sections = Mapping[str, dict[str, Any]]


def load(path: Path = RECORD) -> dict[str, dict[str, Any]]:
    """Every benchmark's section of the record, by name; none if there is no record yet."""
    found: dict[str, dict[str, Any]] = json.loads(path.read_text())["benchmarks"] if path.exists() else {}
    return found


def save(sections: Sections, names: Sequence[str]) -> None:
    """Write the record and the page, in the order of all names of benchmarks."""
    ordered = {name: sections[name] for name in names if name in sections}
    found = peers(json.loads(RECORD.read_text())["peers"] if RECORD.exists() else {})
    RECORD.write_text(json.dumps({"peers": found, "benchmarks": ordered}, indent=1, ensure_ascii=False) + "\n")
    missing = [name for name in names if name not in sections]
    PAGE.write_text("\n\n".join(page(ordered, missing, found)) + "\n")


def ratios(sections: Sections) -> dict[str, dict[str, Any]]:
    """Every recorded ratio, by the name of its benchmark and its own.

    >>> ratios({"watch": {"ratios": {"watch over its plan: 1,000": {"ratio": 1.5}}}})
    {'watch/watch over its plan: 1,000': {'ratio': 1.5}}
    """
    return {f"{name}/{row}": found for name, each in sections.items() for row, found in each["ratios"].items()}


def page(sections: Sections, missing: Sequence[str], found: Mapping[str, str]) -> Iterator[str]:
    """The parts of the page."""
    yield INTRODUCTION
    if missing:
        yield f"Not in this record: {escaped(', '.join(missing))}."
    yield from ("Machine: " + told + "." for told in dict.fromkeys(each["machine"] for each in sections.values()))
    yield "## Peers"
    yield table(["library", "version, or why there is none"], found.items())
    yield "## Ratios"
    yield "Ours over what it is held against, in the same run: below 1 is better than it. Times in seconds."
    lines = ratios(sections).items()
    yield table(
        ["figure", "against a", "ours", "theirs", "ratio"],
        ([name, row["kind"], *(f"{row[each]:.4g}" for each in ("ours", "other", "ratio"))] for name, row in lines),
    )
    for name, section in sections.items():
        yield f"## {name}"
        yield heading(section)
        for each in section["tables"]:
            yield f"**{escaped(each['title'])}**"
            yield table(each["headings"], each["rows"])
            if each["caption"]:
                yield escaped(each["caption"]).replace("\n", "  \n")


def heading(section: Mapping[str, Any]) -> str:
    """When, for how long, under which load, and how it ended."""
    used = f", {section['processors']} of processors" if "processors" in section else ""
    told = f"{section['date']}, load {section['load']:.1f}, {section['seconds']:.0f} s{used}"
    return f"{told}; {section['outcome']}."


def table(headings: Sequence[str], rows: Any) -> str:
    """A table in Markdown; the first column is text, all others are numbers."""
    lines = [headings, ["---", *["---:"] * (len(headings) - 1)], *rows]
    return "\n".join("| " + " | ".join(escaped(cell) or " " for cell in line) + " |" for line in lines)


def escaped(text: str) -> str:
    """Text that Markdown shows as it stands.

    >>> escaped("a|b*"), escaped("a < b")
    ('a\\\\|b\\\\*', 'a &lt; b')
    """
    for sign in "\\|*_":
        text = text.replace(sign, f"\\{sign}")
    return text.replace("<", "&lt;")
