"""Auditing what somebody brings: an algorithm, a call or whole sessions, on two databases of theirs."""

from typing import Any

from chary.audit.auditing.audit_findings import Audited
from chary.audit.auditing.read_once import ReadOnce
from chary.audit.auditing.running import audit_case
from chary.audit.auditing.transcripts import OpenedUnder, Script
from chary.audit.worst_cases.worst_case import WorstCase
from chary.calls.algorithm import Algorithm
from chary.calls.call import Call
from chary.calls.compute import Compute
from chary.data import CSV, Neighbouring, Relation, Rows
from chary.errors import InvalidParameter
from chary.filters import Budget

Asked = Algorithm | Call[Any] | Script
TRANSCRIPTS = 20_000


def audit(
    asked: Asked,
    here: Any,
    there: Any,
    *,
    privacy_unit: str | None,
    relation: Relation | str = Relation.ADD_REMOVE,
    budget: Budget | None = None,
    filter: str | None = None,
    weaker: Asked | None = None,
    transcripts: int = TRANSCRIPTS,
    seed: int | None = None,
    columns: dict[str, str] | None = None,
    csv: CSV | None = None,
    table: str | None = None,
) -> Audited:
    """Try to show that `asked` is less private than it is charged for, on two databases that are neighbours.

    - `asked`: an `Algorithm`, a call, or a function of a session that returns all that an analyst has seen, as JSON. It
      gets a new session for each transcript.
    - `here`, `there`: what `chary.open` takes, and `privacy_unit`, `relation`, `table`, `columns`, `csv` likewise. That
      they are neighbours is what you say.
    - `budget`, `filter` of the sessions: with a `budget` a function is audited against the whole of it; without, and
      for algorithms and calls, against what the first transcripts were charged.
    - `weaker`: what should be caught, such as the same with half the noise; its finding is `power`.

    Guarantee: `measured` is more than the smallest epsilon that holds (at `delta`) with probability 1e-6 at most,
    whatever is audited. It proves nothing good: other neighbours, or other events, may show more.

    With `seed` the noise is reproducible. The databases should be made up: findings about real ones are secret.
    Errors: those of `chary.open` and of what is asked; `InvalidParameter` for fewer than 8 transcripts.

    >>> from fractions import Fraction
    >>> from chary import noise
    >>> people = {"name": ["a", "b", "c"]}
    >>> def size(rows, source, scale):
    ...     return rows.num_rows + int(noise.discrete_laplace(source, Fraction(scale), 1)[0])
    >>> careless = Algorithm("size", size, epsilon=1, parameters={"scale": "1/3"})
    >>> import pyarrow as pa
    >>> found = audit(careless, pa.table(people), pa.table({"name": ["a", "b"]}), privacy_unit="name", seed=1)
    >>> found.claimed, found.passed, 2.5 < found.measured < 3
    (1.0, False, True)
    """

    def opened() -> tuple[Rows, Rows]:
        told = Neighbouring(relation, privacy_unit)
        first, second = (
            ReadOnce.open(given, neighbouring=told, table=table, columns=columns, csv=csv) for given in (here, there)
        )
        return first, second

    under = OpenedUnder() if budget is None else OpenedUnder(budget, filter)
    whole_budget = budget is not None and not isinstance(asked, (Algorithm, Call))
    ways = {1: _ask(asked), 2: _ask(asked if weaker is None else weaker)}
    case = WorstCase(_name(asked), ways.__getitem__, opened, lambda k: under, whole_budget)
    return audit_case(case, transcripts=transcripts, seed=seed, power=weaker is not None)


def _ask(asked: Asked) -> Call[Any] | Script:
    if isinstance(asked, Algorithm):
        return Compute(asked)
    if not isinstance(asked, Call) and not callable(asked):
        raise InvalidParameter("audit an Algorithm, a call, or a function of a session")
    return asked


def _name(asked: Asked) -> str:
    """How the finding names it."""
    if isinstance(asked, Algorithm):
        return asked.name
    return asked.kind if isinstance(asked, Call) else getattr(asked, "__name__", "sessions")
