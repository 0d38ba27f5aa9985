"""What an attack is given and what it hands back: how long it may go on, and its figures."""

import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

SHOWN, SHOWN_OF_A_SORT = 12, 3


@dataclass
class Figures:
    """Counts by name, and what should not have happened, in words that are enough to find it again."""

    counts: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
    _sorts: Counter[str] = field(default_factory=Counter)

    def count(self, name: str, by: int = 1) -> None:
        self.counts[name] += by

    def violation(self, what: str, sort: str = "") -> None:
        """Count it, and keep the words of the first ones, of each sort only a few."""
        self.counts["violations"] += 1
        self._sorts[sort] += 1
        if len(self.violations) < SHOWN and (not sort or self._sorts[sort] <= SHOWN_OF_A_SORT):
            self.violations.append(what)

    def expect(self, right: bool, what: str, sort: str = "") -> None:
        if not right:
            self.violation(what, sort)

    @property
    def ok(self) -> bool:
        return not self.counts["violations"]

    def told(self) -> dict[str, object]:
        """Plain JSON."""
        counts = {name: number for name, number in self.counts.items() if name != "violations"}
        return {"violations": self.counts["violations"], **counts, "first": self.violations}


class Until:
    """Numbers the cases of an attack until its seconds have passed or its cases are made; the first is always made."""

    def __init__(
        self,
        seconds: float | None = None,
        cases: int | None = None,
        heard: Callable[[float], None] = lambda share: None,
    ) -> None:
        self.seconds, self.cases, self._heard = seconds, cases, heard

    def __iter__(self) -> Iterator[int]:
        begun = time.monotonic()
        for number in itertools.count():
            share = self._share(number, time.monotonic() - begun)
            self._heard(min(share, 1.0))
            if number and share >= 1:
                return
            yield number

    def _share(self, number: int, passed: float) -> float:
        by_time = 0.0 if self.seconds is None else passed / max(self.seconds, 1e-9)
        return max(by_time, 0.0 if self.cases is None else number / self.cases)
