"""A quote: what a question costs and how well it is answered, before anything is charged or touched."""

from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, Final

from chary.numbers import Number, exact, plain, whole
from chary.spine.interaction import Interaction
from chary.spine.refusal import needed
from chary.spine.spine import Spine
from chary.spine.within import Within

# The other side of the 95 times in 100 of every error bar.
_RARE: Final = Fraction(1, 20)


@dataclass(frozen=True)
class Quote:
    """Price and accuracy of a question. Nothing in it depends on the data, so it is free.

    Prices are shares of the whole budget: `price_if_hit` and `price_if_miss` for one part, `most_charged` for the
    worst outcome of the whole call. `hits_left` counts hits (or releases) of this size that still fit, None when they
    are free. `error_bar` is the half-width of the 95 % interval of a value, None where it depends on the data (means).
    `wrong_call` is the probability that a value `distance` above (negative: below) the threshold is called wrongly.
    `shortfall` is by how much the answer of a key that is chosen is below the best, at most, 95 times in 100;
    `rank_error` by how many values the ranks of quantiles are off, likewise (see `QuantileAnswers`). `within` is how
    far off so many tests may be together, where their number was given or agreed on. `later_hit` and `later_miss` are
    the prices of each test of a run whose opening this is and pays for misses: a hit is charged when it comes, beside
    the miss, and the opening's price holds all misses; None for anything else.
    far off so many tests may be together, where their number was given or agreed on. `interval` says in words what is
    known before of an interval whose width depends on the data.
    """

    kind: str
    epsilon: float | None
    price_if_hit: float
    price_if_miss: float
    most_charged: float
    hits_left: int | None
    fits: bool
    error_bar: float | None
    distance: float | None
    wrong_call: float | None
    shortfall: float | None = None
    rank_error: int | None = None
    within: Within | None = None
    later_hit: float | None = None
    later_miss: float | None = None
    interval: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """All figures by name."""
        return asdict(self)

    def __str__(self) -> str:
        lines = ["this call itself is free"]
        if self.hits_left is not None:
            lines = [self._price(), f"{self.hits_left} of these fit"]
        if self.later_hit is not None and self.later_miss is not None:
            hit, miss = plain(100 * self.later_hit), plain(100 * self.later_miss)
            lines.append(f"then each hit costs {hit} % more when it comes; a miss, {miss} %, is paid by this")
        if self.error_bar is not None:
            lines.append(f"values are within {plain(self.error_bar)} of the truth 95 times in 100")
        if self.wrong_call is not None:
            wrong = f"is called wrongly with probability {plain(self.wrong_call)}"
            lines.append(f"a value {self._apart()} the threshold {wrong}")
        if self.shortfall is not None:
            lines.append(f"what is chosen is within {plain(self.shortfall)} of the best 95 times in 100")
        if self.rank_error is not None:
            lines.append(f"ranks are off by at most {self.rank_error} values 95 times in 100")
        lines += [str(told) for told in (self.within, self.interval) if told is not None]
        return "; ".join(lines)

    def _price(self) -> str:
        """What one part costs: a test, or all of a call or an opening that has no misses."""
        hit, miss = plain(100 * self.price_if_hit), plain(100 * self.price_if_miss)
        if self.price_if_hit == self.price_if_miss:
            return f"{hit} % of the budget is charged, whatever comes out"
        return f"a hit costs {hit} % of the budget, a miss {'is free' if miss == '0' else f'costs {miss} %'}"

    def _apart(self) -> str:
        distance = self.distance or 0
        return f"{plain(abs(distance))} {'below' if distance < 0 else 'above'}"


def quote(
    spine: Spine,
    interaction: Interaction,
    distance: Number | None = None,
    tests: int | None = None,
    confidence: Number = "0.95",
) -> Quote:
    """Price an interaction against what is left. Without a distance, the error bar serves as the distance.

    With `tests` it is told how far off so many of them may be together, with that confidence. The question is checked
    as if it were asked (`InvalidQuery`), but nothing is read.
    """
    interaction.prepare(spine.rows)
    price, left = interaction.price(spine.filter), spine.left()
    capacity = max(1, spine.filter.capacity.main)
    later = interaction.later
    bar = interaction.error_bar
    apart = bar if distance is None else float(exact(distance, "distance"))
    tested = interaction.kind != "release" and interaction.bar_step is not None
    return Quote(
        kind=interaction.kind,
        epsilon=None if interaction.event.epsilon is None else float(interaction.event.epsilon),
        price_if_hit=price.hit.main / capacity,
        price_if_miss=price.miss.main / capacity,
        most_charged=_most(interaction.worst(price).main, left.main, halts=interaction.halts) / capacity,
        hits_left=price.hit.copies_in(left),
        fits=needed(interaction, spine.filter).fits_into(left),
        error_bar=bar,
        distance=apart if tested else None,
        wrong_call=_wrong(interaction, apart) if tested else None,
        shortfall=interaction.shortfall(_RARE),
        rank_error=interaction.rank_error,
        within=interaction.foreseen if tests is None else interaction.within(whole(tests, "tests"), confidence),
        later_hit=None if later is None else later.hit.main / capacity,
        later_miss=None if later is None else later.miss.main / capacity,
        interval=interaction.foretold(),
    )


def _most(worst: int, left: int, *, halts: bool) -> int:
    """What a call may be charged; one that halts when the budget is used up takes no more than is left."""
    return min(worst, left) if halts else worst


def _wrong(interaction: Interaction, distance: float | None) -> float | None:
    step = interaction.bar_step
    return (
        None if step is None or distance is None else interaction.wrong_call(int(exact(distance, "distance") // step))
    )
