"""The tables of the reference that the code declares: python -m tests.reference_tables --write.

Errors stand in docs/reference/errors.md and kinds of calls in docs/reference/calls.md, between their marks.
"""

import inspect
import sys

from chary import errors
from chary.calls import kinds
from chary.calls.call import FRONT, SUBJECTS
from chary.calls.run import Opening
from chary.cli.app import BAD_INPUT, REFUSED
from chary.client.problems import PROBLEMS, status_of
from tests.paths import ROOT

REFERENCE = ROOT / "docs" / "reference"
# What may be raised after the reservation: it stays charged.
CHARGED = {
    errors.EngineError: "yes",
    errors.AlgorithmFailed: "yes",
    errors.LedgerError: "if reserved",
    errors.LedgerCorrupted: "if reserved",
    errors.LedgerLocked: "if reserved",
}


def public_errors():
    """Every class of error, in the order of the code."""
    found = [each for each in vars(errors).values() if inspect.isclass(each) and issubclass(each, errors.CharyError)]
    return [each for each in found if each.__module__ == errors.__name__]


def error_table():
    words = {kind: word for word, kind in PROBLEMS.items()}
    rows = ["| error | a kind of | charged | `type` of the service | status | exit code |", "|---|---|---|---|---|---|"]
    for kind in public_errors():
        bases = ", ".join(f"`{base.__name__}`" for base in kind.__bases__ if base is not errors.CharyError)
        charged = "" if kind is errors.CharyError else CHARGED.get(kind, "no")
        code = REFUSED if issubclass(kind, errors.BudgetExceeded) else BAD_INPUT
        told = f"[`{kind.__name__}`](#{kind.__name__.lower()})" if kind is not errors.CharyError else "`CharyError`"
        rows.append(f"| {told} | {bases} | {charged} | `{words[kind]}` | {status_of(kind(''))} | {code} |")
    return "\n".join(rows)


def kind_table(chosen):
    rows = ["| call | kind in JSON | what it answers |", "|---|---|---|"]
    for kind in chosen:
        told = " ".join((inspect.getdoc(kind) or "").partition("\n\n")[0].split()).replace("|", "\\|")
        opens = " (opens a run)" if issubclass(kind, Opening) else ""
        rows.append(f"| `{kind.__name__}`{opens} | `{kind.kind}` | {told} |")
    return "\n".join(rows)


def front():
    """The kinds that most people need."""
    return kind_table(kinds()[name] for name in FRONT)


def advanced():
    """All others, by subject."""
    rest = sorted((kind for name, kind in kinds().items() if name not in FRONT), key=lambda kind: kind.__name__)
    parts = {title: [kind for kind in rest if kind.subject == subject] for subject, title in SUBJECTS.items()}
    return "\n\n".join(f"### {title}\n\n{kind_table(found)}" for title, found in parts.items() if found)


TABLES = {
    ("errors.md", "errors"): error_table,
    ("calls.md", "front"): front,
    ("calls.md", "advanced"): advanced,
}


def marked(name):
    """Where a table begins and ends in its page."""
    return f"<!-- {name} -->\n", f"\n<!-- end of {name} -->"


def write():
    for (page, name), table in TABLES.items():
        path, (begin, end) = REFERENCE / page, marked(name)
        before, _, rest = path.read_text().partition(begin.rstrip())
        path.write_text(f"{before}{begin}{table()}{end}{rest.partition(end.strip())[2]}")


if __name__ == "__main__":
    write() if "--write" in sys.argv else sys.stdout.write("\n\n".join(table() for table in TABLES.values()) + "\n")
