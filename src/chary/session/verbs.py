"""Verbs for the calls that are asked most: the same words for a session and for the client of a service."""

from __future__ import annotations

from abc import ABC, abstractmethod

from chary.calls.answers import Conditional, WatchResult
from chary.calls.call import AnswerT, Call
from chary.calls.releases import Release
from chary.calls.thresholds import ReleaseIf, Test, Watch
from chary.core.plan import Question
from chary.data.queries.query import AnsweredT
from chary.numbers import Number


class Verbs(ABC):
    """Short forms of `ask`: each makes one call of its parameters, which are those of the call, and asks it."""

    @abstractmethod
    def ask(self, call: Call[AnswerT], *, request: str | None = None) -> AnswerT:
        """Ask any call."""

    def release(
        self,
        query: Question[AnsweredT],
        *,
        epsilon: Number | None = None,
        rho: Number | None = None,
        delta: Number | None = None,
        request: str | None = None,
    ) -> AnsweredT:
        """An ordinary noisy answer, always charged: `ask(Release(query, ...))`, see `chary.calls.Release`."""
        return self.ask(Release(query, epsilon=epsilon, rho=rho, delta=delta), request=request)

    def test(
        self,
        query: Question,
        *,
        above: Number,
        epsilon: Number | None = None,
        hits: int | None = None,
        price: Number | None = None,
        within: Number | None = None,
        tests: int | None = None,
        sure: Number | None = None,
        below_margin: bool | None = None,
        request: str | None = None,
    ) -> bool:
        """Whether a query is at or above a bar: True is charged, False is free.

        How sharply is said by one of `hits=20` (so many must fit into the budget), `price=`, `within=` with `tests=`,
        and `epsilon=` (Laplace noise); see `chary.calls.Test`.
        """
        call = Test(
            query,
            above=above,
            epsilon=epsilon,
            hits=hits,
            price=price,
            within=within,
            tests=tests,
            sure=sure,
            below_margin=below_margin,
        )
        return bool(self.ask(call, request=request))

    def release_if(
        self,
        query: Question,
        *,
        above: Number,
        epsilon: Number | None = None,
        hits: int | None = None,
        price: Number | None = None,
        within: Number | None = None,
        tests: int | None = None,
        sure: Number | None = None,
        value: Number | None = None,
        below_margin: bool | None = None,
        request: str | None = None,
    ) -> Conditional:
        """The noisy value if it is at or above the bar, otherwise nothing, free; see `chary.calls.ReleaseIf`.

        How sharply is said as for `test`, and `value` is the part of the price of a hit for its value; with `epsilon=`
        what was held back can be revised.
        """
        call = ReleaseIf(
            query,
            above=above,
            epsilon=epsilon,
            hits=hits,
            price=price,
            within=within,
            tests=tests,
            sure=sure,
            value=value,
            below_margin=below_margin,
        )
        return self.ask(call, request=request)

    def watch(
        self,
        query: Question,
        *,
        above: Number,
        epsilon: Number | None = None,
        hits: int | None = None,
        price: Number | None = None,
        within: Number | None = None,
        tests: int | None = None,
        sure: Number | None = None,
        value: Number | None = None,
        below_margin: bool | None = None,
        request: str | None = None,
    ) -> WatchResult:
        """Every key of a keyed query against a bar, in one scan; hits are charged; see `chary.calls.Watch`.

        How sharply is said as for `test`, and `value` is the part of the price of a hit for its value.
        """
        call = Watch(
            query,
            above=above,
            epsilon=epsilon,
            hits=hits,
            price=price,
            within=within,
            tests=tests,
            sure=sure,
            value=value,
            below_margin=below_margin,
        )
        return self.ask(call, request=request)
