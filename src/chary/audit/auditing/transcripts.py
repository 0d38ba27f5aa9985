"""Transcripts on one of two neighbours: what the code of a call publishes, run again and again on integers read once."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from chary import noise
from chary.audit.auditing.read_once import ReadOnce
from chary.calls.call import Call
from chary.data import Rows
from chary.filters import Budget, Filter
from chary.session import Session, open_rows
from chary.spine.interaction import Touched

# So large that no call of an audit is refused for it, and still counted in steps of 1e-15.
PLENTY = Budget(1000)
Script = Callable[[Session], Any]


@dataclass(frozen=True)
class OpenedUnder:
    """Under which budget sessions are opened: `filter` and `grain` as in `chary.open`."""

    budget: Budget = PLENTY
    filter: str | None = None
    grain: Any = None

    def opened(self, rows: Rows, source: noise.Source) -> Session:
        """A new session on rows that others close."""
        return open_rows(
            rows,
            dataset="audited",
            ledger=":memory:",
            budget=self.budget,
            filter=self.filter,
            grain=self.grain,
            unsafe_noise=source,
        )


@dataclass(frozen=True)
class Played:
    """The outcomes of many transcripts, and what the first of them was charged, under the filter that charged it."""

    outcomes: list[Any]
    charged: int
    failure: int
    filter: Filter


def played(asked: Call[Any] | Script, rows: Rows, terms: OpenedUnder, source: noise.Source, times: int) -> Played:
    """So many transcripts: of one call, on what its plans read; or of whole sessions, if `asked` is a function of one."""
    return (_one_call if isinstance(asked, Call) else _sessions)(asked, rows, terms, source, times)


def _one_call(call: Call[Any], rows: Rows, terms: OpenedUnder, source: noise.Source, times: int) -> Played:
    """The interaction of a call, run as the spine runs it, without the ledger."""
    session = terms.opened(rows, source)
    interaction = call.bind(session.spine)
    price = interaction.price(session.spine.filter)
    worst = interaction.worst(price)
    values = [plan.run() for plan in interaction.prepare(rows)]
    touched = Touched(values, source, None, None, price)
    outcomes = [interaction.run(touched).answer for _ in range(times)]
    return Played(outcomes, worst.main, worst.delta, session.spine.filter)


def _sessions(script: Script, rows: Rows, terms: OpenedUnder, source: noise.Source, times: int) -> Played:
    """Whole sessions, ledger and all."""
    outcomes = []
    for _ in range(times):
        session = terms.opened(rows, source)
        outcomes.append(script(session))
    spent = session.spent.amount
    return Played(outcomes, spent.main, spent.delta, session.spine.filter)


def opened_alike(here: Rows, there: Rows) -> bool:
    """Whether everything public about the two is the same: columns, types, unit, relation."""
    return here.fingerprint() == there.fingerprint()


def ended(*pair: Rows) -> None:
    """Release what was opened for an audit."""
    for rows in pair:
        (rows.end if isinstance(rows, ReadOnce) else rows.close)()
