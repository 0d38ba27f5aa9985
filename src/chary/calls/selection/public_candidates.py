"""Public candidates against a bar: keys of a query, or conditions, each tested by itself and told with its value."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from chary.answers import Key, scalar
from chary.calls.selection.covering import conditions_of
from chary.calls.selection.selections import Chosen, Selected
from chary.calls.thresholds.watching import AskEachKey, AskSharpWatch, AskWatch
from chary.core.plan import Json, Touched, natural
from chary.data import Count, Query
from chary.mechanisms.additive import Integers


class _PublicCandidates(AskEachKey):
    """What is read and told of them; of conditions, `query` is the count of the first."""

    @cached_property
    def counts(self) -> Sequence[Query]:
        """The counts of all conditions, or the keyed query alone."""
        if self.query.keys is not None:
            return [self.query]
        return [Count(where=condition) for _, condition in conditions_of(self.call.candidates)]

    @cached_property
    def candidates(self) -> tuple[Key, ...]:
        """The keys, or the texts of the conditions."""
        if self.query.keys is not None:
            return tuple(self.query.keys)
        return tuple((text,) for text, _ in conditions_of(self.call.candidates))

    @cached_property
    def parallel(self) -> int:
        """A unit may meet every condition."""
        return self.query.reach(self.neighbouring) if self.query.keys is not None else len(self.counts)

    @property
    def at_once(self) -> int:
        return len(self.candidates)

    def queries(self) -> Sequence[Query]:
        return self.counts

    def exact(self, touched: Touched) -> Integers:
        return np.concatenate([touched.integers(position) for position in range(len(self.counts))])

    def present(self, answer: Json, call: int) -> Selected:
        above = tuple(
            Chosen(scalar(self.candidates[position]), natural(steps, self.query.grid))
            for position, steps in zip(answer["positions"], answer["noisy"], strict=True)
        )
        columns = ("condition",) if self.query.keys is None else self.query.columns
        return Selected(call, columns, self.candidates, above, answer["tested"], publication=self.published())


class SelectByNoise(_PublicCandidates, AskWatch):
    """By Laplace noise, which is that of the value as well."""


class SelectSharply(_PublicCandidates, AskSharpWatch):
    """By sharp tests, each hit with a fresh value."""
