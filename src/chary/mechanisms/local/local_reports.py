"""What all forms of local reports share: public values, one randomized report a person, and estimates from them."""

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from chary import noise
from chary.accounting import Pure
from chary.accounting.local_reports import Channel
from chary.errors import InvalidParameter
from chary.numbers import Number, positive, probability, whole

Integers = NDArray[np.int64]
About = Literal["population", "respondents"]
# A report of one bit a value is as long as the list, and hashing keeps the values' digits.
MOST_VALUES: Final = 2**20


@dataclass(frozen=True)
class ValueShare:
    """The share of people who hold a value: unbiased (so it may leave [0, 1]), its estimated standard error, and the
    ends of its interval."""

    value: Hashable
    share: float
    standard_error: float
    low: float
    high: float


@dataclass(frozen=True)
class LocalEstimate:
    """The shares of all values, from the reports of `people`.

    With the chance `confidence` all intervals hold at once, each at `1 - (1 - confidence) / values`. They are about the
    `population` from which the people were drawn independently of each other and of what they hold, so with the error
    of drawing them; or about the `respondents`, those very people, whoever they are. Look one up by its value.
    """

    people: int
    confidence: float
    about: About
    found: tuple[ValueShare, ...]

    def __iter__(self) -> Iterator[ValueShare]:
        return iter(self.found)

    def __getitem__(self, value: Hashable) -> ValueShare:
        for each in self.found:
            if each.value == value:
                return each
        raise KeyError(value)


def estimate(
    values: Sequence[Hashable], channel: Channel, counts: Sequence[int], people: int, confidence: Number, about: About
) -> LocalEstimate:
    """The shares of all values, from how many of the reports speak for each.

    Errors: `InvalidParameter` for counts that reports of so many people cannot have.
    """
    if about not in ("population", "respondents"):
        raise InvalidParameter("about is 'population' (with the error of drawing people) or 'respondents'")
    size = whole(people, "the number of reports")
    if len(counts) != len(values) or any(not 0 <= count <= size for count in counts):
        raise InvalidParameter("there is one count a value, of at most as many as there are reports")
    level = probability(confidence, "confidence")
    each = (1 - level) / len(values)
    ends, spread = (
        (channel.population, channel.drawn_variance)
        if about == "population"
        else (channel.respondents, channel.variance)
    )
    found = []
    for value, count in zip(values, map(int, counts), strict=True):
        share = channel.share(count, size)
        error = math.sqrt(spread(min(1.0, max(0.0, share))) / size)
        found.append(ValueShare(value, share, error, *ends(count, size, each)))
    return LocalEstimate(size, float(level), about, tuple(found))


@dataclass(frozen=True)
class LocalReports(ABC):
    """Reports about one of `values`, each made where the value is known: no collector, session or ledger sees it.

    Guarantee: `Pure(epsilon)` for each report, whoever reads it; if a person reports several times afresh, epsilons
    add up. Chances are exact, and randomness comes from the operating system unless a `source` is given, for tests.
    What people report must not depend on more than their value: whether they report at all is not protected.

    Errors: `InvalidParameter`, which shows none of it, for a value that is not listed.
    """

    values: Sequence[Hashable]
    epsilon: Number

    def __post_init__(self) -> None:
        listed = tuple(self.values) if isinstance(self.values, (list, tuple, range)) else ()
        if not 2 <= len(listed) <= MOST_VALUES or not all(isinstance(value, Hashable) for value in listed):
            raise InvalidParameter("list the values that people can hold: two or more, at most 2**20, in a fixed order")
        if len(set(listed)) < len(listed):
            raise InvalidParameter("values must differ from each other")
        object.__setattr__(self, "values", listed)
        object.__setattr__(self, "epsilon", positive(self.epsilon, "epsilon"))
        noise.checked_scale(max(noise.SMALLEST_SCALE, 1 / positive(self.epsilon, "epsilon")))

    @property
    @abstractmethod
    def channel(self) -> Channel:
        """With what chances a report speaks for the value that is held, and for any other."""

    @abstractmethod
    def randomized(self, places: Integers, source: noise.Source) -> NDArray[Any]:
        """One report a row, for people who hold the values at these places."""

    @abstractmethod
    def counts(self, reports: Any) -> Integers:
        """How many of the reports speak for each value; `InvalidParameter` for what are no such reports."""

    def report(self, value: Hashable, *, source: noise.Source | None = None) -> Any:
        """The report of one person who holds this value, in what JSON has."""
        return self.reports([value], source=source)[0].tolist()

    def reports(self, values: Sequence[Hashable], *, source: noise.Source | None = None) -> NDArray[Any]:
        """One report for each person, in their order; they are positions in `values`, rows of bits or of groups."""
        known = self._places
        places = [known.get(value, -1) if isinstance(value, Hashable) else -1 for value in values]
        if -1 in places:
            raise InvalidParameter("a value is not among those that are listed: list one for all others")
        return self.randomized(np.array(places, dtype=np.int64), source or noise.OperatingSystem())

    def estimate(self, reports: Any, confidence: Number = "0.95", *, about: About = "population") -> LocalEstimate:
        """The share of every value behind these reports."""
        return self.estimate_counts(self.counts(reports).tolist(), len(reports), confidence, about=about)

    def estimate_counts(
        self, counts: Sequence[int], people: int, confidence: Number = "0.95", *, about: About = "population"
    ) -> LocalEstimate:
        """The same from how many of the reports speak for each value."""
        return estimate(self.values, self.channel, counts, people, confidence, about)

    def event(self) -> Pure:
        """What one report may reveal."""
        return Pure(self.epsilon)

    @cached_property
    def _places(self) -> dict[Hashable, int]:
        return {value: place for place, value in enumerate(self.values)}


def table_of(reports: Any, columns: int, kinds: str, name: str) -> NDArray[Any]:
    """Reports as rows of so many entries of these NumPy kinds."""
    try:
        found: NDArray[Any] = np.asarray(reports)
    except ValueError:
        found = np.empty(0)
    if found.ndim != 2 or found.shape[1] != columns or found.dtype.kind not in kinds:
        raise InvalidParameter(f"reports must be {name}, as `reports` makes them")
    return found
