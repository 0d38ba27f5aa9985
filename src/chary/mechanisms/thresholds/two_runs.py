"""Two runs of a private computation: where they agree they are free."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from chary import noise
from chary.accounting import Pure, TwiceCall
from chary.numbers import Number

Outcome = TypeVar("Outcome", bound=int | float | str | bool | None)


@dataclass(frozen=True)
class PairOfRuns(Generic[Outcome]):
    """Both outcomes, to be published together."""

    first: Outcome
    second: Outcome

    @property
    def differ(self) -> bool:
        """Whether they differ in type or in any digit (0.0 and -0.0 do); any other than a plain value always differs.

        >>> PairOfRuns(1, 1).differ, PairOfRuns(1, True).differ, PairOfRuns(0.0, -0.0).differ
        (False, True, True)
        """
        plain = all(value is None or type(value) in (int, float, str, bool) for value in (self.first, self.second))
        return not plain or repr(self.first) != repr(self.second)


@dataclass(frozen=True)
class TwoRuns:
    """Runs a computation twice with independent coins and publishes both outcomes; the target is that they differ.

    Guarantee: `TwiceCall`, a 2 epsilon-DP call with a q-target, if one run is epsilon-DP; for a small epsilon
    `q = 1 / (1 + 2 e^(2 epsilon) / (e^epsilon + 1))` is about 1/2. Nothing else need be known of the computation.
    Outcomes are plain values.

    Source: theory section 4 (black-box boundary); the bound on q is ours.

    >>> from chary.mechanisms import Exponential
    >>> chooser = Exponential("0.05", sensitivity=1)
    >>> runs = TwoRuns("0.05").step(lambda source: chooser.step([0, 9000], source), noise.OperatingSystem())
    >>> runs, runs.differ
    (PairOfRuns(first=1, second=1), False)
    """

    epsilon: Number

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", Pure(self.epsilon).epsilon)

    def step(self, run: Callable[[noise.Source], Outcome], source: noise.Source) -> PairOfRuns[Outcome]:
        """Both outcomes; `run` takes all its randomness from the source it is given."""
        return PairOfRuns(run(source), run(source))

    def event(self) -> TwiceCall:
        """What both outcomes may reveal; a hit is that they differ."""
        return TwiceCall(self.epsilon)
