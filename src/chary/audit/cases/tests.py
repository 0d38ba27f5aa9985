"""Worst cases of tests, of calls that are paid by what comes out, and of sparse vectors."""

from fractions import Fraction
from functools import partial
from typing import Any, Literal

from chary import calls
from chary.accounting import one_sided_noise
from chary.audit.transcripts import Chained, Script, Tables, WorstCase, renyi
from chary.calls.run import RunKind
from chary.core.plan import Plan
from chary.data import count
from chary.noise import discrete_laplace
from chary.session import Session

# Worst-case neighbours of tests, and of calls that are paid by what comes out.

PLACES = ["a", "b"]
MANY, FEWER = {"unit": list(range(6))}, {"unit": list(range(5))}
COUNTED = Tables(MANY, FEWER)
BOTH = Tables({"unit": [1, 2, 3, 3], "place": ["a", "b", "a", "b"]}, {"unit": [1, 2], "place": ["a", "b"]})
# One unit more, which breaks a tie.
LONGER = Tables({"unit": [1, 2, 3], "place": ["a", "b", "a"]}, {"unit": [1, 2], "place": ["a", "b"]})
SELDOM = Tables(
    {"unit": list(range(6)), "place": ["b"] * 6},
    {"unit": list(range(6)), "place": ["a", *["b"] * 5]},
    neighbors="replace",
)
KEYED = count().by("place", PLACES, max_groups_per_unit=2)
SINGLE = count().by("place", PLACES, max_groups_per_unit=1)
ALONE = count().by("place", PLACES[:1], max_groups_per_unit=1)
FAR = 10**6


def noisy_size(epsilon: Fraction | int) -> calls.Algorithm:
    """An algorithm of somebody's own: how many rows there are, with noise."""

    def run(rows: Any, source: Any) -> int:
        size: int = rows.num_rows
        return size + int(discrete_laplace(source, 1 / Fraction(epsilon), 1)[0])

    return calls.Algorithm("size", run, epsilon=epsilon)


def even(k: int, parts: int = 1) -> calls.Algorithm:
    """Whether the number of rows is even, by randomized response of an epsilon of k/parts, and that distribution."""
    odds = LIKELIER[parts] ** k
    likely = odds / (1 + odds)

    def law(rows: Any) -> list[Fraction]:
        return [likely, 1 - likely] if rows.num_rows % 2 else [1 - likely, likely]

    def run(rows: Any, source: Any) -> str:
        return "odd" if int(source.words(1, 64)[0]) < law(rows)[0] * 2**64 else "even"

    return calls.Algorithm("even", run, Fraction(k, parts), outcomes=["odd", "even"], probabilities=law)


# Just below e and its fourth root.
LIKELIER = {1: Fraction(2718, 1000), 4: Fraction(1284, 1000)}

ZONES: dict[str, Any] = {"low": 6, "high": 8}
SMALL = renyi(4, "0.25")
AGREED = 8


def revised(k: int) -> Script:
    """A value that was withheld, and is reported once its threshold is lowered."""

    def script(session: Session) -> Any:
        held = session.release_if(count(), above=7, epsilon=k)
        if held.value is not None:
            return [0, held.value]
        return [1, session.ask(calls.Widen(held.held, above=3)).value]

    return script


def extended(k: int) -> Script:
    """An outcome that was withheld, and is published where a wider condition holds."""

    def script(session: Session) -> Any:
        held = session.ask(calls.PublishIf(noisy_size(k), when=calls.When("seven", lambda size: size >= 7)))
        if held.hit:
            return [0, held.value]
        return [1, session.ask(calls.Widen(held.held, when=calls.When("three", lambda size: size >= 3))).value]

    return script


def agreed(keyed: bool) -> Chained:
    """A fixed number of prepaid tests, each of a value half way between the thresholds of both neighbours."""
    opening = calls.PrepaidTests(tests=AGREED, hits=4)
    if keyed:
        return Chained(opening, (lambda run: run.plan(KEYED, above=2),) * (AGREED // 2))
    return Chained(opening, (lambda run: run.plan(count(), above=6),) * AGREED)


THRESHOLDS = [
    WorstCase("test", lambda k: calls.ThresholdTest(count(), above=6, epsilon=k), COUNTED, quick=True),
    WorstCase(
        "test: a hit",
        lambda k: calls.ThresholdTest(count(), above=6, epsilon=k / 4),
        COUNTED,
        SMALL,
        priced=True,
        quick=True,
    ),
    WorstCase(
        "optimal threshold test: a hit",
        lambda k: calls.ThresholdTest(count(), above=6, hits=4),
        COUNTED,
        renyi(),
        priced=True,
    ),
    WorstCase("test of keys", lambda k: calls.ThresholdTest(KEYED, above=2, epsilon=k), BOTH),
    # The cost of a hit is audited for one key: keys in which neighbours do not differ would be charged as well.
    WorstCase(
        "optimal threshold test of keys",
        lambda k: calls.ThresholdTest(ALONE, above=2, hits=4),
        LONGER,
        renyi(),
        priced=True,
    ),
    WorstCase("release_if", lambda k: calls.ReleaseIf(count(), above=6, epsilon=k), COUNTED),
    WorstCase("widen", revised, COUNTED),
    WorstCase("release_if of keys", lambda k: calls.ReleaseIf(KEYED, above=2, epsilon=k), BOTH, quick=True),
    WorstCase("call", lambda k: calls.RunAlgorithm(noisy_size(k), prior=5), COUNTED),
    WorstCase("boundary of a pair", lambda k: calls.Boundary(noisy_size(k), runs=2, publish=True), COUNTED),
    WorstCase("boundary", lambda k: calls.Boundary(even(k)), COUNTED),
    WorstCase("boundary: a hit", lambda k: calls.Boundary(even(k, 4)), COUNTED, SMALL, priced=True),
    WorstCase("boundary of runs", lambda k: calls.Boundary(even(k), runs=2), COUNTED),
    WorstCase(
        "publish_if", lambda k: calls.PublishIf(noisy_size(k), when=calls.When("six", lambda s: s >= 6)), COUNTED
    ),
    WorstCase("widen of an algorithm", extended, COUNTED),
    WorstCase("track", lambda k: calls.OnChange(count(), step=2, epsilon=k), COUNTED),
    WorstCase("classify by two", lambda k: calls.Classify(count(), **ZONES, epsilon=k), COUNTED),
    WorstCase(
        "classify by two: a hit", lambda k: calls.Classify(count(), **ZONES, epsilon=k / 4), COUNTED, SMALL, priced=True
    ),
    WorstCase("classify by one", lambda k: calls.Classify(count(), above=6, epsilon=k), COUNTED),
    WorstCase(
        "classify by one: a hit", lambda k: calls.Classify(count(), above=6, epsilon=k / 4), COUNTED, SMALL, priced=True
    ),
    WorstCase("classify", lambda k: calls.Classify(SINGLE, epsilon=k), SELDOM),
    WorstCase("classify: a hit", lambda k: calls.Classify(SINGLE, epsilon=k / 4), SELDOM, SMALL, priced=True),
    WorstCase(
        "classify by two by draws: a hit",
        lambda k: calls.Classify(count(), **ZONES, hits=4),
        COUNTED,
        renyi(),
        priced=True,
    ),
    WorstCase(
        "classify by one by draws: a hit",
        lambda k: calls.Classify(count(), above=5, hits=4),
        COUNTED,
        renyi(),
        priced=True,
    ),
    WorstCase("classify by draws: a hit", lambda k: calls.Classify(SINGLE, hits=4), LONGER, renyi(), priced=True),
    WorstCase("agreed_test", lambda k: agreed(False), COUNTED, renyi(), priced=True),
    WorstCase("agreed_watch", lambda k: agreed(True), BOTH, renyi(), priced=True),
]

# Worst-case neighbours of sparse vectors: misses that move up, and a hit that moves down.

# Below the threshold is a key where the one unit is not, and where it is one is at the threshold: it is in the last
# key, or in all before it. Another unit is in every key.
MISSED, AT = 2, 2
EACH = list(range(MISSED + 1))
CROSSING = Tables(
    {"unit": [1] * len(EACH) + [0], "place": [*EACH, MISSED]},
    {"unit": [1] * len(EACH) + [0] * MISSED, "place": [*EACH, *EACH[:MISSED]]},
    neighbors="replace",
)
CROSSED_KEYS = count().by("place", EACH, max_groups_per_unit=len(EACH))
# One unit that is in one of two keys.
MOVED = Tables({"unit": [0], "place": [0]}, {"unit": [0], "place": [1]}, neighbors="replace")
PAIRED = count().by("place", range(2), max_groups_per_unit=1)
# A histogram that answers a quarter of the rows everywhere (a cell is for places that are not listed); up to this many
# of 151 are as near to that as alpha says.
EASY = 57
WIDE: dict[str, Any] = {"universe": {"place": ["a", "b", "c"]}, "alpha": "0.2"}
TIPPED = Tables(
    {"place": ["a"] * EASY + ["b"] * 36 + ["c"] * (EASY + 1)},
    {"place": ["a"] * (EASY + 1) + ["b"] * 36 + ["c"] * EASY},
    unit=None,
    neighbors="replace",
)


def sparse(k: int, form: Literal["tuned", "published"], **options: Any) -> Chained:
    """Which of some keys is above, where one unit moves the first ones up and the last one down. If they miss and it
    hits, that uses the noise of the threshold and that of a test."""
    opening = calls.SparseVector(above=AT, hits=1, epsilon=2 * k, mechanism=form, **options)
    return Chained(opening, (lambda run: run.plan(CROSSED_KEYS),))


def last_is_high(told: Any) -> bool:
    """Whether only the last key was above, with a value at the threshold or higher, which uses up the noise of values
    too."""
    found = told[1]
    return bool(found["positions"] == [MISSED] and found["values"][0] >= AT)


def one_sided(k: int, *, values: bool = False) -> Chained:
    """Which of two keys is above with one-sided noise, the threshold lowered to where both are. That the first is not
    above and the second is takes all of epsilon, since geometric noise has the same ratio everywhere."""
    lifted = one_sided_noise(epsilon=k, hits=1, tests=2, values=values).shift
    opening = calls.SparseVector(above=-lifted, hits=1, epsilon=k, tests=2, values=values)
    return Chained(opening, (lambda run: run.plan(PAIRED),))


def sparse_weights(k: int) -> Chained:
    """One round, which says how much it may spend of a budget that is kept for rounds of more rows. The count of the
    first questions comes up beyond the most that is easy; that of the last comes down to it."""
    asked = [partial(_weighed, place) for place in ["a"] * MISSED + ["c"]]
    return Chained(calls.PMW(prepaid=True, **WIDE, epsilon=18 * k, rounds=1), tuple(asked))


def _weighed(place: str, run: RunKind[Any, Any]) -> Plan[Any]:
    return run.plan(f"place = '{place}'")


def last_is_hard(told: Any) -> bool:
    """Whether only the last question was hard, with a count that is higher than any easy one."""
    last = told[-1]
    return bool(len(told) == MISSED + 2 and last["hard"] and last["count"] > EASY)


def of_the_round(told: Any) -> float:
    """The epsilon that the round states."""
    return float(Fraction(told[1]["epsilon"]))


SPARSE_VECTORS = [
    WorstCase("sparse_test", one_sided, MOVED),
    WorstCase("sparse_watch", lambda k: one_sided(k, values=True), MOVED),
    WorstCase(
        "sparse_watch in the tuned form with values",
        lambda k: sparse(k, "tuned", values=True),
        CROSSING,
        seen=last_is_high,
    ),
    WorstCase("sparse_watch in the published form", lambda k: sparse(k, "published"), CROSSING),
    WorstCase("sparse_watch in the tuned form", lambda k: sparse(k, "tuned"), CROSSING, quick=True),
    WorstCase("sparse_weights_ask", sparse_weights, TIPPED, transcripts=8000, seen=last_is_hard, says=of_the_round),
]
