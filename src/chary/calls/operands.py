"""What operators are applied to: algorithms of one's own, and chary's own calls as private algorithms."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Any, Final

from chary import noise
from chary.accounting import BoundedRange, Event, NarrowChoice, ZeroConcentrated
from chary.answers import in_json
from chary.calls.algorithm import Algorithm, canonical_outcome
from chary.calls.call import Call
from chary.calls.run import Opening
from chary.core.plan import FREE, Data, Json, PerHit, Plan
from chary.core.transaction import Spine
from chary.data import Reading, Rows, read_one_version
from chary.data.rows import Deferred
from chary.errors import InvalidParameter
from chary.numbers import Number

_ONE_OUTCOME: Final = (
    "an operator takes an algorithm, or a call that is answered by itself: a release, a choice, a test, a quantile; "
    "not {title}, which {why}"
)

_NO_NUMBER: Final = (
    "candidates are ranked by one published number, and {title} has none here: take a release of one query, one "
    "quantile, a proportion, or an Algorithm that returns [score, solution]"
)


@dataclass(frozen=True)
class CalledOnce(Algorithm):
    """A call as a private algorithm: its outcome is the value of its answer, in JSON.

    Guarantee: all that the call publishes is within its epsilon, for each part in which neighbours can differ. So as a
    whole it is an Algorithm of that epsilon, times the parts, and of its delta, or of its rho. What it would keep as
    secret state is thrown away, and its own target is forgotten: the operator says what hits. A choice whose ratios lie
    in an interval (`BoundedRange`) keeps them so, whatever is published of what was chosen.

    Errors: `InvalidParameter` for a call that goes on from an earlier one, that opens a run, that is several questions,
    or that has neither an epsilon nor a rho.
    """

    asked: Plan[Any] | None = field(default=None, repr=False)

    @classmethod
    def of(cls, call: Call[Any], spine: Spine, name: str | None = None) -> "CalledOnce":
        """The call on the rows of this session; `name` distinguishes it from others next to it."""
        asked = alone(call, spine)
        cost, sizes = asked.cost, dict[str, Any]()
        for event in _events(asked):
            if event.epsilon is not None:
                sizes = {"epsilon": event.epsilon * cost.parts, "delta": event.delta * cost.parts}
                break
            if isinstance(event, ZeroConcentrated):
                sizes = {"rho": Fraction(event.rho) * cost.parts}
        if not sizes:
            raise InvalidParameter(_ONE_OUTCOME.format(title=call.title, why="has no epsilon here: ask with epsilon="))
        known = [outcome_of(asked.present(answer, 0)) for answer in asked.outcomes] or None
        return cls(name or call.name, partial(_value, asked), **sizes, outcomes=known, asked=asked)

    @property
    def lawful(self) -> bool:
        return self.plan.law is not None

    @property
    def plan(self) -> Plan[Any]:
        """The call as it is run."""
        if self.asked is None:
            raise InvalidParameter("a call as an algorithm is made by CalledOnce.of")
        return self.asked

    def targeted(self, q: Number | None) -> Event:
        narrow = [NarrowChoice(event.bound) for event in _events(self.plan) if isinstance(event, BoundedRange)]
        return narrow[0] if narrow and q is None and self.plan.cost.parts == 1 else super().targeted(q)

    def law(self, rows: Any) -> noise.FiniteLaw:
        if self.plan.law is None:
            raise InvalidParameter(f"the distribution of {self.name!r} is not known")
        return self.plan.law(Data(rows, noise.OperatingSystem(), None, None, FREE))

    def rehearse(self, rows: Rows) -> None:
        """A call's distribution is one for all rows."""

    def prepare(self, rows: Rows) -> Reading:
        read = self.plan.reads(rows)
        return Deferred(self.name, lambda: read_one_version(rows, read))

    def body(self) -> Json:
        return super().body() | {"call": {"kind": self.plan.kind} | json.loads(self.plan.body)}


def alone(call: Call[Any], spine: Spine) -> Plan[Any]:
    """The plan of a call that is answered by itself, once and for all; `InvalidParameter` for any other."""
    asked = None if isinstance(call, Opening) or type(call).perform is not Call.perform else call.plan(spine)
    if asked is None or not isinstance(asked.cost, PerHit) or not asked.cost.adds_up:
        several = "asks several questions, one after another" if asked is None else "goes on from an earlier call"
        why = "stays open" if isinstance(call, Opening) else several
        raise InvalidParameter(_ONE_OUTCOME.format(title=call.title, why=why))
    return asked


def _events(asked: Plan[Any]) -> tuple[Event, ...]:
    """All that bound a call, each by itself."""
    return asked.event, *(asked.cost.bounds if isinstance(asked.cost, PerHit) else ())


def _value(asked: Plan[Any], values: Any, source: noise.Source) -> Any:
    return outcome_of(asked.present(asked.run(Data(values, source, None, None, FREE)).answer, 0))


def outcome_of(answer: Any) -> Any:
    """The outcome that an answer says, in JSON values; of groups a list of their parts and their values."""
    told = answer.value
    if isinstance(told, Mapping):
        told = [[*(key if isinstance(key, tuple) else [key]), value] for key, value in told.items()]
    return json.loads(canonical_outcome(in_json(told)))


def private(brought: Algorithm | Call[Any], spine: Spine, name: str | None = None) -> Algorithm:
    """What an operator is applied to, as an algorithm on the rows of this session."""
    return brought if isinstance(brought, Algorithm) else CalledOnce.of(brought, spine, name)


def all_private(candidates: Any, spine: Spine) -> list[Algorithm]:
    """All candidates as algorithms, each under the name that distinguishes it from the others."""
    found = {name: private(brought, spine, name) for name, brought in named(candidates).items()}
    return [each if each.name == name else replace(each, name=name) for name, each in found.items()]


def renamed(candidates: Any) -> Json:
    """What identifies algorithms that are reported under other names than their own; nothing where there are none."""
    own = {
        name: brought.name
        for name, brought in named(candidates).items()
        if isinstance(brought, Algorithm) and brought.name != name
    }
    return {"named": own} if own else {}


def named(candidates: Any) -> Mapping[str, Algorithm | Call[Any]]:
    """Algorithms and calls by their names: as a mapping says them, or each by its own.

    Errors: `InvalidParameter` for an empty list, for what is neither, for a call that says no number, and for names
    that occur twice.
    """
    found = candidates.values() if isinstance(candidates, Mapping) else candidates
    found = tuple(found) if isinstance(found, (list, tuple)) or isinstance(candidates, Mapping) else ()
    if not found or not all(isinstance(each, (Algorithm, Call)) for each in found):
        raise InvalidParameter(
            'candidates are a query with public keys, or a list such as [chary.Algorithm("tree", run, epsilon=0.1)]'
        )
    names = list(candidates) if isinstance(candidates, Mapping) else [each.name for each in found]
    if len(set(names)) != len(names) or not all(isinstance(name, str) and name for name in names):
        raise InvalidParameter('candidates must have different names: say them as {"north": call, "south": call}')
    for brought in found:
        if isinstance(brought, Call) and not brought.numeric:
            raise InvalidParameter(_NO_NUMBER.format(title=brought.title))
    return dict(zip(names, found, strict=True))
