"""A quote: what a question costs and how well it is answered, before anything is charged or touched."""

from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, Final

from chary.numbers import Number, exact, plain
from chary.session.interaction import Interaction, error_bar
from chary.session.refusal import needed
from chary.session.spine import Spine

_RARE: Final = Fraction(1, 20)


@dataclass(frozen=True)
class Quote:
    """Price and accuracy of a question. Nothing in it depends on the data, so it is free.

    Prices are shares of the whole budget: `price_if_hit` and `price_if_miss` for one part, `most_charged` for the
    worst outcome of the whole call. `hits_left` counts hits (or releases) of this size that still fit, None when they
    are free. `error_bar` is the half-width of the 95 % interval of a value, None where it depends on the data (means).
    `wrong_call` is the probability that a value `distance` above (negative: below) the threshold is called wrongly.
    `shortfall` is by how much the answer of a key that is chosen is below the best, at most, 95 times in 100;
    `rank_error` by how many values the ranks of quantiles are off, likewise (see `QuantileAnswers`).
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

    def as_dict(self) -> dict[str, Any]:
        """All figures by name."""
        return asdict(self)

    def __str__(self) -> str:
        miss = "is free" if self.price_if_miss == 0 else f"costs {plain(100 * self.price_if_miss)} %"
        lines = ["this call itself is free"]
        if self.hits_left is not None:
            hit = f"a hit costs {plain(100 * self.price_if_hit)} % of the budget, a miss {miss}"
            lines = [hit, f"{self.hits_left} of these fit"]
        if self.error_bar is not None:
            lines.append(f"values are within {plain(self.error_bar)} of the truth 95 times in 100")
        if self.wrong_call is not None:
            lines.append(f"at a distance of {plain(self.distance or 0)} a call is wrong with {plain(self.wrong_call)}")
        if self.shortfall is not None:
            lines.append(f"what is chosen is within {plain(self.shortfall)} of the best 95 times in 100")
        if self.rank_error is not None:
            lines.append(f"ranks are off by at most {self.rank_error} values 95 times in 100")
        return "; ".join(lines)


def quote(spine: Spine, interaction: Interaction, distance: Number | None) -> Quote:
    """Price an interaction against what is left. Without a distance, the error bar serves as the distance.

    The question is checked as if it were asked (`InvalidQuery`), but nothing is read.
    """
    interaction.prepare(spine.rows)
    price, left = interaction.price(spine.filter), spine.left()
    whole = max(1, spine.filter.capacity.main)
    bar = error_bar(interaction.accuracy())
    apart = bar if distance is None else float(exact(distance, "distance"))
    tested = interaction.kind != "release" and bar is not None
    return Quote(
        kind=interaction.kind,
        epsilon=None if interaction.event.epsilon is None else float(interaction.event.epsilon),
        price_if_hit=price.hit.main / whole,
        price_if_miss=price.miss.main / whole,
        most_charged=interaction.worst(price).main / whole,
        hits_left=price.hit.copies_in(left),
        fits=needed(interaction, spine.filter).fits_into(left),
        error_bar=bar,
        distance=apart if tested else None,
        wrong_call=_wrong(interaction, apart) if tested else None,
        shortfall=interaction.shortfall(_RARE),
        rank_error=interaction.rank_error,
    )


def _wrong(interaction: Interaction, distance: float | None) -> float | None:
    accuracy = interaction.accuracy()
    if accuracy is None or distance is None:
        return None
    additive, grid = accuracy
    return additive.wrong_call(int(exact(distance, "distance") // grid))
