"""What was spent and what was guaranteed: balances, history and the statement."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, TypeVar

from chary.amounts import Accounts
from chary.answers import with_bytes
from chary.calls.run import declared
from chary.core.charges import accounts_of, spent_of
from chary.data import NeighborRelation, Neighbors
from chary.errors import LedgerCorrupted, NotWithheld
from chary.filters import Budget, Filter
from chary.ledger import CallRecord, Ledger
from chary.numbers import EVERY_CHARGED, MISSES_ENDED, counted, percent, plain

T = TypeVar("T")
# Parts that a statement names, of thousands.
_SHOWN_PARTS: Final = 12


@dataclass(frozen=True)
class Entry:
    """One line of the history; everything in it is public. `share` is what was charged, as a part of the budget.

    A question about a part of the rows names it as `partition`. `damage` says what cannot be read: a damaged
    answer, or a question that was written by a role of the server and by no session.
    """

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
    damage: str = ""

    @property
    def outcome(self) -> Any:
        """What an algorithm returned, bytes as such; None where nothing was published, or the call was another."""
        return with_bytes((self.answer or {}).get("value"))


def bytes_of(entry: Entry) -> bytes:
    """What an algorithm returned in bytes; `NotWithheld` for any other call."""
    if isinstance(entry.outcome, bytes):
        return entry.outcome
    raise NotWithheld(f"no bytes were published by call {entry.call}: its answer is in the history")


def entries(ledger: Ledger, dataset: str) -> Iterator[Entry]:
    """The calls of a dataset, oldest first; interrupted ones appear as reserved, with the worst cost."""
    accounts = accounts_of(ledger, dataset)
    for call in ledger.calls(dataset):
        yield entry_of(call, accounts)


def entry_of(call: CallRecord, accounts: Accounts) -> Entry:
    """A call as a line of the history, with its fraction of the account in use. A damaged call is listed as damaged,
    and hides no other."""
    damage: list[str] = []
    nothing: dict[str, Any] = {}
    question = readable(lambda: call.question | _divided(call), nothing, damage)
    answer = readable(lambda: call.outcome, None, damage)
    return Entry(
        call=call.number,
        time=call.created,
        analyst=call.analyst,
        kind=call.kind,
        question=question,
        state=str(call.state),
        hits=call.hits or 0,
        tests=call.tests or 0,
        share=accounts.taken(call.charged, call.basic),
        answer=answer,
        damage="; ".join(damage),
    )


def _divided(call: CallRecord) -> dict[str, Any]:
    """The partition and the parts that a call read; empty for all rows."""
    if call.parts is None:
        return {}
    return {"partition": {"of": call.parts.partition, "part": list(call.parts.names)}}


def readable(what: Callable[[], T], otherwise: T, damage: list[str]) -> T:
    """A part of a call, or another value and what is wrong with it."""
    try:
        return what()
    except LedgerCorrupted as error:
        damage.append(str(error))
        return otherwise


@dataclass(frozen=True)
class PlainComposition:
    """What the same calls would have cost had every test been paid: the better of adding epsilons and of zCDP.

    `share` is the part of the budget that this takes, above 1 where it does not fit.
    """

    epsilon: float
    share: float
    calls: int


def plainly_composed(history: list[Entry], budget: Budget) -> PlainComposition:
    """Charge every test and release of the history by ordinary composition under the same budget.

    A grouped test counts once for each group that neighbours can differ in. A revision, which only reveals more of an
    outcome that was paid, is free. So are the runs and queries that an opening has paid for.
    """
    paid = [entry for entry in history if entry.state != "voided" and not declared(entry.kind).prepaid]
    sizes = [size for entry in paid for size in _sizes(entry) if size[0]]
    basic = math.fsum(epsilon for epsilon, _rho in sizes)
    rho = math.fsum(rho for _epsilon, rho in sizes)
    total, delta = (float(part) for part in budget.exact)
    if not delta:
        return PlainComposition(basic, basic / total, len(sizes))
    log = -math.log(delta)
    # The rho at which rho + 2 sqrt(rho ln(1/delta)) is the budget's epsilon.
    most = (math.sqrt(log + total) - math.sqrt(log)) ** 2
    epsilon = min(basic, rho + 2 * math.sqrt(rho * log))
    return PlainComposition(epsilon, min(basic / total, rho / most), len(sizes))


def _sizes(entry: Entry) -> list[tuple[float, float]]:
    question = entry.question
    if entry.damage:
        return []
    if "rho" in question:
        return [(math.inf, float(Fraction(question["rho"])))]
    epsilon = float(Fraction((entry.answer or {}).get("epsilon", question.get("epsilon", 0))))
    times = min(max(1, entry.tests), question.get("parallel", 1))
    return [(epsilon, epsilon**2 / 2)] * times


def statement(ledger: Ledger, dataset: str, filter_: Filter, neighbor_relation: NeighborRelation) -> str:
    """One paragraph: what is guaranteed, to whom, between which neighbors, and with which accounting."""
    spent = spent_of(ledger, dataset, filter_)
    tally = ledger.tally(dataset).values()
    calls, hits, tests = (sum(getattr(part, name) for part in tally) for name in ("calls", "hits", "tests"))
    epsilon, delta = filter_.budget.exact
    return (
        f"All answers about the dataset {dataset!r}, the {counted(calls, 'call', 'calls')} so far with "
        f"{counted(tests, 'private test', 'private tests')} ({counted(hits, 'hit', 'hits')}), and every later one, are "
        f"together ({plain(epsilon)}, {plain(delta)})-differentially private. "
        f"With {neighbor_relation.describe()}, no set of published outcomes becomes more than "
        f"e^{plain(epsilon)} times as likely plus {plain(delta)}. "
        f"{spent} of this budget is charged so far{_ended(ledger, dataset)}"
        f"{_of_parts(ledger, dataset, filter_, neighbor_relation.block)}. "
        "The guarantee holds for any adaptive choice of questions by all analysts together, "
        f"by {filter_.describe()}. Public are the schema, "
        f"bounds, keys, thresholds{_size(neighbor_relation)}; what callers stated about keys per unit"
        f"{_trusted(ledger, dataset, neighbor_relation.block)} is trusted."
    )


def _trusted(ledger: Ledger, dataset: str, block: str | None) -> str:
    if block is not None:
        return f", and that the {block} of a row never changes,"
    return " and parts per unit" if ledger.partitions(dataset) else ""


def _ended(ledger: Ledger, dataset: str) -> str:
    return f"; {MISSES_ENDED}: {EVERY_CHARGED}" if accounts_of(ledger, dataset).alone else ""


def _of_parts(ledger: Ledger, dataset: str, filter_: Filter, block: str | None) -> str:
    """What the most expensive parts of each partition hold of the budget. Each block has a whole budget for itself."""
    told = []
    for held in ledger.partitions(dataset):
        every = sorted(((filter_.shares.taken(amount), name) for name, amount in held.parts.items()), reverse=True)
        shares = [(share, name) for share, name in every if share] or every[:1]
        dearest = ", ".join(f"{name} {percent(share)}" for share, name in shares[:_SHOWN_PARTS])
        more = f" and {len(shares) - _SHOWN_PARTS} more" if len(shares) > _SHOWN_PARTS else ""
        count = "the most expensive counts" if held.most == 1 else f"the most expensive {held.most} count"
        if block is not None:
            told.append(f", in the most expensive {block}, since each has all of it for itself: {dearest}{more}")
            continue
        told.append(f"; of the parts of {held.partition!r} {count}, since a unit is in no more: {dearest}{more}")
    return "".join(told)


def _size(neighbor_relation: NeighborRelation) -> str:
    return " and the number of units" if neighbor_relation.neighbors is Neighbors.REPLACE else ""
