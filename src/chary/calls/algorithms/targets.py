"""What is a hit: the outcomes of a private algorithm that are paid, said in one of several ways."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from chary.accounting import Event, Targeted
from chary.calls.algorithms.algorithm import Algorithm, Json, canonical_outcome, plain_outcome
from chary.errors import AlgorithmFailed, InvalidParameter
from chary.numbers import Number, exact, plain


class Unsaid(Enum):
    """Where the caller said nothing; None is an outcome like any other."""

    UNSAID = "unsaid"

    def __repr__(self) -> str:
        return self.name


UNSAID: Final = Unsaid.UNSAID


@dataclass(frozen=True)
class When:
    """A set of outcomes said as a condition on them: those for which `holds(outcome)` is true.

    `name` is public and stands for the condition in the ledger: one name, one condition. Guarantee needed of its
    author: whether it holds depends on the outcome, in JSON values, and on what is public. It is code that sees
    outcomes before they are published, or that never are, so like an `Algorithm` it must tell nothing of them to
    anybody. If it raises, the outcome is a hit that failed: charged, and not published.

    Errors: `InvalidParameter` for what cannot be a name or a condition.

    >>> When("large", lambda outcome: outcome >= 500)(700)
    True
    """

    name: str
    holds: Callable[[Any], Any] = field(repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name or not callable(self.holds):
            raise InvalidParameter("a condition has a name and a callable: When('large', lambda outcome: outcome > 9)")

    def __call__(self, outcome: Any) -> bool:
        """Whether the outcome is in the set; `AlgorithmFailed`, naming no data, if the condition raises."""
        own, found = json.loads(canonical_outcome(outcome)), None  # what it changes must not be published
        try:
            found = bool(self.holds(own))
        except KeyboardInterrupt:
            raise
        except BaseException:  # what an extension panics with is no Exception
            pass
        if found is None:
            raise AlgorithmFailed(f"the condition {self.name!r} raised, or is neither true nor false")
        return found


@dataclass(frozen=True)
class Target:
    """A set of outcomes. `hits` says of an outcome whether it is one of them, `told` identifies the set in a question.

    `q` is how often the set is hit at least, None where all outcomes but one are in it. A run that fails is a hit as
    well, which makes the set larger and its q no smaller. `whole`: every outcome is a hit, so the call is a release.
    """

    hits: Callable[[Any], bool]
    told: Json
    q: Number | None = None
    whole: bool = False

    def event(self, algorithm: Algorithm) -> Event:
        """What a run of the algorithm may reveal when it is paid for hits alone."""
        if self.whole:
            return algorithm.event
        epsilon, delta = algorithm.size
        return Targeted(epsilon, self.q, delta)

    def event_by_laws(self, algorithm: Algorithm) -> Event:
        """The same by the laws of its outcomes, where the author stated them; they make a q needless.

        Errors: `InvalidParameter` for a q larger than they allow.
        """
        if algorithm.laws is None or self.whole:
            return self.event(algorithm)
        stated = algorithm.stated([self.hits(outcome) for outcome in algorithm.outcomes or ()])
        if self.q is not None and exact(self.q, "q") > stated.most_q:
            raise InvalidParameter(
                f"the laws= of the algorithm leave its target a q of at most {plain(stated.most_q)}: leave q= out, the "
                "call is paid by the laws"
            )
        return stated


EVERYTHING: Final = Target(lambda outcome: True, {}, whole=True)


def not_prior(algorithm: Algorithm, prior: Any, q: Number | None = None) -> Target:
    """All outcomes but one, named before the call.

    Errors: `InvalidParameter` for a prior that is not among the declared outcomes, if there are any.
    """
    known = declared(algorithm)
    free = canonical_outcome(prior)
    if known is not None and free not in known:
        raise InvalidParameter("the target (or the prior) is not among the algorithm's declared outcomes")
    told = {"prior": plain_outcome(prior)} | ({} if q is None else {"q": str(q)})
    return Target(lambda outcome: canonical_outcome(outcome) != free, told, q)


def listed(algorithm: Algorithm, target: Sequence[Any], q: Number | None) -> Target:
    """Some of the declared outcomes; whatever else comes out all the same is a hit as well.

    Errors: `InvalidParameter` for an empty list, outcomes that are not declared, and a target that leaves several
    outcomes free without its q, unless the algorithm has laws.
    """
    known, named = declared(algorithm), {canonical_outcome(outcome) for outcome in target}
    if known is None:
        raise InvalidParameter("a target is a set of declared outcomes: give the algorithm outcomes=[...]")
    if not named <= known:
        raise InvalidParameter("the target (or the prior) is not among the algorithm's declared outcomes")
    if not named:
        raise InvalidParameter("an empty target is never hit: name at least one outcome")
    told = {"target": [plain_outcome(outcome) for outcome in target]} | ({} if q is None else {"q": str(q)})
    return _all_but(algorithm, known - named, told, q)


def conditional(algorithm: Algorithm, when: When, q: Number | None) -> Target:
    """The outcomes for which a condition holds; of declared outcomes it is asked at once, of others when they come out.

    Errors: `InvalidParameter` for a condition that raises for a declared outcome or holds for none, and where q is
    needed: outcomes are not declared, or several are free.
    """
    known, told = declared(algorithm), {"hit": when.name} | ({} if q is None else {"q": str(q)})
    if known is None:
        if q is None:
            raise InvalidParameter("a condition needs its q=, or outcomes=[...] of which it leaves one free")
        return Target(when, told, q)
    try:
        free = {outcome for outcome in known if not when(json.loads(outcome))}
    except AlgorithmFailed as failure:
        raise InvalidParameter(f"{failure}, for a declared outcome") from None
    if free == known:
        raise InvalidParameter("the condition holds for no declared outcome, so it is never a hit")
    return _all_but(algorithm, free, told, q)


def _all_but(algorithm: Algorithm, free: set[str], told: Json, q: Number | None) -> Target:
    """All outcomes but these canonical ones: NotPrior if there is one of them, and nothing is free if there is none.

    Several may be free by a q, or by laws, by which every call is paid that has such a target (`event_by_laws`).
    """
    if len(free) > 1 and q is None and algorithm.laws is None:
        raise InvalidParameter("a target that leaves several outcomes free needs its q=, see docs/theory.md")
    return Target(lambda outcome: canonical_outcome(outcome) not in free, told, q, whole=not free)


def declared(algorithm: Algorithm) -> set[str] | None:
    """The declared outcomes, canonically; None where none are declared."""
    return None if algorithm.outcomes is None else {canonical_outcome(outcome) for outcome in algorithm.outcomes}
