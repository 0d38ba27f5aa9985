"""Where a budget went: over time, by kind and by analyst; and how long what is left will last."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, Final

from chary.amounts import Accounts, Amount
from chary.core.charges import accounts_of
from chary.report.content import titled
from chary.service.api.places import Asking
from chary.service.serving.charges_so_far import Charge

# Whose calls are not shown: what they took together is public, how it was taken is not.
OTHERS: Final = "others"
# A rate takes so many charges, and so many days between the first one and now.
_CHARGES_FOR_RATE: Final = 3
_DAYS_FOR_RATE: Final = 1 / 24
_DAY: Final = 86_400.0
# Up to so many days a time is told in units of so many days.
_UNITS: Final = ((1 / 12, 1 / 1_440, "minutes"), (2.0, 1 / 24, "hours"), (21.0, 1.0, "days"), (730.0, 7.0, "weeks"))
# A picture has so many steps at most: those in between change no pixel.
_STEPS: Final = 400


@dataclass(frozen=True)
class Portion:
    """What the calls of one analyst, or of one kind, took together, as a share of the budget."""

    name: str
    calls: int
    tests: int
    hits: int
    share: float


@dataclass(frozen=True)
class BudgetSoFar:
    """What became of a budget, as somebody is shown it. Shares are of the account that lives, `accounts` works them
    out."""

    spent: float
    left: float
    charges: tuple[Charge, ...]
    accounts: Accounts

    @property
    def by_kind(self) -> list[Portion]:
        """By kind of call, the largest first."""
        return self._portions("kind")

    @property
    def by_analyst(self) -> list[Portion]:
        """By analyst, the largest first."""
        return self._portions("analyst")

    def days_left(self, now: datetime) -> float | None:
        """How many days what is left lasts at the rate so far; None where it is too early to tell."""
        paid = self._paid
        days = (now - datetime.fromisoformat(paid[0].time)).total_seconds() / _DAY if paid else 0.0
        if sum(charge.calls for charge in paid) < _CHARGES_FOR_RATE or days < _DAYS_FOR_RATE:
            return None
        return (1 - self.spent) / (self.spent / days)

    def steps(self, until: datetime) -> list[dict[str, Any]]:
        """What each kind had taken in all after each charge, in per cent of the budget; the last one until then."""
        taken = {portion.name: (Amount(0), 0) for portion in self.by_kind if portion.share}
        found: list[dict[str, Any]] = []
        paid = self._paid
        every = len(paid) // _STEPS + 1
        for place, charge in enumerate(paid, 1):
            charged, basic = taken[charge.kind]
            taken[charge.kind] = charged + charge.charged, basic + charge.basic
            if place % every == 0 or place == len(paid):
                found += self._step(charge.time, taken)
        return found + self._step(until.isoformat(), taken)

    @property
    def _paid(self) -> list[Charge]:
        return [charge for charge in self.charges if self.accounts.taken(charge.charged, charge.basic)]

    def _step(self, time: str, taken: Mapping[str, tuple[Amount, int]]) -> list[dict[str, Any]]:
        return [{"time": time, "kind": kind, "taken": 100 * self.accounts.taken(*part)} for kind, part in taken.items()]

    def _portions(self, by: str) -> list[Portion]:
        def name(charge: Charge) -> str:
            return str(getattr(charge, by))

        grouped = ((key, list(group)) for key, group in groupby(sorted(self.charges, key=name), key=name))
        portions = (self._portion(key, group) for key, group in grouped)
        return sorted(portions, key=lambda portion: (-portion.share, portion.name))

    def _portion(self, name: str, charges: list[Charge]) -> Portion:
        calls, tests, hits = (sum(getattr(charge, part) for charge in charges) for part in ("calls", "tests", "hits"))
        charged, basic = sum((each.charged for each in charges), Amount(0)), sum(each.basic for each in charges)
        return Portion(name, calls, tests, hits, self.accounts.taken(charged, basic))


def budget_so_far(on: Asking) -> BudgetSoFar:
    """The budget of a dataset, with the calls that are shown to somebody; of all others only what they took."""
    session = on.served.asked_by(on.who.analyst)
    spine = session.spine
    taken = on.served.charges.all(spine.ledger, spine.dataset)
    charges = tuple(_shown(charge, on.served.shows(on.who, charge.analyst)) for charge in taken)
    return BudgetSoFar(session.spent.share, session.remaining.share, charges, accounts_of(spine.ledger, spine.dataset))


def lasts(days: float) -> str:
    """How long something lasts, in words.

    >>> lasts(0.01), lasts(0.5), lasts(3.2), lasts(100), lasts(4000)
    ('14 minutes', '12 hours', '3.2 days', '14 weeks', '11 years')
    """
    for most, unit, word in (
        (1 / 12, 1 / 1440, "minutes"),
        (2.0, 1 / 24, "hours"),
        (21.0, 1.0, "days"),
        (730.0, 7.0, "weeks"),
    ):
        if days < most:
            return f"{days / unit:.2g} {word}"
    return f"{days / 365.25:.2g} years"


def now() -> datetime:
    """The time that rates are told of."""
    return datetime.now(UTC)


def _shown(charge: Charge, shown: bool) -> Charge:
    if not shown:
        return charge._replace(analyst=OTHERS, kind=OTHERS, tests=0, hits=0)
    return charge._replace(kind=titled(charge.kind))
