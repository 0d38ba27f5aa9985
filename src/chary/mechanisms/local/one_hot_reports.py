"""Reports of one randomized bit a value."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chary import noise
from chary.accounting.local_reports import Channel, optimised_channel, symmetric_channel
from chary.mechanisms.local.local_reports import Integers, LocalReports, table_of
from chary.numbers import positive


@dataclass(frozen=True)
class OneHotReports(LocalReports):
    """Reports one bit for each value, on for the own one alone, every bit randomized by itself.

    Guarantee: `Pure(epsilon)`. Another value changes two bits, of which one turns on and one off. `optimised` (OUE): a
    one is told truly with 1/2, a zero wrongly with `1 / (1 + e^epsilon)`, so the two ratios multiply to `e^epsilon`;
    its error does not grow with the number of values. Otherwise (SUE, the basic form of RAPPOR) every bit is flipped
    with `1 / (1 + e^(epsilon/2))`. Both attain epsilon. Source: Wang, Blocki, Li and Jha 2017; Erlingsson, Pihur and
    Korolova 2014.

    >>> survey = OneHotReports([f"site {k}" for k in range(100)], epsilon=2)
    >>> len(survey.report("site 7"))
    100
    >>> found = survey.estimate(survey.reports(["site 7"] * 4000))
    >>> found["site 7"].low > 0.8, found["site 8"].high < 0.2
    (True, True)
    """

    optimised: bool = True

    @property
    def channel(self) -> Channel:
        return optimised_channel(self.epsilon) if self.optimised else symmetric_channel(self.epsilon)

    @property
    def chances(self) -> tuple[noise.Enclosure, noise.Enclosure]:
        """That a one is told as a zero, and a zero as a one."""
        epsilon = positive(self.epsilon, "epsilon")
        flip = noise.Enclosure.logistic(epsilon / 2)
        return (noise.Enclosure.rational("1/2"), noise.Enclosure.logistic(epsilon)) if self.optimised else (flip, flip)

    def randomized(self, places: Integers, source: noise.Source) -> NDArray[Any]:
        lost, gained = self.chances
        found = noise.bernoulli(source, gained, places.size * len(self.values)).reshape(places.size, -1)
        found[np.arange(places.size), places] = ~noise.bernoulli(source, lost, places.size)
        return found

    def counts(self, reports: Any) -> Integers:
        bits = table_of(reports, len(self.values), "b", "rows of one Boolean a value")
        found: Integers = np.count_nonzero(bits, axis=0)
        return found

    def tallied(self, holders: Integers, people: int, source: noise.Source) -> Integers:
        """How many reports of so many people speak for each value, `holders` of whom hold it; drawn value by value."""
        lost, gained = self.chances
        found = []
        for own in map(int, holders):
            kept = own - int(np.count_nonzero(noise.bernoulli(source, lost, own)))
            found.append(kept + int(np.count_nonzero(noise.bernoulli(source, gained, people - own))))
        return np.array(found, dtype=np.int64)
