"""Publishing the outcome of any private algorithm only where a condition holds; otherwise it is held, free, and secret.

One-sided conditions on any outcome are the general form of a conditional release ([TCT] Algorithm 2): the target is the
set of outcomes for which the condition holds, and an extension of it publishes what the first one held back.
"""

import json
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property, partial
from typing import Any, Final

from chary.answers import Answer
from chary.calls.algorithms.algorithm import Algorithm, canonical_outcome
from chary.calls.algorithms.calling import RunOnce, failure
from chary.calls.algorithms.targets import Target, When
from chary.calls.call import Call, call
from chary.calls.extending import Extending
from chary.calls.fields import Brought, Condition, Whole
from chary.core.history import earlier
from chary.core.plan import Json, Ran, Touched
from chary.core.transaction import Spine
from chary.errors import AlgorithmFailed, InvalidParameter, UnknownHeld
from chary.mechanisms.additive import padded, unpadded

# All of it is written whenever an outcome is held, so what no memory has would fail once it is charged.
MOST_ROOM: Final = 2**24


@dataclass(frozen=True)
class Disclosure(Answer):
    """The outcome of an algorithm if it is `published`, otherwise None: then it is held beside call `held`, free."""

    value: Any
    published: bool
    held: int
    extender: Callable[..., "Disclosure"] | None = field(default=None, repr=False, compare=False)

    @property
    def hit(self) -> bool:
        return self.published

    def extend(self, *, when: When, request: str | None = None) -> "Disclosure":
        """Publish the same held outcome if it meets another condition; see `chary.calls.Extend`.

        Errors: `UnknownHeld` if it was published before, or for an answer that no session handed out.
        """
        if self.extender is None:
            raise UnknownHeld(f"a copy knows no session: session.ask(chary.calls.Extend({self.held}, when=...))")
        return self.extender(self.held, when=when, request=request)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "extender"}


@call("publish_if", subject="algorithms")
class PublishIf(Call[Disclosure]):
    """The outcome of any private algorithm if it meets a condition, otherwise nothing, which is free; see `Extend`.

    Guarantee: one epsilon-DP call with the NotPrior target "published" ([TCT] Algorithm 2); an algorithm's delta is
    paid hit or miss, once for all extensions. An outcome that does not meet the condition becomes secret state, of
    which not even the length is told: it takes `room` bytes of the ledger, and one that does not fit is a hit that
    failed. So are a run that fails and a condition that raises.

    Errors: `InvalidParameter` for an algorithm with a rho and for a room above 16 MiB; `AlgorithmFailed`, charged.

    >>> from chary.calls import Algorithm, When
    >>> depth = Algorithm("depth", lambda rows, source: 3, epsilon="0.02")
    >>> PublishIf(depth, when=When("deep", lambda depth: depth > 9)).kind
    'publish_if'
    """

    algorithm: Brought
    _: KW_ONLY
    when: Condition
    room: Whole = 4096

    def __post_init__(self) -> None:
        if self.room > MOST_ROOM:
            raise InvalidParameter(f"room must be at most {MOST_ROOM} bytes, which each outcome that is held takes")

    def bind(self, spine: Spine) -> "AskPublishIf":
        return AskPublishIf(self, spine.rows.neighbouring, partial(_extended, spine))


@dataclass(frozen=True)
class AskPublishIf(RunOnce[PublishIf]):
    """The conditional publication, as it is run."""

    extender: Callable[..., Disclosure] | None = field(default=None, compare=False, repr=False)

    @property
    def algorithm(self) -> Algorithm:
        return self.call.algorithm

    @cached_property
    def target(self) -> Target:
        return Target(self.call.when, {"when": self.call.when.name, "room": self.call.room})

    def run(self, touched: Touched) -> Ran:
        try:
            outcome = self.algorithm.outcome(touched.values[0], touched.source)
            return _judged(outcome, self.call.when, self.call.room)
        except AlgorithmFailed:
            return Ran({"failed": True}, hits=1, tests=1)

    def present(self, answer: Json, call: int) -> Disclosure:
        return _told(answer, call, call, self.algorithm.name, self.extender)


@call("extend", subject="algorithms")
class Extend(Call[Disclosure]):
    """Publish the outcome that an earlier `PublishIf` held, if it meets another condition; no data are read.

    Guarantee: an extension of the target of that call (`Extendable`, [TCT] Algorithm 2) by the outcomes that meet this
    condition and none before, since what met one of those is held no more: that call and all its extensions together
    hit at most once. It is charged like a hit of that call if it publishes now, and free where that call was charged
    hit or miss, which paid for the outcome.

    Errors: `UnknownHeld` when that call holds nothing; `AlgorithmFailed`, charged like a hit and the end of what was
    held, for a condition that raises.
    """

    held: Whole
    _: KW_ONLY
    when: Condition

    def bind(self, spine: Spine) -> "AskExtend":
        original = earlier(spine, self.held, "publish_if", "a conditional publication")
        return AskExtend(self, spine.rows.neighbouring, original, partial(_extended, spine))


@dataclass(frozen=True)
class AskExtend(Extending[Extend]):
    """The extension, as it is run."""

    extender: Callable[..., Disclosure] | None = field(default=None, compare=False, repr=False)

    @property
    def held(self) -> int:
        return self.call.held

    def run(self, touched: Touched) -> Ran:
        outcome = json.loads(unpadded(touched.secret or b"null"))
        try:
            return _judged(outcome, self.call.when, self.original["room"], replaces=self.held)
        except AlgorithmFailed:
            return Ran({"failed": True}, hits=1, tests=1, secrets={self.held: None})

    def present(self, answer: Json, call: int) -> Disclosure:
        return _told(answer, call, self.held, self.original["algorithm"], self.extender)


def _judged(outcome: Any, when: When, room: int, *, replaces: int | None = None) -> Ran:
    """The public answer, and the secret state beside this call or the one whose state it replaces."""
    published, held = when(outcome), canonical_outcome(outcome).encode()
    if not published and len(held) > room:
        raise AlgorithmFailed("the outcome takes more than its room")
    answer = {"published": published, "value": outcome if published else None}
    kept = None if published else padded(held, room)
    if replaces is None:
        return Ran(answer, hits=int(published), tests=1, secret=kept)
    return Ran(answer, hits=int(published), tests=1, secrets={replaces: kept})


def _told(answer: Json, call: int, held: int, name: str, extender: Callable[..., Disclosure] | None) -> Disclosure:
    if "failed" in answer:
        raise failure(name, judged=True)
    return Disclosure(call, answer["value"], answer["published"], held, extender)


def _extended(spine: Spine, held: int, *, when: When, request: str | None = None) -> Disclosure:
    return Extend(held, when=when).perform(spine, request)
