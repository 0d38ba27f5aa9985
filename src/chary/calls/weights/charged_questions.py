"""Private multiplicative weights that pay by hits: each query is one call whose prior is "easy"."""

from abc import abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

from chary.accounting import Event, Publication, Support, Targeted
from chary.calls.thresholds.hit_terms import HitTerms, coarse_down
from chary.calls.thresholds.how_sharply import together
from chary.calls.thresholds.sharpness import Sharpness
from chary.calls.weights.histogram_questions import NEARLY_SURE, AskHistogram, WeightedAnswer
from chary.core.plan import Json, Ran, Touched, Within, laplace_for
from chary.mechanisms import Additive, Gaussian, Laplace
from chary.mechanisms.weights import Easy, Transcript
from chary.numbers import Number

if TYPE_CHECKING:
    from chary.calls.weights.weighting import OpenSharpWeights, OpenWeights


@dataclass(frozen=True)
class AskCharged(AskHistogram):
    """One query to the histogram: "easy", which is free, or a noisy count, which is charged and taught to it."""

    kind = "multiplicative_weights_ask"

    @property
    @abstractmethod
    def noise(self) -> Additive:
        """That of a published count."""

    def accuracy(self) -> tuple[Additive, Fraction]:
        return self.noise, Fraction(1)

    @property
    @abstractmethod
    def size_told(self) -> Json:
        """What an answer says of the size of the call."""

    @abstractmethod
    def found(self, easy: Easy, touched: Touched) -> int | None:
        """The noisy count; None if the histogram's answer stands."""

    def away(self, easy: Easy) -> Json:
        """What a hard answer says of where it could not have been published."""
        return {}

    def run(self, touched: Touched) -> Ran:
        transcript = Transcript.load(touched.secret or b"")
        told: Json = {"size": self.size} | self.size_told
        with self.memory.at(transcript) as weights:
            share = weights.share(self.located[0], self.size)
            easy = self.started.rule.easy(share, self.size)
            noisy = self.found(easy, touched)
            if noisy is None:
                return Ran(told | {"hard": False, "share": share}, hits=0, tests=1)
            margin = (self.noise.error_bar(NEARLY_SURE) + self.rounding) / self.size
            change = weights.change(self.text_of_query, self.located[0], self.size, noisy / self.size, margin)
        bar = (self.noise.error_bar() + self.rounding) / self.size
        told |= {"hard": True, "count": noisy, "error_bar": bar} | self.away(easy)
        return Ran(told, hits=1, tests=1, secrets={self.opened: transcript.then(change).dump()})


@dataclass(frozen=True)
class AskWeights(AskCharged):
    """By Laplace noise: what is published is a function of an epsilon-DP count."""

    started: "OpenWeights"
    decides = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self.noise  # noqa: B018 - refuses noise out of range

    @cached_property
    def epsilon(self) -> Fraction:
        """That of this call."""
        asked = self.started.call
        kept = Fraction(self.started.size, self.size) if asked.follow_size else Fraction(1)
        return Fraction(asked.epsilon or 0) * min(Fraction(1), kept)

    @cached_property
    def noise(self) -> Laplace:
        return laplace_for(self.located[1], self.started.neighbouring, self.epsilon)

    @cached_property
    def event(self) -> Event:
        return Targeted(self.epsilon)

    @property
    def terms(self) -> Json:
        return {"epsilon": str(self.started.call.epsilon)}

    @property
    def size_told(self) -> Json:
        return {"epsilon": str(self.epsilon)}

    def found(self, easy: Easy, touched: Touched) -> int | None:
        noisy = self.noise.apply_one(self.counted(touched), touched.source)
        return None if easy.low <= noisy <= easy.high else noisy

    def away(self, easy: Easy) -> Json:
        return {"easy": [easy.low, easy.high]}

    def told_hard(self, found: WeightedAnswer, answer: Json) -> WeightedAnswer:
        """Answers of old ledgers do not say from what they lay away, so they say nothing by themselves."""
        if "easy" not in answer:
            return replace(found, error_bar=None)
        size, support = answer["size"], Support.outside(*answer["easy"])
        noise = laplace_for(self.located[1], self.started.neighbouring, Fraction(answer["epsilon"]))
        known = Publication(noise.law(), support, floor=0, ceiling=size)
        low, high = known.interval(answer["count"])
        least = None if low is None else max(0.0, (low - self.rounding) / size)
        return replace(
            found, error_bar=None, told=(least, None if high is None else min(1.0, (high + self.rounding) / size))
        )


@dataclass(frozen=True)
class AskSharpWeights(AskCharged):
    """By the sharpest test of whether the count is outside of what is easy, and at a hit a count with fresh noise.

    Guarantee: `SharpTest`. How far a count is outside moves by no more than the count, so its chance of a hit is that
    of a neighbour on the chain, on whichever side it is; the count that is published was drawn for that alone.
    """

    started: "OpenSharpWeights"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.sharpness, self.noise  # noqa: B018 - refuses what has no table

    @cached_property
    def own(self) -> HitTerms:
        """The terms at this size."""
        terms, start = self.started.terms, self.started.size
        return terms.slower(Fraction(start, max(start, coarse_down(self.size)))) if self._follows else terms

    @property
    def _follows(self) -> bool:
        return bool(self.started.call.follow_size)

    @cached_property
    def sharpness(self) -> Sharpness:
        """The test."""
        return self.own.sharpness()

    @cached_property
    def noise(self) -> Gaussian:
        return self.own.noise()

    @property
    def event(self) -> Event:
        return self.own.event

    @property
    def terms(self) -> Json:
        return {"price": str(self.started.terms.price)}

    @property
    def size_told(self) -> Json:
        return {"price": str(self.own.price)}

    def found(self, easy: Easy, touched: Touched) -> int | None:
        count = self.counted(touched)
        # At 1 it is the first count outside.
        outside = max(count - easy.high, easy.low - count)
        if not self.sharpness.sampler.step(outside - 1 + self.sharpness.bar, touched.source):
            return None
        return self.noise.apply_one(count, touched.source)

    def wrong_call(self, distance: int) -> float:
        return self.sharpness.wrong_call(distance)

    def within(self, tests: int, confidence: Number) -> Within:
        return self.sharpness.within(tests, confidence)

    @property
    def foreseen(self) -> Within | None:
        return together(self.started.call, self.within)
