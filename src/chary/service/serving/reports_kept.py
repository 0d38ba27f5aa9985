"""Reports as they are shown: made once in a process, and kept until another is published or the ledger goes on."""

import gzip
import json
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any, Final

from chary.report.content import ReportedCall
from chary.report.public_report import PublicReport
from chary.service.wire.typed_values import in_typed, of_typed

# Of all datasets together; those that nobody has looked at for longest go first.
_KEPT: Final = 16
EACH: Final = 50
# A page has so many hits at most; the report by itself has all.
MOST_HITS: Final = 100


@dataclass(frozen=True)
class ReportInPages:
    """A report of which pages show a part: `front` has its first hits and no calls, `sums` are those of all calls."""

    front: PublicReport
    sums: dict[str, int]
    pages: tuple[bytes, ...]

    @classmethod
    def of(cls, report: PublicReport) -> "ReportInPages":
        """Of the only dataset of a report."""
        (found,) = report.datasets
        sums = {"calls": len(found.calls), "found": len(found.hits)}
        sums |= {name: sum(getattr(call, name) for call in found.calls) for name in ("tests", "hits")}
        pages = tuple(_packed(found.calls[place : place + EACH]) for place in range(0, len(found.calls), EACH))
        shown = replace(found, calls=(), hits=found.hits[:MOST_HITS])
        return cls(replace(report, datasets=(shown,)), sums, pages)

    def calls(self, page: int) -> tuple[ReportedCall, ...]:
        """Those of a page, counted from 1; none beyond the last."""
        found: tuple[ReportedCall, ...] = ()
        if page <= len(self.pages):
            found = of_typed(json.loads(gzip.decompress(self.pages[page - 1])))
        return found


class ReportsKept:
    """What was made of reports, by what it was made of: whoever asks for it again waits for the first one."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, ...], Future[Any]] = OrderedDict()
        self._lock = threading.Lock()

    def text(self, key: tuple[str, ...], make: Callable[[], str]) -> bytes:
        """A text, compressed by gzip."""
        found: bytes = self._once(("text", *key), lambda: gzip.compress(make().encode(), mtime=0))
        return found

    def in_pages(self, key: tuple[str, ...], make: Callable[[], PublicReport]) -> ReportInPages:
        """A report of which pages show a part."""
        found: ReportInPages = self._once(("pages", *key), lambda: ReportInPages.of(make()))
        return found

    def _once(self, key: tuple[str, ...], make: Callable[[], Any]) -> Any:
        with self._lock:
            first = key not in self._kept
            made = self._kept.setdefault(key, Future())
            self._kept.move_to_end(key)
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        if first:
            try:
                made.set_result(make())
            except BaseException as error:
                with self._lock:
                    self._kept.pop(key, None)
                made.set_exception(error)
        return made.result()


def _packed(calls: tuple[ReportedCall, ...]) -> bytes:
    return gzip.compress(json.dumps(in_typed(calls)).encode(), mtime=0)
