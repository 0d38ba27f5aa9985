"""What was spent and what was guaranteed: balances, history and the statement."""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from chary.amounts import Amount
from chary.data import Neighbouring, Relation
from chary.filters import Budget, Filter
from chary.ledger import Call, Ledger
from chary.numbers import plain
from chary.session.scheduled import RunSchedule
from chary.session.sparse_weights import AskSparseWeights

# Their answers tell an epsilon that is a part of what the opening was charged.
_PAID_BEFORE = frozenset({RunSchedule.kind, AskSparseWeights.kind})


@dataclass(frozen=True)
class Spending:
    """How much of the budget is charged or left: `share` of it, and the same in the filter's own `unit`.

    This is bookkeeping, not a guarantee: the promise is the whole budget. What was published so far is not covered by
    the part that was charged, since what is charged depends on the outcomes.
    """

    share: float
    charged: float
    unit: str
    amount: Amount

    def as_dict(self) -> dict[str, Any]:
        """All figures by name."""
        return {"share": self.share, "charged": self.charged, "unit": self.unit}

    def __str__(self) -> str:
        return f"{plain(100 * self.share)} %"


def spending(filter_: Filter, amount: Amount) -> Spending:
    """An amount of the filter's unit, as a share of its capacity: the larger share, where some delta was set aside."""
    return Spending(max(_shares(filter_, amount), default=0.0), filter_.charged(amount), filter_.unit, amount)


def remaining(filter_: Filter, left: Amount) -> Spending:
    """What is left, likewise: the smaller share, where some delta was set aside."""
    return Spending(min(_shares(filter_, left), default=0.0), filter_.charged(left), filter_.unit, left)


def _shares(filter_: Filter, amount: Amount) -> list[float]:
    capacity = filter_.capacity
    return [part / whole for part, whole in ((amount.main, capacity.main), (amount.delta, capacity.delta)) if whole]


@dataclass(frozen=True)
class Entry:
    """One line of the history; everything in it is public. `share` is what was charged, as a part of the budget."""

    call: int
    time: str
    analyst: str
    kind: str
    question: dict[str, Any]
    state: str
    hits: int
    tests: int
    share: float
    answer: dict[str, Any] | None


def entries(ledger: Ledger, dataset: str, filter_: Filter) -> Iterator[Entry]:
    """The calls of a dataset, oldest first; interrupted ones appear as reserved, with the worst price."""
    for call in ledger.calls(dataset):
        yield _entry(call, filter_)


def _entry(call: Call, filter_: Filter) -> Entry:
    charged = call.worst if call.state == "reserved" else call.price or Amount(0)
    return Entry(
        call=call.number,
        time=call.created,
        analyst=call.analyst,
        kind=call.kind,
        question=json.loads(call.body),
        state=str(call.state),
        hits=call.hits or 0,
        tests=call.tests or 0,
        share=charged.main / max(1, filter_.capacity.main),
        answer=None if call.answer is None else json.loads(call.answer),
    )


@dataclass(frozen=True)
class PlainComposition:
    """What the same calls would have cost had every test been paid: the better of adding epsilons and of zCDP.

    `share` is the part of the budget that this takes, above 1 where it does not fit.
    """

    epsilon: float
    share: float
    calls: int


def plain_composition(history: list[Entry], budget: Budget) -> PlainComposition:
    """Charge every test and release of the history by ordinary composition under the same budget.

    A test over keys counts once for each key that neighbours can differ in; what only reveals more of an outcome that
    was paid, such as a revision, is free, and so are the runs and queries that an opening has paid for.
    """
    paid = [entry for entry in history if entry.state != "voided" and entry.kind not in _PAID_BEFORE]
    sizes = [size for entry in paid for size in _sizes(entry) if size[0]]
    basic = math.fsum(epsilon for epsilon, _rho in sizes)
    rho = math.fsum(rho for _epsilon, rho in sizes)
    total, delta = (float(part) for part in budget.exact)
    if not delta:
        return PlainComposition(basic, basic / total, len(sizes))
    log = -math.log(delta)
    most = (math.sqrt(log + total) - math.sqrt(log)) ** 2
    epsilon = min(basic, rho + 2 * math.sqrt(rho * log))
    return PlainComposition(epsilon, min(basic / total, rho / most), len(sizes))


def _sizes(entry: Entry) -> list[tuple[float, float]]:
    question = entry.question
    if "rho" in question:
        return [(math.inf, float(Fraction(question["rho"])))]
    epsilon = float(Fraction((entry.answer or {}).get("epsilon", question.get("epsilon", 0))))
    times = min(max(1, entry.tests), question.get("parallel", 1))
    return [(epsilon, epsilon**2 / 2)] * times


def statement(ledger: Ledger, dataset: str, filter_: Filter, neighbouring: Neighbouring) -> str:
    """One paragraph: what is guaranteed, to whom, under which relation, by which accounting."""
    spent = spending(filter_, ledger.balance(dataset).spent)
    tally = ledger.tally(dataset).values()
    calls, hits, tests = (sum(getattr(part, name) for part in tally) for name in ("calls", "hits", "tests"))
    epsilon, delta = filter_.budget.exact
    return (
        f"All answers about the dataset {dataset!r}, the {calls} calls so far with {tests} private tests, {hits} of "
        f"them hits, and every later one, are together ({plain(epsilon)}, {plain(delta)})-differentially private: with "
        f"{neighbouring.describe()}, no set of published outcomes becomes more than e^{plain(epsilon)} times as likely "
        f"plus {plain(delta)}. {spent} of this budget is charged so far. The guarantee holds for any adaptive choice "
        f"of questions by all analysts together, by {filter_.describe()}. Public are the schema, bounds, keys, "
        f"thresholds{_size(neighbouring)}; what callers stated about keys per unit is trusted."
    )


def _size(neighbouring: Neighbouring) -> str:
    return " and the number of units" if neighbouring.relation is Relation.REPLACE else ""
