"""Planning: of total epsilon, delta, hits and epsilon per call, name three and get the fourth (exact curve)."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from fractions import Fraction

from chary.accounting.charging.charging_curve import MOST_HITS, exact_delta, exact_total
from chary.accounting.composition import LARGEST_EPSILON, failing_down
from chary.errors import InvalidParameter
from chary.numbers import Number, plain, positive, probability, whole

# A part in a billion: finer than any figure is told, coarser than the rounding of the curve that is searched.
PRECISION = Fraction(1, 10**9)


@dataclass(frozen=True)
class Plan:
    """A budget that fits: `hits` hits of epsilon_per_call-DP calls cost at most (epsilon, delta); misses are free."""

    epsilon: float
    delta: float
    hits: int
    epsilon_per_call: float

    def as_dict(self) -> dict[str, float]:
        """The four figures by name."""
        return asdict(self)


def plan(
    *,
    epsilon: Number | None = None,
    delta: Number | None = None,
    hits: int | None = None,
    epsilon_per_call: Number | None = None,
) -> Plan:
    """Solve for the one figure that is missing; what is solved for is rounded so that the plan fits.

    Errors: `InvalidParameter` unless exactly three are given, and when nothing fits. For two given figures see
    `trade_offs`.

    >>> plan(delta=1e-6, hits=20, epsilon_per_call=0.1).epsilon
    4.2941...
    >>> plan(epsilon=1, delta=1e-6, epsilon_per_call=0.02).hits
    45
    """
    given = {"epsilon": epsilon, "delta": delta, "hits": hits, "epsilon_per_call": epsilon_per_call}
    missing = [name for name, value in given.items() if value is None]
    if len(missing) != 1:
        raise InvalidParameter(
            "give exactly three of epsilon, delta, hits and epsilon_per_call, such as "
            "plan(epsilon=1, delta=1e-6, hits=50)"
        )
    known = _checked(epsilon, delta, hits, epsilon_per_call)
    solvers: dict[str, Callable[..., Fraction]] = {
        "epsilon": _epsilon,
        "delta": _delta,
        "hits": _hits,
        "epsilon_per_call": _largest_call,
    }
    full = known | {missing[0]: solvers[missing[0]](**known)}
    return Plan(float(full["epsilon"]), float(full["delta"]), int(full["hits"]), float(full["epsilon_per_call"]))


# Evenly spread in logarithms, as on any chart's axis; nothing else rests on them.
USUAL_HITS = (1, 2, 5, 10, 20, 50, 100, 200, 500)


def trade_offs(*, epsilon: Number, delta: Number, hits: tuple[int, ...] = USUAL_HITS) -> list[Plan]:
    """For a total budget, how large each call may be for several numbers of hits.

    >>> [p.hits for p in trade_offs(epsilon=1, delta=1e-6, hits=(1, 10))]
    [1, 10]
    """
    return [plan(epsilon=epsilon, delta=delta, hits=count) for count in hits]


def _checked(
    epsilon: Number | None, delta: Number | None, hits: int | None, epsilon_per_call: Number | None
) -> dict[str, Fraction]:
    known: dict[str, Fraction] = {}
    if epsilon is not None:
        known["epsilon"] = positive(epsilon, "epsilon")
    if delta is not None:
        known["delta"] = probability(delta, "delta")
    if hits is not None:
        known["hits"] = Fraction(whole(hits, "hits"))
    if epsilon_per_call is not None:
        known["epsilon_per_call"] = positive(epsilon_per_call, "epsilon_per_call")
    return known


def _epsilon(*, delta: Fraction, hits: Fraction, epsilon_per_call: Fraction) -> Fraction:
    return Fraction(exact_total(epsilon_per_call=epsilon_per_call, hits=int(hits), delta=delta))


def _delta(*, epsilon: Fraction, hits: Fraction, epsilon_per_call: Fraction) -> Fraction:
    return Fraction(exact_delta(epsilon_per_call=epsilon_per_call, hits=int(hits), epsilon=epsilon))


def _hits(*, epsilon: Fraction, delta: Fraction, epsilon_per_call: Fraction) -> Fraction:
    def fits(hits: int) -> bool:
        return _fits(epsilon, delta, hits, epsilon_per_call)

    if not fits(1):
        largest = _largest_call(epsilon=epsilon, delta=delta, hits=Fraction(1))
        raise InvalidParameter(
            f"calls of epsilon {plain(epsilon_per_call)} do not fit into ({plain(epsilon)}, {plain(delta)}) even once; "
            f"the largest that does is {plain(largest)}"
        )
    return Fraction(_last(fits))


def _fits(epsilon: Fraction, delta: Fraction, hits: int, epsilon_per_call: Fraction) -> bool:
    """Whether `exact_total` is at most epsilon; two values of the curve tell, instead of a search along it."""
    return exact_delta(epsilon_per_call=epsilon_per_call, hits=hits, epsilon=epsilon) <= failing_down(delta)


def _last(fits: Callable[[int], bool]) -> int:
    """The last whole number that fits, 1 being one of them."""
    low, high = 1, 2
    while fits(high):
        if high == MOST_HITS:
            raise InvalidParameter(
                f"more than {MOST_HITS} hits fit, the most that the exact curve is worked out for: give hits= and "
                "leave out another figure"
            )
        low, high = high, min(2 * high, MOST_HITS)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _largest_call(*, epsilon: Fraction, delta: Fraction, hits: Fraction) -> Fraction:
    """The largest epsilon per call whose exact total fits, to nine digits, never above."""

    def fits(size: Fraction) -> bool:
        return _fits(epsilon, delta, int(hits), size)

    high = min(epsilon, Fraction(LARGEST_EPSILON))
    low = high / 2
    while not fits(low):
        low, high = low / 2, low
    while high - low > PRECISION * low:
        middle = Fraction(float((low + high) / 2))
        if middle in (low, high):
            break
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
