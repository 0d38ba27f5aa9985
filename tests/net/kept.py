"""Files of the net: how a record is written, masked, read, and compared with what the code does now.

A record is a list of JSON objects, one a line, with sorted keys. Floats have 12 digits, and two records agree where
their numbers do to 9: elementary functions differ in their last bits between processors. Texts agree exactly.
"""

import dataclasses
import difflib
import json
import math
import re
from enum import Enum
from fractions import Fraction
from pathlib import Path

from chary.data.queries.stored import STORED

RECORDED = Path(__file__).parent / "recorded"
# Whole numbers up to this are compared exactly: counts, steps, numbers of calls. Larger ones are amounts and hashes.
EXACT = 10**9
CLOSE = 1e-9
# Fractions of longer denominators come from floats.
LONG = 10**15
RATIO = re.compile(r"-?\d+/\d{15,}")
# Of one text no more lines are told that differ.
MOST = 20
MASKS = (
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(\+00:00|Z| UTC)?"), "<time>"),
    (re.compile(r"\b[0-9a-f]{64}\b"), "<hash>"),
)


def told(value):
    """Any public value in what JSON has; dataclasses by the name of their class and the fields that are shown.

    Names are those under which things are stored.
    """
    if value is None or isinstance(value, (bool, int, str, float, Fraction, Enum)):
        return _plain(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        shown = [each.name for each in dataclasses.fields(value) if each.repr]
        return {"of": type(value).__name__} | {STORED.get(name, name): told(getattr(value, name)) for name in shown}
    if hasattr(value, "_asdict"):
        return told(value._asdict())
    if hasattr(value, "items"):
        if not all(isinstance(name, str) for name in value):
            return told(list(value.items()))
        return {STORED.get(name, name): told(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [told(each) for each in value]
    return told(value.item()) if hasattr(value, "item") else type(value).__name__


def _plain(value):
    if isinstance(value, Enum):
        return told(value.value)
    if isinstance(value, float):
        return float(f"{value:.12g}") if math.isfinite(value) else str(value)
    if isinstance(value, Fraction):
        return str(value) if value.denominator < LONG else told(float(value))
    return value


def masked(text, *more):
    """A text without times and hashes, and without what `more` finds: pairs of a pattern and what stands instead."""
    for pattern, instead in (*more, *MASKS):
        text = re.sub(pattern, instead, text)
    return text


def write(path, lines):
    """Keep a record; a text is kept as it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(lines if isinstance(lines, str) else "".join(_line(line) for line in lines), encoding="utf-8")


def read(path):
    """A record that was kept: a text, or its lines."""
    text = path.read_text(encoding="utf-8")
    return text if path.suffix != ".jsonl" else [json.loads(line) for line in text.splitlines()]


def differences(kept, found, at=""):
    """Where two records differ: one line each, by the path to it."""
    if isinstance(kept, str) and isinstance(found, str):
        return [] if kept == found or _same_ratio(kept, found) else _texts(kept, found, at)
    if isinstance(kept, dict) and isinstance(found, dict):
        names = sorted(kept.keys() | found.keys())
        pairs = [(f"{at}.{name}", kept.get(name, _NOTHING), found.get(name, _NOTHING)) for name in names]
        return [line for name, one, other in pairs for line in differences(one, other, name)]
    if isinstance(kept, list) and isinstance(found, list):
        lines = [] if len(kept) == len(found) else [f"{at}: {len(kept)} were kept, {len(found)} are there now"]
        pairs = enumerate(zip(kept, found, strict=False))
        return lines + [line for place, (one, other) in pairs for line in differences(one, other, f"{at}[{place}]")]
    return [] if _agree(kept, found) else [f"{at}: kept {_short(kept)}, now {_short(found)}"]


def compare(path, found):
    """What differs between a file of the net and what the code does now."""
    name = path.relative_to(RECORDED)
    if not path.exists():
        return [f"{name} was never recorded: python -m tests.net.record"]
    again = found if isinstance(found, str) else [json.loads(_line(line)) for line in found]
    return [f"{name}{line}" for line in differences(read(path), again)]


class _Nothing:
    def __repr__(self):
        return "nothing"


_NOTHING = _Nothing()


def _line(line):
    return json.dumps(line, sort_keys=True, ensure_ascii=False, separators=(",", ":")) + "\n"


def _agree(kept, found):
    if type(kept) is bool or type(found) is bool:
        return kept is found
    if not isinstance(kept, (int, float)) or not isinstance(found, (int, float)):
        return type(kept) is type(found) and kept == found
    if isinstance(kept, int) and isinstance(found, int) and abs(kept) < EXACT:
        return kept == found
    return math.isclose(kept, found, rel_tol=CLOSE, abs_tol=1e-300)


def _same_ratio(kept, found):
    """Whether both are fractions that come from floats, and agree."""
    if not (RATIO.fullmatch(kept) and RATIO.fullmatch(found)):
        return False
    return math.isclose(Fraction(kept), Fraction(found), rel_tol=CLOSE)


def _texts(kept, found, at):
    """The lines that differ between two texts."""
    if "\n" not in kept + found:
        return [f"{at}: kept {_short(kept)}, now {_short(found)}"]
    lines = [*difflib.unified_diff(kept.splitlines(), found.splitlines(), "kept", "now", lineterm="", n=0)][2:]
    return [f"{at} {_short(line)}" for line in lines[:MOST]] + ([f"{at} and more"] if len(lines) > MOST else [])


def _short(value):
    text = repr(value)
    return text if len(text) <= 300 else f"{text[:300]}..."
