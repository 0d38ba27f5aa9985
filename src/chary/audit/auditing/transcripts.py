"""Transcripts on one of two neighbours: what the code of a call publishes, run again and again."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from chary import noise
from chary.audit.auditing.read_once import ReadOnce, kept
from chary.calls.call import Call
from chary.calls.run import Kept, Opening, run_of
from chary.core.plan import Interaction, Ran, Touched
from chary.core.transaction import Spine
from chary.data import Rows
from chary.errors import CharyError
from chary.filters import Budget, Filter, Price
from chary.session import Session, open_rows

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
class Chained:
    """A run that is opened and asked some questions in turn, each made by `question` of what is known of the run, until
    the run refuses one."""

    opening: Opening[Any]
    questions: tuple[Callable[[Kept[Any, Any]], Interaction], ...]


Asked = Call[Any] | Chained | Script


@dataclass(frozen=True)
class Played:
    """The outcomes of many transcripts, and what the first of them was charged, under the filter that charged it."""

    outcomes: list[Any]
    charged: int
    failure: int
    filter: Filter


def played(asked: Asked, rows: Rows, under: OpenedUnder, source: noise.Source, times: int) -> Played:
    """So many transcripts: of one call or one run, on what its plans read, or of whole sessions."""
    session = under.opened(rows, source)
    if isinstance(asked, Call):
        return _calls(asked, session, times)
    if isinstance(asked, Chained):
        return _runs(asked, session, times)
    outcomes = []
    for _ in range(times):
        session = under.opened(rows, source)
        outcomes.append(asked(session))
    spent = session.spent.amount
    return Played(outcomes, spent.main, spent.delta, session.spine.filter)


def _calls(call: Call[Any], session: Session, times: int) -> Played:
    """The interaction of a call, run as the spine runs it, without the ledger."""
    step = Step.of(call.bind(session.spine), session.spine)
    worst, source = step.interaction.worst(step.price), session.spine.source
    outcomes = [step.run(source, None).answer for _ in range(times)]
    return Played(outcomes, worst.main, worst.delta, session.spine.filter)


def _runs(chained: Chained, session: Session, times: int) -> Played:
    """The interactions of a run, the secret state handed from each to the next, without the ledger."""
    begun = Begun.of(chained.opening, session)
    spine = session.spine
    steps = [begun.step(question) for question in chained.questions]
    outcomes = [_transcript(begun.opening, steps, begun.number, spine.source) for _ in range(times)]
    worst = [step.interaction.worst(step.price) for step in (begun.opening, *steps)]
    return Played(outcomes, sum(w.main for w in worst), sum(w.delta for w in worst), spine.filter)


@dataclass(frozen=True)
class Begun:
    """A run that was opened in a session: its opening, its number, and what is known of it."""

    spine: Spine
    opening: "Step"
    number: int
    kept: Kept[Any, Any]

    @classmethod
    def of(cls, opening: Opening[Any], session: Session) -> "Begun":
        """Open it."""
        spine = session.spine
        step = Step.of(opening.bind(spine), spine)
        number: int = session.start(opening).call
        kept = run_of(opening.kind)(spine, number, step.interaction.body(), opening.brought())
        return cls(spine, step, number, kept)

    def step(self, question: Callable[[Kept[Any, Any]], Interaction]) -> "Step":
        """One of its questions."""
        return Step.of(question(self.kept), self.spine)


def _transcript(opening: "Step", steps: Sequence["Step"], number: int, source: noise.Source) -> list[Any]:
    """All that is published of one run."""
    began = opening.run(source, None)
    found, secret = [began.answer], began.secret
    for step in steps:
        try:
            step.interaction.check(secret)
        except CharyError:
            break
        ran = step.run(source, secret)
        found.append(ran.answer)
        secret = ran.secrets.get(number, secret)
    return found


@dataclass(frozen=True)
class Step:
    """An interaction with what its plans have read."""

    interaction: Interaction
    price: Price
    values: tuple[Any, ...]

    @classmethod
    def of(cls, interaction: Interaction, spine: Spine) -> "Step":
        """Read once."""
        values = tuple(kept(plan.run()) for plan in interaction.prepare(spine.rows))
        return cls(interaction, interaction.price(spine.filter), values)

    def run(self, source: noise.Source, secret: bytes | None) -> Ran:
        """Run it, as the spine does."""
        return self.interaction.run(Touched(self.values, source, secret, None, self.price))


def opened_alike(here: Rows, there: Rows) -> bool:
    """Whether everything public about the two is the same: columns, types, unit, relation."""
    return here.fingerprint() == there.fingerprint()


def ended(*pair: Rows) -> None:
    """Release what was opened for an audit."""
    for rows in pair:
        (rows.end if isinstance(rows, ReadOnce) else rows.close)()
