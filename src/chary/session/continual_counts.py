"""The continual counts of a session: opening one, its steps, and what they told."""

import json
from dataclasses import dataclass

from chary.data import Count, Predicate, count
from chary.errors import InvalidParameter, InvalidQuery
from chary.ledger import State
from chary.numbers import Number, positive, whole
from chary.session.arrivals import Arrivals
from chary.session.continual import (
    METHODS,
    NothingNew,
    OpenContinual,
    Progress,
    RunningCount,
    StepContinual,
    StepsUsed,
    Terms,
    progress_of,
)
from chary.session.interaction import Json
from chary.session.scheduling import Scheduling
from chary.session.spine import Spine


class ContinualCount:
    """One count, told again and again while the rows grow; made by `Session.continual_count`.

    Guarantee: epsilon-DP or rho-zCDP for all steps together, charged when it was opened; see there for what it takes
    for granted. Each step is told once, whatever processes and restarts there are. `call` is the number that opens it
    again. Steps are numbered from 1; `steps` is how many there are in all.
    """

    def __init__(self, spine: Spine, call: int, terms: Terms) -> None:
        """Use `Session.continual_count`."""
        self.call, self.steps = call, terms.steps
        self._spine, self._terms = spine, terms

    def step(self, *, request: str | None = None) -> RunningCount:
        """The count of the rows there are now, as one more step. Nothing is charged.

        Every step is used up, also when no rows arrived since the last one. Errors: `BudgetRefused` when all steps are
        used, `LedgerMismatch` when there are fewer rows than the ledger knows of, where their number is public,
        `UnknownHeld` for an opening that was interrupted, `ledger.SecretMoved` when other processes were faster several
        times: then nothing was told and the step may be asked again.
        """
        found: RunningCount = self._spine.perform(self._asked(only_new=False), request)
        return found

    def follow(self) -> RunningCount | None:
        """One step if rows arrived since the last one and there are steps left, otherwise None: what `on_append` does.

        Arrivals are those that the ledger has a version of: appended batches, and rows found at an opening where their
        number is public. Where it is secret, `step` after opening with more rows.
        """
        try:
            found: RunningCount = self._spine.perform(self._asked(only_new=True))
        except (NothingNew, StepsUsed):
            return None
        return found

    @property
    def latest(self) -> RunningCount | None:
        """What the last step told; None before the first."""
        told = self._answers()
        return self._asked(only_new=False).present(*told[-1]) if told else None

    @property
    def results(self) -> list[RunningCount]:
        """What all steps told, in order, from the ledger."""
        asked = self._asked(only_new=False)
        return [asked.present(answer, call) for answer, call in self._answers()]

    @property
    def steps_left(self) -> int:
        """How many steps are left."""
        return self.steps - self._progress().step

    def error_bar(self, step: int, *, confidence: Number = 0.95) -> int:
        """By how much the count of a key at this step is off at most, with this probability. Nothing is read."""
        return self._terms.mechanism.error_bar(step, confidence)

    def worst_error(self, *, confidence: Number = 0.95) -> int:
        """By how much any count at any step is off at most, with this probability. Nothing is read."""
        return self._terms.mechanism.worst_error(confidence)

    def deviation(self, step: int) -> float:
        """The standard deviation of the count of a key at this step; at most that, for Gaussian noise."""
        return self._terms.mechanism.deviation(step)

    def _asked(self, *, only_new: bool) -> StepContinual:
        last = Arrivals(self._spine.ledger, self._spine.dataset, self._spine.rows).last()
        return StepContinual(self.call, self._terms, last.number, last.size, only_new)

    def _progress(self) -> Progress:
        return progress_of(self._spine.ledger.secret(self.call), self.call)

    def _answers(self) -> list[tuple[Json, int]]:
        body, found = self._asked(only_new=False).text(), []
        for call in self._spine.ledger.calls(self._spine.dataset, after=self.call):
            if call.kind == StepContinual.kind and call.state == State.SETTLED and call.body == body:
                found.append((json.loads(call.answer or "{}"), call.number))
        return sorted(found, key=lambda told: int(told[0]["step"]))

    def __repr__(self) -> str:
        return f"ContinualCount(call={self.call}, {self._terms.body()})"


@dataclass(frozen=True)
class Continuing(Scheduling):
    """Counts that are told at every step."""

    def continual_count(
        self,
        query: Count | Predicate | str | None = None,
        *,
        steps: int | None = None,
        epsilon: Number | None = None,
        rho: Number | None = None,
        method: str | None = None,
        on_append: bool = False,
        call: int | None = None,
        request: str | None = None,
    ) -> ContinualCount:
        """Tell one count at up to `steps` steps while rows arrive, for one price paid now.

        Guarantee: epsilon-DP, or rho-zCDP (for sessions with a delta; much more accurate), for all steps together and
        whatever arrives in between. `query` is a count, keyed or not, or a condition of it. Errors grow with the
        logarithm of `steps`. `method` is "tree", with epsilon or rho, or "root", with rho, the default there and about
        half as far off (docs/continual.md).

        It takes for granted that each row is a unit of its own, that a row once there neither changes nor leaves, in no
        process that opens the dataset, and that neighbours have their rows in the same batches. With `on_append`,
        `session.append` does one step after each batch while there are steps left, and so does the opening; a step that
        fails there is a `RuntimeWarning`. `call=` goes on with an earlier one, also after a restart: bring the same
        query, and `on_append` if you want it.

        Errors: `InvalidQuery` where units may have several rows, `InvalidParameter` for another query than before,
        more than 2**20 steps ("tree") or 2**16 ("root"), `NoPrice` for rho without a delta, `UnknownHeld`.

        >>> import chary, polars as pl
        >>> public = {"privacy_unit": None, "relation": "replace", "budget": chary.Budget(epsilon=1)}
        >>> session = chary.open(pl.DataFrame({"age": [70] * 5000}), **public, ledger=":memory:")
        >>> old = session.continual_count("age >= 65", steps=365, epsilon=1, on_append=True)
        >>> _ = session.append(pl.DataFrame({"age": [35, 66] * 1000}))
        >>> [abs(told.value - right) < 200 for told, right in zip(old.results, (5000, 6000))], old.steps_left
        ([True, True], 363)
        """
        asked, terms = _counted(query), (steps, epsilon, rho, method)
        if call is None:
            made = self._counting_anew(asked, *terms, request)
        elif (*terms, request) == (None,) * 5:
            made = self._counting_again(asked, call)
        else:
            raise InvalidParameter("give the query and call= alone: a continual count keeps what it was opened with")
        if on_append:
            self.followers.append(made.follow)
            made.follow()
        return made

    def _counting_anew(
        self,
        query: Count,
        steps: int | None,
        epsilon: Number | None,
        rho: Number | None,
        method: str | None,
        request: str | None,
    ) -> ContinualCount:
        if steps is None:
            raise InvalidParameter("say how many steps there are at most, such as steps=365: errors follow from it")
        sizes = {name: positive(size, name) for name, size in (("epsilon", epsilon), ("rho", rho)) if size is not None}
        how = METHODS[rho is not None] if method is None else method
        terms = Terms(query, self.spine.rows.neighbouring, whole(steps, "steps"), how, **sizes)
        return ContinualCount(self.spine, self.spine.perform(OpenContinual(terms), request), terms)

    def _counting_again(self, query: Count, call: int) -> ContinualCount:
        body = self.earlier(call, OpenContinual.kind, "an opening of a continual count")
        terms = Terms.of_body(body, query, self.spine.rows.neighbouring)
        made = ContinualCount(self.spine, call, terms)
        progress_of(self.spine.ledger.secret(call), call)
        return made


def _counted(query: Count | Predicate | str | None) -> Count:
    if isinstance(query, Count):
        return query
    if query is None or isinstance(query, (Predicate, str)):
        return count(query)
    raise InvalidQuery('give count() or a condition, such as "age >= 65"')
