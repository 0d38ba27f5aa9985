"""What the calls of a dataset took so far, kept between looks at its ledger."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, NamedTuple

from chary.amounts import Amount
from chary.ledger import CallRecord, Ledger, State

# So many are kept at least before neighbours in time are taken together: a picture has fewer steps.
MOST: Final = 1_000


class Charge(NamedTuple):
    """What calls of one analyst and one kind took of the budget: one call, or several that followed one another.

    `time` is when the last of them was asked, `basic` what they added to the basic account.
    """

    time: str
    analyst: str
    kind: str
    tests: int
    hits: int
    charged: Amount
    basic: int
    calls: int = 1


@dataclass
class ChargesSoFar:
    """Only what came since the last look is read; calls that were under way are looked at again, one by one.

    However long the ledger is, there are about `MOST` charges at most, or one for each analyst and kind.
    """

    _after: int = 0
    _waiting: tuple[int, ...] = ()
    _done: list[Charge] = field(default_factory=list)
    _most: int = 2 * MOST
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def all(self, ledger: Ledger, dataset: str) -> list[Charge]:
        """In the order of their times. A look that fails leaves nothing behind, so that each call counts once."""
        with self._lock:
            after, waiting, done = self._after, list[CallRecord](), list[CallRecord]()
            for record in chain(map(ledger.call, self._waiting), ledger.calls(dataset, after=after)):
                after = max(after, record.number)
                (waiting if record.state == State.RESERVED else done).append(record)
            self._add([_charge(record) for record in done])
            self._after, self._waiting = after, tuple(record.number for record in waiting)
            found = [*self._done, *(_charge(record) for record in waiting)]
        return sorted(found, key=lambda charge: charge.time)

    def _add(self, charges: list[Charge]) -> None:
        for charge in charges:
            self._done.append(charge)
            if len(self._done) > self._most:
                self._done = _fewer(self._done)
                self._most = 2 * max(MOST, len(self._done))


def _charge(record: CallRecord) -> Charge:
    tests, hits = record.tests or 0, record.hits or 0
    return Charge(record.created, record.analyst, record.kind, tests, hits, record.charged, record.basic)


def _fewer(charges: list[Charge]) -> list[Charge]:
    """At most `MOST` charges, if there are not more analysts and kinds. The first that took anything stays as it is,
    since rates are told from its time on."""
    first = next((place for place, charge in enumerate(charges) if charge.charged != Amount(0)), len(charges))
    before, alone, rest = charges[:first], charges[first : first + 1], charges[first + 1 :]
    size, found = 2, charges
    while len(found) > MOST and size < 2 * len(charges):
        found = [*_together(before, size), *alone, *_together(rest, size)]
        size *= 2
    return found


def _together(charges: list[Charge], size: int) -> list[Charge]:
    """Of each so many charges those of one analyst and kind together."""
    found = []
    for start in range(0, len(charges), size):
        sums: dict[tuple[str, str], Charge] = {}
        for charge in charges[start : start + size]:
            before = sums.get((charge.analyst, charge.kind))
            sums[charge.analyst, charge.kind] = charge if before is None else _sum(before, charge)
        found += sorted(sums.values(), key=lambda charge: charge.time)
    return found


def _sum(first: Charge, then: Charge) -> Charge:
    tests, hits, charged = first.tests + then.tests, first.hits + then.hits, first.charged + then.charged
    time, basic, calls = max(first.time, then.time), first.basic + then.basic, first.calls + then.calls
    return Charge(time, first.analyst, first.kind, tests, hits, charged, basic, calls)
