"""The public report of a ledger: what was revealed, to be looked at, printed or read by other programs."""

import csv
import io
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from chary.addresses import without_password
from chary.charts import plotter, writable
from chary.errors import InvalidParameter, LedgerCorrupted
from chary.ledger import Ledger, ledger_exists, open_ledger
from chary.ledger.entries import head_of, now
from chary.numbers import Number, probability
from chary.report.content import USUAL, PublishedValue, ReportedCall, ReportedDataset, SimultaneousHit, Tell, gathered
from chary.session.session import Session

_LONGEST_TITLE: Final = 200
_LONGEST_INTRODUCTION: Final = 4_000
# Spreadsheets take texts that begin so for formulas.
_FORMULAS: Final = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True)
class PublicReport:
    """What a ledger says about its datasets, all of it public; made by `report`.

    Guarantee: it is worked out from settled calls and their public answers alone. Secret states of runs, outcomes that
    were withheld, what interrupted calls asked, and idempotency keys are not looked at. Numbers are those that were
    published; intervals follow from them and cost nothing. `confidence` is that of each interval by itself, and of all
    hits together. `title` and `introduction` are the publisher's own words. In a notebook it shows itself.
    """

    datasets: tuple[ReportedDataset, ...]
    confidence: Fraction
    made: str
    head: str
    tell: Tell = field(repr=False, compare=False)
    title: str | None = None
    introduction: str | None = None

    def html(self) -> str:
        """One page that needs nothing else: no script, no font, no picture from elsewhere."""
        return str(_pages().rendered("report.html.jinja", self))

    def markdown(self) -> str:
        """The same as Markdown, without pictures."""
        return re.sub(r"\n{3,}", "\n\n", _pages().rendered("report.md.jinja", self))

    def csv(self) -> str:
        """A line for each published value, and one for each answer without any; the first line names the columns."""
        written = io.StringIO()
        rows = list(self._rows())
        writer = csv.DictWriter(written, _COLUMNS)
        writer.writeheader()
        writer.writerows({name: _safe(cell) for name, cell in row.items()} for row in rows)
        return written.getvalue()

    def to_dict(self) -> dict[str, Any]:
        """The same in what JSON has."""
        own = {"title": self.title, "introduction": self.introduction}
        return {
            **{name: said for name, said in own.items() if said is not None},
            "made": self.made,
            "confidence": float(self.confidence),
            "head": self.head,
            "datasets": [_dataset(found) for found in self.datasets],
        }

    def save(self, path: Path | str) -> None:
        """Write it to a file: HTML, PDF, Markdown or CSV by its ending (.html, .pdf, .md, .csv).

        Errors: `InvalidParameter` for another ending or a place where no file can be written.
        """
        target = Path(path)
        write = _WRITERS.get(target.suffix.lower())
        if write is None or not writable(target):
            raise InvalidParameter(f"a report goes to a file in an existing folder that ends in {', '.join(_WRITERS)}")
        write(self, target)

    def _repr_html_(self) -> str:
        return str(_pages().rendered("report_part.html.jinja", self))

    def _rows(self) -> Iterator[dict[str, Any]]:
        for found in self.datasets:
            together = {(hit.call, hit.value.key): hit for hit in found.hits}
            for call in found.calls:
                known = {"dataset": found.name} | {name: getattr(call, name) for name in _OF_CALL}
                for value in call.values:
                    yield known | _cells(value, together.get((call.call, value.key)))
                if not call.values:
                    yield known


_OF_CALL: Final = ("call", "time", "analyst", "kind", "question", "outcome", "tests", "hits", "share")
_OF_VALUE: Final = ("key", "value", "low", "high", "may_be_false")
_OF_HIT: Final = ("low_of_all", "high_of_all", "p_value", "listed")
_COLUMNS: Final = ("dataset", *_OF_CALL, *_OF_VALUE, *_OF_HIT)


def report(
    ledger: str | Path | Ledger | Session,
    *,
    confidence: Number = USUAL,
    dataset: str | None = None,
    title: str | None = None,
    introduction: str | None = None,
    tell: Tell | None = None,
) -> PublicReport:
    """The public report of a ledger: a file, a ledger that is open, or that of a session (its dataset alone).

    It needs no rows and charges nothing. Every question is reported with its answer, when it was asked and by whom, and
    what it took. Published values have the interval that holds given that they were published, with `confidence`. Hits
    have one that holds for all hits of their dataset at once. `title` and `introduction` stand above it as they are, up
    to 200 and 4,000 characters; a blank line in the introduction begins a paragraph. They are the publisher's words:
    chary does not check that they reveal nothing. `tell` receives what is done, how far, and of how much.

    Errors: `InvalidParameter` for a confidence outside (0, 1), a longer title or introduction, a missing file and a
    dataset that is not there. `LedgerError` for a file that is no ledger; `LedgerCorrupted` for a ledger that does not
    verify, of which nothing should be published.

    >>> import chary, pyarrow as pa
    >>> rows = pa.table({"age": [70] * 400 + [30] * 100})
    >>> session = chary.open(rows, privacy_unit=None, budget=chary.Budget(epsilon=1), ledger=":memory:")
    >>> _ = session.release(chary.count("age >= 65"), epsilon="0.5")
    >>> [(call.question, call.outcome != "", call.share) for call in report(session).datasets[0].calls]
    [('count where age >= 65, epsilon 0.5', True, 0.5)]
    """
    each = probability(confidence, "confidence")
    heading = _own(title, "title", _LONGEST_TITLE, lines=False)
    opening = _own(introduction, "introduction", _LONGEST_INTRODUCTION, lines=True)
    return replace(_of(ledger, each, dataset, tell or _quiet), title=heading, introduction=opening)


def _own(said: str | None, name: str, longest: int, *, lines: bool) -> str | None:
    """The publisher's own words without the blanks around them; None for none."""
    kept = (said or "").replace("\r\n", "\n").strip()
    allowed = kept.replace("\n", " ") if lines else kept
    if len(kept) > longest or not allowed.isprintable():
        kind = "text" if lines else "line of text"
        raise InvalidParameter(f"{name} is a {kind} of at most {longest:,} printable characters")
    return kept or None


def _of(ledger: str | Path | Ledger | Session, each: Fraction, dataset: str | None, tell: Tell) -> PublicReport:
    if isinstance(ledger, Session):
        spine = ledger.spine
        return _report(spine.ledger, each, spine.dataset, {spine.dataset: ledger.statement()}, tell)
    if isinstance(ledger, Ledger):
        return _report(ledger, each, dataset, {}, tell)
    if not ledger_exists(ledger):
        raise InvalidParameter(f"there is no ledger {without_password(ledger)}")
    opened = open_ledger(ledger)
    try:
        return _report(opened, each, dataset, {}, tell)
    finally:
        opened.close()


def _report(
    ledger: Ledger, confidence: Fraction, dataset: str | None, said: dict[str, str], tell: Tell
) -> PublicReport:
    verdict = ledger.verify(lambda done, total: tell("checking entries", done, total))
    if not verdict.ok:
        raise LedgerCorrupted(f"the ledger does not verify, so nothing of it is published: {verdict.problems[0]}")
    held = {terms.name: terms for terms in ledger.datasets()}
    if not held or (dataset is not None and dataset not in held):
        named = "no dataset" if dataset is None else f"no dataset {dataset!r}"
        raise InvalidParameter(f"the ledger holds {named}; it holds: {', '.join(sorted(held)) or 'none'}")
    names = sorted(held) if dataset is None else [dataset]
    found = tuple(gathered(ledger, held[name], confidence, said.get(name), tell) for name in names)
    head = head_of(ledger)
    return PublicReport(found, confidence, now(), "" if head is None else str(head), tell)


def _quiet(doing: str, done: int, total: int) -> None:
    """Takes the progress of a report that nobody waits for."""


def _pages() -> Any:
    """Templates and pictures, loaded when a page is first made."""
    return import_module("chary.report.pages")


def _cells(value: PublishedValue, hit: SimultaneousHit | None) -> dict[str, Any]:
    cells = {name: getattr(value, name) for name in _OF_VALUE}
    if hit is not None:
        cells |= {"low_of_all": hit.low, "high_of_all": hit.high, "p_value": hit.p_value, "listed": hit.listed}
    return cells


def _safe(cell: Any) -> Any:
    """A text that no spreadsheet takes for a formula."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULAS) else cell


def _dataset(found: ReportedDataset) -> dict[str, Any]:
    epsilon, delta = (float(part) for part in found.budget.exact)
    together = {(hit.call, hit.value.key): hit for hit in found.hits}
    return {
        "dataset": found.name,
        "epsilon": epsilon,
        "delta": delta,
        "neighbours": found.neighbors,
        "spent": found.spent.as_dict(),
        "statement": found.statement,
        "unanswered": {"calls": found.unanswered, "share": found.unanswered_share},
        "versions": found.versions,
        **({} if found.blocks is None else {"blocks": dict(found.blocks)}),
        "calls": [_call(call, together) for call in found.calls],
    }


def _call(call: ReportedCall, together: dict[tuple[int, str], SimultaneousHit]) -> dict[str, Any]:
    values = [_cells(value, together.get((call.call, value.key))) for value in call.values]
    return {name: getattr(call, name) for name in (*_OF_CALL, "charged")} | {"values": values}


def _text(page: Callable[[PublicReport], str]) -> Callable[[PublicReport, Path], object]:
    return lambda found, target: target.write_text(page(found), encoding="utf-8", newline="")


_WRITERS: Final[dict[str, Callable[[PublicReport, Path], object]]] = {
    ".html": _text(PublicReport.html),
    ".pdf": lambda found, target: plotter("chary.report.pdf").write_pdf(found, target),
    ".md": _text(PublicReport.markdown),
    ".csv": _text(PublicReport.csv),
}
