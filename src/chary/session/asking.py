"""The basic questions: releases, tests, conditional releases, watches, and what they would cost."""

from chary.data import Query, Series, Values
from chary.errors import InvalidParameter, InvalidQuery
from chary.numbers import Number
from chary.session.conditional import ReleaseIf, Revise
from chary.session.door import Door
from chary.session.interaction import Question
from chary.session.quoting import Quote, quote
from chary.session.releasing import Release
from chary.session.results import Answer, Answers, Conditional, WatchResult
from chary.session.testing import Test, WatchKeys, keyed


class Asking(Door):
    """Questions that the query language knows."""

    def release(
        self,
        query: Question,
        *,
        epsilon: Number | None = None,
        rho: Number | None = None,
        delta: Number | None = None,
        request: str | None = None,
    ) -> Answer | Answers:
        """An ordinary noisy answer: discrete Laplace noise for `epsilon`, discrete Gaussian noise for `rho`, or for
        `epsilon` and `delta`.

        Guarantee: epsilon-DP, rho-zCDP or (epsilon, delta)-DP for the whole answer (all keys of a keyed query
        together), with delta by the law on the grid (`chary.accounting.discrete_gaussian_variance`). Always charged.
        """
        made = Release(query, self.spine.rows.neighbouring, epsilon, rho, delta)
        answer: Answer | Answers = self.spine.perform(made, request)
        return answer

    def test(self, query: Question, *, above: Number, epsilon: Number, request: str | None = None) -> bool:
        """Whether the query is at or above a threshold, up to noise: True is charged, False is free.

        Guarantee: an epsilon-DP call with the NotPrior target "True" ([TCT] section 4).
        """
        answer: bool = self.spine.perform(Test(query, self.spine.rows.neighbouring, above, epsilon), request)
        return answer

    def release_if(self, query: Question, *, above: Number, epsilon: Number, request: str | None = None) -> Conditional:
        """The noisy value if it is at or above the bar, otherwise nothing, which is free; see `Conditional.revise`.

        Guarantee: an epsilon-DP call with the NotPrior target "published" ([TCT] Algorithm 2).
        """
        made = ReleaseIf(query, self.spine.rows.neighbouring, above, epsilon, self.revise)
        answer: Conditional = self.spine.perform(made, request)
        return answer

    def revise(self, call: int, *, above: Number, request: str | None = None) -> Conditional:
        """Lower the bar for the outcome held by an earlier call, also after a restart.

        Guarantee: an extension of the target of that call, charged like a hit of it if it publishes now (the exact
        filter charges a call of twice the epsilon), free where the first call was charged hit or miss. Errors:
        `UnknownHeld` when that call holds nothing, `InvalidParameter` when the bar is not below the last one tried.
        """
        made = Revise(call, self.earlier(call, "release_if", "a conditional release"), above, self.revise)
        answer: Conditional = self.spine.perform(made, request)
        return answer

    def watch(self, query: Question, *, above: Number, epsilon: Number, request: str | None = None) -> WatchResult:
        """Test every key of a keyed query, in order and in one scan; keys that hit come with their noisy value.

        Guarantee: each key is an epsilon-DP call with the NotPrior target "published". One unit can be in only so many
        keys (`keep_per_unit`, `stated_per_unit`, or all of them), and at most that many hits are charged. When the
        budget cannot pay for that many, the watch halts at the last hit that fits; later keys are `untested`.
        """
        made = WatchKeys(keyed(query), self.spine.rows.neighbouring, above, epsilon)
        answer: WatchResult = self.spine.perform(made, request)
        return answer

    def series(self) -> Values:
        """The question for all values of a series; only sessions of `open_series` have one."""
        if not isinstance(self.spine.rows, Series):
            raise InvalidQuery("this session asks a table: use count, total or mean")
        return self.spine.rows.series()

    def quote(
        self,
        query: Question,
        *,
        above: Number | None = None,
        epsilon: Number | None = None,
        rho: Number | None = None,
        delta: Number | None = None,
        distance: Number | None = None,
    ) -> Quote:
        """What a question would cost and how accurate it would be, for free: with `above` as a test, a conditional
        release or a watch (they cost the same), without it as an ordinary release.
        """
        if above is None:
            return quote(self.spine, Release(query, self.spine.rows.neighbouring, epsilon, rho, delta), distance)
        if epsilon is None or rho is not None or delta is not None:
            raise InvalidParameter(
                "a quote for a threshold needs epsilon= alone, such as quote(q, above=500, epsilon=0.02)"
            )
        neighbouring = self.spine.rows.neighbouring
        if isinstance(query, Query) and query.keys is not None:
            return quote(self.spine, WatchKeys(query, neighbouring, above, epsilon), distance)
        return quote(self.spine, Test(query, neighbouring, above, epsilon), distance)
